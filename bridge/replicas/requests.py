"""What a replica asks another, and how the answer is read. The other replica proves by its certificate that it is one,
before it gets the token."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp

from bridge.plan.plan import CopyPlan
from bridge.replicas.sources import Unfit
from bridge.web.access import TokenFile
from sinks.tls import tls_context

_CONNECT_SECONDS = 10.0


@asynccontextmanager
async def asked(copy: CopyPlan, url: str, whom: str, *, silence: float) -> AsyncIterator[aiohttp.ClientResponse]:
    """The answer 200 to a GET. ``whom``: the other replica, for messages. ``silence``: the longest time without a byte,
    in seconds. Raises Unfit; TimeoutError if the other replica cannot answer now; WrongOption; and aiohttp's errors."""
    try:
        token = await asyncio.to_thread(TokenFile(copy.token_file).read)
    except ValueError as error:
        raise Unfit(f"election.base_copy.token_file: {error}") from error
    tls = await asyncio.to_thread(tls_context, copy.ca_file, None, None)
    timeout = aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_SECONDS, sock_read=silence)
    async with (
        aiohttp.ClientSession(timeout=timeout, cookie_jar=aiohttp.DummyCookieJar()) as session,
        session.get(
            url,
            ssl=tls,
            headers={"Authorization": f"Bearer {token}", "Accept-Encoding": "identity"},
            allow_redirects=False,
        ) as answer,
    ):
        if answer.status == 503:
            raise TimeoutError(f"{whom} cannot serve it now")
        if answer.status != 200:
            raise Unfit(f"{whom} answers HTTP {answer.status}")
        yield answer


async def whole(answer: aiohttp.ClientResponse, most: int) -> bytes:
    """The body. Raises Unfit if it has more than ``most`` bytes."""
    parts = bytearray()
    async for part in answer.content.iter_chunked(1 << 16):
        parts += part
        if len(parts) > most:
            raise Unfit(f"the answer has more than {most} bytes")
    return bytes(parts)
