"""The sparse index against a model that remembers every record."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from bridge.outbox.log.retention import SparseIndex

EPSILON = 1e-9


@dataclass(frozen=True)
class Checkpoint:
    sequence: int
    size: int
    came: float


class AgainstAModel(RuleBasedStateMachine):
    """Commits of any size at any time, even earlier than the last, and a log that is trimmed."""

    @initialize(most=st.sampled_from([8, 12, 4000]), beginning=st.floats(-1e6, 1e6))
    def begin(self, most: int, beginning: float) -> None:
        self.sparse_index = SparseIndex(most)
        self.merges = most < 4000
        self.records: list[Checkpoint] = []
        self.ends: list[int] = [0]
        self.clock = self.newest = beginning
        self.total = self.last = self.trimmed = 0

    @rule(sizes=st.lists(st.integers(0, 500), min_size=1, max_size=6), seconds=st.floats(-5, 50))
    def commit(self, sizes: list[int], seconds: float) -> None:
        self.clock += seconds
        self.newest = max(self.newest, self.clock) if self.records or self.last else self.clock
        for size in sizes:
            self.last += 1
            self.total += size
            self.records.append(Checkpoint(self.last, size, self.newest))
        self.ends.append(self.last)
        self.sparse_index.reached(self.last, self.total, self.clock)

    @precondition(lambda self: self.records)
    @rule(data=st.data())
    def trim(self, data: st.DataObject) -> None:
        self.trimmed = data.draw(st.integers(self.trimmed, self.last))
        self.records = [record for record in self.records if record.sequence > self.trimmed]
        self.sparse_index.trim(self.trimmed)

    def behind(self, sequence: int) -> list[Checkpoint]:
        return [record for record in self.records if record.sequence > sequence]

    @invariant()
    def what_stands_behind_a_record_is_known(self) -> None:
        for sequence in range(self.trimmed, self.last + 1):
            behind = self.behind(sequence)
            size, age = sum(record.size for record in behind), self.newest - behind[0].came if behind else 0.0
            received = self.sparse_index.bytes_after(sequence), self.sparse_index.age_of(sequence, self.newest)
            assert received[0] >= size
            assert received[1] >= age - EPSILON
            if not self.merges and sequence in self.ends:
                assert received[0] == size
            if not self.merges or not behind:
                assert abs(received[1] - age) < EPSILON

    @rule(limit=st.integers(0, 3000))
    def bytes_find_their_sequence(self, limit: int) -> None:
        of, within = self.sparse_index.sequence_of_bytes(limit), self.sparse_index.sequence_within_bytes(limit)
        assert of <= self.last
        assert sum(record.size for record in self.behind(within)) <= limit
        if of > self.trimmed:
            assert sum(record.size for record in self.behind(of)) >= limit
        if not self.merges:
            left = {end: sum(record.size for record in self.behind(end)) for end in self.ends if end >= self.trimmed}
            assert within <= self.trimmed or within == min(end for end in left if left[end] <= limit)
            assert of <= self.trimmed or of == max(end for end in left if left[end] >= limit)

    @rule(seconds=st.floats(0, 200))
    def ages_find_their_sequence(self, seconds: float) -> None:
        of = self.sparse_index.sequence_of_age(seconds, self.newest)
        within = self.sparse_index.sequence_within_age(seconds, self.newest)
        old = [record.sequence for record in self.records if record.came <= self.newest - seconds]
        young = [record.sequence for record in self.records if record.came >= self.newest - seconds]
        assert of <= max(old, default=self.trimmed)
        assert within + 1 >= min(young, default=self.last + 1) or within < self.trimmed
        if not self.merges:
            assert of <= self.trimmed or of == max(old)

    @invariant()
    def memory_is_bounded(self) -> None:
        assert not self.merges or len(self.sparse_index) <= 12


TestAgainstAModel = AgainstAModel.TestCase
