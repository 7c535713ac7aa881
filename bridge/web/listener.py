"""The HTTP server that all servers of the bridge stand on: what a client may send, how long it may take, how many
connections it may hold, and what it is answered if it does otherwise. Each server adds its routes and its own judgement
of a request."""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections.abc import Awaitable, Callable, Mapping

import msgspec
from aiohttp import web

from bridge.facts import AnswerFailed, Report
from bridge.web.connections import Bounds, Connection, Connections
from bridge.web.startable import Startable

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
Judge = Callable[[web.Request], None]
Answer = Callable[[web.Request, Handler], Awaitable[web.StreamResponse]]

_CONTINUE = "100-continue"
_SILENT = logging.getLogger("kubedelta.http")
_SILENT.disabled = True
"""aiohttp logs a traceback for each malformed request: whoever can connect would write the bridge's log."""


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """What a client may send, and how many connections are open at once."""

    connections: Bounds
    line: int = 4096
    """Bytes of a request line, and of a header."""
    headers: int = 32
    body: int = 4096
    """Bytes."""


class Listener(Startable):
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

    async def start(self, bound: socket.socket | None = None) -> None:
        """``bound``: listen on this socket in place of the address. Raises OSError if that is not possible."""
        await self._runner.setup()
        http = self._runner.server
        if http is None:
            raise RuntimeError("the runner made no server")
        self._routed, http.request_handler = http.request_handler, self._exchange
        self._connections = Connections(
            self._server, http, bounds=self._limits.connections, report=self._report, tls=self._tls
        )
        listen = asyncio.get_running_loop().create_server
        accept = self._connections.accept
        try:
            if bound is not None:
                self._listening = await listen(accept, sock=bound)
            else:
                self._listening = await listen(accept, self._host or None, self._port)
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
