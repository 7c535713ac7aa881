"""A real HTTP server that receives what a webhook sink posts, and answers as a test wants it."""

from __future__ import annotations

import asyncio
import gzip
import ssl
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Self

import msgspec
from aiohttp import web

from tests.cluster.servers.ports import reserve_port
from tests.kit.connections import abort_connections


class _Keyed(msgspec.Struct):
    partitionkey: str = ""


@dataclass(frozen=True, slots=True)
class Posted:
    """One request."""

    method: str
    headers: dict[str, str]
    """Names in lower case."""
    body: bytes
    target: str = "/hook"
    """Path and query, as they were sent."""

    @property
    def content(self) -> bytes:
        """The body without its Content-Encoding."""
        return gzip.decompress(self.body) if self.headers.get("content-encoding") == "gzip" else self.body

    @property
    def events(self) -> list[dict[str, Any]]:
        """The CloudEvents in it, or the JSON objects: one, those of a batch, or a line each."""
        return self._read(Any)

    @property
    def keys(self) -> set[str]:
        """The partition keys of its CloudEvents. What is none of these is without a key."""
        try:
            return {each.partitionkey for each in self._read(_Keyed)}
        except msgspec.DecodeError:
            return set()

    def _read(self, kind: Any) -> list[Any]:
        content_type, content = self.headers.get("content-type", ""), self.content
        if content_type.startswith("text/"):
            return []
        if "json" in content_type and "ndjson" not in content_type and "stream" not in content_type:
            if content.lstrip().startswith(b"["):
                return msgspec.json.decode(content, type=list[kind])
            return [msgspec.json.decode(content, type=kind)]
        return [msgspec.json.decode(line, type=kind) for line in content.splitlines()]


@dataclass(frozen=True, slots=True)
class Answer:
    status: int = 204
    headers: dict[str, str] = field(default_factory=dict)
    wait: asyncio.Event | None = None
    """Answer only when it is set."""
    body: bytes = b""
    hang_up: bool = False
    """Close the connection in place of an answer."""


ACCEPTED = Answer()


class WebhookReceiver:
    """Keeps every request that it answers with 2xx, in the order in which they came. Starts again on the same port."""

    def __init__(self, tls: ssl.SSLContext | None = None, *, path: str = "/hook", any_path: bool = False) -> None:
        """``any_path``: takes requests to all paths, and not only those to ``url``."""
        self._path = path
        self._any_path = any_path
        self.answer: Callable[[Posted], Answer] = lambda posted: ACCEPTED
        self.permission: Callable[[Posted], Answer] = lambda posted: Answer(405)
        """The answer to a request that is no POST."""
        self.asked: list[Posted] = []
        """Every request."""
        self.accepted: list[Posted] = []
        """Those that were answered with 2xx, and those that were hung up on."""
        self.most_at_once = 0
        self.most_at_once_of_one_key = 0
        self._under_way: Counter[str] = Counter()
        self._waits: set[asyncio.Event] = set()
        self._tls = tls
        self._port = reserve_port()
        self._runner: web.AppRunner | None = None

    @property
    def url(self) -> str:
        return f"http{'s' if self._tls else ''}://127.0.0.1:{self._port}{self._path}"

    @property
    def events(self) -> list[dict[str, Any]]:
        return [event for posted in self.accepted for event in posted.events]

    async def start(self) -> Self:
        app = web.Application(client_max_size=64 * 1024 * 1024)
        app.router.add_route("*", "/{path:.*}" if self._any_path else self._path, self._receive)
        self._runner = web.AppRunner(app, shutdown_timeout=0, auto_decompress=False)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", self._port, ssl_context=self._tls, reuse_address=True)
        await site.start()
        return self

    async def stop(self) -> None:
        """Nobody listens then. Requests under way get no answer."""
        runner, self._runner = self._runner, None
        for wait in self._waits:
            wait.set()
        if runner is not None:
            await runner.cleanup()
            await abort_connections(self._port)

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def _receive(self, request: web.Request) -> web.StreamResponse:
        headers = {name.lower(): value for name, value in request.headers.items()}
        posted = Posted(request.method, headers, await request.read(), request.raw_path)
        self.asked.append(posted)
        if posted.method != "POST":
            answer = self.permission(posted)
            return web.Response(status=answer.status, headers=answer.headers, body=answer.body)
        keys = posted.keys
        self._under_way.update(keys)
        self.most_at_once = max(self.most_at_once, len(+self._under_way))
        self.most_at_once_of_one_key = max(self.most_at_once_of_one_key, *self._under_way.values(), 0)
        try:
            return await self._respond(request, posted)
        finally:
            self._under_way.subtract(keys)

    async def _respond(self, request: web.Request, posted: Posted) -> web.StreamResponse:
        answer = self.answer(posted)
        if answer.wait is not None:
            self._waits.add(answer.wait)
            await answer.wait.wait()
        if answer.hang_up:
            self.accepted.append(posted)
        if (answer.hang_up or self._runner is None) and request.transport is not None:
            request.transport.abort()
        elif 200 <= answer.status < 300:
            self.accepted.append(posted)
        return web.Response(status=answer.status, headers=answer.headers, body=answer.body)
