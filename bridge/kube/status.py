"""The API's errors, sorted by what there is to do about them."""

from __future__ import annotations

import re
from http import HTTPStatus

import msgspec

from bridge.kube.wire import UNREADABLE
from bridge.model.answers import Busy, Expired, Failed, Refused, TooLarge, Trouble, Unsupported

REFUSALS = frozenset({401, 403, 404, 405})
_NOT_TAKEN = frozenset({400, 414, 422, 431})
"""What a server says of something that it does not know, or that is too long for it."""
LONGEST_REASON = 300
"""Characters."""

LONGEST_WAIT = 600.0
"""Seconds. Whoever asks us to wait longer is asked again before: an hour without an answer looks like a bridge that is
stuck, and is restarted as one."""

_PHRASES = {each.value: each.phrase for each in HTTPStatus}
_NOT_PRINTED = re.compile(r"[\s\x00-\x1f\x7f-\x9f\u2028\u2029]+")


class _Cause(msgspec.Struct):
    reason: str = ""


class _Details(msgspec.Struct):
    causes: list[_Cause] | None = None
    retry_after: float = msgspec.field(name="retryAfterSeconds", default=0.0)


class Status(msgspec.Struct):
    """The API's error object (``meta/v1`` Status)."""

    kind: str = ""
    code: int = 0
    reason: str = ""
    message: str = ""
    details: _Details | None = None


_decode_status = msgspec.json.Decoder(Status).decode


def read_status(body: bytes | msgspec.Raw) -> Status | None:
    """None for whatever is not a Status."""
    try:
        status = _decode_status(body)
    except UNREADABLE:
        return None
    return status if status.kind == "Status" else None


def trouble(
    code: int,
    status: Status | None,
    *,
    after: float | None = None,
    unusual: bool = False,
    instead: str = "",
) -> Trouble:
    """What an HTTP answer or an ERROR in a stream means.

    ``after`` is the Retry-After header in seconds; ``unusual`` says that something was asked for that servers may not
    know, such as a WatchList; ``instead`` says what came where no Status did.
    """
    reason = in_words(code, status, instead)
    details = (status and status.details) or _Details()
    after = after if after is not None else details.retry_after or None
    if after is not None:
        after = min(max(0.0, after), LONGEST_WAIT)
    if _is_too_large(status, details):
        return TooLarge(reason)
    if code == HTTPStatus.GONE or (status and status.reason in {"Expired", "Gone"}):
        return Expired(reason)
    # As client-go has it: a server error that says when to come again is a busy server.
    if code == HTTPStatus.TOO_MANY_REQUESTS or (code >= 500 and after is not None):
        return Busy(reason, after)
    if code in REFUSALS:
        return Refused(code, reason)
    if unusual and code in _NOT_TAKEN:
        return Unsupported(reason)
    return Failed(reason)


def in_words(code: int, status: Status | None, instead: str = "") -> str:
    """``403 Forbidden: pods is forbidden: …``"""
    name = (status and status.reason) or _PHRASES.get(code, "")
    what = status.message if status else instead
    return shortened(f"{code or 'no code'} {name}".strip() + (f": {what}" if what else ""))


def shortened(text: str) -> str:
    """On one line, and not at length."""
    text = _NOT_PRINTED.sub(" ", text).strip()
    return text if len(text) <= LONGEST_REASON else f"{text[: LONGEST_REASON - 1]}…"


def _is_too_large(status: Status | None, details: _Details) -> bool:
    if status is None:
        return False
    named = any(cause.reason == "ResourceVersionTooLarge" for cause in details.causes or ())
    return named or "Too large resource version" in status.message  # Servers before 1.19 name no cause.
