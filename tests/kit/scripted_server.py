"""A real HTTP/1.1 server on loopback that says exactly the bytes a test wants, when it wants, and hears everything.

A handler answers one request:

    async def cut_in_the_middle(exchange: Exchange) -> None:
        await exchange.begin()
        await exchange.send(b'{"type":"ADD')
        exchange.cut()

    async with ScriptedServer() as server:
        server.on("/api/v1/pods", cut_in_the_middle, answering({"kind": "PodList", "items": []}))

The first request to the path gets the first handler, and so on; the last one answers all that follow.
"""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Self
from urllib.parse import parse_qsl, urlsplit

from tests.kit.connections import abort_connections

JSON = "application/json"


@dataclass(frozen=True, slots=True)
class Request:
    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    """Names in small letters; the values of a name that came several times are joined by ``", "``."""
    raw_headers: list[tuple[str, str]]
    body: bytes
    port: int
    """The client's end of the connection it came on."""
    tls: ssl.SSLObject | None
    """Of that connection."""


class Exchange:
    """One request and its answer."""

    def __init__(self, request: Request, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.request = request
        self._reader = reader
        self._writer = writer
        self.closes = request.headers.get("connection") == "close"
        """The connection ends with this answer."""

    async def answer(
        self, body: Any = b"", status: int = 200, content_type: str = JSON, headers: Mapping[str, str] | None = None
    ) -> None:
        """A whole answer. What is not bytes is sent as JSON."""
        content = body if isinstance(body, bytes) else json.dumps(body, separators=(",", ":")).encode()
        lines = {"Content-Type": content_type, "Content-Length": str(len(content)), **(headers or {})}
        await self._head(status, lines)
        await self._write(content)

    async def raw(self, data: bytes) -> None:
        """These bytes, whether they are HTTP or not."""
        await self._write(data)

    async def begin(
        self, status: int = 200, content_type: str = JSON, headers: Mapping[str, str] | None = None
    ) -> None:
        """The head of an answer that goes on in chunks."""
        await self._head(status, {"Content-Type": content_type, "Transfer-Encoding": "chunked", **(headers or {})})

    async def send(self, data: bytes) -> None:
        """One chunk."""
        await self._write(b"%x\r\n%b\r\n" % (len(data), data))

    async def end(self) -> None:
        """The clean end of a chunked answer."""
        await self._write(b"0\r\n\r\n")

    def cut(self) -> None:
        """The connection is gone, without a word."""
        self._writer.transport.abort()

    async def hung_up(self) -> None:
        """Wait until the client closes the connection."""
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            while await self._reader.read(1024):
                pass
        self.closes = True

    async def tunnel(self) -> None:
        """As a proxy: connect to the host and port that CONNECT names, and pass on what comes from either side."""
        host, _, port = self.request.path.rpartition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        await self._write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        self.closes = True
        try:
            await asyncio.gather(_pass_on(self._reader, writer), _pass_on(reader, self._writer))
        finally:
            writer.close()

    async def _head(self, status: int, headers: Mapping[str, str]) -> None:
        ends = {"Connection": "close"} if self.closes else {}
        lines = [f"HTTP/1.1 {status} Status {status}"]
        lines += [f"{name}: {value}" for name, value in {**headers, **ends}.items()]
        await self._write("\r\n".join([*lines, "", ""]).encode())

    async def _write(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(ConnectionError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
        writer.close()


Handler = Callable[[Exchange], Awaitable[None]]


def answering(
    body: Any = b"", status: int = 200, content_type: str = JSON, headers: Mapping[str, str] | None = None
) -> Handler:
    """A handler that gives this answer."""
    return lambda exchange: exchange.answer(body, status, content_type, headers)


def streaming(*chunks: bytes) -> Handler:
    """A handler that sends these chunks and ends cleanly."""

    async def stream(exchange: Exchange) -> None:
        await exchange.begin()
        for chunk in chunks:
            await exchange.send(chunk)
        await exchange.end()

    return stream


@dataclass(slots=True)
class ScriptedServer:
    """Runs inside of ``async with``. Requests that no script expects get a 404 with a Status, as from the real one."""

    tls: ssl.SSLContext | None = None
    requests: list[Request] = field(default_factory=list)
    """All that came, in order."""
    failures: list[BaseException] = field(default_factory=list)
    """Of handlers. Raised at the end."""
    port: int = 0
    """That it listens on. 0: a free one is taken."""
    _handlers: dict[str, list[Handler]] = field(default_factory=dict)
    _server: asyncio.Server | None = None
    _connections: set[asyncio.Task[None]] = field(default_factory=set)

    @property
    def url(self) -> str:
        return f"{'https' if self.tls else 'http'}://127.0.0.1:{self.port}"

    def on(self, path: str, *handlers: Handler) -> None:
        """From here on, requests to the path are answered by these, one after another; the last one stays."""
        self._handlers[path] = list(handlers)

    def asked(self, path: str) -> list[Request]:
        return [each for each in self.requests if each.path == path]

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port, ssl=self.tls)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        for task in self._connections:
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)
        await self._server.wait_closed()
        await abort_connections(self.port)
        if self.failures:
            raise self.failures[0]

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        task.add_done_callback(self._connections.discard)
        try:
            while (request := await _read_request(reader, writer)) is not None:
                self.requests.append(request)
                exchange = Exchange(request, reader, writer)
                await self._handler(request.path)(exchange)
                if exchange.closes:
                    break
        except (ConnectionError, asyncio.CancelledError, ssl.SSLError):
            pass  # The client went away, or the test ended.
        except Exception as failure:
            self.failures.append(failure)
        finally:
            writer.transport.abort()

    def _handler(self, path: str) -> Handler:
        waiting = self._handlers.get(path)
        if not waiting:
            return answering(
                {"kind": "Status", "code": 404, "reason": "NotFound", "message": f"no script for {path}"}, 404
            )
        return waiting.pop(0) if len(waiting) > 1 else waiting[0]


async def _read_request(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> Request | None:
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    except asyncio.IncompleteReadError:
        return None
    first, *lines = head.strip().split("\r\n")
    method, target, _ = first.split(" ")
    raw_headers = [(name, value.strip()) for name, _, value in (line.partition(":") for line in lines)]
    headers: dict[str, str] = {}
    for name, value in raw_headers:
        lowered = name.lower()
        headers[lowered] = f"{headers[lowered]}, {value}" if lowered in headers else value
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    url = urlsplit(target)
    path = target if method == "CONNECT" else url.path
    query = dict(parse_qsl(url.query, keep_blank_values=True))
    port, tls = writer.get_extra_info("peername")[1], writer.get_extra_info("ssl_object")
    return Request(method, path, query, headers, raw_headers, body, port, tls)
