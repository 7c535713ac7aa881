"""The worker of a sink that delivers record by record: an object that fails delays no other object."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from itertools import pairwise
from random import Random

import pytest

from bridge.model.record import Delta, Record
from bridge.model.status import CircuitState, SinkState
from bridge.telemetry.facts.delivery import CircuitClosed, CircuitOpened, DeliveryDelayed
from sinks.base import ALL_STORED, Lanes, Receipt, RetryLater
from tests.bridge.delivery.fakes import ScriptedSink, a_pod, named, pods, rejecting
from tests.bridge.delivery.world import World, now, virtual
from tests.kit.records import a_gap, a_snapshot
from tests.kit.sinks import receipt_of

ALONE = Lanes(concurrency=4)
DOWN = RetryLater("down")
AWAY = RetryLater("away", unavailable=True)


def failing(is_bad: Callable[[Record], bool], failure: RetryLater = DOWN, seconds: float = 0.0) -> ScriptedSink:
    """Stores what is in front of the first bad record of a delivery."""
    sink = ScriptedSink(seconds=seconds)

    def answer(batch: Sequence[Record]) -> Receipt:
        first = next((index for index, record in enumerate(batch) if is_bad(record)), len(batch))
        return receipt_of(batch, pending=range(first, len(batch)), failure=failure)

    sink.answer = answer
    return sink


def is_of(name: str) -> Callable[[Record], bool]:
    return lambda record: isinstance(record, Delta) and record.key == f"shop/{name}"


# ── Side by side ─────────────────────────────────────────────────────────────


@virtual
async def test_objects_are_delivered_in_parallel_each_in_its_order() -> None:
    world = World(ScriptedSink(seconds=1.0), pods("abcdefgh" * 4), lanes=ALONE)
    began = now()
    await world.run_until_idle()

    assert now() - began == pytest.approx(8.0), "32 records, 4 at once"
    assert world.sink.most_at_once == 4
    assert {len(batch) for batch in world.sink.batches} == {1}
    for name in "abcdefgh":
        mine = [record.sequence for record in world.sink.stored if is_of(name)(record)]
        assert mine == sorted(mine)
    assert world.pending.settled == 32


@virtual
async def test_fetches_are_settled_in_order_when_complete() -> None:
    slow = asyncio.Event()
    world = World(ScriptedSink(), pods("abcdef"), lanes=ALONE, max_batch=2)

    async def deliver(batch: Sequence[Record]) -> Receipt:
        if named(batch) == ["c3"]:
            await slow.wait()
        return ALL_STORED

    world.sink.deliver = deliver  # type: ignore[method-assign]
    async with world.running() as worker:
        await asyncio.sleep(1)
        assert world.pending.settled == 2
        assert worker.delivered == 5
        slow.set()
        await worker.wait_idle()

    assert world.pending.settled == 6


# ── One object fails ─────────────────────────────────────────────────────────


@virtual
async def test_an_object_that_fails_backs_off_alone() -> None:
    sink = failing(lambda record: record.sequence == 1 and now() < 1100)
    world = World(sink, pods("aab"), lanes=ALONE)
    async with world.running() as worker:
        await asyncio.sleep(50)
        world.pending.happened(*pods("ab", first=4))
        await asyncio.sleep(0)
        await asyncio.sleep(0.001)
        assert named(sink.stored) == ["b3", "b5"], "at once"
        assert worker.last_error == "down"
        assert worker.circuit is CircuitState.CLOSED
        await worker.wait_idle()
        assert worker.last_error is None

    assert [name for name in named(sink.stored) if name[0] == "a"] == ["a1", "a2", "a4"]
    mine = [time for time, batch in zip(sink.times, sink.batches, strict=True) if batch == ["a1"]]
    pauses = [later - earlier for earlier, later in pairwise(mine)]
    assert pauses[:6] == pytest.approx([0.5, 1.0, 2.0, 4.0, 4.0, 4.0])
    assert world.reported(CircuitOpened) == []


@virtual
async def test_an_object_that_is_well_again_has_short_pauses_again() -> None:
    world = World(failing(lambda record: record.sequence == 1 and now() < 1003), pods("a"), lanes=ALONE)
    await world.run_until_idle()
    world.sink.answer = failing(lambda record: now() < now_was + 0.1).answer
    now_was = now()
    world.pending.happened(*pods("a", first=2))
    await world.run_until_idle()

    assert [fact.retry_after for fact in world.reported(DeliveryDelayed)] == [0.5, 1.0, 2.0, 0.5]


@virtual
async def test_a_failing_object_blocks_the_sink_only_at_the_bound() -> None:
    world = World(failing(is_of("a")), pods("a" + "b" * 40), lanes=ALONE, max_batch=4, max_records=10)
    async with world.running():
        await asyncio.sleep(100)
        assert world.pending.settled == 0
        assert world.pending.outstanding == 10
        assert len(world.sink.stored) == 9
        world.sink.answer = lambda batch: ALL_STORED
        await world.until(lambda: world.pending.settled == 41)

    assert world.pending.limits[:3] == [4, 4, 2]


@virtual
async def test_bodies_are_bounded_too() -> None:
    size = len(a_pod(1, "a").body)
    world = World(failing(is_of("a")), pods("a" + "b" * 40), lanes=ALONE, max_batch=1, max_bytes=5 * size)
    async with world.running():
        await asyncio.sleep(100)
        assert 5 <= world.pending.outstanding <= 6


@virtual
async def test_memory_does_not_grow_with_the_objects_that_came_by() -> None:
    records = [a_pod(n, f"web-{n}") for n in range(1, 501)]
    world = World(failing(lambda record: record.sequence % 7 == 0 and now() < 1030), records, lanes=ALONE)
    await world.run_until_idle()

    worker: object = world.worker
    held = [worker._lanes, worker._unsettled._fetches]  # type: ignore[attr-defined]
    held += [getattr(worker._queue, name) for name in ("_failures", "_delayed", "_dirty")]  # type: ignore[attr-defined]
    held.append(world.worker._attempts._failing)
    assert [len(each) for each in held] == [0] * 6


# ── The whole destination fails ──────────────────────────────────────────────


@virtual
async def test_failures_of_many_objects_open_the_circuit_to_one_try() -> None:
    world = World(failing(lambda record: now() < 1020, seconds=0.1), pods("abcdefgh"), lanes=ALONE)
    async with world.running() as worker:
        await world.until(lambda: worker.circuit is CircuitState.OPEN)
        opened = len(world.sink.times)
        await worker.wait_idle()

    trials = [time for time in world.sink.times[opened:] if time < 1020]
    assert len(trials) >= 2
    assert all(later - earlier > 0.1 for earlier, later in pairwise(trials)), "one at a time"
    assert len(world.reported(CircuitOpened)) == 1
    assert len(world.reported(CircuitClosed)) == 1
    assert sorted(named(world.sink.stored)) == sorted(named(pods("abcdefgh")))


@virtual
async def test_a_down_destination_is_not_tried_for_each_object() -> None:
    records = [a_pod(n, f"web-{n}") for n in range(1, 101)]
    world = World(failing(lambda record: now() < 1060, AWAY, seconds=0.01), records, lanes=ALONE)
    async with world.running() as worker:
        await asyncio.sleep(30)
        assert worker.state is SinkState.WAITING
        assert worker.circuit is CircuitState.OPEN
        assert worker.retry_at is not None
        assert worker.retry_at > now()
        asked = len(world.sink.batches)
        await worker.wait_idle()

    assert asked <= 4 + 11, "those that were under way, and one after each pause"
    assert world.pending.settled == 100
    assert now() < 1070, "when it is back, no object waits for a pause of its own"


@virtual
async def test_after_an_outage_no_object_waits_for_its_own_pause() -> None:
    for seed in range(10):
        back, rng = now() + 30, Random(seed).random
        sink = failing(lambda record, back=back: now() < back, AWAY)  # type: ignore[misc]
        world = World(sink, pods("ab"), lanes=Lanes(concurrency=1), jitter=rng)
        await world.run_until_idle()

        assert sink.times[-1] == sink.times[-2]


@virtual
async def test_the_attempt_that_decides_is_another_object_s_each_time() -> None:
    world = World(failing(lambda record: now() < 1030, AWAY), pods("abcd"), lanes=Lanes(concurrency=1))
    await world.run_until_idle()

    assert [batch[0][0] for batch in world.sink.batches[:6]] == ["a", "b", "c", "d", "a", "b"]


@virtual
async def test_a_few_objects_that_fail_do_not_open_the_circuit() -> None:
    world = World(failing(lambda record: record.sequence <= 4), pods("abcd"), lanes=ALONE)
    async with world.running() as worker:
        await asyncio.sleep(300)
        began = now()
        world.pending.happened(*pods("e", first=5))
        await world.until(lambda: world.sink.stored)
        assert now() - began < 0.01
        assert worker.circuit is CircuitState.CLOSED


# ── Notices ──────────────────────────────────────────────────────────────────


@virtual
async def test_a_notice_overtakes_nothing_and_nothing_overtakes_it() -> None:
    sink = failing(lambda record: record.sequence == 1 and now() < 1005)
    stream: list[Record] = [*pods("ab"), a_snapshot(through=2), a_gap(3, 4), *pods("bc", first=5)]
    world = World(sink, stream, lanes=ALONE)
    await world.run_until_idle()

    assert named(sink.stored) == ["b2", "a1", stream[2].id, "gap/3/4", "b5", "c6"]


# ── Dead letters, once more ──────────────────────────────────────────────────


@virtual
async def test_letters_are_delivered_again_in_front_of_what_waits() -> None:
    world = World(rejecting(1, 2), pods("abab"), lanes=ALONE, max_batch=3)
    async with world.running() as worker:
        await worker.wait_idle()
        world.sink.answer, world.sink.seconds = (lambda batch: ALL_STORED), 1.0
        world.dead_letters.retry()
        world.pending.happened(*pods("acb", first=5))
        await world.until(lambda: not world.dead_letters.kept)
        await worker.wait_idle()

    for name in "ab":
        mine = [record.sequence for record in world.sink.stored if is_of(name)(record)]
        assert mine == sorted(mine)
        assert len(mine) == 3
    assert world.sink.most_at_once > 1


@virtual
async def test_letters_do_not_wait_for_an_object_that_fails() -> None:
    world = World(rejecting(1), pods("ab"), lanes=ALONE)
    await world.run_until_idle()
    world.sink.answer = failing(is_of("c")).answer
    async with world.running():
        world.pending.happened(*pods("c", first=3))
        await asyncio.sleep(10)
        world.dead_letters.retry()
        await world.until(lambda: not world.dead_letters.kept)

    assert named(world.sink.stored) == ["b2", "a1"]


# ── Several records in one delivery ──────────────────────────────────────────

SHARED = Lanes(concurrency=3, batch=4)


@virtual
async def test_shared_lanes_fill_up_deliveries_and_keep_the_order() -> None:
    records = pods("abcdefgh" * 10)
    world = World(ScriptedSink(seconds=1.0), records, lanes=SHARED)
    await world.run_until_idle()

    assert max(len(batch) for batch in world.sink.batches) == 4
    assert world.sink.most_at_once <= 3
    for name in "abcdefgh":
        mine = [record.sequence for record in world.sink.stored if is_of(name)(record)]
        assert mine == sorted(mine)
    assert world.pending.settled == 80


@virtual
async def test_in_a_shared_lane_only_the_rejected_object_is_parked() -> None:
    world = World(rejecting(1), pods("ababab"), lanes=Lanes(concurrency=1, batch=4))
    await world.run_until_idle()

    assert world.dead_letters.names == ["a1", "a3", "a5"]
    assert named(world.sink.stored) == ["b2", "b4", "b6"]


@virtual
async def test_what_is_pending_in_a_shared_lane_comes_first_again() -> None:
    script = [Receipt((1, 2, 3), DOWN), Receipt((2, 3), DOWN)]
    world = World(ScriptedSink(*script), pods("abcabc"), lanes=Lanes(concurrency=1, batch=4))
    await world.run_until_idle()

    assert world.sink.batches == [
        ["a1", "b2", "c3", "a4"],
        ["b2", "c3", "a4", "b5"],
        ["a4", "b5", "c6"],
    ]


@virtual
async def test_a_single_shared_lane_opens_the_circuit_by_failures() -> None:
    world = World(failing(lambda record: now() < 1020), pods("abab"), lanes=Lanes(concurrency=1, batch=4))
    await world.run_until_idle()

    assert [fact.failures for fact in world.reported(CircuitOpened)] == [5]


# ── The end of the bridge ────────────────────────────────────────────────────


@virtual
async def test_at_the_end_other_objects_go_and_a_late_one_is_left() -> None:
    sink = ScriptedSink(seconds=1.0)
    sink.answer = lambda batch: (
        Receipt((0,), RetryLater("later", after=600.0)) if batch[0].sequence == 1 else ALL_STORED
    )
    world = World(sink, pods("abcdefgh"), lanes=Lanes(concurrency=2), max_batch=2)
    async with world.running() as worker:
        began = now()
        await worker.wait_idle_by(began + 60.0)
        assert now() - began < 10.0

    assert sorted(named(sink.stored)) == ["b2", "c3", "d4", "e5", "f6", "g7", "h8"]


@virtual
async def test_at_the_end_a_long_open_circuit_is_not_waited_for() -> None:
    closed = Receipt((0,), RetryLater("later", after=600.0, unavailable=True))
    world = World(ScriptedSink(*[closed] * 10), pods("abcd"), lanes=Lanes(concurrency=2))
    async with world.running() as worker:
        began = now()
        await worker.wait_idle_by(began + 20.0)
        assert now() - began < 1.0
