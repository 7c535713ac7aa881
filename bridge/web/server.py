"""Answers /metrics, /healthz and /readyz, and nothing else.

There is no login, so there is nothing to change here and nothing secret to read. Bound to this machine alone, it also
refuses foreign Host headers: a web page could otherwise read it through a name that its owner points at 127.0.0.1
(DNS rebinding). Bound to more, any Host is answered, because a kubelet and a Prometheus ask by the pod's address.
"""

from __future__ import annotations

import asyncio
import ipaddress
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Generic, Self, TypeVar

from aiohttp import web
from yarl import URL

from bridge.web import readiness
from bridge.web.sources import Metrics, Standing, Status

S = TypeVar("S", bound=Standing)
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

_LARGEST_LINE = 4096
"""Bytes of a request line or of one header."""
_HEADERS = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}


class WebServer(Generic[S]):
    """Serves between ``start`` and ``stop``, or inside ``async with``."""

    def __init__(self, host: str, port: int, *, status: Status[S], metrics: Metrics[S]) -> None:
        """``port`` 0 takes a free one; ``host`` "" is every interface."""
        self._host = host
        self._port = port
        self._status = status
        self._metrics = metrics
        app = web.Application(middlewares=[self._guard], client_max_size=_LARGEST_LINE)
        app.router.add_get("/metrics", self._answer_metrics)
        app.router.add_get("/healthz", self._answer_healthz)
        app.router.add_get("/readyz", self._answer_readyz)
        self._runner = web.AppRunner(
            app,
            access_log=None,
            keepalive_timeout=75.0,
            lingering_time=0,
            shutdown_timeout=2.0,
            max_line_size=_LARGEST_LINE,
            max_field_size=_LARGEST_LINE,
        )

    @property
    def port(self) -> int:
        """The port that is listened on; of several addresses, the first one's."""
        return int(self._runner.addresses[0][1])

    async def start(self) -> None:
        """Raises OSError where the address cannot be listened on."""
        await self._runner.setup()
        try:
            await web.TCPSite(self._runner, self._host or None, self._port).start()
        except BaseException:
            await self._runner.cleanup()
            raise

    async def stop(self) -> None:
        await self._runner.cleanup()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.stop()

    # ── Answers ──────────────────────────────────────────────────────────────

    async def _answer_metrics(self, request: web.Request) -> web.Response:
        """Put into text in a thread: a thousand series take ten milliseconds, in which the loop goes on."""
        snapshot = self._status.snapshot()
        accept = request.headers.get("Accept", "")
        body, content_type = await asyncio.to_thread(self._metrics.render, snapshot, accept)
        return web.Response(body=body, headers={"Content-Type": content_type})

    async def _answer_healthz(self, _request: web.Request) -> web.Response:
        """That this is answered says that the loop goes round."""
        return _said("ok") if self._status.alive() else _said("stuck: only a new process can help", status=503)

    async def _answer_readyz(self, request: web.Request) -> web.Response:
        standing = self._status.snapshot()
        verbose = "verbose" in request.query
        text = readiness.report(standing) if verbose else "ok" if standing.ready else "not ready: see /readyz?verbose"
        return _said(text, status=200 if standing.ready else 503)

    @web.middleware
    async def _guard(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        if _is_loopback(self._host) and not _is_loopback(_host_of(request)):
            return _said("this server answers to localhost alone", status=421)
        try:
            response = await handler(request)
        except web.HTTPException as refusal:
            refusal.headers.update(_HEADERS)
            raise
        response.headers.update(_HEADERS)
        return response


def _said(text: str, *, status: int = 200) -> web.Response:
    return web.Response(text=text if text.endswith("\n") else text + "\n", status=status, headers=_HEADERS)


def _host_of(request: web.Request) -> str:
    try:
        return URL(f"http://{request.host}").host or ""
    except ValueError:
        return ""


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
