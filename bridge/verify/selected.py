"""Which live objects a sink with a selection has to have. Pure but for the redaction key, which it reads."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from bridge.kube import Catalogue
from bridge.model.change import Op
from bridge.model.object import ApiObject
from bridge.model.resource import Resource
from bridge.plan.plan import Plan, SinkPlan
from bridge.plan.redaction_key_file import likely_redaction
from bridge.resources.resolve import Resolution, rules_for
from bridge.resources.selected_resources import resolve_entries
from bridge.selection import Views, compile_selection
from bridge.selection.language import Cel
from bridge.transform.transform import transform_for

Matches: TypeAlias = Callable[[ApiObject], bool]
SelectedBy: TypeAlias = Callable[[Catalogue, Resolution], Callable[[Resource], Matches]]
"""Makes a condition on the live objects of a resource, once the cluster is known."""


def has_steps_only(sink: SinkPlan) -> bool:
    """Whether an entry chooses steps, so that the destination need not have the newest state of an object."""
    return any(each.when is not None or set(each.operations) != set(Op) for each in sink.select or ())


def selected_by(plan: Plan, sink: SinkPlan) -> SelectedBy | None:
    """None for a sink without a selection. The result raises WrongSelection and MissingLibrary for a selection that
    ``preflight`` finds wrong."""
    if sink.select is None:
        return None
    written = sink.select

    def select(catalogue: Catalogue, resolution: Resolution) -> Callable[[Resource], Matches]:
        entries, _ = resolve_entries(written, resolution, catalogue, {})
        selection = compile_selection(entries, f"sinks.{sink.name}.select", Cel)
        views, redaction = Views({sink.name: selection}, plan.cluster), likely_redaction(plan)

        def of(resource: Resource) -> Matches:
            here = views.of(resource)
            transform = transform_for(resource, redaction.extended(rules_for(plan.wanted, resource, catalogue)))

            def matches(live: ApiObject) -> bool:
                thing = transform(live)
                return here.selections[sink.name].matches(here.evaluator.evaluation(thing.key, thing.body))

            return matches

        return of

    return select
