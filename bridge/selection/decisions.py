"""Decides which sinks get a record, and what an object is to each of them. Pure. Hot where sinks have a selection."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from bridge.model.change import Evidence, Op
from bridge.model.record import Delta, Selected
from bridge.selection.evaluation import Evaluation
from bridge.selection.selector import SinkSelection
from bridge.selection.views import Views


class Decisions:
    """Calls decide on new records. ``masks``: the bit of each sink with a selection."""

    def __init__(self, views: Views, masks: Mapping[str, int]) -> None:
        self._views = views
        self._masks = masks

    def __call__(self, delta: Delta, was: int | None, before: Callable[[], bytes | None] | None) -> Selected:
        """``was``: the members before the record; None if the object was not known. ``before`` returns the state before
        it, or None if that is lost; None without such a state."""
        views = self._views.of(delta.resource)
        evaluator = views.evaluator
        old = before() if before is not None and evaluator.reads_before else None
        evaluation = evaluator.evaluation(delta.key, delta.body, old)
        takes = enters = leaves = members = 0
        for sink, selection in views.selections.items():
            mask = self._masks[sink]
            was_in = None if was is None else bool(was & mask)
            is_in = _contains(selection, evaluation, delta.op, was_in)
            op, evidence = _step(delta, was_in, is_in)
            if is_in and delta.op is not Op.DELETED:
                members |= mask
            if op is not None and selection.takes(evaluation, op, evidence):
                takes |= mask
                if op is not delta.op:
                    enters |= mask if op is Op.ADDED else 0
                    leaves |= mask if op is Op.DELETED else 0
        return Selected(takes, enters, leaves, members)


def _contains(selection: SinkSelection, evaluation: Evaluation, op: Op, was_in: bool | None) -> bool:
    """Whether the selection contains the object after the record; for a delete, whether the sink has the object."""
    # A resync changes no object, and a delete goes where the object was.
    if op in (Op.DELETED, Op.SYNC) and was_in is not None:
        return was_in
    return selection.matches(evaluation)


def _step(delta: Delta, was_in: bool | None, is_in: bool) -> tuple[Op | None, Evidence]:
    """The op and the evidence that the sink gets; no op if the record is not for it."""
    if not is_in:
        return (Op.DELETED, Evidence.UNSELECTED) if was_in else (None, delta.evidence)
    # Without a known state, the op of the record says all: ``added``, or ``sync`` after the state was lost.
    return (Op.ADDED if was_in is False else delta.op), delta.evidence
