"""The newest items of an endless sequence."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from bridge.model.primitives.ring import Ring, Slice


def a_ring(count: int, *, max_items: int = 100, max_bytes: int = 1000) -> Ring[int]:
    ring: Ring[int] = Ring(max_items, max_bytes)
    for number in range(1, count + 1):
        assert ring.append(number, 10) == number
    return ring


def test_items_are_numbered_from_one() -> None:
    ring = a_ring(3)

    assert (ring.first, ring.last, len(ring)) == (1, 3, 3)
    assert ring.read(0, 10) == Slice([1, 2, 3], 1)


def test_an_empty_ring_begins_where_the_next_item_will_be() -> None:
    ring = a_ring(0)

    assert (ring.first, ring.last) == (1, 0)
    assert ring.read(0, 10) == Slice([], 1)
    assert ring.read(0, 10).last == 0


def test_the_oldest_leave_where_there_are_too_many_or_too_large() -> None:
    assert a_ring(7, max_items=3).read(0, 10) == Slice([5, 6, 7], 5)
    assert a_ring(7, max_bytes=25).read(0, 10) == Slice([6, 7], 6)
    assert a_ring(7, max_bytes=25).bytes == 20


def test_the_newest_item_is_kept_whatever_its_size() -> None:
    ring = a_ring(3)
    ring.append(4, 10_000)

    assert ring.read(0, 10) == Slice([4], 4)
    ring.append(5, 1)
    assert ring.read(0, 10) == Slice([5], 5)


def test_trimming_forgets_up_to_a_number_and_no_further() -> None:
    ring = a_ring(5)
    ring.trim(3)
    assert ring.read(0, 10) == Slice([4, 5], 4)

    ring.trim(99)
    assert (len(ring), ring.bytes, ring.first, ring.last) == (0, 0, 6, 5)


@given(after=st.integers(5, 20), kept=st.integers(0, 5))
def test_reading_behind_the_newest_item_finds_nothing_yet(after: int, kept: int) -> None:
    ring = a_ring(5)
    ring.trim(5 - kept)

    found = ring.read(after, 10)
    assert list(found.items) == []
    assert found.first == 6


class AgainstAList(RuleBasedStateMachine):
    @initialize(max_items=st.integers(1, 8), max_bytes=st.integers(1, 60))
    def begin(self, max_items: int, max_bytes: int) -> None:
        self.max_items, self.max_bytes = max_items, max_bytes
        self.ring: Ring[int] = Ring(max_items, max_bytes)
        self.all: list[int] = []
        self.gone = 0

    @rule(size=st.integers(0, 30))
    def append(self, size: int) -> None:
        self.all.append(size)
        assert self.ring.append(size, size) == len(self.all)
        while len(self.all) - self.gone > 1 and (
            len(self.all) - self.gone > self.max_items or sum(self.all[self.gone :]) > self.max_bytes
        ):
            self.gone += 1

    @rule(through=st.integers(0, 40))
    def trim(self, through: int) -> None:
        self.ring.trim(through)
        self.gone = max(self.gone, min(through, len(self.all)))

    @rule(after=st.integers(0, 40), limit=st.integers(1, 12))
    def read(self, after: int, limit: int) -> None:
        start = min(max(after, self.gone), len(self.all))
        found = self.ring.read(after, limit)
        assert list(found.items) == self.all[start : start + limit]
        assert found.first == start + 1
        assert found.last == start + len(found.items)

    @invariant()
    def bounds(self) -> None:
        if hasattr(self, "ring"):
            assert (len(self.ring), self.ring.last) == (len(self.all) - self.gone, len(self.all))
            assert self.ring.first == self.gone + 1
            assert self.ring.bytes == sum(self.all[self.gone :])


TestAgainstAList = AgainstAList.TestCase
