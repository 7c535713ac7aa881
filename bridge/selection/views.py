"""The selections of all sinks, by resource. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from bridge.model.resource import Resource
from bridge.selection.evaluation import Evaluator
from bridge.selection.failures import Failures
from bridge.selection.known_values import KnownValues
from bridge.selection.selector import SinkSelection


@dataclass(frozen=True, slots=True)
class ResourceViews:
    """The selections that apply to a resource's records."""

    selections: Mapping[str, SinkSelection]
    """Name of a sink → its entries for this resource. Sinks that have a ``select`` alone: the others get all."""
    evaluator: Evaluator


class Views:
    """The selections of all sinks that have a ``select``."""

    def __init__(self, selections: Mapping[str, SinkSelection], cluster: str) -> None:
        self._selections = dict(selections)
        self._cluster = cluster
        self._by_resource: dict[Resource, ResourceViews] = {}
        self._known = KnownValues()
        self.failures = Failures()

    def of(self, resource: Resource) -> ResourceViews:
        """The same value for the same resource: its decoder is made once."""
        views = self._by_resource.get(resource)
        if views is None:
            views = self._by_resource[resource] = self._make(resource)
        return views

    def _make(self, resource: Resource) -> ResourceViews:
        selections = {sink: selection.of(resource) for sink, selection in self._selections.items()}
        expressions = {each: None for selection in selections.values() for each in selection.expressions}
        with_labels = any(selection.with_labels for selection in selections.values())
        evaluator = Evaluator(
            resource, self._cluster, expressions, self.failures, known=self._known, with_labels=with_labels
        )
        return ResourceViews(selections, evaluator)
