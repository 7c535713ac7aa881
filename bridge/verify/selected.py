"""Which live objects a sink with a selection has to have. Pure but for the redaction key, which it reads."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import TypeAlias

from bridge.kube import Catalogue
from bridge.model.change import Op
from bridge.model.formats.object_paths import object_name
from bridge.model.object import ApiObject
from bridge.model.resource import Resource
from bridge.model.versions.version import is_older
from bridge.plan.plan import Plan, SinkPlan
from bridge.plan.redaction_key_file import likely_redaction
from bridge.resources.resolve import Resolution, rules_for
from bridge.resources.selected_resources import resolve_entries
from bridge.selection import Views, compile_selection
from bridge.selection.language import Cel
from bridge.transform.transform import transform_for
from bridge.verify.compare import Difference

Matches: TypeAlias = Callable[[ApiObject], bool]
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
        name, live, stored = object_name(difference.key), difference.live, difference.stored
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
        views, redaction = Views({sink.name: selection}, plan.cluster), likely_redaction(plan)
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
