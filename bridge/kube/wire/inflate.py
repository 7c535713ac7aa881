"""Reads the body of an answer in pieces of bounded size, compressed or not.

httpx inflates each chunk whole: 128 KiB of gzip can become 128 MiB of memory.

Lists may be compressed: between data centres that takes a tenth of the time, and operators beside the API server can
set ``disable-compression`` in the kubeconfig. The ratio has no limit, only the result has, since a tenant's ConfigMaps
of a repeated letter compress as well as any bomb.
"""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing

import httpx

LARGEST_PIECE = 256 * 1024
"""Bytes that are inflated at once."""
LARGEST_DOCUMENT = 32 << 20
"""Bytes of a document that is read whole. Discovery of a thousand definitions takes a million or two."""

_GZIP = 31
"""zlib's ``wbits`` for the gzip format."""


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
