"""Judges the response to posted records, by its status and its Retry-After: the records are accepted or rejected, or
the endpoint takes none now. ``EndpointRefusals`` remembers whether a refusal is a verdict on the event, or may be the
fault of the connection.

410 ends deliveries as a pause does, durably and with a cause of its own: Standard Webhooks and CloudEvents ask senders
to stop there. A retry every half minute would be no stop, a restart is no reason to try again, and rejections would
fill the dead letters with records that are not at fault.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TypeAlias

from sinks.receipt import RetryLater

MAX_RETRY_AFTER = 3600.0
"""Seconds. An endpoint that asks for more is tried once an hour."""


@dataclass(frozen=True, slots=True)
class PostAccepted:
    """2xx."""


@dataclass(frozen=True, slots=True)
class PostRejected:
    """The endpoint will never take the request, if ``certain``."""

    reason: str
    certain: bool
    """The status is about the size of this one request. Others may be about the connection, whoever answers them: see
    ``EndpointRefusals``."""
    answer: str = ""
    """An excerpt of the response."""


@dataclass(frozen=True, slots=True)
class PostFailed:
    """The endpoint did not take the request now."""

    failure: RetryLater


PostResult: TypeAlias = PostAccepted | PostRejected | PostFailed

UNAUTHORIZED, _GONE = 401, 410
_TOO_LARGE = {
    413: "answers 413: the event is too large for it",
    414: "answers 414: the URL of the event is too long for it",
    431: "answers 431: the headers of the event are too large for it",
}
_REFUSED = {
    400: "answers 400: it does not understand the event",
    415: "answers 415: it does not take this content type",
    422: "answers 422: it does not accept the event",
}
_FAILED = {408: "answers 408: it waited too long for the request", 425: "answers 425: too early"}
_UNAVAILABLE = {
    UNAUTHORIZED: "answers 401: it wants credentials; see bearer_token_file, oauth2, header_files",
    403: "answers 403: it refuses these credentials; see bearer_token_file, oauth2, header_files",
    404: "answers 404: the URL does not exist there; see url",
    405: "answers 405: it takes no POST; see url",
    407: "answers 407: a proxy in between wants credentials",
    _GONE: "answers 410: it is gone for good; change url or remove the sink, or kubedelta sinks resume tries it again",
    429: "answers 429: too many requests",
    503: "answers 503: it is unavailable",
}


def result_of(status: int, retry_after: str | None, now: datetime) -> PostResult:
    """``retry_after``: the header's value. ``now``: the time of the response."""
    if 200 <= status < 300:
        return PostAccepted()
    if status in _TOO_LARGE:
        return PostRejected(_TOO_LARGE[status], certain=True)
    if status in _REFUSED:
        return PostRejected(_REFUSED[status], certain=False)
    wait = seconds_of(retry_after, now)
    if status in _FAILED or (status >= 500 and status not in _UNAVAILABLE):
        return PostFailed(RetryLater(_FAILED.get(status, f"answers {status}"), wait))
    reason = _UNAVAILABLE.get(status, f"answers {status}")
    if 300 <= status < 400:
        reason = f"answers {status}: it redirects, which is not followed; set url to where it leads"
    return PostFailed(RetryLater(reason, wait, unavailable=True, gone=status == _GONE))


def seconds_of(retry_after: str | None, now: datetime) -> float | None:
    """Retry-After (RFC 9110, 10.2.3) is a number of seconds or a date. None for any other text."""
    if retry_after is None:
        return None
    text = retry_after.strip()
    if text.isascii() and text.isdecimal():
        return min(float(text[:10]), MAX_RETRY_AFTER)
    try:
        when = parsedate_to_datetime(text)
    except (ValueError, OverflowError):  # A year or a zone may have any number of digits.
        return None
    if when.tzinfo is None:
        when = when.replace(tzinfo=UTC)
    return min(max((when - now).total_seconds(), 0.0), MAX_RETRY_AFTER)


_MOST = 10_000
"""Events. An older one needs a further attempt."""


class EndpointRefusals:
    """**Another event is the witness.** A refusal counts as a verdict on an event when the endpoint has accepted
    another one between two refusals of this one. Until then the destination may be at fault: 400 is also the answer of
    a proxy that misses a client certificate, of a gateway with a wrong route, and to an option that is wrong for every
    event, and would make dead letters of all events. So an endpoint that refuses everything is a destination that is
    away."""

    def __init__(self) -> None:
        self._accepted = 0
        """Requests."""
        self._refused: dict[str, int] = {}
        """Event → requests that had been accepted at its first refusal."""

    def accepted(self, events: Iterable[str]) -> None:
        """The endpoint has accepted a request with these events."""
        self._accepted += 1
        if self._refused:
            for event in events:
                self._refused.pop(event, None)

    def is_verdict(self, event: str) -> bool:
        """The endpoint has refused a request with this event alone."""
        if self._refused.setdefault(event, self._accepted) < self._accepted:
            del self._refused[event]
            return True
        if len(self._refused) > _MOST:
            del self._refused[next(iter(self._refused))]
        return False
