"""Forecasts the deltas of a start: compares the ledger with fresh lists of all configured resources. It delivers no
records.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from bridge.model.change import Op
from bridge.model.policies import StartPolicy
from bridge.outbox import StateInspection, covering
from bridge.plan.cluster_view import ClusterView, partition_of
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


async def forecast(
    cluster: str, configured: Sequence[Wanted], resolution: Resolution, view: ClusterView, look: StateInspection
) -> Changes:
    """Forecasts the changes of a start. Raises ClusterUnavailable, ClusterRefuses and Damaged. Memory: the objects of
    one resource at a time."""
    found = Changes()
    held = {resource.name: resource for resource in look.resources()}
    served = {resource.name: resource for resource in resolution.desired.values()}
    for name, resource in (served | held).items():
        scopes = [scope for each, scope in resolution.desired if each == name]
        if not scopes and wanted_scopes(configured, resource):
            # Configured and not served now: its objects are exported as deleted only after further discoveries.
            continue
        before = look.scopes(resource)
        # Other scopes are watched than before, so that a missing object may exist outside of them.
        narrowed = bool(before) and set(before) != set(scopes)
        live = await view.look({name}) if scopes else {}
        seen = set()
        for each in look.objects(resource):
            if covering(scopes, each.key) is None:
                found.ops[Op.DELETED] += 1
                found.left[name] += 1
                continue
            key = partition_of(cluster, served[name], each.key)
            seen.add(key)
            now = live.get(key)
            if now is None or now.uid != each.uid:
                found.ops[Op.DELETED] += 1
                found.ops[Op.ADDED] += int(now is not None)
                found.left[name] += int(now is None and narrowed)
            elif now.resource_version != each.version and (each.digest is None or each.digest != view.digests.get(key)):
                found.ops[Op.UPDATED] += 1
        found.ops[Op.ADDED] += len(live.keys() - seen)
    # A unary plus drops the zeros of a Counter.
    found.left = +found.left
    return found


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
