"""Reads an HTTP response: whether it is a success, which is only JSON with a 2xx status, and its body in pieces of
bounded size, compressed or not.

httpx inflates each chunk whole: 128 KiB of gzip can become 128 MiB of memory. Lists may be compressed: between data
centres that takes a tenth of the time, and operators beside the API server can set ``disable-compression`` in the
kubeconfig. The ratio has no limit, only the result has, since a tenant's ConfigMaps of a repeated letter compress as
well as any bomb.
"""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

import httpx

from bridge.kube.wire.status import error_answer, read_status, shortened
from bridge.model.answers import ErrorAnswer, Failed
from bridge.model.primitives.network import wants_https

LARGEST_PIECE = 256 * 1024
"""Bytes that are inflated at once."""
LARGEST_DOCUMENT = 32 << 20
"""Bytes of a document that is read whole. Discovery of a thousand definitions takes a million or two."""

LONGEST_STATUS = 64 * 1024
"""Bytes of an error's body that are read; a Status has some hundred."""

_GZIP = 31
"""zlib's ``wbits`` for the gzip format."""


# ── Success or failure ────────────────────────────────────────────────────────


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


# ── The body ──────────────────────────────────────────────────────────────────


async def pieces(response: httpx.Response) -> AsyncGenerator[bytes]:
    """Yields the body in pieces of at most LARGEST_PIECE bytes if it is gzip, else as it arrives. Raises
    httpx.DecodingError for malformed gzip and for other encodings."""
    encoding = str(response.headers.get("Content-Encoding", "identity")).strip().lower()
    if encoding not in {"identity", "gzip", ""}:
        raise httpx.DecodingError(f"the answer is encoded as {encoding[:40]!r}, which was not requested")
    inflating = _Inflating() if encoding == "gzip" else None
    async for chunk in response.aiter_raw():
        if inflating is None:
            yield chunk
            continue
        for piece in inflating.pieces(chunk):
            yield piece
            await asyncio.sleep(0)  # A chunk may inflate to a thousand times its size: other tasks run in between.
    if inflating is not None and not inflating.ended:
        raise httpx.DecodingError("the compressed answer ends too early")


async def read_whole(response: httpx.Response, most: int = LARGEST_DOCUMENT) -> bytes:
    """The whole body. Raises httpx.DecodingError, also for a body larger than ``most`` bytes."""
    read: list[bytes] = []
    left = most
    async with aclosing(pieces(response)) as body:
        async for piece in body:
            read.append(piece)
            left -= len(piece)
            if left < 0:
                raise httpx.DecodingError(f"the answer is larger than {most >> 20} MiB")
    return b"".join(read)


class _Inflating:
    """Inflates gzip of any number of members: Go writes a single member per answer, other servers may write more."""

    def __init__(self) -> None:
        self._inflate = zlib.decompressobj(_GZIP)

    @property
    def ended(self) -> bool:
        return self._inflate.eof

    def pieces(self, chunk: bytes) -> Iterator[bytes]:
        more = False
        try:
            while chunk or more:
                if self._inflate.eof:
                    self._inflate = zlib.decompressobj(_GZIP)
                piece = self._inflate.decompress(chunk, LARGEST_PIECE)
                chunk = self._inflate.unconsumed_tail or self._inflate.unused_data
                # zlib may hold output that did not fit into this piece, though its input is used up.
                more = len(piece) == LARGEST_PIECE and not self._inflate.eof
                if piece:
                    yield piece
        except zlib.error as error:
            raise httpx.DecodingError(f"the compressed answer cannot be read: {error}") from error
