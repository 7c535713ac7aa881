"""An HTTP server on an address, with bounds on requests and on the clients' connections."""

from __future__ import annotations

import asyncio
import ssl

from aiohttp import web

from bridge.facts import Report
from bridge.web.connections import Connections

LARGEST_LINE = 4096
"""Bytes of a request line or of one header, by default."""
_MOST_HEADERS = 32
_REQUEST_SECONDS = 10.0
"""From the first packet of a connection to the end of its answer."""


class HttpListener:
    """Serves an application between ``start`` and ``stop``. A connection is for one request: handlers close it.
    At most ``most`` connections at once, each for at most ten seconds unless its handler calls ``Connections.keep``."""

    def __init__(
        self,
        app: web.Application,
        host: str,
        port: int,
        *,
        server: str,
        most: int,
        report: Report,
        largest_line: int = LARGEST_LINE,
        most_headers: int = _MOST_HEADERS,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        """``port`` 0 takes a free port; ``host`` "" is every interface. ``server``: one of ``facts.SERVERS``.
        ``tls``: None for plain HTTP."""
        self._host = host
        self._port = port
        self._tls = tls
        self._listening: asyncio.Server | None = None
        self._connections = Connections(server, most=most, seconds=_REQUEST_SECONDS, report=report)
        self._runner = web.AppRunner(
            app,
            access_log=None,
            # A connection is for one request. aiohttp would read on behind it for ten seconds (lingering).
            keepalive_timeout=0,
            lingering_time=0,
            shutdown_timeout=2.0,
            max_line_size=largest_line,
            max_field_size=largest_line,
            max_headers=most_headers,
        )

    @property
    def port(self) -> int:
        """The port of the first listening socket."""
        if self._listening is None:
            raise RuntimeError("port before start()")
        return int(self._listening.sockets[0].getsockname()[1])

    async def start(self) -> None:
        """Raises OSError if the server cannot listen on the address."""
        await self._runner.setup()
        server = self._runner.server
        if server is None:
            raise RuntimeError("the runner made no server")
        try:
            self._listening = await asyncio.get_running_loop().create_server(
                self._connections.bounded(server),
                self._host or None,
                self._port,
                ssl=self._tls,
                ssl_handshake_timeout=None if self._tls is None else _REQUEST_SECONDS,
            )
        except BaseException:
            await self._runner.cleanup()
            raise

    async def stop(self) -> None:
        """Running answers have two seconds to end."""
        if self._listening is not None:
            self._listening.close()
        await self._runner.cleanup()
