"""A worker whose deliveries are transactions, in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import cast

from msgspec.structs import replace

from bridge.delivery import TransactionWorker
from bridge.delivery.sink_feed import TransactionFeed
from bridge.model.primitives.ring import Fetch, Missed
from bridge.model.progress import Progress
from bridge.model.record import Record, RetriedDeadLetter
from bridge.model.status import PauseCause, SinkState
from bridge.telemetry.facts.delivery import ProgressRead, SinkFenced
from sinks.base import Receipt, RetryLater, SinkContext
from tests.bridge.delivery.fakes import FakeFeed, ScriptedSink, named, pods
from tests.bridge.delivery.world import World, now, virtual
from tests.kit.records import a_gap

HOUR = 3600.0


class FakeTransactionFeed(FakeFeed):
    """Notes what is handed over."""

    def __init__(self, sink: ScriptedSink, records: Sequence[Record] = ()) -> None:
        super().__init__(records)
        self.sink = sink
        self.handed: list[list[str] | list[int]] = []
        self.events: list[str] = []

    @property
    def taken(self) -> int:
        return self.records[self._taken - 1].sequence if self._taken else 0

    async def begin(self) -> None:
        self.events.append("begin")

    async def recover(self, committed: Progress | None) -> ProgressRead | None:
        self.events.append("recover")
        return None if committed is None else ProgressRead("audit", committed.out)

    def hand_over(self, fetch: Fetch[Record]) -> None:
        self.handed.append(named(fetch.items))

    def hand_over_letters(self, letters: Sequence[RetriedDeadLetter]) -> None:
        self.handed.append([each.number for each in letters])


class Transactions(World):
    """With a transaction every 0.1 s."""

    def __init__(self, sink: ScriptedSink, records: Sequence[Record] = (), max_batch: int = 100) -> None:
        super().__init__(sink, records, max_batch=max_batch)
        self.source = FakeTransactionFeed(sink, records)
        self.pending = self.dead_letters.pending = self.source
        self._settings = replace(self._settings, pending=self.source.as_feed)

    def _make(self) -> TransactionWorker:
        source = getattr(self, "source", None) or FakeTransactionFeed(ScriptedSink())
        return TransactionWorker(self._settings, cast("TransactionFeed", source), 0.1)


@virtual
async def test_changes_share_a_transaction_and_one_alone_does_not_wait() -> None:
    world = Transactions(ScriptedSink(), pods("a"))
    began = now()
    async with world.running() as worker:
        await worker.wait_idle()
        assert now() - began < 0.01, "the first is delivered at once"
        world.pending.happened(*pods("bc", first=2))
        await asyncio.sleep(0.05)
        world.pending.happened(*pods("d", first=4))
        await worker.wait_idle()
        assert 0.1 <= now() - began < 0.11
    assert world.source.events == ["begin", "recover"]
    assert world.source.handed == [["a1"], ["b2", "c3", "d4"]]


class CommittingSink(ScriptedSink):
    """Its destination has progress."""

    async def open(self, context: SinkContext) -> Progress | None:
        await super().open(context)
        return Progress(out=7)


@virtual
async def test_the_progress_that_open_found_is_recovered_and_reported() -> None:
    world = Transactions(CommittingSink(), pods("a"))
    await world.run_until_idle()
    assert world.reported(ProgressRead) == [ProgressRead("audit", 7)]


@virtual
async def test_a_full_transaction_is_followed_by_the_next_at_once() -> None:
    world = Transactions(ScriptedSink(), pods("abcdef"), max_batch=2)
    began = now()
    async with world.running() as worker:
        await worker.wait_idle()
        assert now() - began < 0.05
    assert world.source.handed == [["a1", "b2"], ["c3", "d4"], ["e5", "f6"]]


@virtual
async def test_notices_are_in_the_transaction_of_their_neighbours() -> None:
    world = Transactions(ScriptedSink(), [*pods("a"), a_gap(2, 3), *pods("b", first=4)])
    world.pending.missed = Missed(1, 1)
    await world.run_until_idle()
    assert len(world.sink.times) == 1
    assert [record.id for record in world.sink.stored][:1] == ["gap/1/1"]
    assert len(world.sink.stored) == 4


@virtual
async def test_a_fenced_sink_pauses_and_says_so_until_it_is_resumed() -> None:
    fenced = Receipt((0,), RetryLater("another process owns the topics", fenced=True))
    world = Transactions(ScriptedSink(fenced), pods("a"))
    async with world.running() as worker:
        await world.until(lambda: world.saved)
        await asyncio.sleep(HOUR)
        assert (worker.state, worker.last_error) == (SinkState.FENCED, "another process owns the topics")
        assert (len(world.sink.times), world.saved) == (1, [PauseCause.FENCED])
        worker.resume()
        await worker.wait_idle()
    assert [fact.reason for fact in world.reported(SinkFenced)] == ["another process owns the topics"]
    assert len(world.sink.stored) == 1


@virtual
async def test_a_rejected_record_is_a_dead_letter_before_the_rest() -> None:
    refused = Receipt((0, 2), RetryLater("aborted"), {1: "too large"})
    world = Transactions(ScriptedSink(refused), pods("aab"))
    await world.run_until_idle()
    assert [each.record.sequence for each in world.dead_letters.added] == [2]
    assert named(world.sink.stored) == ["a1", "b3"]


@virtual
async def test_retried_dead_letters_are_settled_once_they_are_stored() -> None:
    refused, aborted = Receipt(rejected={0: "too large"}), Receipt((0,), RetryLater("aborted"))
    world = Transactions(ScriptedSink(refused, aborted), pods("a"))
    async with world.running() as worker:
        await worker.wait_idle()
        world.dead_letters.retry()
        await world.until(lambda: not world.dead_letters.kept)
        await worker.wait_idle()
    number = world.dead_letters.added[0].record.sequence
    assert world.source.handed == [["a1"], [number], [number]]
    assert world.source.events == ["begin", "recover"]


@virtual
async def test_a_dead_letter_is_retried_behind_its_own_record() -> None:
    """A kill came between the dead letter and the transaction, so that the record is taken once more."""
    world = Transactions(ScriptedSink(Receipt((0,), RetryLater("aborted"), {1: "too large"})), pods("ab"))
    async with world.running():
        await world.until(lambda: world.dead_letters.kept)
    world.source.begin_anew()
    world.dead_letters.newest_at_start = 2
    world.dead_letters.retry()
    async with world.running() as worker:
        await world.until(lambda: not world.dead_letters.kept)
        await worker.wait_idle()
    assert named(world.sink.stored) == ["a1", "b2"]
