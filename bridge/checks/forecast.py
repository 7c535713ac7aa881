"""Forecasts the deltas of a start: compares the ledger with fresh lists of all configured resources. It delivers no
records.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from bridge.model.change import Op
from bridge.model.policies import StartPolicy
from bridge.model.resource import Resource, Scope
from bridge.outbox import LedgerObject, StateInspection, covering
from bridge.plan.cluster_view import ClusterView, Version, partition_of
from bridge.plan.entries import Resolution, wanted_scopes
from bridge.plan.plan import SinkPlan, Wanted

WAITING = "waiting"
"""In place of an op: records of the backlog."""


@dataclass(slots=True)
class Changes:
    """Number of objects by op. Several steps between two states of an object count once."""

    ops: Counter[Op] = field(default_factory=Counter)
    left: Counter[str] = field(default_factory=Counter)
    """Resource → deleted objects that the configuration no longer covers, or covers by other scopes."""


def compare(
    resource: str,
    held: Iterable[tuple[str, LedgerObject]],
    live: Mapping[str, Version],
    digests: Mapping[str, bytes],
    *,
    narrowed: bool,
) -> Changes:
    """Compares the ledger (``held``, with the keys of ``live`` and ``digests``) with the live objects. ``narrowed``:
    other scopes are watched than before, so that a missing object may exist outside of them."""
    found = Changes()
    seen = set()
    for key, each in held:
        seen.add(key)
        now = live.get(key)
        if now is None or now.uid != each.uid:
            found.ops[Op.DELETED] += 1
            found.left[resource] += int(now is None and narrowed)
            found.ops[Op.ADDED] += int(now is not None)
        elif now.resource_version != each.version and (each.digest is None or each.digest != digests.get(key)):
            found.ops[Op.UPDATED] += 1
    found.ops[Op.ADDED] += len(live.keys() - seen)
    return found


async def forecast(
    cluster: str, configured: Sequence[Wanted], resolution: Resolution, view: ClusterView, look: StateInspection
) -> Changes:
    """Forecasts the changes of a start. Raises ClusterUnavailable, ClusterRefuses and Damaged. Memory: the objects of
    one resource at a time."""
    total = Changes()
    served = {resource.name: resource for resource in resolution.desired.values()}
    for resource in (*look.resources(), *(each for name, each in served.items() if name not in _names(look))):
        scopes = [scope for name, scope in resolution.desired if name == resource.name]
        if not scopes and wanted_scopes(configured, resource):
            # Configured and not served now: its objects are exported as deleted only after further discoveries.
            continue
        covered, gone = _split(look, resource, scopes)
        total.ops[Op.DELETED] += gone
        total.left[resource.name] += gone
        if not scopes:
            continue
        before = look.scopes(resource)
        live = await view.look({resource.name})
        keyed = [(partition_of(cluster, served[resource.name], each.key), each) for each in covered]
        found = compare(resource.name, keyed, live, view.digests, narrowed=bool(before) and set(before) != set(scopes))
        total.ops += found.ops
        total.left += found.left
    # A unary plus drops the zeros of a Counter.
    total.left = +total.left
    return total


def by_sink(changes: Changes, sinks: Sequence[SinkPlan], look: StateInspection) -> list[tuple[str, str, int]]:
    """Rows of (sink, op, count), for counts above 0. A sink with a selection has its backlog only."""
    backlogs = look.backlogs()
    known = look.count()
    rows = []
    for sink in sinks:
        ops = Counter(changes.ops)
        if sink.name not in backlogs and sink.start is StartPolicy.SNAPSHOT:
            ops[Op.ADDED] += known
        if sink.select is not None:
            ops.clear()  # The forecast compares versions, and has no objects for expressions.
        if waiting := backlogs.get(sink.name, 0):
            rows.append((sink.name, WAITING, waiting))
        rows += [(sink.name, str(op), ops[op]) for op in Op if ops[op]]
    return rows


def _names(look: StateInspection) -> set[str]:
    return {resource.name for resource in look.resources()}


def _split(look: StateInspection, resource: Resource, scopes: Sequence[Scope]) -> tuple[list[LedgerObject], int]:
    covered = []
    gone = 0
    for each in look.objects(resource):
        if covering(scopes, each.key) is None:
            gone += 1
        else:
            covered.append(each)
    return covered, gone
