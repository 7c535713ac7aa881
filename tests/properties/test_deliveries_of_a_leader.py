"""I5 for deliveries: a leader stands still at any moment, loses the Lease, and meets endpoints that know another one.

A real worker and a real Tenure in virtual time, with a sink that begins several requests in a delivery, and waits in
front of each.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from itertools import count
from math import inf
from random import Random

from hypothesis import event, given
from hypothesis import strategies as st
from msgspec.structs import replace

from bridge.model.record import Record
from bridge.replication.elector import Tenure
from sinks.base import ALL_STORED, WITHHELD, Lanes, Receipt, RetryLater
from tests.bridge.delivery.fakes import ScriptedSink, named, pods
from tests.bridge.delivery.world import World
from tests.kit.examples import examples
from tests.kit.virtual_time import run_in_virtual_time

DEADLINE, PERIOD = 10.0, 2.0
AWAY = 15.0
"""Seconds until this replica leads again."""
LENGTH = 60.0
"""Seconds in which records come and things go wrong."""
DOUBTED = RetryLater("answers 412", unavailable=True, doubted=True)
DOWN = RetryLater("is down", unavailable=True)


def now() -> float:
    return asyncio.get_running_loop().time()


def stand_still(seconds: float) -> None:
    """Timers that have come due meanwhile are called in their order, before anybody is cancelled."""
    asyncio.get_running_loop()._jumping.now += seconds  # type: ignore[attr-defined]


class SlowSink(ScriptedSink):
    """A request for each record, in its turn."""

    def __init__(self, random: Random, begins: Callable[[], None], answers: Callable[[RetryLater], None]) -> None:
        super().__init__()
        self.withheld = 0
        self._random, self._begins, self._answers = random, begins, answers

    async def deliver(self, batch: Sequence[Record]) -> Receipt:
        for index, record in enumerate(batch):
            await asyncio.sleep(self._random.choice((0.0, 0.1, 1.0, 4.0)))
            if not self.context.may_send():
                self.withheld += 1
                return Receipt(range(index, len(batch)), WITHHELD)
            self._begins()
            await asyncio.sleep(self._random.choice((0.001, 0.1, 2.0)))
            if now() < LENGTH + 1000 and self._random.random() < 0.15:
                failure = self._random.choice((DOUBTED, DOWN))
                self._answers(failure)
                return Receipt(range(index, len(batch)), failure)
            self.stored.append(record)
        return ALL_STORED


class Replica:
    """The worker of one sink, in term after term."""

    def __init__(self, random: Random, lanes: Lanes | None) -> None:
        self.sink = SlowSink(random, self._begins, self._answers)
        self.world = World(self.sink, lanes=lanes, max_batch=5)
        self.terms = 0
        self._random = random
        self._tenure: Tenure
        self._renewed = -inf
        """When the newest renewal that succeeded began."""
        self._doubted = -inf
        """When an endpoint said last that it knows another leader."""

    def _begins(self) -> None:
        assert self._tenure.is_valid, "no request begins after the deadline"
        # Virtual time has moments in which several things happen in turn.
        assert self._renewed >= self._doubted, "no request begins before the Lease is renewed"

    def _answers(self, failure: RetryLater) -> None:
        if failure.doubted:
            self._doubted = now()

    async def run(self) -> None:
        while True:
            self.terms += 1
            self._renewed = now()
            self._tenure = tenure = Tenure(
                self.terms, None, now() + DEADLINE, now, DEADLINE, clean=True, hasten=lambda: None
            )
            self.world._settings = replace(self.world._settings, lease=tenure)
            async with self.world.running(), asyncio.TaskGroup() as tasks:
                renewing = tasks.create_task(self._renew(tenure))
                await self._until_lost(tenure)
                renewing.cancel()
                for _ in range(3):  # As many tasks are cancelled in front of the worker.
                    await asyncio.sleep(0)
            await asyncio.sleep(AWAY)

    async def _renew(self, tenure: Tenure) -> None:
        while True:
            began = now()
            await asyncio.sleep(self._random.choice((0.001, 0.001, 0.1, 3.0, 12.0)) if began < LENGTH + 1000 else 0.001)
            if tenure.is_valid:  # As Rules.written: what was lost stays lost.
                self._renewed = began
                tenure.hold_until(max(tenure.deadline, began + DEADLINE))
            await asyncio.sleep(PERIOD)

    async def _until_lost(self, tenure: Tenure) -> None:
        while tenure.is_valid:  # noqa: ASYNC110 (a timer, as the elector's)
            await asyncio.sleep(tenure.deadline - now())
        tenure.hold_until(-inf)


async def deliveries(random: Random, lanes: Lanes | None, freezes: Sequence[tuple[float, float]]) -> Replica:
    replica = Replica(random, lanes)
    pending, numbers = replica.world.pending, count(1)
    for when, seconds in freezes:
        asyncio.get_running_loop().call_later(when, stand_still, seconds)
    async with asyncio.TaskGroup() as tasks:
        leading = tasks.create_task(replica.run())
        while now() < LENGTH + 1000:
            names = random.choice(("a", "ab", "aab", "abcde"))
            pending.happened(*(pods(name, next(numbers))[0] for name in names))
            await asyncio.sleep(random.choice((0.1, 1.0, 5.0)))
        while pending.backlog_records:  # noqa: ASYNC110 (the fakes have no events)
            await asyncio.sleep(PERIOD)
        leading.cancel()
    return replica


@examples(100)
@given(
    seed=st.integers(0, 2**32),
    lanes=st.sampled_from([None, Lanes(concurrency=3), Lanes(concurrency=2, batch=4)]),
    freezes=st.lists(st.tuples(st.floats(0, LENGTH), st.floats(1, 30)), max_size=5),
)
def test_no_request_begins_while_the_lease_is_uncertain(
    seed: int, lanes: Lanes | None, freezes: list[tuple[float, float]]
) -> None:
    replica = run_in_virtual_time(deliveries(Random(seed), lanes, freezes))

    event(f"{min(replica.terms, 4)} terms")
    event("withheld" if replica.sink.withheld else "nothing withheld")
    assert set(named(replica.sink.stored)) == set(named(replica.world.pending.records))
