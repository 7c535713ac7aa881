"""The meaning of a watch's end, and the reason of an answer in words. Pure."""

from __future__ import annotations

from bridge.informer.history.outcomes import OtherHistory
from bridge.informer.reflector.states import Answer, Contradicted, Overdue, RepairDue, TimedOut, VeryShort
from bridge.model.answers import Announced, Bookmark, Failed, HungUp, Silent, WatchRequest

LATE = 10.0
"""Seconds after its timeoutSeconds within which the end of a watch counts as caused by it."""


def end_of_watch(
    end: HungUp, request: WatchRequest, seconds: float, *, is_first: bool, very_short: float
) -> HungUp | Failed | VeryShort | TimedOut:
    """``seconds``: the duration of the watch. ``is_first``: no event came before. ``very_short``: seconds within which
    an end without an event suggests that the server has forgotten the version."""
    if is_first and seconds < very_short:
        # Only a clean end may stand for a 410.
        return Failed(end.reason) if end.torn else VeryShort()
    return TimedOut() if not end.torn and _is_over(request, seconds) else end


def _is_over(request: WatchRequest, seconds: float) -> bool:
    """Whether the watch's duration matches its timeoutSeconds, with a margin for the server's clock."""
    return request.timeout - min(1.0, 0.1 * request.timeout) <= seconds <= request.timeout + LATE


def reason_of(answer: Answer) -> str:
    match answer:
        case TimedOut():
            return "the watch reached its timeout"
        case OtherHistory() | Contradicted():
            return "the API server has another history"
        case VeryShort():
            return "the watch ended within a second and without an event"
        case Overdue():
            return "the bookmark that ends the initial events did not come"
        case RepairDue():
            return "a list is due after unreadable data"
        case Silent(seconds=seconds):
            return f"the server sent no data for {seconds:.0f} s"
        case Announced() | Bookmark():
            return "versions ran backwards"
        case _:
            return getattr(answer, "reason", type(answer).__name__)
