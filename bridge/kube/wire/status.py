"""Classifies the API's errors by the reaction that they need, and words them for an operator.

A server's own texts are shortened to one line without control characters, before they reach a log.
"""

from __future__ import annotations

import re
from http import HTTPStatus
from typing import Any, NamedTuple

import msgspec

from bridge.kube.wire.objects import UNREADABLE
from bridge.model.answers import Busy, ErrorAnswer, Expired, Failed, Refused, TooLarge, Unsupported

REFUSALS = frozenset({401, 403, 404, 405})
_NOT_TAKEN = frozenset({400, 414, 422, 431})
"""Statuses for a parameter that the server does not know, and for a URL or header that is too long."""
_LARGEST = 10**9
"""Codes and seconds beyond are none. Below, every number is a finite float."""
LONGEST_REASON = 300
"""Characters."""

LONGEST_WAIT = 600.0
"""Seconds. A longer Retry-After is cut to this: a bridge that waits for an hour looks stuck, and would be restarted."""

_PHRASES = {each.value: each.phrase for each in HTTPStatus}
_NOT_PRINTED = re.compile(r"[\s\x00-\x1f\x7f-\x9f\u2028\u2029]+")


class _AnyStatus(msgspec.Struct):
    kind: Any = None
    code: Any = None
    reason: Any = None
    message: Any = None
    details: Any = None


class Status(NamedTuple):
    """The API's error object (``meta/v1`` Status)."""

    code: int
    reason: str
    message: str
    causes: frozenset[str]
    """The reasons of the causes."""
    retry_after: float
    """Seconds; 0 if the server names none."""


_decode_status = msgspec.json.Decoder(_AnyStatus).decode


def read_status(body: bytes | msgspec.Raw) -> Status | None:
    """The Status in ``body``; None for other content. A member that is null or of a wrong type counts as missing: an
    aggregated server's Expired must not lose its meaning by its details."""
    try:
        found = _decode_status(body)
    except UNREADABLE:
        return None
    if found.kind != "Status":
        return None
    details = found.details if isinstance(found.details, dict) else {}
    causes = details.get("causes")
    reasons = [each.get("reason") for each in causes if isinstance(each, dict)] if isinstance(causes, list) else []
    return Status(
        int(_number(found.code)),
        _text(found.reason),
        _text(found.message),
        frozenset(each for each in reasons if isinstance(each, str)),
        _number(details.get("retryAfterSeconds")),
    )


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _number(value: Any) -> float:
    return value if isinstance(value, int | float) and abs(value) < _LARGEST else 0


def error_answer(
    code: int,
    status: Status | None,
    *,
    after: float | None = None,
    unusual: bool = False,
    instead: str = "",
) -> ErrorAnswer:
    """The error behind an HTTP answer, or behind an ERROR event of a watch.

    ``after`` is the Retry-After header in seconds; ``unusual`` marks a request with a feature that servers may not
    know, such as a WatchList; ``instead`` describes the body if it is not a Status.
    """
    reason = in_words(code, status, instead)
    after = after if after is not None else (status and status.retry_after) or None
    if after is not None:
        after = min(max(0.0, after), LONGEST_WAIT)
    # Before the status code: it is a 504 with a Retry-After, which would count as Busy.
    if _is_too_large(status):
        return TooLarge(reason)
    if code == HTTPStatus.GONE or (status and status.reason in {"Expired", "Gone"}):
        return Expired(reason)
    # As in client-go (rest's checkWait): a server error with Retry-After means that the server is busy.
    if code == HTTPStatus.TOO_MANY_REQUESTS or (code >= 500 and after is not None):
        return Busy(reason, after)
    if code in REFUSALS:
        return Refused(code, reason)
    if unusual and code in _NOT_TAKEN:
        return Unsupported(reason)
    return Failed(reason)


def in_words(code: int, status: Status | None, instead: str = "") -> str:
    """The failure for an operator, such as ``403 Forbidden: pods is forbidden: …``."""
    name = (status and status.reason) or _PHRASES.get(code, "")
    message = status.message if status else instead
    return shortened(f"{code or 'no code'} {name}".strip() + (f": {message}" if message else ""))


def shortened(text: str) -> str:
    """The text on a single line of at most LONGEST_REASON characters, for logs: control characters become spaces."""
    text = _NOT_PRINTED.sub(" ", text).strip()
    return text if len(text) <= LONGEST_REASON else f"{text[: LONGEST_REASON - 1]}…"


def _is_too_large(status: Status | None) -> bool:
    if status is None:
        return False
    # Servers before 1.19 name no cause.
    return "ResourceVersionTooLarge" in status.causes or "Too large resource version" in status.message
