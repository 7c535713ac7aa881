"""Computes the pause before the next request, and the number of objects in the next page of a list. The caller passes
the time and the jitter.

A starting kube-apiserver answers 403 until it has read its RBAC objects, and then 410, since its watch cache is new.
Pauses for an operator made 80 s of that. So a refusal of a request that was granted before is doubted: the request is
repeated within 5 s, and only after a minute of refusals follow the slow rhythm, and the log line that says which right
to grant. (A SelfSubjectAccessReview would ask the same cold cache.) The list behind the first expired version begins at
once. The next within a minute of that list backs off: lists that take longer than the server's history would follow one
another for ever.

The size of the next page follows the bytes of the last one, so that a page of large objects is read in time, and small
objects take few requests.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import msgspec

from bridge.informer.reflector.states import Answer, Pace, Step
from bridge.model.answers import Opened, Page, Refused
from bridge.model.object import ApiObject
from bridge.model.primitives.backoff import Backoff

NOT_FOUND = 404


class Timing(msgspec.Struct, frozen=True, kw_only=True):
    """Times in seconds, and objects per page."""

    watch_timeout: tuple[int, int] = (300, 600)
    """The range of a watch's timeoutSeconds. It is random, so that watches end at different times."""
    very_short: float = 1.0
    """A watch that ends sooner, cleanly and without an event, counts as expired."""
    initial_events: float = 30.0
    """The longest silence inside a WatchList, before a list replaces it."""
    refused: float = 60.0
    """The pause between attempts while the server refuses, until an operator changes something."""
    not_served: float = 10.0
    """The same pause if the server does not serve the resource: a replaced definition is back in a moment."""
    refusal_doubted: float = 60.0
    """The time for which refusals are doubted, if the server granted the request before. A starting server refuses all
    requests until its RBAC cache is filled."""
    refusal_backoff_maximum: float = 5.0
    """The longest pause between two attempts while a refusal is doubted."""
    expired_again: float = 60.0
    """If a version expires sooner than this after the list that followed the last expiry, the next list backs off."""
    backoff_initial: float = 0.8
    """The first pause of the exponential backoff (as in client-go's reflector: 0.8 to 30 s, reset after 120 s)."""
    backoff_maximum: float = 30.0
    """The longest pause of the backoff."""
    backoff_quiet: float = 120.0
    """The time without failures after which the backoff starts anew."""
    repair_maximum: float = 600.0
    """The longest time in doubt before a repairing list. The time doubles up to here, so that an object that stays
    unreadable does not cause lists without end."""
    page_size: int = 500
    """The most objects per page."""


class Pause(msgspec.Struct, frozen=True):
    seconds: float
    for_operator: bool = False
    """The API server refuses, and an operator must change something."""


class Pacing:
    """The pauses of a list-watch. ``granted`` means that the API server served it before this start."""

    def __init__(self, timing: Timing, *, granted: bool) -> None:
        self._timing = timing
        self._failures = Backoff(timing.backoff_initial, timing.backoff_maximum, timing.backoff_quiet)
        self._expiries = Backoff(timing.backoff_initial, timing.backoff_maximum, timing.backoff_quiet)
        """Apart from the other failures: an outage before must not delay the list, without which nothing is known."""
        self._refusals = Backoff(timing.backoff_initial, timing.refusal_backoff_maximum, timing.backoff_quiet)
        self._granted = granted
        self._refused_since: float | None = None
        self._expired_at = float("-inf")
        """The time when a version expired last, or when the list after that ended."""
        self._lists_because_expired = False

    def answered(self, answer: Answer) -> None:
        """Takes note of an answer. Called for every answer, before ``pause``."""
        if isinstance(answer, Opened | Page):
            self._granted = True
            self._refusals.reset()
        if not isinstance(answer, Refused):
            self._refused_since = None

    def listed(self, now: float) -> None:
        """Takes note of the end of a list."""
        if self._lists_because_expired:
            self._lists_because_expired, self._expired_at = False, now

    def pause(self, step: Step, answer: Answer, now: float, jitter: Callable[[], float]) -> Pause | None:
        """The pause before the next request; None to send it at once."""
        match step.pace:
            case Pace.AT_ONCE:
                return None
            case Pace.SLOWLY if isinstance(answer, Refused):
                return self._refused(answer, now, jitter())
            case Pace.AT_ONCE_IF_RARE:
                rare = now - self._expired_at >= self._timing.expired_again
                self._expired_at, self._lists_because_expired = now, True
                return None if rare else Pause(self._expiries.next(now, jitter(), step.after))
        return Pause(self._failures.next(now, jitter(), step.after))

    def _refused(self, answer: Refused, now: float, jitter: float) -> Pause:
        if self._refused_since is None:
            self._refused_since = now
        if self._granted and now - self._refused_since < self._timing.refusal_doubted:
            return Pause(self._refusals.next(now, jitter))
        self._granted = False
        # A fifth more or less, so that many informers do not ask at the same moment.
        slow = self._timing.not_served if answer.status == NOT_FOUND else self._timing.refused
        return Pause(slow * (0.8 + 0.4 * jitter), for_operator=True)


QUEUED_AT_ONCE = 1 << 20
"""Bytes of objects that are queued at once."""
LARGE = 8 << 20
"""Bytes of a page. A larger page halves the next: the whole page must be read within the minute that API servers give
a request, on slow disks too."""
SMALL = LARGE // 4
"""Bytes of a page. A smaller page doubles the next, up to the configured size."""


def next_page_size(objects: int, size: int, *, most: int) -> int:
    """The number of objects in the next page, after a page of ``objects`` with ``size`` bytes. At least 1."""
    if size > LARGE:
        return max(1, objects // 2)
    return min(most, objects * 2) if size < SMALL else objects


def smaller(objects: int) -> int:
    """The number of objects in the next page, after a page that was too large to be held. At least 1."""
    return max(1, objects // 8)


def split_for_queue(objects: list[ApiObject], most: int) -> Iterator[list[ApiObject]]:
    """Splits the objects, in their order, into parts of at most ``most`` objects. A part ends with the object that
    brings it to QUEUED_AT_ONCE bytes."""
    start = size = 0
    for index, thing in enumerate(objects):
        size += len(thing.body)
        if size >= QUEUED_AT_ONCE or index - start + 1 == most:
            yield objects[start : index + 1]
            start, size = index + 1, 0
    if start < len(objects):
        yield objects[start:]
