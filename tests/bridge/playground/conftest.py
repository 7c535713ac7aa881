"""A playground, a plain HTTP client on it, and watches read line by line."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest

from tests.kit.deadlines import BUSY
from tests.kit.playground import Playground


@pytest.fixture
async def server() -> AsyncIterator[Playground]:
    async with Playground(seed=1, version_wait=0.05) as playground:
        yield playground


@pytest.fixture
async def http(server: Playground) -> AsyncIterator[httpx.AsyncClient]:
    async with client_of(server) as client:
        yield client


def client_of(server: Playground, token: str = "") -> httpx.AsyncClient:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    return httpx.AsyncClient(base_url=server.url, headers=headers, timeout=10 * BUSY, trust_env=False, verify=False)


@dataclass(slots=True)
class Watched:
    """An open watch. Its bytes are kept in ``heard``."""

    response: httpx.Response
    heard: bytes = b""
    _lines: list[bytes] = field(default_factory=list)
    _rest: bytes = b""
    _chunks: AsyncIterator[bytes] | None = None

    async def line(self, timeout: float = 5 * BUSY) -> bytes | None:
        """The next whole line; None at the end. Raises TimeoutError after so many seconds, httpx's errors for a stream
        that breaks off."""
        async with asyncio.timeout(timeout):
            if self._chunks is None:
                self._chunks = self.response.aiter_raw()
            while not self._lines:
                chunk = await anext(self._chunks, None)
                if chunk is None:
                    return None
                self.heard += chunk
                *whole, self._rest = (self._rest + chunk).split(b"\n")
                self._lines += whole
        return self._lines.pop(0)

    async def event(self, timeout: float = 5 * BUSY) -> tuple[str, Any]:
        """The next event's type and object."""
        line = await self.line(timeout)
        assert line is not None, "the watch ended"
        event = json.loads(line)
        return event["type"], event["object"]

    async def sent(self, timeout: float = 5 * BUSY) -> tuple[str, str]:
        """The next event's type and its object's name."""
        kind, thing = await self.event(timeout)
        return kind, thing["metadata"]["name"]

    async def rest(self, timeout: float = 5 * BUSY) -> list[bytes]:
        """All lines until the end."""
        lines: list[bytes] = []
        while (line := await self.line(timeout)) is not None:
            lines.append(line)
        return lines


@asynccontextmanager
async def watching(http: httpx.AsyncClient, path: str, **query: str | int) -> AsyncIterator[Watched]:
    params = {"watch": "1", **{name: str(value) for name, value in query.items()}}
    async with http.stream("GET", path, params=params) as response:
        yield Watched(response)
