"""What a client may take of a server: connections, time, and no line of the log. With real sockets."""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from bridge.http import listener as connections
from bridge.http.listener import Bounds, Connection, Connections, Limits, Listener
from bridge.telemetry.facts import Fact, Report, discard
from bridge.telemetry.facts.process import AnswerFailed, ConnectionCut, CutReason
from sinks.secret_files import tls_context
from tests.kit.certificates import Authority
from tests.kit.deadlines import BUSY, until
from tests.kit.virtual_time import run_in_virtual_time

SERVER = "page.listen"
LARGE = 12 << 20
"""Bytes: more than the kernel keeps of an answer to a client with a small receive buffer."""
HOUR = 3600.0
HALF = b"GET /small HT"
CROWDED = ConnectionCut(SERVER, CutReason.CROWDED)
SLOW = ConnectionCut(SERVER, CutReason.SLOW)


def request(path: str, method: str = "GET") -> bytes:
    return f"{method} {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()


class Client:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def asks(self, what: bytes) -> bytes:
        """The whole answer; empty if the connection is cut."""
        self.writer.write(what)
        async with asyncio.timeout(20 * BUSY):
            try:
                return await self.reader.read()
            except ConnectionError:
                return b""

    async def is_cut(self) -> None:
        """Returns when it is, whatever came before."""
        self.writer.transport.resume_reading()  # type: ignore[attr-defined]
        async with asyncio.timeout(20 * BUSY):
            try:
                while await self.reader.read(1 << 20):
                    pass
            except ConnectionError:
                pass


class Served:
    """A running listener, and clients at several addresses."""

    def __init__(self, listener: Listener, facts: list[Fact], tls: ssl.SSLContext | None) -> None:
        self.listener = listener
        self.facts = facts
        self.waits = asyncio.Event()
        """Lets ``/waits`` end."""
        self._tls = tls
        self._clients: list[Client] = []

    @property
    def cuts(self) -> list[Fact]:
        return [fact for fact in self.facts if isinstance(fact, ConnectionCut)]

    async def connect(self, source: str = "127.0.0.1", *, tls: bool = False) -> Client:
        """``tls``: with a handshake; else nothing was sent yet."""
        made = socket.socket()
        made.setblocking(False)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)
        made.bind((source, 0))
        await asyncio.get_running_loop().sock_connect(made, ("127.0.0.1", self.listener.port))
        options: dict[str, Any] = {"ssl": self._tls, "server_hostname": "127.0.0.1"} if tls else {}
        reader, writer = await asyncio.open_connection(sock=made, **options)
        client = Client(reader, writer)
        self._clients.append(client)
        return client

    async def waiting(self, source: str = "127.0.0.1") -> Client:
        """A client whose request has come whole, and whose answer has begun."""
        client = await self.connect(source)
        client.writer.write(request("/waits"))
        async with asyncio.timeout(20 * BUSY):
            await client.reader.readuntil(b"began")
        return client

    async def unread(self, source: str = "127.0.0.1") -> Client:
        """A client that reads the beginning of a large answer, and no more."""
        client = await self.connect(source)
        client.writer.write(request("/large"))
        async with asyncio.timeout(20 * BUSY):
            await client.reader.readuntil(b"\r\n\r\n")
        client.writer.transport.pause_reading()  # type: ignore[attr-defined]
        return client

    def leave(self) -> None:
        for client in self._clients:
            client.writer.transport.abort()


