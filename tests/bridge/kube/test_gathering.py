"""The window in which the bytes of all watches are gathered, in virtual time; then through HTTP and TLS."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import wraps
from itertools import pairwise
from types import SimpleNamespace
from typing import Any, cast

import aiohttp
import pytest
from aiohttp.base_protocol import BaseProtocol

from bridge.kube import ClusterAccess, KubeClient, connect
from bridge.kube.gathering import CHUNK, MUCH, Gathering, IdleTooLong, NotEnded, WatchBody
from bridge.model.answers import Announced, WatchRequest
from bridge.model.resource import Scope
from tests.bridge.kube.written import INITIAL_EVENTS_END, bookmark, line, pod
from tests.kit.certificates import Authority
from tests.kit.deadlines import BUSY
from tests.kit.records import PODS
from tests.kit.scripted_server import Exchange, ScriptedServer
from tests.kit.virtual_time import run_in_virtual_time, settled

LATENCY = 0.01


class Line:
    """A connection: bytes that arrive while its transport is paused wait, as they do in the kernel."""

    def __init__(self, gathering: Gathering | None = None, *, idle_timeout: float = 90, longest: float = 600) -> None:
        self._loop = asyncio.get_running_loop()
        protocol = BaseProtocol(self._loop)
        protocol.transport = cast("asyncio.Transport", self)
        self._stream = aiohttp.StreamReader(protocol, CHUNK, loop=self._loop)
        self._paused = False
        self._kernel: list[bytes] = []
        self.reads = 0
        """How often the loop has read the socket."""
        response: Any = SimpleNamespace(content=self._stream, connection=SimpleNamespace(transport=self))
        self.body = WatchBody(response, gathering, at_once=False, idle_timeout=idle_timeout, longest=longest)
        self.passed: list[tuple[float, bytes]] = []
        """The time and the bytes of each chunk, since the test began."""
        self._began = self._loop.time()

    def arrive(self, data: bytes) -> None:
        self._kernel.append(data)
        if not self._paused:
            self._read()

    def end(self) -> None:
        self._stream.feed_eof()

    def break_off(self) -> None:
        self._stream.set_exception(aiohttp.ClientPayloadError("broke"))

    async def follow(self) -> None:
        while chunk := await self.body.read():
            self.passed.append((round(self._loop.time() - self._began, 6), chunk))

    # ── The part of a transport that the body uses ──

    def pause_reading(self) -> None:
        self._paused = True

    def resume_reading(self) -> None:
        if self._paused:
            self._paused = False
            self._loop.call_soon(self._read)

    def _read(self) -> None:
        if self._kernel:
            self.reads += 1
            data, self._kernel = b"".join(self._kernel), []
            self._stream.feed_data(data)


@dataclass
class Lines:
    """Any number of lines that share a window, each with a task that reads."""

    gathering: Gathering | None = field(default_factory=lambda: Gathering(LATENCY))
    lines: list[Line] = field(default_factory=list)
    tasks: list[asyncio.Task[None]] = field(default_factory=list)

    def open(self, **options: float) -> Line:
        line = Line(self.gathering, **options)
        self.lines.append(line)
        self.tasks.append(asyncio.get_running_loop().create_task(line.follow()))
        return line

    async def open_within_a_window(self) -> Line:
        """A line without bytes, after another line has begun a window."""
        line, other = self.open(), self.open()
        await asyncio.sleep(0)
        other.arrive(b"x")
        await settled()
        return line


def with_lines(test: Callable[[Lines], Awaitable[None]]) -> Callable[[], None]:
    """Runs the test in virtual time; afterwards, all tasks are ended."""

    @wraps(test)
    def run() -> None:
        async def main() -> None:
            lines = Lines()
            try:
                await test(lines)
            finally:
                for task in lines.tasks:
                    task.cancel()
                await asyncio.gather(*lines.tasks, return_exceptions=True)
                for line in lines.lines:
                    line.body.close()

        run_in_virtual_time(main())

    del run.__wrapped__  # pytest would take the argument for a fixture.
    return run


@with_lines
async def test_one_window_serves_all_watches(lines: Lines) -> None:
    one, two, three = lines.open(), lines.open(), lines.open()
    await asyncio.sleep(0)
    for each, data in ((one, b"1"), (two, b"2"), (three, b"3"), (one, b"4")):
        each.arrive(data)
        await asyncio.sleep(0.002)
    await asyncio.sleep(1)
    assert one.passed == [(0.0, b"1"), (0.01, b"4")]
    assert two.passed == [(0.01, b"2")]
    assert three.passed == [(0.01, b"3")]


@with_lines
async def test_a_steady_stream_is_read_once_in_a_window(lines: Lines) -> None:
    line = lines.open()
    for number in range(500):
        line.arrive(b"%d\n" % number)
        await asyncio.sleep(0.002)
    await asyncio.sleep(1)
    assert b"".join(data for _, data in line.passed) == b"".join(b"%d\n" % number for number in range(500))
    assert len(line.passed) <= 53
    assert line.reads <= 56, "paused within the window: what arrives then wakes up no task"
    assert all(later - sooner < 2 * LATENCY * 1.001 for (sooner, _), (later, _) in pairwise(line.passed[1:]))


@with_lines
async def test_a_change_after_a_pause_goes_at_once_and_others_at_the_end_of_a_window(lines: Lines) -> None:
    """A window behind one that had bytes is twice as long."""
    line, clock = lines.open(), asyncio.get_running_loop().time
    await asyncio.sleep(0)
    began = clock()
    for moment in (0, 5, 15, 25, 100, 105):
        await asyncio.sleep(began + moment / 1000 - clock())
        line.arrive(b"%d " % moment)
    await asyncio.sleep(1)
    assert line.passed == [(0.0, b"0 "), (0.01, b"5 "), (0.03, b"15 25 "), (0.1, b"100 "), (0.11, b"105 ")]


@with_lines
async def test_many_bytes_do_not_wait(lines: Lines) -> None:
    line = lines.open()
    await asyncio.sleep(0)
    for _ in range(100):
        line.arrive(b"x" * MUCH)
        await asyncio.sleep(0)
    await settled()
    assert sum(len(data) for _, data in line.passed) == 100 * MUCH
    assert {time for time, _ in line.passed} == {0.0}


@with_lines
async def test_without_a_window_no_change_waits(lines: Lines) -> None:
    lines.gathering = None
    line = lines.open()
    for _ in range(5):
        await asyncio.sleep(0.001)
        line.arrive(b"1")
    await settled()
    assert [time for time, _ in line.passed] == [0.001, 0.002, 0.003, 0.004, 0.005]


@with_lines
async def test_a_stream_that_ends_within_the_window_loses_no_bytes(lines: Lines) -> None:
    line = await lines.open_within_a_window()
    line.arrive(b"last")
    await settled()
    line.end()
    await lines.tasks[0]
    assert line.passed == [(0.01, b"last")]


@with_lines
async def test_the_last_bytes_of_a_stream_do_not_wait(lines: Lines) -> None:
    line = await lines.open_within_a_window()
    line.arrive(b"last")
    line.end()
    await lines.tasks[0]
    assert line.passed == [(0.0, b"last")]


@with_lines
async def test_a_stream_that_breaks_within_the_window_loses_no_bytes(lines: Lines) -> None:
    line = await lines.open_within_a_window()
    line.arrive(b"last")
    await settled()
    line.break_off()
    with pytest.raises(aiohttp.ClientPayloadError):
        await lines.tasks[0]
    assert line.passed == [(0.01, b"last")]


@with_lines
async def test_a_watch_that_stops_within_the_window_does_not_wait(lines: Lines) -> None:
    line, other = lines.open(), lines.open()
    await asyncio.sleep(0)
    for each in (other, line, other):
        each.arrive(b"1")
        await settled()
    lines.tasks[0].cancel()
    with pytest.raises(asyncio.CancelledError):
        await lines.tasks[0]
    assert (asyncio.get_running_loop().time(), line.passed) == (1000.0, [])
    await asyncio.sleep(1)
    assert other.passed == [(0.0, b"1"), (0.01, b"1")]


@with_lines
async def test_a_window_is_no_idle_time(lines: Lines) -> None:
    lines.gathering = Gathering(1.0)
    line = lines.open(idle_timeout=0.8)
    for _ in range(20):
        line.arrive(b"1")
        await asyncio.sleep(0.4)
    assert not lines.tasks[0].done()
    with pytest.raises(IdleTooLong):
        await lines.tasks[0]


@with_lines
async def test_a_watch_beyond_its_time_ends_at_the_next_wait(lines: Lines) -> None:
    line = lines.open(longest=5)
    for _ in range(10):
        line.arrive(b"1")
        await asyncio.sleep(0.4)
    with pytest.raises(NotEnded):
        await lines.tasks[0]
    assert asyncio.get_running_loop().time() == 1005.0


# ── Through HTTP and TLS ─────────────────────────────────────────────────────


def change(name: str) -> bytes:
    return line("MODIFIED", pod(name))


@pytest.fixture
def paused(monkeypatch: pytest.MonkeyPatch) -> list[asyncio.ReadTransport]:
    """The transports that waited for the end of a window."""
    found: list[asyncio.ReadTransport] = []
    wait = Gathering.wait

    async def watched(self: Gathering, transport: asyncio.ReadTransport | None) -> None:
        assert transport is not None
        found.append(transport)
        await wait(self, transport)

    monkeypatch.setattr(Gathering, "wait", watched)
    return found


async def names_of(client: KubeClient, request: WatchRequest) -> list[list[str]]:
    """The names in each answer with changes."""
    async with asyncio.timeout(10 * BUSY), client.lister_watcher(PODS, Scope()).watch(request) as answers:
        return [[thing.name for _, thing in each.events] async for each in answers if isinstance(each, Announced)]


async def test_a_watch_within_the_window_reads_no_bytes(
    server: ScriptedServer, tls_server: ScriptedServer, paused: list[asyncio.ReadTransport], authority: Authority
) -> None:
    async def stream(exchange: Exchange) -> None:
        await exchange.begin()
        await exchange.send(change("first"))
        while not paused:
            await exchange.send(change("second"))
            await asyncio.sleep(0.01)
        assert not paused[0].is_reading()
        assert type(paused[0]).__name__ == "_SelectorSocketTransport", "the socket's own, below the one of TLS"
        await exchange.send(change("third"))
        await asyncio.sleep(0.02)
        await exchange.send(change("fourth"))
        await exchange.end()

    for each in (server, tls_server):
        paused.clear()
        each.on("/api/v1/pods", stream)
        access = ClusterAccess(server=each.url, ca_file=authority.certificate if each.tls else None)
        async with connect(access, environ={}, latency=0.5) as client:
            *_, last = await names_of(client, WatchRequest(version="7", timeout=300))
        assert last[-3:] == ["second", "third", "fourth"]


async def test_the_first_objects_of_a_watch_list_do_not_wait(
    server: ScriptedServer, paused: list[asyncio.ReadTransport]
) -> None:
    async def stream(exchange: Exchange) -> None:
        await exchange.begin()
        for name in ("first", "second", "third"):
            await exchange.send(line("ADDED", pod(name)))
            await asyncio.sleep(0.02)
        assert not paused
        for data in (bookmark("8", **INITIAL_EVENTS_END), change("fourth"), change("fifth")):
            await exchange.send(data)
            await asyncio.sleep(0.02)
        assert paused
        await exchange.end()

    server.on("/api/v1/pods", stream)
    async with connect(ClusterAccess(server=server.url), environ={}, latency=0.5) as client:
        received = await names_of(client, WatchRequest(version="", timeout=300, initial_events=True))
    assert [name for names in received for name in names] == ["first", "second", "third", "fourth", "fifth"]
