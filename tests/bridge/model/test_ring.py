"""The newest items of an endless sequence."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from bridge.model.primitives.ring import Ring


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
