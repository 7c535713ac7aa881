"""Feeds the viewers of the page, and works only while someone looks.

``Viewers`` counts them. From the first to the last it paints a picture each second and taps the records; each viewer
with a choice gets the records that it chose as a sink gets them: selected, and redacted by the sink's rules. Events
wait in the ``Viewer``, within bounds: a newer picture replaces the one before, and records that find no room are
dropped and counted. ``stream`` writes them as server-sent events over one HTTP answer, until the viewer leaves or time
is up.

A bug is reported, and the work begins again: it does not end the bridge.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from time import time

import msgspec
from aiohttp import web

from bridge.app.operators import PageSources
from bridge.app.page.picture import EVERY, BacklogHistory, Painter
from bridge.model.record import Delta, Record, body_bytes
from bridge.processor.shared_processor import Tap
from bridge.telemetry.facts import Report
from bridge.telemetry.facts.process import PageFailed

MOST_VIEWERS = 8
MOST_LINES = 200
"""Records that wait for a viewer. Further ones are dropped, and counted."""
MOST_BYTES = 512 * 1024
"""Bytes of these records."""
TICK = 1.0
"""Seconds between two pictures."""
_AT_ONCE = 1000
"""Records that are looked at before other work on the event loop goes on."""
_WAITING = 4000
_WAITING_BYTES = 16 << 20
"""Bounds on records that wait to be looked at."""
_PATIENCE = 60.0
"""Seconds between two looks without a record."""
_AGAIN = 5.0
"""Seconds after a bug, until the page works again."""


class Viewers:
    """Counts viewers, and feeds them. Runs until cancelled; a bug is reported, and does not end the bridge."""

    def __init__(self, sources: PageSources, report: Report, *, most: int = MOST_VIEWERS) -> None:
        self._sources = sources
        self._report = report
        self._most = most
        self._viewers: set[Viewer] = set()
        self._someone = asyncio.Event()
        self._nobody = asyncio.Event()
        self.history = BacklogHistory()

    def __len__(self) -> int:
        return len(self._viewers)

    @contextmanager
    def looking(self, choice: TailChoice | None) -> Iterator[Viewer]:
        """A viewer, who is fed inside the context. Raises HTTPServiceUnavailable where too many look already."""
        if len(self._viewers) >= self._most:
            text = f"{self._most} viewers look at the page already\n"
            raise web.HTTPServiceUnavailable(text=text, headers={"Retry-After": "10"})
        viewer = Viewer(choice)
        self._viewers.add(viewer)
        self._nobody.clear()
        self._someone.set()
        try:
            yield viewer
        finally:
            self._viewers.discard(viewer)
            if not self._viewers:
                self._someone.clear()
                self._nobody.set()

    def end(self) -> None:
        """Ends every stream."""
        for viewer in self._viewers:
            viewer.end()

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._surviving(self._sample))
            tasks.create_task(self._surviving(self._serve))

    async def _surviving(self, work: Callable[[], Awaitable[None]]) -> None:
        while True:
            try:
                await work()
            except Exception as error:
                self._report(PageFailed(error))
                await asyncio.sleep(_AGAIN)

    async def _sample(self) -> None:
        while True:
            sample = self.history.add(time(), self._sources.status().sinks)
            for viewer in self._viewers:
                viewer.tell("sample", sample)
            await asyncio.sleep(EVERY)

    async def _serve(self) -> None:
        """Waits for a viewer, and works until the last has left."""
        while True:
            await self._someone.wait()
            painter = Painter()
            tap = Tap[Record](most=_WAITING, most_bytes=_WAITING_BYTES, size=body_bytes)
            receivers = self._sources.processor.receivers
            receivers.append(tap)
            try:
                async with asyncio.TaskGroup() as tasks:
                    working = [
                        tasks.create_task(self._paint(painter)),
                        tasks.create_task(self._tail(tap, painter)),
                    ]
                    await self._nobody.wait()
                    for task in working:
                        task.cancel()
            finally:
                receivers.remove(tap)

    async def _paint(self, painter: Painter) -> None:
        now = asyncio.get_running_loop().time
        while True:
            picture = painter.paint(self._sources.status(), now())
            for viewer in self._viewers:
                viewer.show(picture)
            await asyncio.sleep(TICK)

    async def _tail(self, tap: Tap[Record], painter: Painter) -> None:
        while True:
            items, dropped = await tap.take(_AT_ONCE, _PATIENCE)
            painter.committed.update(each.resource.name for each in items if isinstance(each, Delta))
            self._pass_on(items, dropped)
            await asyncio.sleep(0)

    def _pass_on(self, items: Sequence[Record], dropped: int) -> None:
        for viewer in self._viewers:
            choice = viewer.choice
            form = None if choice is None else self._sources.form(choice.sink)
            if choice is None or form is None:
                continue
            for item in items:
                if isinstance(item, Delta) and choice.takes(item) and isinstance(seen := form(item), Delta):
                    viewer.add(seen)
            if dropped:
                viewer.drop(dropped)


class Viewer:
    """Events that wait for a viewer, within bounds. The newest picture replaces the one before."""

    def __init__(self, choice: TailChoice | None) -> None:
        self.choice = choice
        """None for a viewer without a tail."""
        self.news = asyncio.Event()
        self.ended = False
        self._picture = b""
        self._events: deque[bytes] = deque(maxlen=4)
        self._lines: deque[bytes] = deque()
        self._bytes = 0
        self._dropped = 0

    def show(self, picture: bytes) -> None:
        self._picture = event("picture", picture)
        self.news.set()

    def tell(self, kind: str, value: object) -> None:
        self._events.append(event(kind, msgspec.json.encode(value)))
        self.news.set()

    def add(self, delta: Delta) -> None:
        """Adds a line to the tail. Counts it as dropped if the viewer reads too slowly."""
        if len(self._lines) >= MOST_LINES or self._bytes >= MOST_BYTES:
            self._dropped += 1
        else:
            line = line_of(delta)
            self._lines.append(line)
            self._bytes += len(line)
        self.news.set()

    def drop(self, count: int) -> None:
        """Counts records that nobody could read in time."""
        self._dropped += count
        self.news.set()

    def end(self) -> None:
        self.ended = True
        self.news.set()

    def take(self) -> bytes:
        """All waiting events, in the form of server-sent events."""
        found = [*self._events]
        if self._picture:
            found.append(self._picture)
        if self._lines or self._dropped:
            found.append(event("tail", b'{"dropped":%d,"lines":[%b]}' % (self._dropped, b",".join(self._lines))))
        self._events.clear()
        self._lines.clear()
        self._picture = b""
        self._bytes = 0
        self._dropped = 0
        return b"".join(found)


def event(kind: str, data: bytes) -> bytes:
    """A server-sent event. ``data`` is JSON in a single line."""
    return b"event: %b\ndata: %b\n\n" % (kind.encode(), data)


# ── The event stream ─────────────────────────────────────────────────────────

LONGEST = 900.0
"""Seconds of a stream. The page opens another; a browser that nobody watches, and a stolen answer, end."""
_PAUSE = 0.2
"""Seconds between two writes: the events in between go together."""
_HEADERS = {"Content-Type": "text/event-stream; charset=utf-8", "X-Accel-Buffering": "no"}


async def stream(request: web.Request, viewers: Viewers, hello: object) -> web.StreamResponse:
    """Sends ``hello`` and the history, then the viewer's events. The connection closes behind it. Raises HTTPException
    before the first byte."""
    with viewers.looking(choice_of(request)) as viewer:
        response = web.StreamResponse(headers=_HEADERS)
        response.force_close()
        await response.prepare(request)
        viewer.tell("hello", hello)
        viewer.tell("history", viewers.history.series())
        # A viewer that has left, or was cut because it reads nothing, is noticed at the next write, within a second.
        with suppress(ConnectionResetError, TimeoutError):
            async with asyncio.timeout(LONGEST):
                while not viewer.ended:
                    await viewer.news.wait()
                    viewer.news.clear()
                    await response.write(viewer.take())
                    await asyncio.sleep(_PAUSE)
        return response


def choice_of(request: web.Request) -> TailChoice | None:
    """The viewer's choice of records. None without a ``sink``. Raises HTTPBadRequest."""
    if "sink" not in request.query:
        return None
    try:
        return msgspec.convert(dict(request.query), TailChoice)
    except msgspec.ValidationError as error:
        raise web.HTTPBadRequest(text=f"{error}\n") from None


