"""The HTTP server for machines: /metrics, /healthz and /readyz.

Requests need no login, change no state, and read no secrets. Details of readiness are for holders of the token, or, if
none is configured, for clients on this machine (access). On a loopback address, the server refuses foreign Host headers
(DNS rebinding). On other addresses, it accepts every Host, since a kubelet and a Prometheus use the pod's address.

Probes are answered while a client holds thousands of connections (listener), also those of another server: each has
bounds of its own.
"""

from __future__ import annotations

import asyncio
from typing import Protocol

from aiohttp import web

from bridge.http import readiness
from bridge.http.access import TokenFile, expect_local_name, is_local
from bridge.http.listener import Bounds, Limits, Listener, Startable
from bridge.model.status import BridgeStatus, StatusSource
from bridge.telemetry.facts import Report, discard
from bridge.telemetry.facts.process import TELEMETRY_SERVER

_LIMITS = Limits(connections=Bounds(all=128, of_a_client=64))
_DETAILS_ELSEWHERE = (
    "details need the token of telemetry.details_token_file, or, without that option, a request from the bridge's own"
    " machine"
)
_HEADERS = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}


class MetricsSource(Protocol):
    """The registry of metrics."""

    def render(self, status: BridgeStatus, accept: str, /) -> tuple[bytes, str]:
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
        """``port`` 0 takes a free port; ``host`` "" is every interface. ``token`` opens the details of
        /readyz; without one, they are for this machine."""
        self._host = host
        self._bridge = status
        self._metrics = metrics
        self._token = token
        self._rendering = asyncio.Lock()
        self._listener = Listener(
            TELEMETRY_SERVER, host, port, limits=_LIMITS, report=report, judge=self._judge, headers=_HEADERS
        )
        self._listener.router.add_get("/metrics", self._answer_metrics)
        self._listener.router.add_get("/healthz", self._answer_healthz)
        self._listener.router.add_get("/readyz", self._answer_readyz)

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
            status = self._bridge.status()
            body, content_type = await asyncio.to_thread(self._metrics.render, status, accept)
        return web.Response(body=body, headers={"Content-Type": content_type})

    async def _answer_healthz(self, _request: web.Request) -> web.Response:
        """An answer proves that the event loop runs."""
        return _said("ok") if self._bridge.alive() else _said("stuck: only a new process can help", status=503)

    async def _answer_readyz(self, request: web.Request) -> web.Response:
        status = self._bridge.status()
        text = "ok" if status.ready else "not ready: see /readyz?verbose"
        if "verbose" in request.query:
            text = readiness.report(status) if self._may_see_details(request) else f"{text}\n{_DETAILS_ELSEWHERE}"
        return _said(text, status=200 if status.ready else 503)

    def _may_see_details(self, request: web.Request) -> bool:
        if self._token is None:
            return is_local(request)
        return self._token.opens(request.headers.get("Authorization", ""))

    def _judge(self, request: web.Request) -> None:
        expect_local_name(request, self._host)


def _said(text: str, *, status: int = 200) -> web.Response:
    return web.Response(text=text if text.endswith("\n") else text + "\n", status=status)
