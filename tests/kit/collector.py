"""A collector of traces on loopback, which decodes what it gets."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

from aiohttp import web
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.kit.connections import abort_connections
from tests.kit.deadlines import BUSY


class CollectedSpan(NamedTuple):
    name: str
    trace: bytes
    id: bytes
    parent: bytes
    begin: int
    end: int
    attributes: Mapping[str, Any]
    failed: bool


class Collector:
    def __init__(self) -> None:
        self.spans: list[CollectedSpan] = []
        self.resources: list[Mapping[str, Any]] = []
        self.headers: list[Mapping[str, str]] = []
        self.bodies: list[bytes] = []
        self.status = 200
        self.location = ""
        self.url = ""
        self._news = asyncio.Event()

    async def until(self, *names: str, timeout: float = 30.0 * BUSY) -> None:
        """Returns when spans of all these names were collected."""
        async with asyncio.timeout(timeout):
            while not {span.name for span in self.spans} >= set(names):
                self._news.clear()
                await self._news.wait()

    async def until_asked(self, times: int = 1, timeout: float = 30.0 * BUSY) -> None:
        async with asyncio.timeout(timeout):
            while len(self.headers) < times:
                self._news.clear()
                await self._news.wait()

    def named(self, name: str) -> list[CollectedSpan]:
        return [span for span in self.spans if span.name == name]

    async def take(self, request: web.Request) -> web.Response:
        self.headers.append(request.headers.copy())
        body = await request.read()  # aiohttp inflates it.
        if self.status == 200:
            self.bodies.append(body)
            found = ExportTraceServiceRequest.FromString(body if body[:2] != b"\x1f\x8b" else gzip.decompress(body))
            for each in found.resource_spans:
                self.resources.append(_attributes(each.resource.attributes))
                for scope in each.scope_spans:
                    self.spans += map(_span, scope.spans)
        self._news.set()
        return web.Response(status=self.status, headers={"Location": self.location} if self.location else None)


@asynccontextmanager
async def collecting(**site: Any) -> AsyncIterator[Collector]:
    """``site``: further options of aiohttp's site, such as ``ssl_context``."""
    collector = Collector()
    app = web.Application()
    app.router.add_post("/v1/traces", collector.take)
    app.router.add_route("*", "/elsewhere", collector.take)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    port = None
    try:
        await web.TCPSite(runner, "127.0.0.1", 0, **site).start()
        port = runner.addresses[0][1]
        collector.url = f"{'https' if site else 'http'}://127.0.0.1:{port}/v1/traces"
        yield collector
    finally:
        await runner.cleanup()
        if port is not None:
            await abort_connections(port)


def _span(span: Any) -> CollectedSpan:
    return CollectedSpan(
        span.name,
        span.trace_id,
        span.span_id,
        span.parent_span_id,
        span.start_time_unix_nano,
        span.end_time_unix_nano,
        _attributes(span.attributes),
        span.status.code == 2,
    )


def _attributes(found: Any) -> dict[str, Any]:
    return {each.key: getattr(each.value, each.value.WhichOneof("value")) for each in found}
