"""What an endpoint's answer means for the record that was posted. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TypeAlias

from sinks.base import RetryLater

LONGEST_WAIT = 3600.0
"""Seconds of a Retry-After that are obeyed. An endpoint that wants more is asked once an hour."""


@dataclass(frozen=True, slots=True)
class Stored:
    """2xx."""


@dataclass(frozen=True, slots=True)
class Refused:
    """The endpoint will never take this."""

    reason: str
    answer: str = ""
    """The beginning of what it said, fit to be kept."""


@dataclass(frozen=True, slots=True)
class Failed:
    """This did not go through. Another record may, where the trouble is not that of the whole endpoint."""

    trouble: RetryLater


Verdict: TypeAlias = Stored | Refused | Failed

_REFUSED = {
    400: "answers 400: it does not understand the event",
    413: "answers 413: the event is too large for it",
    415: "answers 415: it does not take this content type",
    422: "answers 422: it does not accept the event",
    431: "answers 431: the headers of the event are too large for it",
}
_FAILED = {408: "answers 408: it waited too long for the request", 425: "answers 425: too early"}
_WHOLE = {
    401: "answers 401: it wants credentials; see header_files and secret_file",
    403: "answers 403: it refuses these credentials; see header_files and secret_file",
    404: "answers 404: nothing is there; see url",
    405: "answers 405: it takes no POST; see url",
    407: "answers 407: a proxy in between wants credentials",
    410: "answers 410: it is gone and asks to be left alone; remove the sink or change its url",
    429: "answers 429: too many requests",
    503: "answers 503: it is unavailable",
}


def verdict(status: int, retry_after: str | None, now: datetime) -> Verdict:
    """``retry_after`` is the header's value, ``now`` the time at which it came."""
    if 200 <= status < 300:
        return Stored()
    if status in _REFUSED:
        return Refused(_REFUSED[status])
    wait = seconds_of(retry_after, now)
    if status in _FAILED or (status >= 500 and status not in _WHOLE):
        return Failed(RetryLater(_FAILED.get(status, f"answers {status}"), wait))
    reason = _WHOLE.get(status, f"answers {status}")
    if 300 <= status < 400:
        reason = f"answers {status}: it redirects, which is not followed; set url to where it leads"
    return Failed(RetryLater(reason, wait, whole=True))


def seconds_of(retry_after: str | None, now: datetime) -> float | None:
    """Retry-After (RFC 9110, 10.2.3) is a number of seconds or a date. None where it is neither."""
    if retry_after is None:
        return None
    text = retry_after.strip()
    if text.isascii() and text.isdecimal():
        return min(float(text[:10]), LONGEST_WAIT)
    try:
        when = parsedate_to_datetime(text)
    except (ValueError, OverflowError):  # A year, or a zone, of any number of digits.
        return None
    if when.tzinfo is None:
        when = when.replace(tzinfo=UTC)
    return min(max((when - now).total_seconds(), 0.0), LONGEST_WAIT)
