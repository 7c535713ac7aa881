"""Bounds the number and the duration of client connections of a server."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import cast

from bridge.facts import ConnectionCut, CutReason, Report


class Connections:
    """At most ``most`` connections at once. Each has ``seconds`` from its first packet to the end of its answer, unless
    its handler calls ``keep``.

    A new connection is always accepted. Beyond the bound, the oldest connection of the client with the most
    connections is cut. So a probe, which sends its request at once, is answered while other clients hold idle
    connections. If every other connection is kept, the new connection is cut.
    """

    def __init__(self, server: str, *, most: int, seconds: float, report: Report) -> None:
        """``server``: one of ``facts.SERVERS``."""
        self._server = server
        self._most = most
        self._seconds = seconds
        self._report = report
        self._open: dict[_Connection, None] = {}
        """Oldest first."""

    def bounded(self, make: Callable[[], asyncio.Protocol]) -> Callable[[], asyncio.Protocol]:
        """Wraps a protocol factory for ``loop.create_server``."""
        return lambda: _Connection(self, make())

    @staticmethod
    def keep(transport: asyncio.BaseTransport | None) -> None:
        """Removes the deadline of a connection that has sent its whole request: the answer may take any time."""
        connection = None if transport is None else transport.get_protocol()
        if isinstance(connection, _Connection):
            connection.keep()

    def add(self, connection: _Connection) -> asyncio.TimerHandle:
        """Adds a connection, and returns the timer of its deadline."""
        self._open[connection] = None
        if len(self._open) > self._most:
            self._cut(self._superfluous(connection), CutReason.CROWDED)
        return asyncio.get_running_loop().call_later(self._seconds, self._cut, connection, CutReason.SLOW)

    def remove(self, connection: _Connection) -> None:
        self._open.pop(connection, None)

    def _cut(self, connection: _Connection, why: CutReason) -> None:
        self.remove(connection)
        # abort() and not close(), which waits until a client that does not read has read the rest.
        connection.transport.abort()
        self._report(ConnectionCut(self._server, why))

    def _superfluous(self, newest: _Connection) -> _Connection:
        """The connection to cut: the oldest of the client with the most connections. Kept connections do not count."""
        candidates = [each for each in self._open if each is not newest and not each.kept]
        held = Counter(each.client for each in candidates)
        most = max(held.values(), default=0)
        return next((each for each in candidates if held[each.client] == most), newest)


class _Connection(asyncio.Protocol):
    """Passes every event on to the server's own protocol."""

    def __init__(self, connections: Connections, protocol: asyncio.Protocol) -> None:
        self._connections = connections
        self._protocol = protocol
        self._deadline: asyncio.TimerHandle | None = None
        self.transport: asyncio.Transport
        self.client = ""
        self.kept = False

    def keep(self) -> None:
        self.kept = True
        if self._deadline is not None:
            self._deadline.cancel()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        peer = transport.get_extra_info("peername")
        self.client = str(peer[0]) if isinstance(peer, tuple) else ""
        self._protocol.connection_made(transport)
        self._deadline = self._connections.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._connections.remove(self)
        if self._deadline is not None:
            self._deadline.cancel()
        self._protocol.connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._protocol.data_received(data)

    def eof_received(self) -> bool | None:
        return self._protocol.eof_received()

    def pause_writing(self) -> None:
        self._protocol.pause_writing()

    def resume_writing(self) -> None:
        self._protocol.resume_writing()
