"""The connections of a server's clients: how many, and how long each may take, from the moment of their acceptance.

To refuse the newest connection would keep probes out for as long as an attacker likes; a proxy in front needs a
container of its own.
"""

from __future__ import annotations

import asyncio
import ssl
from asyncio.sslproto import SSLProtocol
from collections import Counter
from collections.abc import Callable
from typing import cast

import msgspec

from bridge.facts import ConnectionCut, CutReason, Report
from bridge.model.primitives.addresses import client_of

REQUEST_SECONDS = 10.0
"""From the acceptance of a connection to the end of its request, the TLS handshake included."""
WRITE_SECONDS = 20.0
"""In which a client takes ``_LEAST_TAKEN`` of the bytes that wait for it, or all of them."""
_LEAST_TAKEN = 64 * 1024
"""Bytes."""
_LATER = 3600
"""Seconds. Deadlines of asyncio's TLS, so late that those here decide: one of them cuts whoever reads slowly."""


class Bounds(msgspec.Struct, frozen=True):
    """The connections that a server holds at once."""

    all: int
    of_a_client: int


class Connections:
    """The open connections of a server, each with the protocol that speaks HTTP on it.

    **Number.** A new connection is always accepted, and counted at once, before a TLS handshake. Beyond a bound another
    one is cut: beyond ``of_a_client``, one of the same client; beyond ``all``, one of the client that has the most. Of
    these, connections without a whole request go first, the oldest before the others. So whoever holds many connections
    loses them to the newcomer of another address, and a probe, which sends its request at once, is answered. A client
    is an IPv4 address, or the /64 network of an IPv6 address.

    **Duration.** A connection has ten seconds for its handshake and its whole request. Making the answer may take any
    time. While bytes of it wait, the client takes 64 KiB of them in every twenty seconds, or the rest; this holds for
    parts of a stream, and for the last bytes before the close. A client that does not is cut.
    """

    def __init__(
        self,
        server: str,
        make: Callable[[], asyncio.Protocol],
        *,
        bounds: Bounds,
        report: Report,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        """``server``: one of ``facts.SERVERS``. ``make``: makes the protocol of a connection. ``tls``: None for plain
        connections."""
        self._server = server
        self._make = make
        self._bounds = bounds
        self._report = report
        self._tls = tls
        self._open: dict[asyncio.Protocol, Connection] = {}
        """By their protocols; oldest first."""

    def accept(self) -> asyncio.Protocol:
        """The protocol factory for ``loop.create_server``, which gets no TLS: a connection is counted below it."""
        return Connection(self, self._make(), self._tls)

    def __len__(self) -> int:
        return len(self._open)

    def of(self, protocol: asyncio.Protocol) -> Connection | None:
        """The connection of this protocol; None if it is lost."""
        return self._open.get(protocol)

    def close(self) -> None:
        """Cuts all connections."""
        for each in [*self._open.values()]:
            each.transport.abort()

    def add(self, connection: Connection) -> None:
        self._open[connection.protocol] = connection
        held = Counter(each.client for each in self._open.values())
        if held[connection.client] > self._bounds.of_a_client:
            self._cut_one_of({connection.client})
        elif len(self._open) > self._bounds.all:
            most = max(held.values())
            self._cut_one_of({client for client, count in held.items() if count == most})

    def remove(self, connection: Connection) -> None:
        self._open.pop(connection.protocol, None)

    def cut(self, connection: Connection, why: CutReason) -> None:
        self.remove(connection)
        # abort() and not close(), which waits until a client that does not read has read the rest.
        connection.transport.abort()
        self._report(ConnectionCut(self._server, why))

    def _cut_one_of(self, clients: set[str]) -> None:
        found = [each for each in self._open.values() if each.client in clients]
        self.cut(next((each for each in found if not each.answers), found[0]), CutReason.CROWDED)


class Connection(asyncio.Protocol):
    """A client's connection. It is the protocol of the accepted socket, below TLS, and passes every event on to the
    protocol above: TLS, if there is any, or HTTP."""

    def __init__(self, connections: Connections, protocol: asyncio.Protocol, tls: ssl.SSLContext | None) -> None:
        self.protocol = protocol
        self.transport: asyncio.Transport
        self.client = ""
        self.answers = False
        """Its whole request has come."""
        self._connections = connections
        self._tls = tls
        self._above: asyncio.Protocol | SSLProtocol = protocol
        self._ended = False
        self._request: asyncio.TimerHandle | None = None
        """The deadline of the request."""
        self._taking: asyncio.TimerHandle | None = None
        """The next look at how much the client has taken, while bytes wait."""

    def answer(self) -> None:
        """The whole request has come: the deadline for it ends."""
        self.answers = True
        _cancel(self._request)

    def end(self) -> None:
        """The whole answer was written: the client has to take what waits, and the connection to close."""
        self._ended = True
        self._await_taking()

    # ── Events of the transport ──────────────────────────────────────────────

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        peer = transport.get_extra_info("peername")
        self.client = client_of(peer[0]) if isinstance(peer, tuple) else ""
        loop = asyncio.get_running_loop()
        self._request = loop.call_later(REQUEST_SECONDS, self._connections.cut, self, CutReason.SLOW)
        if self._tls is not None:
            # As create_server(ssl=…) does, which tells nobody of a connection before its handshake has ended.
            self._above = SSLProtocol(
                loop,
                self.protocol,
                self._tls,
                None,  # type: ignore[arg-type]  # nobody waits for the handshake
                server_side=True,
                ssl_handshake_timeout=_LATER,
                ssl_shutdown_timeout=_LATER,
            )
        self._above.connection_made(transport)
        self._connections.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        _cancel(self._request)
        _cancel(self._taking)
        self._connections.remove(self)
        self._above.connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if isinstance(self._above, asyncio.Protocol):
            self._above.data_received(data)
            return
        while data and not self.transport.is_closing():
            room = self._above.get_buffer(len(data))
            taken = min(len(room), len(data))
            room[:taken] = data[:taken]
            self._above.buffer_updated(taken)
            data = data[taken:]

    def eof_received(self) -> bool | None:
        return self._above.eof_received()

    def pause_writing(self) -> None:
        self._await_taking()
        self._above.pause_writing()

    def resume_writing(self) -> None:
        _cancel(self._taking)
        if self._ended:
            self._await_taking()
        self._above.resume_writing()

    def _await_taking(self) -> None:
        _cancel(self._taking)
        waiting = self.transport.get_write_buffer_size()
        self._taking = asyncio.get_running_loop().call_later(WRITE_SECONDS, self._look_at_taking, waiting)

    def _look_at_taking(self, before: int) -> None:
        if self.transport.get_write_buffer_size() <= before - _LEAST_TAKEN:
            self._await_taking()
        else:
            self._connections.cut(self, CutReason.SLOW)


def _cancel(timer: asyncio.TimerHandle | None) -> None:
    if timer is not None:
        timer.cancel()
