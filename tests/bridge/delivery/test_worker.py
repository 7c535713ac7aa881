"""The worker of a sink that takes batches: what it does with stored, pending and rejected records."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from bridge.delivery import Retry
from bridge.model.policies import OnRejected
from bridge.model.primitives.ring import Missed
from bridge.model.record import Record, split_at_notices
from bridge.model.status import CircuitState, SinkState
from bridge.telemetry.facts.delivery import (
    BatchDelivered,
    CircuitClosed,
    CircuitOpened,
    DeliveryDelayed,
    ListenerOverrun,
    RecordRejected,
    RecordsParked,
    SinkOpened,
)
from sinks.base import ALL_STORED, Lanes, Receipt, RetryLater, SinkUnavailable
from tests.bridge.delivery.fakes import ScriptedSink, named, pods, rejecting
from tests.bridge.delivery.world import World, now, virtual
from tests.kit.records import a_gap, a_snapshot
from tests.kit.sinks import receipt_of

DOWN = RetryLater("down")
AWAY = RetryLater("away", unavailable=True)


IN_BOTH = pytest.mark.parametrize("lanes", [None, Lanes(concurrency=4)], ids=["in batches", "in lanes"])
"""What a worker does whichever way it delivers. What is different in lanes stands in test_lanes."""


# ── The ordinary ─────────────────────────────────────────────────────────────


@virtual
async def test_what_the_sink_stored_is_settled() -> None:
    world = World(ScriptedSink(), pods("ab"))
    await world.run_until_idle()

    assert world.sink.batches == [["a1", "b2"]]
    assert world.pending.settled == 2
    assert world.worker.delivered == 2
    (fact,) = world.reported(BatchDelivered)
    assert (fact.records, fact.bytes) == (2, sum(len(record.body) for record in pods("ab")))


@virtual
async def test_a_sink_gets_no_more_at_once_than_it_takes() -> None:
    world = World(ScriptedSink(), pods("abcde"), max_batch=2)
    await world.run_until_idle()

    assert world.sink.batches == [["a1", "b2"], ["c3", "d4"], ["e5"]]
    assert set(world.pending.limits) == {2}


@virtual
async def test_pending_records_are_retried_before_anything_newer() -> None:
    world = World(ScriptedSink(Receipt((1, 2), DOWN)), pods("abcd"), max_batch=3)
    await world.run_until_idle()

    assert world.sink.batches == [["a1", "b2", "c3"], ["b2", "c3"], ["d4"]]
    (fact,) = world.reported(DeliveryDelayed)
    assert (fact.records, fact.reason, fact.retry_after) == (2, "down", 0.5)


@virtual
async def test_nothing_is_settled_while_a_record_is_pending() -> None:
    world = World(ScriptedSink(*[Receipt((0, 1), DOWN)] * 10), pods("ab"))
    async with world.running() as worker:
        await world.until(lambda: len(world.sink.batches) == 10)
        await asyncio.sleep(0)
        assert world.pending.settled == 0
        assert worker.last_error == "down"
        await worker.wait_idle()

    assert world.pending.settled == 2
    assert world.worker.last_error is None


@virtual
async def test_a_fetch_for_other_sinks_is_settled_without_a_delivery() -> None:
    world = World(ScriptedSink())
    settled: list[Sequence[Record]] = []
    world.pending.on_settle = settled.append
    world.pending.wake()
    async with world.running():
        await world.until(lambda: settled)

    assert settled == [[]]
    assert world.sink.batches == []


@IN_BOTH
@virtual
async def test_lost_records_are_delivered_as_a_gap_alone_and_first(lanes: Lanes | None) -> None:
    world = World(ScriptedSink(seconds=1.0), pods("ab", first=14), lanes=lanes)
    world.pending.missed = Missed(1, 13)
    await world.run_until_idle()
    assert world.sink.batches[0] == ["gap/1/13"]
    assert world.sink.times[1] - world.sink.times[0] == 1.0
    assert named(world.sink.stored) == ["gap/1/13", "a14", "b15"]
    assert world.reported(ListenerOverrun) == [ListenerOverrun("audit", 1, 13, 13)]
    (gap, *_) = world.sink.stored
    assert "further behind than the outbox is long" in getattr(gap, "reason", "")


@IN_BOTH
@virtual
async def test_a_bug_in_a_sink_ends_the_worker_and_closes_the_sink(lanes: Lanes | None) -> None:
    world = World(ScriptedSink(RuntimeError("a bug")), pods("a"), lanes=lanes)

    with pytest.raises(ExceptionGroup) as caught:
        await world.run_until_idle()

    assert caught.group_contains(RuntimeError, match="a bug")
    assert world.sink.closed == 1
    assert world.pending.settled == 0


# ── Opening, waiting, the circuit ────────────────────────────────────────────


@IN_BOTH
@virtual
async def test_an_absent_destination_gets_all_from_a_new_sink(lanes: Lanes | None) -> None:
    world = World(
        ScriptedSink(opens=[SinkUnavailable("no route"), SinkUnavailable("no route")]), pods("a"), lanes=lanes
    )
    async with world.running() as worker:
        await asyncio.sleep(0)
        assert (worker.state, worker.last_error) == (SinkState.WAITING, "no route")
        assert worker.retry_at == now() + 0.5
        await worker.wait_idle()
        assert worker.last_error is None

    assert world.sink.batches == [["a1"]]
    assert world.reported(SinkOpened) == [SinkOpened("audit")]
    assert [(fact.reason, fact.retry_after) for fact in world.reported(DeliveryDelayed)] == [
        ("no route", 0.5),
        ("no route", 1.0),
    ]
    assert world.sink.closed == 3, "each sink that was made is closed"


@virtual
async def test_pauses_grow_while_all_fails_and_are_short_afterwards() -> None:
    failing = [Receipt((0,), DOWN)] * 6
    world = World(ScriptedSink(*failing, ALL_STORED, *failing[:2]), pods("ab"), max_batch=1)
    await world.run_until_idle()

    assert [fact.retry_after for fact in world.reported(DeliveryDelayed)] == [0.5, 1.0, 2.0, 4.0, 4.0, 4.0, 0.5, 1.0]
    pauses = [later - earlier for earlier, later in zip(world.sink.times, world.sink.times[1:], strict=False)]
    assert pauses == pytest.approx([0.5, 1.0, 2.0, 4.0, 4.0, 4.0, 0.0, 0.5, 1.0])


@virtual
async def test_a_sink_that_stores_a_part_each_time_is_not_down() -> None:
    script = [Receipt(tuple(range(1, left)), DOWN) for left in range(10, 1, -1)]
    world = World(ScriptedSink(*script), pods("abcdefghij"))
    await world.run_until_idle()

    assert len(world.sink.batches) == 10
    assert {fact.retry_after for fact in world.reported(DeliveryDelayed)} == {0.5}
    assert world.reported(CircuitOpened) == []


@virtual
async def test_a_circuit_that_opens_and_closes_is_reported_once_each() -> None:
    world = World(ScriptedSink(*[Receipt((0,), DOWN)] * 7), pods("a"))
    states = []
    async with world.running() as worker:
        while not worker.delivered:
            await asyncio.sleep(0.25)
            states.append((worker.circuit, worker.state))
        await worker.wait_idle()

    assert world.reported(CircuitOpened) == [CircuitOpened("audit", 5, "down")]
    (closed,) = world.reported(CircuitClosed)
    assert closed.seconds == pytest.approx(12.0), "three pauses of 4 s, from the fifth failure to the success"
    assert (CircuitState.OPEN, SinkState.WAITING) in states
    assert world.worker.circuit is CircuitState.CLOSED


@virtual
async def test_a_destination_that_takes_nothing_opens_it_at_once() -> None:
    world = World(ScriptedSink(Receipt((0,), AWAY)), pods("a"))
    await world.run_until_idle()

    assert world.reported(CircuitOpened) == [CircuitOpened("audit", 1, "away")]
    assert world.reported(CircuitClosed) == [CircuitClosed("audit", 0.5)]


@virtual
async def test_a_stored_part_closes_the_circuit_and_counts_anew() -> None:
    world = World(ScriptedSink(Receipt((0, 1), AWAY), Receipt((1,), DOWN)), pods("ab"))
    await world.run_until_idle()

    assert world.sink.batches == [["a1", "b2"], ["a1", "b2"], ["b2"]]
    assert [fact.retry_after for fact in world.reported(DeliveryDelayed)] == [0.5, 0.5]
    assert world.reported(CircuitClosed) == [CircuitClosed("audit", 0.5)]


@IN_BOTH
@virtual
async def test_what_the_destination_asked_for_is_waited_at_least(lanes: Lanes | None) -> None:
    world = World(
        ScriptedSink(Receipt((0,), RetryLater("busy", after=17.0))), pods("a"), jitter=lambda: 0.0, lanes=lanes
    )
    await world.run_until_idle()

    assert world.sink.times[1] - world.sink.times[0] == 17.0


@virtual
async def test_the_state_is_that_of_the_worker() -> None:
    world = World(ScriptedSink(Receipt((0,), DOWN), seconds=1.0), pods("a"))
    states = [world.worker.state]
    async with world.running() as worker:
        for seconds in (0.5, 0.7, 0.5):
            await asyncio.sleep(seconds)
            states.append(worker.state)
        await worker.wait_idle()
        states.append(worker.state)

    assert states == ["opening", "delivering", "waiting", "delivering", "idle"]


@virtual
async def test_to_be_idle_is_to_have_settled_everything_there_is() -> None:
    world = World(ScriptedSink(seconds=1.0), pods("abc"), max_batch=1)
    began = now()
    async with world.running() as worker:
        await worker.wait_idle()
        assert now() - began == 3.0
        await worker.wait_idle()
        world.pending.happened(*pods("d", first=4))
        await worker.wait_idle()

    assert world.pending.settled == 4


@virtual
async def test_a_new_worker_delivers_again_what_was_not_settled() -> None:
    world = World(ScriptedSink(seconds=1.0), pods("abcd"), max_batch=2)
    async with world.running():
        await asyncio.sleep(1.5)
    await world.run_until_idle()

    assert world.sink.batches == [["a1", "b2"], ["c3", "d4"], ["c3", "d4"]]
    assert named(world.sink.stored) == ["a1", "b2", "c3", "d4"]


# ── Rejected and parked ──────────────────────────────────────────────────────


@IN_BOTH
@virtual
async def test_a_rejected_record_is_a_letter_before_its_fetch_settles(lanes: Lanes | None) -> None:
    world = World(rejecting(1), pods("ab"), lanes=lanes)
    seen: list[list[str]] = []
    world.pending.on_settle = lambda records: seen.append(world.dead_letters.names)
    await world.run_until_idle()

    assert seen == [["a1"]]
    (new_dead_letter,) = world.dead_letters.added
    assert (new_dead_letter.reason, new_dead_letter.parked) == ("too large", False)
    assert world.reported(RecordRejected) == [
        RecordRejected("audit", pods("a")[0].id, "too large", 1, *pods("a")[0].ordering_key)
    ]
    assert (world.worker.delivered, world.worker.rejected) == (1, 1)


@IN_BOTH
@virtual
async def test_records_behind_a_rejected_one_are_parked_untried(lanes: Lanes | None) -> None:
    world = World(rejecting(2), pods("aababa"), lanes=lanes, max_batch=5)
    await world.run_until_idle()

    assert world.dead_letters.names == ["a2", "a4", "a6"], "in the same batch, and in a later one"
    assert sorted(named(world.sink.stored)) == ["a1", "b3", "b5"]
    tried = [name for batch in world.sink.batches for name in batch]
    assert tried.count("a6") == 0
    assert lanes is None or tried.count("a4") == 0, "nor is what was in its batch, where each is delivered alone"
    reasons = [new_dead_letter.reason for new_dead_letter in world.dead_letters.added if new_dead_letter.parked]
    assert reasons == ["parked behind record 2 of this object, which was rejected"] * 2
    parked = world.reported(RecordsParked)
    assert (sum(fact.records for fact in parked), {fact.objects for fact in parked}, parked[-1].total) == (2, {1}, 2)
    assert (world.worker.rejected, world.worker.parked) == (1, 2)


@IN_BOTH
@virtual
async def test_with_pass_what_follows_a_rejected_record_is_delivered(lanes: Lanes | None) -> None:
    world = World(rejecting(2), pods("aaba"), lanes=lanes, on_rejected=OnRejected.PASS)
    await world.run_until_idle()

    assert world.dead_letters.names == ["a2"]
    assert sorted(named(world.sink.stored)) == ["a1", "a4", "b3"]
    assert world.worker.parked == 0


@virtual
async def test_records_before_a_first_letter_return_after_a_crash() -> None:
    """It was delivered before the letter was made. Parked behind it, it would come out of order, as if it were new."""
    world = World(rejecting(2), pods("aaa"))
    async with world.running():
        await world.until(lambda: len(world.dead_letters.kept) == 2)
    assert world.pending.settled == 0
    await world.run_until_idle()

    assert world.sink.batches == [["a1", "a2", "a3"], ["a1"]]
    assert named(world.sink.stored) == ["a1", "a1"]
    assert world.dead_letters.names == ["a2", "a3"], "once each"


@virtual
async def test_failure_and_rejection_in_one_batch_are_both_reported() -> None:
    records = pods("abca")
    sink = ScriptedSink(receipt_of(records, pending=[2], failure=DOWN, rejected={0: "too large"}))
    world = World(sink, records)
    await world.run_until_idle()

    assert sink.batches == [["a1", "b2", "c3", "a4"], ["c3"]]
    assert world.dead_letters.names == ["a1", "a4"]


# ── Notices ──────────────────────────────────────────────────────────────────


def test_notices_stand_by_themselves() -> None:
    stream: list[Record] = [a_gap(1, 2), *pods("ab", first=3), a_snapshot(through=4), a_gap(5, 6), *pods("c", first=7)]

    assert [len(stream[where]) for where in split_at_notices(stream)] == [1, 2, 1, 1, 1]
    assert [each for where in split_at_notices(stream) for each in stream[where]] == stream
    assert list(split_at_notices(pods("abc"))) == [slice(0, 3)]
    assert list(split_at_notices([])) == []


@virtual
async def test_a_notice_is_delivered_by_itself_in_its_place() -> None:
    script = [Receipt((0, 1), DOWN), ALL_STORED, Receipt((0,), DOWN)]
    world = World(ScriptedSink(*script), [*pods("ab"), a_gap(3, 4), *pods("c", first=5)])
    await world.run_until_idle()

    assert world.sink.batches == [["a1", "b2"], ["a1", "b2"], ["gap/3/4"], ["gap/3/4"], ["c5"]]


@IN_BOTH
@virtual
async def test_a_rejected_notice_is_a_dead_letter_and_parks_nothing(lanes: Lanes | None) -> None:
    world = World(rejecting(2), [*pods("a"), a_gap(2, 2), a_gap(3, 3), *pods("a", first=4)], lanes=lanes)
    await world.run_until_idle()

    assert world.dead_letters.names == ["gap/2/2"]
    assert named(world.sink.stored) == ["a1", "gap/3/3", "a4"]


# ── Dead letters, once more ──────────────────────────────────────────────────


@virtual
async def test_retried_letters_are_delivered_in_their_order() -> None:
    world = World(rejecting(1, 2), pods("abab"))
    async with world.running() as worker:
        await worker.wait_idle()
        world.sink.answer = lambda batch: ALL_STORED
        world.dead_letters.retry()
        await world.until(lambda: not world.dead_letters.kept)
        world.pending.happened(*pods("a", first=5))
        await worker.wait_idle()

    assert world.sink.batches[-2:] == [["a1", "b2", "a3", "b4"], ["a5"]]
    assert named(world.sink.stored) == ["a1", "b2", "a3", "b4", "a5"]


@virtual
async def test_more_letters_than_a_batch_holds_go_batch_by_batch() -> None:
    world = World(rejecting(1), pods("aaaaa"), max_batch=2)
    await world.run_until_idle()
    world.sink.answer = lambda batch: ALL_STORED
    world.dead_letters.retry()
    await world.run_until_idle()

    assert world.sink.batches[-3:] == [["a1", "a2"], ["a3", "a4"], ["a5"]]
    assert world.dead_letters.kept == {}


@IN_BOTH
@virtual
async def test_a_letter_rejected_again_stays_with_those_behind_it(lanes: Lanes | None) -> None:
    world = World(rejecting(1, 2), pods("abab"), lanes=lanes)
    await world.run_until_idle()
    world.sink.answer = rejecting(1).answer
    world.dead_letters.retry()
    await world.run_until_idle()

    assert world.dead_letters.names == ["a1", "a3"]
    assert named(world.sink.stored) == ["b2", "b4"]
    assert not world.dead_letters.retrying


@virtual
async def test_letters_wait_for_a_failing_sink_and_new_records_behind() -> None:
    world = World(rejecting(1), pods("aa"))
    await world.run_until_idle()
    answers = [Receipt((0, 1), DOWN), Receipt((1,), DOWN)]
    world.sink.answer = lambda batch: answers.pop(0) if answers else ALL_STORED
    world.dead_letters.retry()
    world.pending.happened(*pods("ab", first=3))
    await world.run_until_idle()

    assert world.sink.batches[-4:] == [["a1", "a2"], ["a1", "a2"], ["a2"], ["a3", "b4"]]
    assert world.dead_letters.kept == {}


@IN_BOTH
@virtual
async def test_a_letter_that_is_a_notice_comes_by_itself_too(lanes: Lanes | None) -> None:
    world = World(rejecting(1, 2, 3, 4), [*pods("a"), a_gap(2, 2), a_gap(3, 3), *pods("b", first=4)], lanes=lanes)
    await world.run_until_idle()
    world.sink.answer, world.sink.seconds = rejecting(2).answer, 1.0
    world.dead_letters.retry()
    await world.run_until_idle()

    assert world.sink.batches[-4:] == [["a1"], ["gap/2/2"], ["gap/3/3"], ["b4"]]
    assert world.sink.most_at_once == 1
    assert world.dead_letters.names == ["gap/2/2"]


@virtual
async def test_a_worker_is_not_idle_while_it_delivers_a_letter() -> None:
    world = World(rejecting(1), pods("a"))
    async with world.running() as worker:
        await worker.wait_idle()
        world.sink.answer, world.sink.seconds = (lambda batch: ALL_STORED), 5.0
        world.dead_letters.retry()
        await asyncio.sleep(1)
        assert worker.state is SinkState.DELIVERING
        await worker.wait_idle()

    assert world.dead_letters.kept == {}


# ── The end of the bridge ────────────────────────────────────────────────────


@virtual
async def test_at_the_end_nobody_waits_for_an_attempt_that_is_too_late() -> None:
    world = World(ScriptedSink(*[Receipt((0, 1), RetryLater("later", after=600.0))] * 10), pods("ab"))
    async with world.running() as worker:
        began = now()
        await worker.wait_idle_by(began + 20.0)
        assert now() - began < 1.0
        assert not worker.may_deliver_by(began + 20.0)

    assert world.pending.settled == 0


@virtual
async def test_at_the_end_an_attempt_within_the_time_is_waited_for() -> None:
    world = World(ScriptedSink(Receipt((0, 1), RetryLater("later", after=10.0))), pods("ab"))
    async with world.running() as worker:
        began = now()
        await worker.wait_idle_by(began + 20.0)
        assert 10.0 <= now() - began < 12.0

    assert world.pending.settled == 2


@virtual
async def test_at_the_end_a_sink_that_opens_too_late_is_left() -> None:
    world = World(ScriptedSink(opens=[SinkUnavailable("down")] * 100), pods("a"), retry=Retry(initial=60.0))
    async with world.running() as worker:
        began = now()
        await worker.wait_idle_by(began + 5.0)
        assert now() - began < 1.0


@virtual
async def test_at_the_end_what_is_under_way_has_all_the_time_there_is() -> None:
    world = World(ScriptedSink(seconds=100.0), pods("a"))
    async with world.running() as worker:
        began = now()
        await worker.wait_idle_by(began + 20.0)
        assert now() - began == 20.0
