"""One address for several TCP servers, as a cloud's load balancer in front of API servers: each connection goes to the
next one that takes it."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from itertools import count
from typing import Self


class Balancer:
    """``targets`` are ports of loopback. While it is ``closed``, nobody is let in, and who is in is thrown out."""

    def __init__(self, *targets: int) -> None:
        self._targets = targets
        self._turns = count()
        self._ends: set[asyncio.StreamWriter] = set()
        self._server: asyncio.Server | None = None
        self._closed = False
        self.port = 0
        self.served: list[int] = []
        """The targets of all connections, in order."""

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()
        if self._server is not None:
            self._server.close()
            await self._server.wait_closed()

    def close(self) -> None:
        self._closed = True
        for end in self._ends:
            end.transport.abort()

    def open(self) -> None:
        self._closed = False

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._ends.add(writer)
        try:
            onward = None if self._closed else await self._onward()
            if onward is None:
                writer.transport.abort()
                return
            await self._join(reader, writer, *onward)
        finally:
            self._ends.discard(writer)
            writer.close()

    async def _onward(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter] | None:
        for _ in self._targets:
            target = self._targets[next(self._turns) % len(self._targets)]
            with suppress(OSError):
                onward = await asyncio.open_connection("127.0.0.1", target)
                self.served.append(target)
                return onward
        return None

    async def _join(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        onward_reader: asyncio.StreamReader,
        onward_writer: asyncio.StreamWriter,
    ) -> None:
        self._ends.add(onward_writer)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(_pass(reader, onward_writer))
                group.create_task(_pass(onward_reader, writer))
        finally:
            self._ends.discard(onward_writer)
            onward_writer.close()


async def _pass(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """A reset on one side is one on the other."""
    try:
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()
        writer.write_eof()
    except (OSError, RuntimeError):
        writer.transport.abort()
