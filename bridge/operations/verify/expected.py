"""Says which live objects a destination has to have, for ``kubedelta verify``.

For a sink with a selection, ``Expected`` says which live objects the sink has to have, and which differences follow
from the steps that it gets; it reads the redaction key, since expressions see redacted objects. An older version at the
destination is right where only ignored paths changed since: ``IgnoredStates`` knows that by the digests in the state of
the bridge.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TypeAlias

from bridge.kube import Catalogue
from bridge.model.change import Op
from bridge.model.formats.object_paths import object_name
from bridge.model.object import ApiObject
from bridge.model.resource import Resource
from bridge.model.versions.version import is_older
from bridge.operations.cluster_view import Digests, Matches, digests_by, partition_of
from bridge.operations.verify.compare import Difference, DifferenceKind
from bridge.outbox import Damaged, LedgerObject, StateError, look_at
from bridge.plan.entries import Resolution, resolve_entries, rules_for
from bridge.plan.keys import likely_redaction
from bridge.plan.plan import Plan, SinkPlan
from bridge.transform.transform import transform_for
from bridge.views.decisions import Views
from bridge.views.language import Cel
from bridge.views.selector import compile_selection

# ── Sinks with a selection ───────────────────────────────────────────────────

_COMPARED = {
    "missing objects": frozenset({Op.ADDED}),
    "old versions": frozenset({Op.ADDED, Op.UPDATED}),
    "deleted objects": frozenset({Op.DELETED}),
}
"""Finding → the steps that the sink must get for certain."""


@dataclass(frozen=True, slots=True)
class Expected:
    """What a sink with a selection has to have."""

    matching: Callable[[Resource], Matches]
    """Makes a condition on the live objects of a resource."""
    sure: Callable[[str], frozenset[Op]]
    """Name of a resource → the steps that the sink gets for certain."""

    def counts(self, difference: Difference) -> bool:
        """Whether the sink cannot have this difference by the choice of its steps. A last step that the sink did not
        get is an update, a return into the selection, or a delete."""
        name = object_name(difference.key)
        live = difference.live
        stored = difference.stored
        sure = self.sure(name.resource) if name else frozenset(Op)
        if stored is None:
            return Op.ADDED in sure
        if live is None:
            return Op.DELETED in sure
        if live.uid != stored.uid:
            return bool({Op.ADDED, Op.DELETED} & sure)
        is_newer = is_older(live.resource_version, than=stored.resource_version)
        return is_newer or {Op.ADDED, Op.UPDATED} <= sure

    def notes(self, resources: Iterable[str]) -> Iterator[str]:
        """For each resource of which not every step is certain, the findings that are impossible for that."""
        for resource in dict.fromkeys(resources):
            if impossible := [words for words, steps in _COMPARED.items() if not steps <= self.sure(resource)]:
                these = ", ".join(impossible)
                yield f"the select of the sink chooses steps of {resource}, so these were not sought: {these}"


SelectedBy: TypeAlias = Callable[[Catalogue, Resolution], Expected]
"""Called once the cluster is known."""


def selected_by(plan: Plan, sink: SinkPlan) -> SelectedBy | None:
    """None for a sink without a selection. The result raises WrongSelection and MissingLibrary for a selection that
    ``preflight`` finds wrong."""
    if sink.select is None:
        return None
    written = sink.select

    def select(catalogue: Catalogue, resolution: Resolution) -> Expected:
        entries, _ = resolve_entries(written, resolution, catalogue, {})
        selection = compile_selection(entries, f"sinks.{sink.name}.select", Cel)
        views = Views({sink.name: selection}, plan.cluster)
        redaction = likely_redaction(plan)
        watched = {resource.name: resource for resource in resolution.desired.values()}

        def matching(resource: Resource) -> Matches:
            here = views.of(resource)
            transform = transform_for(resource, redaction.extended(rules_for(plan.wanted, resource, catalogue)))

            def matches(live: ApiObject) -> bool:
                thing = transform(live)
                return here.selections[sink.name].matches(here.evaluator.evaluation(thing.key, thing.body))

            return matches

        def sure(name: str) -> frozenset[Op]:
            # A resource that is not served has no version here, by which an entry could cover it.
            return (selection.of(watched[name]) if name in watched else selection).sure

        return Expected(matching, cache(sure))

    return select


# ── Ignored changes ──────────────────────────────────────────────────────────

IgnoringBy: TypeAlias = Callable[[Catalogue], tuple[Digests, "IgnoredStates"]]
"""Called once the cluster is known."""


def ignoring_by(plan: Plan) -> IgnoringBy | None:
    """None if the plan ignores no changes."""
    if not any(each.ignore_changes for each in plan.wanted):
        return None
    return lambda catalogue: (digests_by(plan, catalogue), IgnoredStates(plan.state, plan.cluster))


class IgnoredStates:
    """Explains older versions at a destination. ``directory``: the state directory; without a state in it, versions of
    objects whose changes may be ignored are not judged."""

    def __init__(self, directory: Path, cluster: str) -> None:
        self._directory = directory
        self._cluster = cluster
        self._unjudged: set[str] = set()

    def unexplained(self, differences: Iterable[Difference], digests: Mapping[str, bytes]) -> Iterator[Difference]:
        """The differences that no ignored change explains. ``digests``: partition key → digest of the live object."""
        found = list(differences)
        stale = {each.key: each for each in found if each.key in digests and _is_older_version(each)}
        exported = self._exported({name.resource for key in stale if (name := object_name(key))}) if stale else {}
        for each in found:
            if each.key not in stale:
                yield each
            elif exported is None:
                self._unjudged.add(each.key)
            elif (held := exported.get(each.key)) is None or not _explains(held, each, digests[each.key]):
                yield each

    def notes(self) -> Iterator[str]:
        if self._unjudged:
            yield (
                f"{len(self._unjudged)} objects have older versions, of resources with ignore_changes: without the "
                "state of the bridge in state.directory, it is unknown whether only ignored paths changed"
            )

    def _exported(self, resources: set[str]) -> dict[str, LedgerObject] | None:
        """Partition key → the exported state; None if there is no state that can be read."""
        try:
            with look_at(self._directory) as look:
                if look is None:
                    return None
                served = [each for each in look.resources() if each.name in resources]
                return {
                    partition_of(self._cluster, each, held.key): held for each in served for held in look.objects(each)
                }
        except (StateError, Damaged, OSError):
            return None


def _is_older_version(each: Difference) -> bool:
    if each.kind is not DifferenceKind.STALE or each.live is None or each.stored is None:
        return False
    is_same = each.live.uid == each.stored.uid
    return is_same and is_older(each.stored.resource_version, than=each.live.resource_version)


def _explains(held: LedgerObject, each: Difference, digest: bytes) -> bool:
    """Whether the destination has the exported state, from which the live state differs in ignored paths alone."""
    stored = each.stored
    return stored is not None and (held.uid, held.version, held.digest) == (stored.uid, stored.resource_version, digest)
