"""What a replica asks another, and how the answer is read. The other replica proves by its certificate that it is one,
before it gets the token: by the authorities of ``ca_file`` alone, since anybody can have a certificate of the system's.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager
from urllib.parse import urlsplit

import aiohttp

from bridge.kube.transport import kept_alive
from bridge.plan.plan import CopyPlan
from bridge.replicas.sources import Unfit
from bridge.web.access import TokenFile
from sinks.tls import tls_context

_CONNECT_SECONDS = 10.0


@asynccontextmanager
async def asked(copy: CopyPlan, url: str, whom: str, *, silence: float) -> AsyncIterator[aiohttp.ClientResponse]:
    """The answer 200 to a GET. ``whom``: the other replica, for messages. ``silence``: the longest time until the
    answer begins, in seconds. Raises Unfit; TimeoutError if the other replica cannot answer now; WrongOption; and
    aiohttp's errors."""
    try:
        token = await asyncio.to_thread(TokenFile(copy.token_file).read)
    except ValueError as error:
        raise Unfit(f"election.base_copy.token_file: {error}") from error
    tls = await asyncio.to_thread(_authorities, copy, url)
    timeout = aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_SECONDS)
    headers = {"Authorization": f"Bearer {token}", "Accept-Encoding": "identity"}
    # The system finds a dead node sooner than the silence ends.
    connector = aiohttp.TCPConnector(ssl=tls, socket_factory=kept_alive)
    async with aiohttp.ClientSession(
        connector=connector, timeout=timeout, cookie_jar=aiohttp.DummyCookieJar()
    ) as session:
        async with _bounded(silence):
            answer = await session.get(url, headers=headers, allow_redirects=False)
        async with answer:
            if answer.status == 503:
                raise TimeoutError(f"{whom} cannot serve it now")
            if answer.status != 200:
                raise Unfit(f"{whom} answers HTTP {answer.status}")
            yield answer


def _authorities(copy: CopyPlan, url: str) -> ssl.SSLContext | bool:
    """For aiohttp: of a URL with HTTPS, those of ``ca_file``. Raises Unfit and WrongOption."""
    if urlsplit(url).scheme == "http":
        return True
    if copy.ca_file is None:
        reason = "only its certificates prove who gets the token"
        raise Unfit(f"the address is https, and election.base_copy.ca_file is not set here: {reason}")
    return tls_context(copy.ca_file, None, None)


async def parts_of(
    answer: aiohttp.ClientResponse, most: int, *, first: float, then: float
) -> AsyncGenerator[bytes, None]:
    """The body, in parts of at most so many bytes. ``first``, ``then``: the longest time without a byte, before the
    first part and before each further one, in seconds. Raises TimeoutError and aiohttp's errors."""
    parts, silence = answer.content.iter_chunked(most), first
    while True:
        try:
            async with _bounded(silence):
                part = await anext(parts)
        except StopAsyncIteration:
            return
        yield part
        silence = then


async def whole(answer: aiohttp.ClientResponse, most: int, *, silence: float) -> bytes:
    """The body. Raises Unfit if it has more than ``most`` bytes."""
    found = bytearray()
    async with aclosing(parts_of(answer, 1 << 16, first=silence, then=silence)) as parts:
        async for part in parts:
            found += part
            if len(found) > most:
                raise Unfit(f"the answer has more than {most} bytes")
    return bytes(found)


@asynccontextmanager
async def _bounded(seconds: float) -> AsyncIterator[None]:
    try:
        async with asyncio.timeout(seconds):
            yield
    except TimeoutError as error:
        raise TimeoutError(str(error) or f"no byte came for {seconds:.0f} s") from error
