"""The HTTP server that all servers of the bridge stand on: what a client may send, how long it may take, how many
connections it may hold, and what it is answered if it does otherwise. Each server adds its routes and its own judgement
of a request.

``Connections`` accept a socket, count it for its client, and pass its bytes on to TLS and aiohttp. ``Listener`` judges
the request, reads its body, and sends the answer of the handler whole; what a handler raises is answered 500. A client
that is too slow, or that holds too many connections, is cut.

When the bound is reached, an older connection goes. To refuse the newest would keep probes out for as long as an
attacker likes; a proxy in front needs a container of its own.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from asyncio.sslproto import SSLProtocol
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from types import TracebackType
from typing import Any, Self, cast

import msgspec
from aiohttp import web

from bridge.model.primitives.network import client_of
from bridge.telemetry.facts import Report
from bridge.telemetry.facts.process import AnswerFailed, ConnectionCut, CutReason

# ── Requests ─────────────────────────────────────────────────────────────────

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
Judge = Callable[[web.Request], None]
Answer = Callable[[web.Request, Handler], Awaitable[web.StreamResponse]]
_CONTINUE = "100-continue"
_SILENT = logging.getLogger("kubedelta.http")
_SILENT.disabled = True
"""aiohttp logs a traceback for each malformed request: whoever can connect would write the bridge's log."""


class Bounds(msgspec.Struct, frozen=True):
    """The connections that a server holds at once."""

    all: int
    of_a_client: int


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """What a client may send, and how many connections are open at once."""

    connections: Bounds
    line: int = 4096
    """Bytes of a request line, and of a header."""
    headers: int = 32
    body: int = 4096
    """Bytes."""


