"""A destination that knows another leader: the sink waits until the Lease says who leads."""

from __future__ import annotations

import asyncio

import pytest
from msgspec.structs import replace

from bridge.facts import CircuitOpened, LeadershipDoubted, SinkFenced
from bridge.model.status import PauseCause, SinkState
from sinks.base import Lanes, Receipt, RetryLater, SinkUnavailable
from tests.bridge.delivery.fakes import ScriptedSink, pods
from tests.bridge.delivery.world import World, virtual

HOUR = 3600.0
FENCED = RetryLater("another process owns the topics", unavailable=True, fenced=True)
DOUBTED = RetryLater("answers 412", unavailable=True, doubted=True)


class Fence(SinkUnavailable):
    fenced = True


class FakeLease:
    is_valid = True

    def __init__(self) -> None:
        self.asked = 0
        self.renewed = asyncio.Event()

    async def confirmed(self) -> None:
        self.asked += 1
        await self.renewed.wait()


class Elected(World):
    def __init__(self, sink: ScriptedSink, lanes: Lanes | None = None) -> None:
        super().__init__(sink, pods("a"), lanes=lanes)
        self.lease = FakeLease()
        self._settings = replace(self._settings, lease=self.lease)
        self.worker = self._make()


@pytest.mark.parametrize("lanes", [None, Lanes(concurrency=3)], ids=["batches", "lanes"])
@pytest.mark.parametrize("failure", [FENCED, DOUBTED], ids=["fence", "412"])
@virtual
async def test_a_fenced_sink_goes_on_once_the_lease_is_renewed(lanes: Lanes | None, failure: RetryLater) -> None:
    world = Elected(ScriptedSink(Receipt((0,), failure)), lanes)
    async with world.running() as worker:
        await world.until(lambda: world.lease.asked)
        await asyncio.sleep(HOUR)
        assert len(world.sink.times) == 1, "nothing is sent before"
        assert worker.last_error == failure.reason
        world.lease.renewed.set()
        await worker.wait_idle()
    assert world.pending.settled == 1
    assert [fact.reason for fact in world.reported(LeadershipDoubted)] == [failure.reason]
    assert not world.reported(SinkFenced)
    assert world.saved == [], "the next term is not paused"


@virtual
async def test_a_sink_that_finds_a_later_leader_when_it_opens_waits() -> None:
    world = Elected(ScriptedSink(opens=[Fence("the leader of term 8 has taken the topics over")]))
    async with world.running() as worker:
        await world.until(lambda: world.lease.asked)
        await asyncio.sleep(HOUR)
        assert worker.state is not SinkState.FENCED
        assert not world.sink.times
        world.lease.renewed.set()
        await worker.wait_idle()
    assert world.pending.settled == 1


@virtual
async def test_a_process_outside_of_the_election_is_for_the_operator() -> None:
    """Two bridges with one transactional id would fence each other for ever."""
    world = Elected(ScriptedSink(*[Receipt((0,), FENCED)] * 4))
    world.lease.renewed.set()
    async with world.running() as worker:
        await world.until(lambda: world.saved)
        assert (worker.state, world.saved, world.lease.asked) == (SinkState.FENCED, [PauseCause.FENCED], 3)


@virtual
async def test_without_an_election_a_doubt_is_a_failure_as_any() -> None:
    world = World(ScriptedSink(Receipt((0,), DOUBTED)), pods("a"))
    await world.run_until_idle()
    assert world.pending.settled == 1
    assert world.reported(CircuitOpened)
    assert not world.reported(LeadershipDoubted)
