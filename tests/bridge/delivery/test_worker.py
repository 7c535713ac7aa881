"""One sink's worker: what it does with stored, pending and refused records."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from bridge.delivery.worker import Retry, Worker, WorkerState
from bridge.facts import BatchDelivered, DeliveryDelayed, Fact, ListenerOverrun, RecordRejected, SinkOpened
from bridge.model.change import Evidence, Op
from bridge.model.record import Delta, Gap, Record
from bridge.model.resource import Resource
from bridge.model.ring import Ring, Slice
from bridge.processor.shared_processor import SharedProcessor
from sinks.base import ALL_STORED, Receipt, RetryLater, SinkUnavailable

PODS = Resource("", "v1", "pods", "Pod", namespaced=True)


class Log(Ring[Record]):
    async def read(self, after: int, limit: int) -> Slice[Record]:  # type: ignore[override]
        return super().read(after, limit)


class ScriptedSink:
    """Answers each deliver with the next receipt of its script, then stores everything."""

    def __init__(self, *script: Receipt | Exception, opens: Sequence[Exception | None] = ()) -> None:
        self.script = list(script)
        self.opens = list(opens)
        self.batches: list[list[str]] = []
        self.closed = 0
        self.ten_batches = asyncio.Event()

    async def open(self) -> None:
        if self.opens and (error := self.opens.pop(0)):
            raise error

    async def deliver(self, batch: Sequence[Record]) -> Receipt:
        self.batches.append([record.id for record in batch])
        if len(self.batches) >= 10:
            self.ten_batches.set()
        answer = self.script.pop(0) if self.script else ALL_STORED
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def check(self) -> str:
        return "scripted"

    async def close(self) -> None:
        self.closed += 1


class World:
    """A log, a processor, one worker on a scripted sink, and the facts it reported."""

    def __init__(self, sink: ScriptedSink, *, log_items: int = 100, max_batch: int = 100) -> None:
        self.sink = sink
        self.log = Log(log_items, 1 << 20)
        self.processor = SharedProcessor[Record](self.log, audience=lambda record: getattr(record, "audience", None))
        self.settled: list[int] = []
        self.facts: list[Fact] = []
        self._progress = asyncio.Event()
        self.worker = Worker(
            "audit",
            lambda: sink,
            self.processor.add("audit", after=0, window=10),
            settle=self._settle,
            report=self.facts.append,
            now=lambda: "2026-01-01T00:00:00.000000Z",
            max_batch=max_batch,
            retry=Retry(initial=0.001, maximum=0.001),
        )

    def _settle(self, through: int) -> None:
        self.settled.append(through)
        self._progress.set()

    def happened(self, *names: str, audience: tuple[str, ...] | None = None) -> None:
        records = []
        for name in names:
            sequence = self.log.last + 1
            key = f"shop/{name}"
            delta = Delta(sequence, Op.ADDED, Evidence.WATCHED, PODS, key, name, "1", "", 1, b"{}", audience=audience)
            self.log.append(delta, 2)
            records.append(delta)
        self.processor.distribute(records, self.log.last)

    async def wait_settled(self, through: int) -> None:
        async with asyncio.timeout(5):
            while not self.settled or self.settled[-1] < through:
                self._progress.clear()
                await self._progress.wait()

    def reported(self, kind: type[Any]) -> list[Any]:
        return [fact for fact in self.facts if isinstance(fact, kind)]


@asynccontextmanager
async def running(world: World) -> AsyncIterator[World]:
    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(world.worker.run())
        yield world
        task.cancel()


async def test_what_the_sink_stored_is_settled_once_in_order() -> None:
    async with running(World(ScriptedSink())) as world:
        world.happened("a", "b")
        await world.wait_settled(2)

    assert world.sink.batches == [["a/1/added", "b/1/added"]]
    assert world.settled == [2]
    assert world.worker.delivered == 2
    assert [fact.records for fact in world.reported(BatchDelivered)] == [2]


async def test_pending_records_are_delivered_again_before_anything_newer() -> None:
    trouble = Receipt(pending=(1, 2), trouble=RetryLater("leader not available"))
    async with running(World(ScriptedSink(trouble), max_batch=3)) as world:
        world.happened("a", "b", "c")
        world.happened("d")
        await world.wait_settled(4)

    assert world.sink.batches == [
        ["a/1/added", "b/1/added", "c/1/added"],
        ["b/1/added", "c/1/added"],
        ["d/1/added"],
    ]
    assert [fact.reason for fact in world.reported(DeliveryDelayed)] == ["leader not available"]


async def test_nothing_is_settled_while_a_record_is_pending() -> None:
    forever = [Receipt(pending=(0,), trouble=RetryLater("down")) for _ in range(20)]
    async with running(World(ScriptedSink(*forever))) as world:
        world.happened("a")
        async with asyncio.timeout(5):
            await world.sink.ten_batches.wait()
        assert world.settled == []
        assert world.worker.trouble == "down"
        await world.wait_settled(1)

    assert world.worker.trouble is None


async def test_a_refused_record_is_reported_with_its_reason_and_the_others_go_on() -> None:
    async with running(World(ScriptedSink(Receipt(rejected={0: "too large: 2 MB of 1 MB"})))) as world:
        world.happened("a", "b")
        await world.wait_settled(2)

    assert world.reported(RecordRejected) == [RecordRejected("audit", "a/1/added", "too large: 2 MB of 1 MB")]
    assert (world.worker.delivered, world.worker.rejected) == (1, 1)


async def test_a_destination_that_is_not_there_is_asked_again_and_nothing_is_lost() -> None:
    sink = ScriptedSink(opens=[SinkUnavailable("no route"), SinkUnavailable("no route")])
    world = World(sink)
    world.happened("a")
    async with running(world):
        await world.wait_settled(1)

    assert world.sink.batches == [["a/1/added"]]
    assert len(world.reported(SinkOpened)) == 1
    assert [fact.reason for fact in world.reported(DeliveryDelayed)] == ["no route", "no route"]
    assert sink.closed == 3, "each sink that was made is closed"


async def test_what_left_the_outbox_before_the_sink_came_to_it_is_told_as_a_gap_in_its_place() -> None:
    world = World(ScriptedSink(), log_items=2)
    world.happened(*"abcdefghijklmno")
    async with running(world):
        await world.wait_settled(15)

    assert world.sink.batches == [["gap/1/13"], ["n/1/added", "o/1/added"]]
    assert world.reported(ListenerOverrun) == [ListenerOverrun("audit", 1, 13, 13)]


async def test_records_for_other_sinks_are_settled_without_being_delivered() -> None:
    async with running(World(ScriptedSink())) as world:
        world.happened("a", audience=("other",))
        await world.wait_settled(1)

    assert world.sink.batches == []


async def test_the_state_tells_an_idle_worker_from_one_that_waits() -> None:
    async with running(World(ScriptedSink())) as world:
        states = [world.worker.state]
        world.happened("a")
        await world.wait_settled(1)
        await asyncio.sleep(0)
        states.append(world.worker.state)

    assert states == [WorkerState.OPENING, WorkerState.IDLE]


async def test_a_bug_in_a_sink_ends_the_worker_loudly_and_closes_the_sink() -> None:
    sink = ScriptedSink(RuntimeError("a bug"))
    world = World(sink)
    world.happened("a")

    with pytest.raises(ExceptionGroup) as caught:
        async with running(world):
            await asyncio.sleep(1)

    assert caught.group_contains(RuntimeError, match="a bug")
    assert sink.closed == 1
    assert world.settled == []


async def test_a_gap_names_what_is_missing() -> None:
    world = World(ScriptedSink(), log_items=1)
    seen: list[Record] = []

    async def deliver(batch: Sequence[Record]) -> Receipt:
        seen.extend(batch)
        return ALL_STORED

    world.sink.deliver = deliver  # type: ignore[method-assign]
    world.happened(*"abcdefghijkl")
    async with running(world):
        await world.wait_settled(12)

    gap = seen[0]
    assert isinstance(gap, Gap)
    assert (gap.first, gap.sequence, gap.count) == (1, 11, 11)