class Listener:
    """Answers requests between ``start`` and ``stop``, or inside ``async with``.

    A connection is for one request, within the bounds of ``Connections``, which count it from its acceptance and cut it
    if its request or the reading of its answer takes too long. Methods other than GET and HEAD get their answer when
    their whole body has come; the body of a GET is not read. A malformed request is answered 400. What a handler raises
    is answered 500 and reported as ``AnswerFailed``; no client can write a traceback into the log.
    """

    def __init__(
        self,
        server: str,
        host: str = "",
        port: int = 0,
        *,
        limits: Limits,
        report: Report,
        judge: Judge | None = None,
        answer: Answer | None = None,
        headers: Mapping[str, str] | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        """``server``: one of ``facts.SERVERS``. ``port`` 0 takes a free port; ``host`` "" is every interface. ``judge``
        raises HTTPException for a request that gets no answer, before its body is read. ``answer`` calls the handler of
        a whole request. ``headers``: of every answer that does not have them. ``tls``: None for plain HTTP."""
        self._server = server
        self._host = host
        self._port = port
        self._limits = limits
        self._report = report
        self._judge = judge
        self._answer = answer
        self._headers = headers or {}
        self._tls = tls
        self._app = web.Application(middlewares=[self._judged], client_max_size=limits.body)
        self._app.on_response_prepare.append(self._add_headers)
        self.router = self._app.router
        """For the routes, before ``start``."""
        self._runner = web.AppRunner(
            self._app,
            access_log=None,
            logger=_SILENT,
            # A connection is for one request. aiohttp would read on behind it for ten seconds (lingering).
            keepalive_timeout=0,
            lingering_time=0,
            shutdown_timeout=2.0,
            # An answer's size would be the choice of a client that sends a compressed body.
            auto_decompress=False,
            max_line_size=limits.line,
            max_field_size=limits.line,
            max_headers=limits.headers,
        )
        self._routed: Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]
        self._connections: Connections | None = None
        self._listening: asyncio.Server | None = None

    @property
    def port(self) -> int:
        """The port of the first listening socket."""
        if self._listening is None:
            raise RuntimeError("port before start()")
        return int(self._listening.sockets[0].getsockname()[1])

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.stop()

    async def start(self) -> None:
        """Raises OSError if the server cannot listen on the address."""
        await self.listen(host=self._host or None, port=self._port)

    async def listen(self, **where: Any) -> None:
        """``where``: as ``create_server`` of the event loop takes it. Raises OSError."""
        await self._runner.setup()
        http = self._runner.server
        if http is None:
            raise RuntimeError("the runner made no server")
        self._routed, http.request_handler = http.request_handler, self._exchange
        self._connections = Connections(
            self._server, http, bounds=self._limits.connections, report=self._report, tls=self._tls
        )
        loop = asyncio.get_running_loop()
        try:
            self._listening = await loop.create_server(self._connections.accept, **where)
        except BaseException:
            await self._runner.cleanup()
            raise

    async def stop(self) -> None:
        """Running answers have two seconds to end."""
        if self._listening is not None:
            self._listening.close()
        await self._runner.cleanup()
        if self._connections is not None:
            self._connections.close()

    # ── Around every answer ──────────────────────────────────────────────────

    async def _exchange(self, request: web.BaseRequest) -> web.StreamResponse:
        """Sends the answer whole, so that the connection knows when it has to end."""
        try:
            if request.headers.get("Expect", _CONTINUE).lower() != _CONTINUE:
                raise web.HTTPExpectationFailed(text="Expect: 100-continue, or nothing\n")
            response = await self._routed(request)
        except web.HTTPException as refusal:
            response = web.Response(status=refusal.status, text=refusal.text, headers=_own_headers(refusal))
        except ConnectionError:
            raise
        except Exception as error:
            self._report(AnswerFailed(self._server, error))
            response = web.Response(status=500, text="an error of the bridge: its log has it\n")
        response.force_close()
        await response.prepare(request)
        await response.write_eof()
        self._connection_of(request).end()
        return response

    @web.middleware
    async def _judged(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        if self._judge is not None:
            self._judge(request)
        if request.method not in ("GET", "HEAD"):
            await _read_body(request)
        self._connection_of(request).answer()
        return await (handler(request) if self._answer is None else self._answer(request, handler))

    def _connection_of(self, request: web.BaseRequest) -> Connection:
        """Raises ConnectionResetError if the client has left."""
        found = None if self._connections is None else self._connections.of(request.protocol)
        if found is None:
            raise ConnectionResetError("the client has left")
        return found

    async def _add_headers(self, _request: web.Request, response: web.StreamResponse) -> None:
        for name, value in self._headers.items():
            response.headers.setdefault(name, value)


async def _read_body(request: web.Request) -> None:
    """Reads the body, which the request then keeps. Raises HTTPBadRequest and HTTPRequestEntityTooLarge, and
    ConnectionError if the client leaves."""
    try:
        await request.read()
    except (web.HTTPException, ConnectionError):
        raise
    except Exception as error:
        raise web.HTTPBadRequest(text="the body cannot be read\n") from error


def _own_headers(refusal: web.HTTPException) -> dict[str, str]:
    """Headers that its reason needs: Allow, Retry-After, WWW-Authenticate."""
    return {name: value for name, value in refusal.headers.items() if not name.startswith("Content-")}


# ── Connections ──────────────────────────────────────────────────────────────

REQUEST_SECONDS = 10.0
"""From the acceptance of a connection to the end of its request, the TLS handshake included."""
WRITE_SECONDS = 20.0
"""In which a client takes ``_LEAST_TAKEN`` of the bytes that wait for it, or all of them."""
_LEAST_TAKEN = 64 * 1024
"""Bytes."""
_LATER = 3600
"""Seconds. Deadlines of asyncio's TLS, so late that those here decide: one of them cuts whoever reads slowly."""


class Connections:
    """The open connections of a server, each with the protocol that speaks HTTP on it.

    **Number.** A new connection is always accepted, and counted at once, before a TLS handshake. Beyond a bound another
    one is cut: beyond ``of_a_client``, one of the same client; beyond ``all``, one of the client that has the most. Of
    these, connections without a whole request go first, the oldest before the others. So whoever holds many connections
    loses them to the newcomer of another address, and a probe, which sends its request at once, is answered. A client
    is an IPv4 address, or the /64 network of an IPv6 address.

    **Duration.** A connection has ten seconds for its handshake and its whole request, and, where it is kept, for each
    further one. Making the answer may take any time. While bytes of it wait, the client takes 64 KiB of them in every
    twenty seconds, or the rest; this holds for parts of a stream, and for the last bytes before the close. A client
    that does not is cut.
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

    def accept(self) -> Connection:
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

    def await_request(self) -> None:
        """The first, or another behind a whole answer that was written: its deadline begins."""
        self.answers = False
        loop = asyncio.get_running_loop()
        self._request = loop.call_later(REQUEST_SECONDS, self._connections.cut, self, CutReason.SLOW)

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
        self.transport = cast("asyncio.Transport", transport)
        peer = transport.get_extra_info("peername")
        self.client = client_of(peer[0]) if isinstance(peer, tuple) else ""
        self.await_request()
        if self._tls is not None:
            # As create_server(ssl=…) does, which tells nobody of a connection before its handshake has ended.
            self._above = SSLProtocol(
                asyncio.get_running_loop(),
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
