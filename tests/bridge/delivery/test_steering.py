"""A worker that an operator tries, pauses and resumes; of both kinds."""

from __future__ import annotations

import asyncio

import pytest

from bridge.delivery import Retry, SinkWorker
from bridge.model.status import PauseCause, SinkState
from bridge.telemetry.facts.delivery import CircuitOpened, DeliveryDelayed, DestinationGone
from sinks.base import Lanes, Receipt, RetryLater, SinkUnavailable
from tests.bridge.delivery.fakes import ScriptedSink, pods
from tests.bridge.delivery.world import World, now, virtual

HOUR = 3600.0
BUSY = RetryLater("answers 503", after=HOUR, unavailable=True)
GONE = RetryLater("answers 410", unavailable=True, gone=True)
SLOW = RetryLater("answers 500", after=HOUR)
BOTH = pytest.mark.parametrize("lanes", [None, Lanes(concurrency=3)], ids=["batches", "lanes"])


def states(worker: SinkWorker) -> tuple[SinkState, float | None]:
    return worker.state, worker.retry_at


@BOTH
@pytest.mark.parametrize("failure", [BUSY, SLOW], ids=["unavailable", "one record"])
@virtual
async def test_a_sink_in_an_hours_pause_is_tried_at_once_on_request(lanes: Lanes | None, failure: RetryLater) -> None:
    world = World(ScriptedSink(Receipt((0,), failure)), pods("a"), lanes=lanes)
    async with world.running() as worker:
        await world.until(lambda: worker.state is SinkState.WAITING)
        assert worker.asked == HOUR
        assert worker.retry_at is not None
        assert worker.retry_at >= now() + HOUR - 1
        asked_at = now()
        assert worker.retry_now()
        await worker.wait_idle()
        assert now() - asked_at < 1
        assert not worker.retry_now(), "it does not wait any more"

    assert world.pending.settled == 1
    (fact,) = world.reported(DeliveryDelayed)
    assert fact.asked == HOUR


@virtual
async def test_a_sink_that_does_not_open_is_tried_at_once_too() -> None:
    world = World(ScriptedSink(opens=[SinkUnavailable("down")]), pods("a"), retry=Retry(initial=1000.0))
    async with world.running() as worker:
        await world.until(lambda: worker.retry_at is not None)
        asked_at = now()
        assert worker.retry_now()
        await worker.wait_idle()
        assert now() - asked_at < 1


@BOTH
@pytest.mark.parametrize(("asked", "waited"), [(1e12, HOUR), (-5.0, 0.0), (float("inf"), HOUR)])
@virtual
async def test_nobody_is_left_alone_for_more_than_an_hour(lanes: Lanes | None, asked: float, waited: float) -> None:
    script = ScriptedSink(Receipt((0,), RetryLater("no", after=asked, unavailable=True)))
    world = World(script, pods("a"), lanes=lanes, jitter=lambda: 0.0)
    await world.run_until_idle()

    first, second = world.sink.times
    assert second - first == pytest.approx(waited, abs=0.01)


@BOTH
@virtual
async def test_a_paused_sink_gets_nothing_until_it_is_resumed(lanes: Lanes | None) -> None:
    world = World(ScriptedSink(), pods("ab"), lanes=lanes, max_batch=2)
    async with world.running() as worker:
        await worker.wait_idle()
        worker.suspend(PauseCause.OPERATOR)
        world.pending.happened(*pods("cdefghij", first=3))
        await asyncio.sleep(10 * HOUR)
        assert states(worker) == (SinkState.PAUSED, None)
        assert world.pending.settled == 2
        assert len(world.sink.stored) == 2
        assert not worker.may_deliver_by(now() + HOUR), "no grace is spent on it"

        worker.resume()
        await worker.wait_idle()
        assert states(worker) == (SinkState.IDLE, None)

    assert len(world.sink.stored) == 10


