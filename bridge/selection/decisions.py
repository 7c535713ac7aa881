"""Decides which sinks get a record, and what an object is to each of them. Pure. Hot where sinks have a selection."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from bridge.model.change import Evidence, Op
from bridge.model.record import Delta, Selected
from bridge.selection.views import Views

_CHANGES_NO_MEMBERS = (Op.DELETED, Op.SYNC)


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
        is_where_it_was = was is not None and op in _CHANGES_NO_MEMBERS
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
