"""An outbox in a directory, and the files that a crash would leave."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import apsw
import pytest

from bridge.delivery.sink_feed import Feeds
from bridge.model.policies import StartPolicy
from bridge.model.primitives.ring import Fetch
from bridge.model.record import Delta, Record
from bridge.outbox import Cipher, Outbox, Retention
from bridge.outbox.appender import utc_now
from bridge.outbox.log.cleaner import CleanerPolicy
from bridge.outbox.outbox import Committed
from bridge.outbox.storage.directory_lock import FILE
from bridge.outbox.writer import Writer
from bridge.telemetry.facts import Fact
from tests.kit.deadlines import BUSY
from tests.kit.informed import Informed
from tests.kit.pipelines import opened_feeds

AUDIT = {"audit": StartPolicy.SNAPSHOT}
EAGER = CleanerPolicy(min_bytes=0, min_ratio=0.0)
"""The log cleaner runs with each tick."""


def look_for_room_often(patch: pytest.MonkeyPatch) -> None:
    """The writer tries again at once on a full disk."""
    defaults = Writer.__init__.__kwdefaults__
    assert defaults is not None
    patch.setitem(defaults, "retry", 0.01)


@asynccontextmanager
async def opened(
    directory: Path,
    sinks: Mapping[str, StartPolicy | None] = AUDIT,
    *,
    retention: Retention | None = None,
    facts: list[Fact] | None = None,
    time: str | None = None,
    cleaner_policy: CleanerPolicy = EAGER,
    committed: Committed | None = None,
    selecting: Collection[str] = (),
    cipher: Cipher | None = None,
) -> AsyncIterator[Outbox]:
    """``time``: a constant time of the clock. ``committed``: a commit hook in place of the feeds. ``selecting``: sinks
    with a selection."""
    reported: list[Fact] = [] if facts is None else facts
    clock = utc_now if time is None else lambda: time
    options: dict[str, Any] = {
        "selecting": selecting,
        "retention": retention,
        "clock": clock,
        "cleaner_policy": cleaner_policy,
        "cipher": cipher,
    }
    if committed is not None:
        async with await Outbox.open(
            directory, sinks, report=reported.append, committed=committed, **options
        ) as outbox:
            yield outbox
        return
    feeds = await opened_feeds(directory, sinks, report=reported.append, **options)
    _feeds[feeds.outbox] = feeds
    async with feeds.outbox as outbox:
        yield outbox


_feeds: WeakKeyDictionary[Outbox, Feeds] = WeakKeyDictionary()


def feeds_of(outbox: Outbox) -> Feeds:
    """Of an outbox that ``opened`` has opened without a hook."""
    return _feeds[outbox]


def crashed(directory: Path, copy: Path) -> Path:
    """The files that a process killed now would leave on disk."""
    copy.mkdir()
    for suffix in ("", "-wal"):
        if (part := directory / (FILE + suffix)).exists():
            shutil.copy(part, copy)
    return copy


def alter(directory: Path, statement: str) -> None:
    """Runs a statement on the database of a stopped outbox."""
    connection = apsw.Connection(str(directory / FILE))
    connection.execute(statement)
    connection.close()


def rows_of(directory: Path, query: str) -> list[tuple[object, ...]]:
    connection = apsw.Connection(str(directory / FILE), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        return [tuple(row) for row in connection.execute(query)]
    finally:
        connection.close()


async def everything(outbox: Outbox) -> Sequence[Record]:
    """The log, as far back as it goes."""
    found: list[Record] = []
    while records := (await outbox.read(found[-1].sequence if found else 0, 100_000)).items:
        found += records
    return found


def story(records: Sequence[Record]) -> list[str]:
    """``op key`` of each delta, and the lower-case class name of each notice."""
    return [
        f"{record.op} {record.key}" if isinstance(record, Delta) else type(record).__name__.lower()
        for record in records
    ]


class Taker:
    """A sink's feed, read to its end."""

    def __init__(self, outbox: Outbox, sink: str = "audit") -> None:
        feeds = feeds_of(outbox)
        feeds.processor.remove(sink)
        self.sinks = outbox.sinks
        self.feed = feeds.feed(sink)
        self.held: list[Fetch[Record]] = []

    async def take(self, limit: int = 100) -> Sequence[Record]:
        """Takes a range, without settling it."""
        async with asyncio.timeout(10 * BUSY):
            self.held.append(await self.feed.take(limit))
        return self.held[-1].items

    def settle(self) -> None:
        for fetch in self.held:
            self.feed.settle(fetch)
        self.held.clear()

    async def rest(self, limit: int = 100) -> list[Record]:
        """Takes and settles all waiting records."""
        found: list[Record] = []
        while not self.feed.exhausted:
            found += await self.take(limit)
            self.settle()
        return found

    async def delivered(self, limit: int = 100) -> list[str]:
        return story(await self.rest(limit))


class Bench(Taker):
    """One informer that appends, and a sink whose records are taken by hand."""

    def __init__(self, outbox: Outbox, informer: Informed) -> None:
        super().__init__(outbox)
        self.outbox = outbox
        self.informer = informer

    async def exports(self, *steps: str) -> None:
        await self.informer.exports(self.outbox, *steps)


@asynccontextmanager
async def bench(
    directory: Path, sinks: Mapping[str, StartPolicy | None] = AUDIT, **options: Any
) -> AsyncIterator[Bench]:
    async with opened(directory, sinks, **options) as outbox:
        yield Bench(outbox, await Informed().begin(outbox))
