"""When the next request is made. Pure: the caller brings the time and the chance."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from bridge.informer.reflector.states import Answer, Pace, Step
from bridge.model.answers import Opened, Page, Refused
from bridge.model.primitives.backoff import Backoff

NOT_FOUND = 404


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """Seconds, and objects a page."""

    watch_timeout: tuple[int, int] = (300, 600)
    """A watch is asked to end somewhere between these, so that many do not end together."""
    very_short: float = 1.0
    """A watch that ends sooner, cleanly and without an event, is taken for an expired one."""
    initial_events: float = 30.0
    """Longest silence inside a WatchList before a list is made instead."""
    refused: float = 60.0
    """Between attempts that only an operator can make succeed."""
    not_served: float = 10.0
    """The same, where the server does not serve the resource: a definition that is replaced is back in a moment."""
    refusal_doubted: float = 60.0
    """How long the API server must refuse what it granted before, until that is taken for an operator's matter. A
    server that starts refuses everything until its RBAC cache is filled."""
    refusal_backoff_maximum: float = 5.0
    """Longest pause between two attempts while a refusal is doubted."""
    expired_again: float = 60.0
    """A version that expires so soon after the list that the one before made backs off."""
    backoff_initial: float = 0.8
    backoff_maximum: float = 30.0
    backoff_quiet: float = 120.0
    repair_maximum: float = 600.0
    """Longest time to live in doubt before a list is made. It doubles up to here, so that an object that can never be
    read does not cost one list after the other."""
    page_size: int = 500


@dataclass(frozen=True, slots=True)
class Pause:
    seconds: float
    for_operator: bool = False
    """The API server refuses, and will until somebody changes something."""


class Pacing:
    """The pauses of one list-watch. With ``granted`` the API server is known to have served it before."""

    def __init__(self, timing: Timing, *, granted: bool) -> None:
        self._timing = timing
        self._failures = Backoff(timing.backoff_initial, timing.backoff_maximum, timing.backoff_quiet)
        self._refusals = Backoff(timing.backoff_initial, timing.refusal_backoff_maximum, timing.backoff_quiet)
        self._granted = granted
        self._refused_since: float | None = None
        self._expired_at = float("-inf")
        """When a version last expired, or the list that this made ended."""
        self._lists_because_expired = False

    def answered(self, answer: Answer) -> None:
        """Every answer, before the pause that it may ask for."""
        if isinstance(answer, Opened | Page):
            self._granted = True
            self._refusals.reset()
        if not isinstance(answer, Refused):
            self._refused_since = None

    def listed(self, now: float) -> None:
        """A list has ended."""
        if self._lists_because_expired:
            self._lists_because_expired, self._expired_at = False, now

    def pause(self, step: Step, answer: Answer, now: float, chance: Callable[[], float]) -> Pause | None:
        """Before the next request; None where it is made at once."""
        match step.pace:
            case Pace.AT_ONCE:
                return None
            case Pace.SLOWLY if isinstance(answer, Refused):
                return self._refused(answer, now, chance())
            case Pace.AT_ONCE_IF_RARE:
                rare = now - self._expired_at >= self._timing.expired_again
                self._expired_at, self._lists_because_expired = now, True
                if rare:
                    return None
        return Pause(self._failures.next(now, chance(), step.after))

    def _refused(self, answer: Refused, now: float, chance: float) -> Pause:
        if self._refused_since is None:
            self._refused_since = now
        if self._granted and now - self._refused_since < self._timing.refusal_doubted:
            return Pause(self._refusals.next(now, chance))
        self._granted = False
        slow = self._timing.not_served if answer.status == NOT_FOUND else self._timing.refused
        return Pause(slow * (0.8 + 0.4 * chance), for_operator=True)
