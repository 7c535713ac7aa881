"""Workers that are cancelled at any moment, on sinks that fail, reject and dawdle, with an operator who interferes:
nothing is lost, nothing is settled too early, and nothing comes out of order."""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Sequence
from random import Random
from typing import Any

from hypothesis import event, given
from hypothesis import strategies as st

from bridge.model.policies import OnRejected
from bridge.model.record import Delta, Record
from sinks.base import BatchResult, Lanes, Receipt, RetryLater
from tests.bridge.delivery.fakes import ScriptedSink, a_pod
from tests.bridge.delivery.world import World
from tests.kit.examples import examples
from tests.kit.records import a_gap
from tests.kit.virtual_time import run_in_virtual_time

LANES = [None, Lanes(concurrency=3), Lanes(concurrency=2, batch=3)]


class Moody(ScriptedSink):
    """Stores one record after another, each after a while, until something happens; a cancelled delivery has stored
    what it had come to. Notes in which order records came to be there."""

    def __init__(self, rng: Random, rejected: set[int]) -> None:
        super().__init__()
        self.rng = rng
        self.refused = rejected
        """Sequence numbers."""
        self.moody = True
        self._under_way: Counter[object] = Counter()

    async def deliver(self, batch: Sequence[Record]) -> Receipt:
        keys = {record.ordering_key for record in batch}
        assert not any(self._under_way[key] for key in keys), "an object is with one delivery at a time"
        assert all(isinstance(record, Delta) for record in batch) or (len(batch) == 1 and not +self._under_way)
        assert not self._under_way["", ""], "nothing is beside a notice"
        self._under_way.update(keys)
        try:
            return await self._store(batch)
        finally:
            self._under_way.subtract(keys)

    async def _store(self, batch: Sequence[Record]) -> Receipt:
        result = BatchResult(batch)
        for index, record in enumerate(batch):
            if not result.sendable([index]):
                continue
            await asyncio.sleep(self.rng.choice([0.0, 0.0, 0.01, 0.3]))
            if record.sequence in self.refused:
                result.reject(index, "too large")
            elif self.moody and self.rng.random() < 0.15:
                asked = self.rng.choice([None, 2.0])
                failure = RetryLater("moody", asked, unavailable=self.rng.random() < 0.3)
                return result.receipt(result.sendable(range(index, len(batch))), failure)
            else:
                self.stored.append(record)
        return result.receipt()


class Story:
    """A world, what an operator gave up in it, and what must hold of it at any moment."""

    def __init__(self, world: World, records: Sequence[Record]) -> None:
        self.world = world
        self.records = records
        self.dropped: set[str] = set()
        world.pending.on_settle = self._may_be_settled

    @property
    def arrived(self) -> set[str]:
        return {record.id for record in self.world.sink.stored} | self.dropped

    def _may_be_settled(self, records: Sequence[Record]) -> None:
        safe = self.arrived | {dead_letter.record.id for dead_letter in self.world.dead_letters.kept.values()}
        assert {record.id for record in records} <= safe, "settled too early"

    async def unfold(self, rng: Random, cancels: int, operator: bool) -> None:
        for _ in range(cancels):
            async with self.world.running():
                for _ in range(rng.randrange(4)):
                    await asyncio.sleep(rng.choice([0.0, 0.0005, 0.01, 0.5, 3.0, 30.0]))
                    if operator:
                        self._interfere(rng)

    def _interfere(self, rng: Random) -> None:
        dead_letters = self.world.dead_letters
        if dead_letters.kept and rng.random() < 0.3:
            self.dropped.add(dead_letters.drop_first().id)
        elif dead_letters.kept and rng.random() < 0.5:
            dead_letters.retry()

    def assert_in_order(self, parks: bool) -> None:
        """Of each object: no record is there before those in front of it, and the last to come is the newest."""
        dead_letters = {new_dead_letter.record.id for new_dead_letter in self.world.dead_letters.added}
        expected: dict[object, list[Record]] = defaultdict(list)
        for record in self.records:
            if isinstance(record, Delta) and record.id not in self.dropped and (parks or record.id not in dead_letters):
                expected[record.ordering_key].append(record)
        for key, wanted in expected.items():
            ids = [record.id for record in wanted]
            there = [record.id for record in self.world.sink.stored if record.ordering_key == key and record.id in ids]
            assert list(dict.fromkeys(there)) == ids
            assert there[-1] == ids[-1]
        self._assert_notices_in_order(dead_letters)

    def _assert_notices_in_order(self, dead_letters: set[str]) -> None:
        stored = [record.id for record in self.world.sink.stored]
        first = {id_: index for index, id_ in reversed(list(enumerate(stored)))}
        for index, notice in enumerate(self.records):
            if isinstance(notice, Delta) or notice.id in dead_letters:
                continue
            when = first[notice.id]
            for front in self.records[:index]:
                assert front.id in dead_letters or first[front.id] < when, f"{notice.id} overtook {front.id}"
            for behind in self.records[index + 1 :]:
                assert behind.id in dead_letters | self.dropped or first[behind.id] > when, f"{behind.id} overtook"


@given(
    names=st.lists(st.sampled_from("aaabbbccd!"), min_size=1, max_size=30),
    seed=st.integers(0, 1 << 32),
    cancels=st.integers(0, 4),
    lanes=st.sampled_from(LANES),
    policy=st.sampled_from(OnRejected),
    refused=st.sets(st.integers(1, 30), max_size=4),
    max_batch=st.sampled_from([1, 3, 100]),
    operator=st.booleans(),
)
@examples(50)
def test_nothing_is_lost_and_nothing_comes_out_of_order(
    names: list[str],
    seed: int,
    cancels: int,
    lanes: Lanes | None,
    policy: OnRejected,
    refused: set[int],
    max_batch: int,
    operator: bool,
) -> None:
    records = [a_gap(n, n) if name == "!" else a_pod(n, name) for n, name in enumerate(names, 1)]
    rng = Random(seed)
    bounds: dict[str, Any] = {} if lanes is None else {"max_records": rng.choice([2, 1000])}

    async def story() -> None:
        sink = Moody(rng, refused)
        world = World(sink, records, lanes=lanes, on_rejected=policy, max_batch=max_batch, jitter=rng.random, **bounds)
        story = Story(world, records)
        await story.unfold(rng, cancels, operator)
        await world.run_until_idle()
        kept = {dead_letter.record.id for dead_letter in world.dead_letters.kept.values()}
        assert story.arrived | kept == {record.id for record in records}
        assert kept - {each.id for each in records if each.sequence in refused} == set() or policy is OnRejected.PARK
        event(f"letters: {bool(kept)}, cancels: {bool(cancels)}, lanes: {lanes is not None}")

        sink.refused, sink.moody = set(), False
        world.dead_letters.retry()
        await world.run_until_idle()
        assert story.arrived == {record.id for record in records}
        assert world.dead_letters.kept == {}
        story.assert_in_order(parks=policy is OnRejected.PARK)
        if not cancels:
            assert len(sink.stored) == len({record.id for record in sink.stored}), "nobody was cancelled"

    run_in_virtual_time(story())
