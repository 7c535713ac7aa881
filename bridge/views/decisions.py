"""Decides which sinks get a record, and what its object is to each of them: new, known, or gone.

``Views`` has the selections of all sinks, cut down to each resource, with an evaluator for that resource. ``Decisions``
asks them for each new record, before its commit: in the path of every record, where some sink has a selection. It
compares whether the object was in a selection with whether it is: an object that comes in is ``added`` for that sink,
and one that leaves is ``deleted``, whatever the step was. The result is stored with the record as bits of the sinks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from bridge.model.change import Evidence, Op
from bridge.model.record import Delta, Selected
from bridge.model.resource import Resource
from bridge.views.evaluation import Evaluator, Failures, KnownValues
from bridge.views.selection import SinkSelection


class Decisions:
    """Calls decide on new records. ``masks``: the bit of each sink with a selection."""

    def __init__(self, views: Views, masks: Mapping[str, int]) -> None:
        self._views = views
        self._masks = masks

    def __call__(self, delta: Delta, was: int | None, before: Callable[[], bytes | None] | None) -> Selected:
        """``was``: the members before the record; None if the object was not known. ``before`` returns the state before
        it, or None if that is lost; None without such a state."""
        views = self._views.of(delta.resource)
        evaluator, op, masks = views.evaluator, delta.op, self._masks
        old = before() if before is not None and evaluator.reads_before else None
        evaluation = evaluator.evaluation(delta.key, delta.body, old)
        # A resync changes no object, and a delete goes where the object was.
        is_where_it_was = was is not None and not op.has_state
        takes = enters = leaves = members = 0
        for sink, selection in views.selections.items():
            mask = masks[sink]
            was_in = None if was is None else bool(was & mask)
            is_in = was_in if is_where_it_was else selection.matches(evaluation)
            if is_in:
                # Without a known state, the op of the record says all: ``added``, or ``sync`` after the state was lost.
                step, evidence = Op.ADDED if was_in is False else op, delta.evidence
                if op is not Op.DELETED:
                    members |= mask
            elif was_in:
                step, evidence = Op.DELETED, Evidence.UNSELECTED
            else:
                continue
            if selection.takes(evaluation, step, evidence):
                takes |= mask
                if step is not op:
                    enters |= mask if step is Op.ADDED else 0
                    leaves |= mask if step is Op.DELETED else 0
        return Selected(takes, enters, leaves, members)


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
