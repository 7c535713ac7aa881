"""A destination that knows another leader: the sink waits until the Lease says who leads."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from bridge.model.record import Record
from bridge.model.status import PauseCause, SinkState
from bridge.telemetry.facts.delivery import CircuitClosed, CircuitOpened, DeliveryDelayed, LeadershipDoubted, SinkFenced
from sinks.base import ALL_STORED, WITHHELD, Lanes, Receipt, RetryLater, SinkContext, SinkUnavailable, always
from tests.bridge.delivery.fakes import ScriptedSink, named, pods
from tests.bridge.delivery.world import World, virtual

HOUR = 3600.0
FENCED = RetryLater("another process owns the topics", unavailable=True, fenced=True)
DOUBTED = RetryLater("answers 412", unavailable=True, doubted=True)


class FakeLease:
    def __init__(self) -> None:
        self.is_valid = True
        self.asked = 0
        self.renewed = asyncio.Event()

    async def confirmed(self) -> None:
        self.asked += 1
        await self.renewed.wait()


class AskingSink(ScriptedSink):
    """Each record in a request of its own, which takes a second. ``refused``: the first requests, refused so."""

    def __init__(self, *refused: RetryLater) -> None:
        super().__init__()
        self.refused = list(refused)
        self.requests: list[str] = []

    async def deliver(self, batch: Sequence[Record]) -> Receipt:
        for index, name in enumerate(named(batch)):
            if not self.context.may_send():
                return Receipt(range(index, len(batch)), WITHHELD)
            self.requests.append(name)
            await asyncio.sleep(1.0)
            if self.refused:
                return Receipt(range(index, len(batch)), self.refused.pop(0))
        return ALL_STORED


class TellingSink(ScriptedSink):
    """Keeps the context of each ``open``."""

    def __init__(self, *, opens: Sequence[Exception | None]) -> None:
        super().__init__(opens=opens)
        self.contexts: list[SinkContext] = []

    async def open(self, context: SinkContext) -> None:
        self.contexts.append(context)
        await super().open(context)


class Elected(World):
    def __init__(self, sink: ScriptedSink, lanes: Lanes | None = None, names: str = "a") -> None:
        super().__init__(sink, pods(names), lanes=lanes)
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
    world = Elected(
        ScriptedSink(opens=[SinkUnavailable("the leader of term 8 has taken the topics over", fenced=True)])
    )
    async with world.running() as worker:
        await world.until(lambda: world.lease.asked)
        await asyncio.sleep(HOUR)
        assert worker.state is not SinkState.FENCED
        assert not world.sink.times
        world.lease.renewed.set()
        await worker.wait_idle()
    assert world.pending.settled == 1


@virtual
async def test_the_next_sink_learns_what_is_in_doubt() -> None:
    """Until another thing is in doubt. A failure that says nothing about it leaves it as it is."""
    opens = [
        SinkUnavailable("its last message 17 cannot be read", doubted=True, in_doubt=17),
        SinkUnavailable("no route"),
        SinkUnavailable("another publisher writes", doubted=True, in_doubt=0),
    ]
    world = Elected(TellingSink(opens=opens))
    world.lease.renewed.set()
    await world.run_until_idle()
    assert isinstance(world.sink, TellingSink)
    assert [context.in_doubt for context in world.sink.contexts] == [0, 17, 17, 0]
    assert world.lease.asked == 2, "for each doubt"


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


@pytest.mark.parametrize("failure", [FENCED, DOUBTED], ids=["fence", "412"])
@virtual
async def test_no_lane_goes_on_before_the_lease_is_renewed(failure: RetryLater) -> None:
    world = Elected(ScriptedSink(Receipt((0,), failure)), Lanes(concurrency=3))
    async with world.running() as worker:
        await world.until(lambda: world.lease.asked)
        world.pending.happened(*pods("bcd", 2))
        await asyncio.sleep(HOUR)
        assert world.sink.batches == [["a1"]]
        world.lease.renewed.set()
        await worker.wait_idle()
    assert world.pending.settled == 4


@virtual
async def test_a_412_ends_the_requests_of_other_lanes() -> None:
    """The one under way ends, and no other begins."""
    sink = AskingSink(DOUBTED)
    world = Elected(sink, Lanes(concurrency=2), "aaabbb")
    async with world.running() as worker:
        await world.until(lambda: world.lease.asked)
        await asyncio.sleep(HOUR)
        assert sorted(sink.requests) == ["a1", "b4"]
        world.lease.renewed.set()
        await worker.wait_idle()
    assert sorted(sink.requests) == ["a1", "a1", "a2", "a3", "b4", "b5", "b6"], "what is stored is not sent again"


@virtual
async def test_a_doubt_that_comes_later_waits_for_a_later_renewal() -> None:
    sink = AskingSink(DOUBTED, DOUBTED)
    world = Elected(sink, Lanes(concurrency=2))
    async with world.running() as worker:
        await asyncio.sleep(0.5)
        world.pending.happened(*pods("b", 2))
        await world.until(lambda: world.lease.asked == 1)
        first, world.lease.renewed = world.lease.renewed, asyncio.Event()
        await world.until(lambda: world.lease.asked == 2)
        first.set()
        await asyncio.sleep(HOUR)
        assert sink.requests == ["a1", "b2"], "a renewal that began before the second 412 says nothing about it"
        world.lease.renewed.set()
        await worker.wait_idle()
    assert sorted(sink.requests) == ["a1", "a1", "b2", "b2"]


@pytest.mark.parametrize("lanes", [None, Lanes(concurrency=2, batch=3)], ids=["batches", "lanes"])
@virtual
async def test_a_request_of_a_delivery_needs_the_lease(lanes: Lanes | None) -> None:
    sink = AskingSink()
    world = Elected(sink, lanes, "aaa")
    async with world.running() as worker:
        await world.until(lambda: sink.requests)
        world.lease.is_valid = False
        await asyncio.sleep(HOUR)
        assert sink.requests == ["a1"]
        world.lease.is_valid = True
        world.lease.renewed.set()
        await worker.wait_idle()
    assert sink.requests == ["a1", "a2", "a3"]
    assert not world.reported(DeliveryDelayed), "the destination is not at fault"
    assert not world.reported(CircuitOpened)


@virtual
async def test_what_is_withheld_decides_nothing() -> None:
    """It may be the single attempt of an open circuit."""
    down = RetryLater("down", unavailable=True)
    world = Elected(ScriptedSink(Receipt((0,), down), Receipt((0,), WITHHELD)), Lanes(concurrency=2))
    async with world.running() as worker:
        await worker.wait_idle()
    assert world.sink.batches == [["a1"]] * 3
    assert len(world.reported(CircuitOpened)) == len(world.reported(CircuitClosed)) == 1


@virtual
async def test_without_an_election_a_sink_may_always_send() -> None:
    sink = AskingSink()
    world = World(sink, pods("ab"))
    await world.run_until_idle()
    assert sink.context.may_send is always
    assert sink.requests == ["a1", "b2"]
