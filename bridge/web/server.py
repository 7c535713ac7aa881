"""The HTTP server for machines: /metrics, /healthz and /readyz.

Requests need no login, change no state, and read no secrets. Details of readiness are for clients on this machine and
for holders of the token (access). On a loopback address, the server refuses foreign Host headers, with which a web page
could read it through a name that points at 127.0.0.1 (DNS rebinding). On other addresses, it accepts every Host, since
a kubelet and a Prometheus use the pod's address.

A connection is for one request. Number and duration of connections are bounded (connections), so that probes are
answered while a client holds thousands of connections.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Protocol

from aiohttp import web

from bridge.facts import TELEMETRY_SERVER, Report, discard
from bridge.model.primitives.addresses import is_loopback
from bridge.model.status import StatusSnapshot, StatusSource
from bridge.web import readiness
from bridge.web.access import TokenFile, host_of, is_local
from bridge.web.listener import LARGEST_LINE, HttpListener
from bridge.web.startable import Startable

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

_MOST_CONNECTIONS = 128
_DETAILS_ELSEWHERE = (
    "details are for requests from the bridge's own machine, or with the token of telemetry.details_token_file"
)
_HEADERS = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}


class MetricsSource(Protocol):
    """The registry of metrics."""

    def render(self, snapshot: StatusSnapshot, accept: str, /) -> tuple[bytes, str]:
        """The exposition, and its content type."""
        ...


class WebServer(Startable):
    """Serves between ``start`` and ``stop``, or inside ``async with``."""

    def __init__(
        self,
        host: str,
        port: int,
        *,
        status: StatusSource,
        metrics: MetricsSource,
        token: TokenFile | None = None,
        report: Report = discard,
    ) -> None:
        """``port`` 0 takes a free port; ``host`` "" is every interface. ``token`` gives access to the details of
        /readyz."""
        self._host = host
        self._status = status
        self._metrics = metrics
        self._token = token
        self._rendering = asyncio.Lock()
        app = web.Application(middlewares=[self._guard], client_max_size=LARGEST_LINE)
        app.router.add_get("/metrics", self._answer_metrics)
        app.router.add_get("/healthz", self._answer_healthz)
        app.router.add_get("/readyz", self._answer_readyz)
        self._listener = HttpListener(app, host, port, server=TELEMETRY_SERVER, most=_MOST_CONNECTIONS, report=report)

    @property
    def port(self) -> int:
        """The port of the first listening socket."""
        return self._listener.port

    async def start(self) -> None:
        """Raises OSError if the server cannot listen on the address."""
        await self._listener.start()

    async def stop(self) -> None:
        await self._listener.stop()

    # ── Answers ──────────────────────────────────────────────────────────────

    async def _answer_metrics(self, request: web.Request) -> web.Response:
        """Renders in a thread, since a thousand series take ten milliseconds, during which the event loop goes on. A
        single thread at a time, since more threads would starve the event loop."""
        accept = request.headers.get("Accept", "")
        async with self._rendering:
            snapshot = self._status.snapshot()
            body, content_type = await asyncio.to_thread(self._metrics.render, snapshot, accept)
        return web.Response(body=body, headers={"Content-Type": content_type})

    async def _answer_healthz(self, _request: web.Request) -> web.Response:
        """An answer proves that the event loop runs."""
        return _said("ok") if self._status.alive() else _said("stuck: only a new process can help", status=503)

    async def _answer_readyz(self, request: web.Request) -> web.Response:
        snapshot = self._status.snapshot()
        text = "ok" if snapshot.ready else "not ready: see /readyz?verbose"
        if "verbose" in request.query:
            text = readiness.report(snapshot) if self._may_see_details(request) else f"{text}\n{_DETAILS_ELSEWHERE}"
        return _said(text, status=200 if snapshot.ready else 503)

    def _may_see_details(self, request: web.Request) -> bool:
        given = request.headers.get("Authorization", "")
        return is_local(request) or (self._token is not None and self._token.opens(given))

    @web.middleware
    async def _guard(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        if is_loopback(self._host) and not is_loopback(host_of(request)):
            return _said("this server answers to localhost alone", status=421)
        try:
            response = await handler(request)
        except web.HTTPException as refusal:
            refusal.headers.update(_HEADERS)
            refusal.force_close()
            raise
        response.headers.update(_HEADERS)
        response.force_close()
        return response


def _said(text: str, *, status: int = 200) -> web.Response:
    response = web.Response(text=text if text.endswith("\n") else text + "\n", status=status, headers=_HEADERS)
    response.force_close()
    return response
