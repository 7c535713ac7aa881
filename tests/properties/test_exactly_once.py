"""A destination that stores progress with the records has every record once, whatever happens between."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from bridge.delivery.backfills import begin_snapshot
from bridge.delivery.sink_feed import TransactionFeed
from bridge.model.admin import UnknownTarget
from bridge.model.primitives.ring import Fetch
from bridge.model.progress import Progress
from bridge.model.record import Delta, Record
from bridge.outbox import Outbox
from bridge.telemetry.facts import Fact
from bridge.telemetry.facts.delivery import ProgressRead
from tests.bridge.outbox.opened import crashed, feeds_of, opened
from tests.kit.examples import examples
from tests.kit.informed import Informed
from tests.kit.pipelines import replay

KEYS = ("shop/a", "shop/b", "shop/c")
STEPS = ("export", "export", "take", "store", "store", "settle", "save", "crash", "replay", "snapshot", "compact")


@dataclass
class Destination:
    """Stores records and progress together."""

    records: list[Record] = field(default_factory=list)
    committed: Progress | None = None

    def store(self, records: Sequence[Record], progress: Progress) -> None:
        self.records += records
        self.committed = progress


@dataclass
class Story:
    """A bridge with one sink, step by step; a crash leaves its files and nothing else."""

    outbox: Outbox
    destination: Destination
    facts: list[Fact]
    informer: Informed
    feed: TransactionFeed
    taken: list[Fetch[Record]] = field(default_factory=list)
    stored: int = 0
    """Of these, the first so many."""
    expected: dict[int, str] = field(default_factory=dict)

    @classmethod
    async def begin(cls, outbox: Outbox, destination: Destination, facts: list[Fact]) -> Story:
        feed = feeds_of(outbox).feed("audit", TransactionFeed)
        assert isinstance(feed, TransactionFeed)
        await feed.begin()
        if (read := await feed.recover(destination.committed)) is not None:
            facts.append(read)
        return cls(outbox, destination, facts, await Informed().begin(outbox), feed)

    async def step(self, name: str, number: int) -> None:
        match name:
            case "export":
                key = KEYS[number % len(KEYS)]
                op = "updated" if key in self.informer.known else "added"
                if number % 5 == 0 and op == "updated":
                    op = "deleted"
                await self.informer.exports(self.outbox, f"{op} {key}")
            case "take" if len(self.taken) < 3 and not self.feed.exhausted:
                self.taken.append(await self.feed.take(1 + number % 4))
            case "store" if self.stored < len(self.taken):
                await self.settle()  # The worker hands a fetch over when all before it are settled.
                fetch = self.taken[0]
                if fetch.items:
                    self.feed.hand_over(fetch)
                    self.destination.store(fetch.items, self.feed.progress())
                self.stored = 1
            case "settle":
                await self.settle()
            case "save":
                await self.outbox.maintain()
            case "replay" | "snapshot" | "compact":
                await self.plan(name)

    async def settle(self) -> None:
        for _ in range(self.stored):
            self.feed.settle(self.taken.pop(0))
        self.stored = 0

    async def plan(self, name: str) -> None:
        try:
            if name == "replay":
                await replay(self.outbox, self.feed, 0)
            elif name == "snapshot":
                await begin_snapshot(self.outbox, "audit", self.feed, cluster="test", report=self.facts.append)
            else:
                await self.feed.compact()
        except UnknownTarget:
            return  # Another backfill is under way.

    async def finish(self) -> None:
        while True:
            await self.step("store", 0)
            await self.settle()
            if not self.taken and self.feed.exhausted:
                return
            if not self.taken:
                self.taken.append(await self.feed.take(3))


def identity(record: Record) -> tuple[int, str, int]:
    return (record.sequence, record.id, getattr(record, "replay", 0))


async def tell(steps: Sequence[tuple[str, int]], folder: Path) -> None:
    destination, facts, copies = Destination(), list[Fact](), count()
    directory, compacts = folder / "first", any(name == "compact" for name, _ in steps)
    directory.mkdir()
    exported: set[int] = set()
    left = list(steps)
    while True:
        async with opened(directory, facts=facts) as outbox:
            story = await Story.begin(outbox, destination, facts)
            crash = False
            while left and not crash:
                name, number = left.pop(0)
                crash = name == "crash"
                if not crash:
                    await story.step(name, number)
            exported |= set(range(outbox.first, outbox.last + 1))
            if crash:
                directory = crashed(directory, folder / f"copy-{next(copies)}")
                continue
            await story.finish()
            break

    seen = list(map(identity, destination.records))
    assert len(seen) == len(set(seen)), "stored twice"
    once = [each.sequence for each in destination.records if isinstance(each, Delta) and not each.replay]
    assert once == sorted(once), "order"
    if not compacts:
        assert set(once) >= exported, "each record of the log"
    assert not [fact for fact in facts if isinstance(fact, ProgressRead) and fact.unknown]


@given(st.lists(st.tuples(st.sampled_from(STEPS), st.integers(0, 20)), min_size=5, max_size=40))
@examples(40, deadline=None)
def test_every_record_is_stored_once_through_crashes(steps: list[tuple[str, int]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(tell(steps, Path(folder)))
