"""The state of each object is the newest that its history has, whatever fails and whenever the bridge is killed.

The two destinations are models: each stores a part of a batch, rejects what is too large, and fails or is cut off
anywhere. The bridge is a cursor that parks what comes behind a dead letter.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from bridge.model.change import Op
from bridge.model.record import Delta, OrderingKey, Record
from sinks.receipt import BatchResult, Receipt, RetryLater
from sinks.state import StateBesideHistory
from tests.kit.examples import examples
from tests.kit.records import a_delta


class Killed(Exception):
    """The process ended in the middle of a delivery."""


@dataclass
class Destination:
    """Stores records in their order. `turns` say for each delivery how many it stores, and how it ends then."""

    turns: list[tuple[int, str]]
    too_large: frozenset[int]
    stored: list[Delta] = field(default_factory=list)

    async def deliver(self, batch: Sequence[Record]) -> Receipt:
        room, end = self.turns.pop() if self.turns else (len(batch), "answers")
        result = BatchResult(batch)
        for index, record in enumerate(batch):
            if record.sequence in self.too_large:
                result.reject(index, "too large")
        left = result.sendable(range(len(batch)))
        for index in left[:room]:
            record = batch[index]
            assert isinstance(record, Delta)
            self.stored.append(record)
        if end == "is killed":
            raise Killed
        return result.receipt(left[room:], RetryLater("no room") if left[room:] else None)


@dataclass
class Bridge:
    """Delivers the log from its cursor, and parks records behind dead letters, as a worker does."""

    log: Sequence[Delta]
    history: Destination
    state: Destination
    settled: int = 0
    parked: dict[OrderingKey, int] = field(default_factory=dict)
    """Object → the sequence number of its first dead letter."""

    async def run(self, size: int) -> None:
        """Until everything is settled, or it is killed."""
        sink = StateBesideHistory(self.history.deliver, self.state.deliver, lambda delta: delta.key)
        while batch := list(self.log[self.settled : self.settled + size]):
            taken = len(batch)
            while batch := [each for each in batch if not self._is_parked(each)]:
                receipt = await sink.deliver(batch)
                for index in receipt.rejected:
                    key = batch[index].ordering_key
                    self.parked[key] = min(batch[index].sequence, self.parked.get(key, 1 << 62))
                self.expect_the_state_behind_the_history()
                batch = [batch[index] for index in receipt.pending]
            self.settled += taken

    def _is_parked(self, record: Delta) -> bool:
        return self.parked.get(record.ordering_key, 1 << 62) <= record.sequence

    def expect_the_state_behind_the_history(self) -> None:
        newest = {each.key: max(each.sequence, 0) for each in sorted(self.history.stored, key=lambda one: one.sequence)}
        for record in self.state.stored:
            assert record.sequence <= newest[record.key], "no state is in front of its history"


keys = st.sampled_from(["shop/a", "shop/b", "shop/c"])
turns = st.lists(st.tuples(st.integers(0, 6), st.sampled_from(["answers", "answers", "is killed"])), max_size=8)


async def lived_through(bridge: Bridge, size: int) -> int:
    """Kills, until everything is settled."""
    kills = 0
    while True:
        try:
            await bridge.run(size)
        except Killed:
            kills += 1
        else:
            return kills


@examples(200)
@given(
    objects=st.lists(keys, min_size=1, max_size=20),
    size=st.integers(1, 7),
    of_history=turns,
    of_state=turns,
    large=st.frozensets(st.integers(1, 20), max_size=2),
    too_large_for_state=st.frozensets(st.integers(1, 20), max_size=2),
)
def test_the_state_is_the_newest_of_each_history(
    objects: list[str],
    size: int,
    of_history: list[tuple[int, str]],
    of_state: list[tuple[int, str]],
    large: frozenset[int],
    too_large_for_state: frozenset[int],
) -> None:
    log = [a_delta(number, key=key) for number, key in enumerate(objects, 1)]
    bridge = Bridge(log, Destination(of_history, large), Destination(of_state, too_large_for_state))
    kills = asyncio.run(lived_through(bridge, size))

    state = {record.key: record.sequence for record in bridge.state.stored}
    for key in set(objects):
        parked_at = bridge.parked.get((log[0].resource.name, key), 1 << 62)
        delivered = [each.sequence for each in log if each.key == key and each.sequence < parked_at]
        assert state.get(key) == (delivered[-1] if delivered else None)
    if not kills:
        times = Counter(record.sequence for record in bridge.history.stored)
        assert set(times.values()) <= {1}, "what waits for the state is not sent to the history again"


async def test_only_the_newest_record_of_a_key_is_sent() -> None:
    batch = [a_delta(1), a_delta(2, key="shop/b"), a_delta(3), a_delta(4, op=Op.DELETED)]
    history, state = Destination([], frozenset()), Destination([], frozenset())
    sink = StateBesideHistory(history.deliver, state.deliver, lambda delta: delta.key)

    assert not (await sink.deliver(batch)).pending
    assert history.stored == batch
    assert state.stored == [batch[1], batch[3]]