@asynccontextmanager
async def serving(
    *,
    most: int = 64,
    of_a_client: int = 64,
    tls: tuple[ssl.SSLContext, ssl.SSLContext] | None = None,
    judge: Callable[[web.Request], None] | None = None,
) -> AsyncIterator[Served]:
    """``tls``: the contexts of the server and of its clients."""
    facts: list[Fact] = []
    limits = Limits(connections=Bounds(most, of_a_client))
    server, client = tls or (None, None)
    listener = Listener(SERVER, "127.0.0.1", 0, limits=limits, report=facts.append, judge=judge, tls=server)
    served = Served(listener, facts, client)

    async def waits(asked: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(asked)
        await response.write(b"began")
        await served.waits.wait()
        return response

    async def streams(asked: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(asked)
        while True:
            await response.write(bytes(1 << 20))

    async def echoes(asked: web.Request) -> web.Response:
        return web.Response(body=await asked.read())

    async def fails(_asked: web.Request) -> web.Response:
        raise RuntimeError("a bug with a secret")

    answers: dict[str, Callable[[web.Request], Awaitable[web.StreamResponse]]] = {
        "/waits": waits,
        "/streams": streams,
        "/echoes": echoes,
        "/fails": fails,
    }
    for path, size in (("/small", 5), ("/large", LARGE)):
        answers[path] = _of(bytes(size))
    for path, handler in answers.items():
        listener.router.add_route("*", path, handler)
    async with asyncio.timeout(120 * BUSY), listener:
        try:
            yield served
        finally:
            served.waits.set()
            served.leave()


def _of(body: bytes) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
    async def answer(_asked: web.Request) -> web.StreamResponse:
        return web.Response(body=body)

    return answer


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    authority = Authority.make(tmp_path_factory.mktemp("authority"))
    return authority.issue("server").server_context(), tls_context(authority.certificate, None, None)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "REQUEST_SECONDS", 0.2)


# ── How many ─────────────────────────────────────────────────────────────────


async def test_beyond_the_bound_the_oldest_silent_connection_is_cut() -> None:
    async with serving(most=3) as served:
        answered = await served.waiting()
        first, second, third = [await served.connect() for _ in range(3)]
        await first.is_cut()
        assert b"200 OK" in await second.asks(request("/small"))
        assert b"200 OK" in await third.asks(request("/small"))
        served.waits.set()
        assert await answered.asks(b"") != b""
        assert served.cuts == [CROWDED]


async def test_the_client_with_the_most_connections_loses_one() -> None:
    async with serving(most=4) as served:
        prometheus = await served.connect("127.0.0.2")
        greedy = [await served.connect() for _ in range(5)]
        await greedy[0].is_cut()
        await greedy[1].is_cut()
        assert b"200 OK" in await prometheus.asks(request("/small"))


async def test_a_client_beyond_its_share_loses_connections_of_its_own() -> None:
    async with serving(most=64, of_a_client=2) as served:
        others = [await served.waiting(f"127.0.0.{number}") for number in range(2, 7)]
        mine = [await served.waiting() for _ in range(2)]
        assert await (await served.connect()).asks(request("/small")) == b"", "its own answers go on"
        served.waits.set()
        for each in (*others, *mine):
            assert await each.asks(b"") != b""
        assert served.cuts == [CROWDED]


async def test_a_newcomer_is_served_while_another_client_reads_nothing() -> None:
    async with serving(most=4) as served:
        silent = [await served.unread() for _ in range(4)]
        for _ in range(3):
            assert b"200 OK" in await (await served.connect("127.0.0.2")).asks(request("/small"))
        await silent[0].is_cut()
        assert served.cuts == [CROWDED], "each newcomer leaves before the next"


async def test_a_connection_that_closes_makes_room() -> None:
    async with serving(most=2) as served:
        stays = await served.waiting()
        for _ in range(5):
            assert b"200 OK" in await (await served.connect()).asks(request("/small"))
        served.waits.set()
        assert await stays.asks(b"") != b""
        assert served.cuts == []


async def test_silent_tls_connections_count_before_their_handshake(
    tls: tuple[ssl.SSLContext, ssl.SSLContext],
) -> None:
    async with serving(most=16, of_a_client=8, tls=tls) as served:
        strangers = [await served.connect() for _ in range(200)]
        asked = await served.connect("127.0.0.2", tls=True)
        assert b"200 OK" in await asked.asks(request("/small"))
        for each in strangers[:192]:
            await each.is_cut()
        assert served.cuts == [CROWDED] * 192


async def test_a_stopped_server_leaves_no_connection(tls: tuple[ssl.SSLContext, ssl.SSLContext]) -> None:
    async with serving(tls=tls) as served:
        in_handshake = await served.connect()
        assert b"200 OK" in await (await served.connect(tls=True)).asks(request("/small"))
    await in_handshake.is_cut()


# ── How long ─────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("beginning", [b"", HALF, b"POST /echoes HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nhalf"])
async def test_a_request_has_a_deadline_from_the_acceptance(impatient: None, beginning: bytes) -> None:
    async with serving() as served:
        client = await served.connect()
        client.writer.write(beginning)
        await client.is_cut()
        assert served.cuts == [SLOW]


async def test_a_request_has_a_deadline_however_much_is_sent(impatient: None) -> None:
    async with serving() as served:
        client = await served.connect()
        client.writer.write(b"GET /small HTTP/1.1\r\nX: ")

        async def trickle() -> None:
            while True:
                client.writer.write(b"b")
                await asyncio.sleep(0.01)

        async with asyncio.TaskGroup() as tasks:
            trickling = tasks.create_task(trickle())
            await client.is_cut()
            trickling.cancel()
        assert served.cuts == [SLOW]


@pytest.mark.parametrize("beginning", [b"", bytes.fromhex("16030100c8")], ids=["silent", "half a hello"])
async def test_a_handshake_has_a_deadline(
    impatient: None, tls: tuple[ssl.SSLContext, ssl.SSLContext], beginning: bytes
) -> None:
    async with serving(tls=tls) as served:
        client = await served.connect()
        client.writer.write(beginning)
        await client.is_cut()
        assert served.cuts == [SLOW]


@pytest.mark.parametrize("path", ["/large", "/streams"])
@pytest.mark.parametrize("encrypted", [False, True], ids=["plain", "tls"])
async def test_an_answer_that_nobody_reads_has_a_deadline(
    monkeypatch: pytest.MonkeyPatch, tls: tuple[ssl.SSLContext, ssl.SSLContext], path: str, encrypted: bool
) -> None:
    monkeypatch.setattr(connections, "WRITE_SECONDS", 0.2)
    async with serving(tls=tls if encrypted else None) as served:
        client = await served.connect(tls=encrypted)
        client.writer.write(request(path))
        client.writer.transport.pause_reading()  # type: ignore[attr-defined]
        await until(lambda: served.cuts)
        assert served.cuts == [SLOW]


@pytest.mark.parametrize("encrypted", [False, True], ids=["plain", "tls"])
async def test_a_large_answer_arrives_whole(tls: tuple[ssl.SSLContext, ssl.SSLContext], encrypted: bool) -> None:
    async with serving(tls=tls if encrypted else None) as served:
        answer = await (await served.connect(tls=encrypted)).asks(request("/large"))
        assert len(answer.partition(b"\r\n\r\n")[2]) == LARGE
        assert served.facts == []


class Line(asyncio.Transport):
    """A transport whose client takes so many bytes a second of those that wait."""

    def __init__(self, waiting: int, rate: float) -> None:
        super().__init__({"peername": ("127.0.0.1", 1)})
        self._waiting = waiting
        self._rate = rate
        self.aborted = False

    def begin(self) -> None:
        self._began = asyncio.get_running_loop().time()

    def get_write_buffer_size(self) -> int:
        taken = (asyncio.get_running_loop().time() - self._began) * self._rate
        return max(0, self._waiting - int(taken))

    def abort(self) -> None:
        self.aborted = True


def accepted(line: Line, report: Report = discard) -> Connection:
    """A connection whose whole request has come."""
    connection = Connections(SERVER, asyncio.Protocol, bounds=Bounds(9, 9), report=report).accept()
    connection.connection_made(line)
    connection.answer()
    return connection


@pytest.mark.parametrize(("rate", "is_cut"), [(4_000, False), (3_000, True), (0, True)])
def test_a_client_takes_64_kib_in_20_seconds(rate: float, is_cut: bool) -> None:
    async def read(seconds: float) -> bool:
        facts: list[Fact] = []
        line = Line(1 << 20, rate)
        connection = accepted(line, facts.append)
        await asyncio.sleep(HOUR)  # Making an answer may take any time.
        line.begin()
        connection.pause_writing()
        await asyncio.sleep(seconds)
        assert bool(facts) is line.aborted
        connection.connection_lost(None)
        return line.aborted

    assert run_in_virtual_time(read((1 << 20) / 4_000)) is is_cut


def test_a_connection_that_is_kept_has_10_seconds_for_the_next_request() -> None:
    async def wait(seconds: float) -> bool:
        line = Line(0, 0)
        connection = accepted(line)
        await asyncio.sleep(HOUR)
        connection.await_request()
        await asyncio.sleep(seconds)
        connection.connection_lost(None)
        return line.aborted

    assert [run_in_virtual_time(wait(seconds)) for seconds in (9.9, 10.1)] == [False, True]


# ── What is answered ─────────────────────────────────────────────────────────


async def test_a_connection_is_for_one_request() -> None:
    async with serving() as served:
        answer = await (await served.connect()).asks(request("/small") * 3)
        assert answer.count(b"200 OK") == 1


async def test_a_body_is_bounded_and_comes_before_the_handler() -> None:
    async with serving() as served:
        small = b"POST /echoes HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\n"
        assert b"\r\n\r\nabcd" in await (await served.connect()).asks(small + b"abcd")
        large = b"POST /fails HTTP/1.1\r\nHost: a\r\nContent-Length: 5000\r\n\r\n" + bytes(5000)
        assert b" 413 " in await (await served.connect()).asks(large)
        chunked = b"POST /fails HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nnonsense\r\n"
        assert b" 400 " in await (await served.connect()).asks(chunked)
        assert served.facts == []


async def test_a_request_is_judged_before_its_body_is_read() -> None:
    def judge(_asked: web.Request) -> None:
        raise web.HTTPUnauthorized(text="no\n", headers={"WWW-Authenticate": "Bearer"})

    async with serving(judge=judge) as served:
        begun = b"POST /echoes HTTP/1.1\r\nHost: a\r\nContent-Length: 4000\r\n\r\n"
        answer = await (await served.connect()).asks(begun)
        assert b" 401 " in answer
        assert b"WWW-Authenticate: Bearer" in answer


async def test_a_bug_is_a_fact_and_the_client_sees_none_of_it(caplog: pytest.LogCaptureFixture) -> None:
    async with serving() as served:
        answer = await (await served.connect()).asks(request("/fails"))
        assert b" 500 " in answer
        assert b"secret" not in answer
        [fact] = served.facts
        assert isinstance(fact, AnswerFailed)
        assert fact.server == SERVER
    assert caplog.records == []


@pytest.mark.parametrize(
    "sent",
    [
        b"\x16\x03\x01\x00\xc8\x01\x00\x00",
        b"GET http://[ HTTP/1.1\r\nHost: a\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nno colon\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\n" + b"".join(b"X-%d: 1\r\n" % number for number in range(100)) + b"\r\n",
    ],
    ids=["tls", "url", "header", "version", "line", "headers"],
)
async def test_a_malformed_request_gets_400_and_leaves_no_line(sent: bytes, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    async with serving() as served:
        assert b" 400 " in (await (await served.connect()).asks(sent)).splitlines()[0]
        assert served.facts == []
    assert caplog.records == []


async def test_a_clear_text_request_to_a_tls_port_leaves_no_line(
    tls: tuple[ssl.SSLContext, ssl.SSLContext], caplog: pytest.LogCaptureFixture
) -> None:
    async with serving(tls=tls) as served:
        await (await served.connect()).asks(request("/small"))
        assert served.facts == []
    assert caplog.records == []


async def test_the_socket_may_be_given(tmp_path: Path) -> None:
    listener = Listener(SERVER, limits=Limits(connections=Bounds(2, 2)), report=lambda _: None)
    listener.router.add_get("/small", _of(b"small"))
    bound = socket.socket(socket.AF_UNIX)
    bound.bind(str(tmp_path / "a.sock"))
    await listener.listen(sock=bound)
    try:
        reader, writer = await asyncio.open_unix_connection(str(tmp_path / "a.sock"))
        assert b"200 OK" in await Client(reader, writer).asks(request("/small"))
        writer.transport.abort()
    finally:
        await listener.stop()
