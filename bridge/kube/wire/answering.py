"""Classifies HTTP answers: only JSON with a 2xx status is a success."""

from __future__ import annotations

from contextlib import aclosing
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

import httpx

from bridge.kube.wire.inflate import pieces
from bridge.kube.wire.status import error_answer, read_status, shortened
from bridge.model.answers import ErrorAnswer, Failed
from bridge.model.primitives.wrong_protocol import wants_https

LONGEST_STATUS = 64 * 1024
"""Bytes of an error's body that are read; a Status has some hundred."""


async def error_of(response: httpx.Response, *, unusual: bool = False) -> ErrorAnswer | None:
    """None if the answer is JSON with a 2xx status; its body is not read yet. Else the failure, with the reason from at
    most LONGEST_STATUS bytes of the body. ``unusual``: see ``status.error_answer``."""
    kind = content_type(response)
    if response.is_success:
        # The login page of a proxy has the status 200, too.
        if kind == "application/json":
            return None
        named = kind or "no content type"
        return Failed(shortened(f"{response.status_code} with {named}, not application/json: is this the API server?"))
    beginning = await _beginning(response)
    if wants_https(response.status_code, beginning):
        return Failed("400: the server speaks HTTPS on this port: write https:// in its address")
    status = read_status(beginning) if kind == "application/json" else None
    return error_answer(
        response.status_code,
        status,
        after=_retry_after(response),
        unusual=unusual,
        instead=f"the body is {kind or 'empty'}, not a Status",
    )


def content_type(response: httpx.Response) -> str:
    """The media type without parameters, in small letters; empty if the header is missing."""
    return str(response.headers.get("Content-Type", "")).partition(";")[0].strip().lower()


async def _beginning(response: httpx.Response) -> bytes:
    read = bytearray()
    async with aclosing(pieces(response)) as body:
        async for piece in body:
            read += piece
            if len(read) > LONGEST_STATUS:
                break
    return bytes(read[:LONGEST_STATUS])


def _retry_after(response: httpx.Response) -> float | None:
    """Seconds, or None. The header holds seconds or a date (RFC 9110, 10.2.3)."""
    value = response.headers.get("Retry-After", "").strip()
    if value.isdecimal():
        return float(value)
    try:
        at = parsedate_to_datetime(value)
    except (ValueError, OverflowError):
        return None
    # parsedate_to_datetime returns a naive datetime for a date without a zone or with -0000.
    at = at if at.tzinfo else at.replace(tzinfo=UTC)
    return max(0.0, (at - datetime.now(UTC)).total_seconds())
