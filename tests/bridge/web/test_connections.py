from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import cast

import pytest

from bridge.facts import ConnectionCut, CutReason, Fact
from bridge.web.connections import Connections
from tests.kit.deadlines import BUSY

FOREVER = 3600.0


class Echo(asyncio.Protocol):
    """Says in upper case what it hears. ``K`` asks that its connection be kept."""

    def __init__(self, group: asyncio.TaskGroup) -> None:
        self._group = group
        self._ended = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self._group.create_task(self._end())

    def connection_lost(self, exc: Exception | None) -> None:
        self._ended.set()

    async def _end(self) -> None:
        await self._ended.wait()

    def data_received(self, data: bytes) -> None:
        if data == b"k":
            Connections.keep(self.transport)
        self.transport.write(data.upper())


class Client:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def says(self, text: bytes) -> bytes:
        self.writer.write(text)
        async with asyncio.timeout(10 * BUSY):
            return await self.reader.read(100)

    async def is_cut(self) -> None:
        """Return when it is."""
        async with asyncio.timeout(10 * BUSY):
            try:
                while await self.reader.read(100):
                    pass
            except ConnectionResetError:
                pass


class Crowd:
    def __init__(self, port: int, facts: list[Fact]) -> None:
        self._port = port
        self._clients: list[Client] = []
        self.facts = facts

    async def connect(self, source: str = "127.0.0.1") -> Client:
        """Connected, and known to the server."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port, local_addr=(source, 0))
        client = Client(reader, writer)
        self._clients.append(client)
        assert await client.says(b"a") == b"A"
        return client

    def leave(self) -> None:
        for client in self._clients:
            client.writer.transport.abort()


@asynccontextmanager
async def serving(*, most: int = 100, seconds: float = FOREVER) -> AsyncIterator[Crowd]:
    facts: list[Fact] = []
    connections = Connections("telemetry.listen", most=most, seconds=seconds, report=facts.append)
    async with asyncio.timeout(60 * BUSY), asyncio.TaskGroup() as group:
        make: Callable[[], asyncio.Protocol] = connections.bounded(lambda: Echo(group))
        server = await asyncio.get_running_loop().create_server(make, "127.0.0.1", 0)
        crowd = Crowd(server.sockets[0].getsockname()[1], facts)
        try:
            yield crowd
        finally:
            crowd.leave()
            server.close()


async def test_beyond_the_limit_the_oldest_connection_is_cut() -> None:
    async with serving(most=2) as crowd:
        first, second, third = [await crowd.connect() for _ in range(3)]
        await first.is_cut()
        assert await second.says(b"b") == b"B"
        assert await third.says(b"c") == b"C"
        assert crowd.facts == [ConnectionCut("telemetry.listen", CutReason.CROWDED)]


async def test_the_client_with_the_most_connections_loses_one() -> None:
    async with serving(most=4) as crowd:
        prometheus = await crowd.connect("127.0.0.2")
        greedy = [await crowd.connect() for _ in range(5)]
        await greedy[0].is_cut()
        await greedy[1].is_cut()
        assert await prometheus.says(b"still here") == b"STILL HERE"


async def test_a_connection_that_closes_makes_room() -> None:
    async with serving(most=2) as crowd:
        stays = await crowd.connect()
        for _ in range(5):
            leaving = await crowd.connect()
            leaving.writer.write_eof()
            await leaving.is_cut()
        assert await stays.says(b"b") == b"B"
        assert crowd.facts == []


async def test_a_connection_has_a_deadline_however_much_it_sends() -> None:
    async with serving(seconds=0.2) as crowd:
        trickling = await crowd.connect()

        async def trickle() -> None:
            while True:
                trickling.writer.write(b"b")
                await asyncio.sleep(0.01)

        async with asyncio.TaskGroup() as tasks:
            trickle_on = tasks.create_task(trickle())
            await trickling.is_cut()
            trickle_on.cancel()
        assert crowd.facts == [ConnectionCut("telemetry.listen", CutReason.SLOW)]


async def test_a_kept_connection_has_no_deadline_and_is_not_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    loop = asyncio.get_running_loop()
    clock = loop.time
    async with serving(most=1, seconds=30 * BUSY) as crowd:
        kept = await crowd.connect()
        assert await kept.says(b"k") == b"K"
        with pytest.raises((ConnectionResetError, AssertionError)):
            await crowd.connect()
        monkeypatch.setattr(loop, "time", lambda: clock() + 31 * BUSY)
        await asyncio.sleep(0)  # The deadline that it would have had is over.
        await asyncio.sleep(0)
        assert await kept.says(b"b") == b"B"
        assert crowd.facts == [ConnectionCut("telemetry.listen", CutReason.CROWDED)]