@BOTH
@virtual
async def test_a_destination_that_is_gone_is_left_alone(lanes: Lanes | None) -> None:
    world = World(ScriptedSink(Receipt((0,), GONE), Receipt((0,), GONE)), pods("a"), lanes=lanes)
    async with world.running() as worker:
        await world.until(lambda: worker.state is SinkState.GONE)
        world.pending.happened(*pods("abcdefgh", first=2))
        await asyncio.sleep(1000 * HOUR)
        worker.retry_now()
        await asyncio.sleep(HOUR)
        assert states(worker) == (SinkState.GONE, None)
        assert worker.last_error == "answers 410"
        assert (len(world.sink.times), len(world.saved), world.pending.settled) == (1, 1, 0)
        assert not worker.may_deliver_by(now() + HOUR)

        asked_at = now()
        worker.resume()
        await world.until(lambda: len(world.saved) == 2)
        assert now() - asked_at < 1, "no back-off is left of the failure"
        await asyncio.sleep(HOUR)
        assert (worker.state, len(world.sink.times)) == (SinkState.GONE, 2)

        worker.resume()
        await worker.wait_idle()
        assert states(worker) == (SinkState.IDLE, None)
        assert not worker.last_error

    assert len(world.sink.stored) == 9, "no record is lost"
    assert [fact.reason for fact in world.reported(DestinationGone)] == ["answers 410"] * 2
    assert not world.reported(DeliveryDelayed), "no attempt is announced"
    assert not world.reported(CircuitOpened)


@virtual
async def test_lanes_that_find_it_gone_together_report_once() -> None:
    world = World(ScriptedSink(*[Receipt((0,), GONE)] * 3, seconds=1.0), pods("abc"), lanes=Lanes(concurrency=3))
    async with world.running() as worker:
        await world.until(lambda: worker.state is SinkState.GONE)
        await asyncio.sleep(HOUR)
        assert (len(world.sink.times), world.saved) == (3, [PauseCause.GONE])
        worker.resume()
        await worker.wait_idle()

    assert len(world.sink.stored) == 3
    assert len(world.reported(DestinationGone)) == 1


@BOTH
@virtual
async def test_a_sink_whose_destination_was_gone_begins_so(lanes: Lanes | None) -> None:
    world = World(ScriptedSink(), pods("a"), lanes=lanes)
    async with world.running() as worker:
        worker.suspend(PauseCause.GONE, "was gone before")
        await asyncio.sleep(HOUR)
        assert (worker.state, worker.last_error) == (SinkState.GONE, "was gone before")
        assert not world.sink.times
        worker.resume()
        await worker.wait_idle()
    assert world.pending.settled == 1


@BOTH
@virtual
async def test_a_pause_hides_no_end_that_the_destination_made(lanes: Lanes | None) -> None:
    world = World(ScriptedSink(Receipt((0,), GONE), seconds=1.0), pods("a"), lanes=lanes)
    async with world.running() as worker:
        await world.until(lambda: world.sink.at_once)
        worker.suspend(PauseCause.OPERATOR)
        await world.until(lambda: world.saved == [PauseCause.GONE])
        worker.suspend(PauseCause.OPERATOR)
        assert (worker.state, worker.last_error) == (SinkState.GONE, "answers 410")
        worker.resume()
        await worker.wait_idle()
        assert states(worker) == (SinkState.IDLE, None)


@BOTH
@virtual
async def test_what_is_under_way_when_it_is_paused_comes_to_its_end(lanes: Lanes | None) -> None:
    world = World(ScriptedSink(seconds=5.0), pods("a"), lanes=lanes)
    async with world.running() as worker:
        await world.until(lambda: world.sink.at_once)
        worker.suspend(PauseCause.OPERATOR)
        assert states(worker) == (SinkState.DELIVERING, None)
        await world.until(lambda: world.pending.settled == 1)
        assert states(worker) == (SinkState.PAUSED, None)


@BOTH
@virtual
async def test_a_pause_outlasts_the_pause_of_a_failure(lanes: Lanes | None) -> None:
    world = World(ScriptedSink(Receipt((0,), BUSY)), pods("a"), lanes=lanes)
    async with world.running() as worker:
        await world.until(lambda: worker.state is SinkState.WAITING)
        worker.suspend(PauseCause.OPERATOR)
        await asyncio.sleep(3 * HOUR)
        worker.retry_now()
        await asyncio.sleep(HOUR)
        assert len(world.sink.times) == 1
        worker.resume()
        await worker.wait_idle()
        assert len(world.sink.times) == 2


@BOTH
@virtual
async def test_a_sink_that_is_paused_before_it_begins_is_not_opened(lanes: Lanes | None) -> None:
    world = World(ScriptedSink(opens=[SinkUnavailable("a worker asked for it")]), pods("a"), lanes=lanes)
    async with world.running() as worker:
        worker.suspend(PauseCause.OPERATOR)
        await asyncio.sleep(HOUR)
        assert world.sink.opens, "still there"
        worker.resume()
        await worker.wait_idle()
