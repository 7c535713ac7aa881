"""Chooses the exception with which a run ends."""

from __future__ import annotations

from bridge.outbox import Damaged, StateError
from bridge.plan.plan import PlanRefused


def for_the_operator(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """The first exception for an operator (StateError, Damaged, PlanRefused), if the group has no other exceptions than
    those of tasks that came too late."""
    understood, others = group.split((StateError, Damaged, PlanRefused))
    if understood is None or (others is not None and others.split(_came_too_late)[1] is not None):
        return group
    first: BaseException = understood
    while isinstance(first, BaseExceptionGroup):
        first = first.exceptions[0]
    return first


def _came_too_late(error: BaseException) -> bool:
    """A task was made right after a failure had ended its TaskGroup: what made it is cancelled a moment later."""
    return isinstance(error, RuntimeError) and str(error).endswith("is shutting down")