# ── Records ──────────────────────────────────────────────────────────────────

MOST_BODY = 4096
"""Bytes of an object that a line of the tail has."""


class TailChoice(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A viewer's choice of records. Empty texts choose all. Raises no error: an unknown sink has no records."""

    sink: str
    resource: str = ""
    """A part of kubectl's name."""
    namespace: str = ""
    """The whole namespace."""
    name: str = ""
    """A part of the object's name."""

    def takes(self, delta: Delta) -> bool:
        namespace, _, name = delta.key.rpartition("/")
        return (
            (not self.namespace or namespace == self.namespace)
            and self.name in name
            and self.resource in delta.resource.name
        )


class TailLine(msgspec.Struct, frozen=True):
    """A record on the page."""

    sequence: int
    time: str
    op: str
    evidence: str
    resource: str
    namespace: str
    name: str
    version: str
    bytes: int
    """Of the whole object."""
    body: str
    """The first bytes of the object's JSON."""


def line_of(delta: Delta) -> bytes:
    """The record as JSON."""
    namespace, _, name = delta.key.rpartition("/")
    return msgspec.json.encode(
        TailLine(
            sequence=delta.sequence,
            time=delta.time,
            op=delta.op,
            evidence=delta.evidence,
            resource=delta.resource.name,
            namespace=namespace,
            name=name,
            version=delta.resource_version,
            bytes=len(delta.body),
            body=delta.body[:MOST_BODY].decode(errors="replace"),
        )
    )
