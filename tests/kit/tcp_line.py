"""A line to a TCP server, or a cloud's load balancer in front of several, that a test can cut, block and make one-way.
Both ends are real sockets."""

from __future__ import annotations

import asyncio
import socket
import struct
from contextlib import suppress
from itertools import count
from typing import Self

_AT_ONCE = struct.pack("ii", 1, 0)
"""SO_LINGER: what is closed is reset, as by a router that forgot the connection."""


class Line:
    """Listens on ``port`` (0: any free one) and passes every connection on to a target on loopback: the next of these
    ports that takes it."""

    def __init__(self, *targets: int, port: int = 0) -> None:
        self.targets = targets
        self._turns = count()
        self.served: list[int] = []
        """The targets of all connections, in order."""
        self.port = port
        self.rate: int | None = None
        """Bytes a second that go towards the server, on each connection; None for all that there are."""
        self.rate_back: int | None = None
        """The same for what comes back."""
        self.refusing = False
        """New connections are reset."""
        self.swallowing = False
        """What the server says is lost on the way."""
        self._flows = asyncio.Event()
        self._flows.set()
        self._left: dict[bool, int] = {}
        """Bytes that may still pass until the line is cut: back from the server, or towards it."""
        self._ends: set[asyncio.StreamWriter] = set()
        self._server: asyncio.Server | None = None
        self.cuts = 0
        self.sent = 0
        """Bytes that went towards the server."""
        self.returned = 0
        """Bytes that came back from it."""

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self.mend()
        self.refusing = True
        self.cut()
        if self._server is not None:
            self._server.close()
            await self._server.wait_closed()

    def cut(self) -> None:
        """Reset every connection, once. New ones may be made."""
        self.cuts += 1
        self._left.clear()
        for end in self._ends:
            with suppress(OSError):  # It may be closed already, and only its flow not be done.
                end.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _AT_ONCE)
            end.transport.abort()

    def cut_after(self, passed: int, *, back: bool = False) -> None:
        """Cut when that many more bytes went towards the server, or came back from it."""
        self._left[back] = passed

    def block(self) -> None:
        """Nothing passes, and neither end learns of it."""
        self._flows.clear()

    def mend(self) -> None:
        """Undo all but the cuts."""
        self.refusing = self.swallowing = False
        self.rate = self.rate_back = None
        self._left.clear()
        self._flows.set()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._ends.add(writer)
        try:
            await self._connect(reader, writer)
        finally:
            self._ends.discard(writer)
            writer.close()

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.refusing:
            writer.transport.abort()
            return
        for _ in self.targets:
            target = self.targets[next(self._turns) % len(self.targets)]
            try:
                onward_reader, onward_writer = await asyncio.open_connection("127.0.0.1", target)
            except OSError:
                continue
            self.served.append(target)
            self._ends.add(onward_writer)
            try:
                async with asyncio.TaskGroup() as group:
                    group.create_task(self._pass(reader, onward_writer, back=False))
                    group.create_task(self._pass(onward_reader, writer, back=True))
            finally:
                self._ends.discard(onward_writer)
                onward_writer.close()
            return

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, back: bool) -> None:
        with suppress(OSError):
            while data := await reader.read(1 << 16):
                await self._flows.wait()
                if back and self.swallowing:
                    continue
                data = self._within_what_is_left(data, back)
                if back:
                    self.returned += len(data)
                else:
                    self.sent += len(data)
                writer.write(data)
                await writer.drain()
                if (rate := self.rate_back if back else self.rate) is not None:
                    await asyncio.sleep(len(data) / rate)
                if self._left.get(back) == 0:
                    self.cut()
        with suppress(OSError, RuntimeError):
            writer.write_eof() if writer.can_write_eof() else None

    def _within_what_is_left(self, data: bytes, back: bool) -> bytes:
        if back in self._left:
            data = data[: self._left[back]]
            self._left[back] -= len(data)
        return data
