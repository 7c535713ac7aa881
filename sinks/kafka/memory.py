"""The state of a Kafka sink that survives a restart (``Receipt.memory``): the newest gap, counts of a snapshot,
and the topics as they were last seen, by which changes that their owners made are noticed. Nothing here asks a broker.

A gap with a marker in every partition where it belongs needs no further mention. Any other gap is named in the headers
of every later record. For each snapshot the sink counts the records in each partition, because the marker at the end of
the snapshot has that number. Of each topic the memory has the id and the number of partitions, because changes of both
(created again, more partitions) concern consumers.

The memory is a few bytes beside the sink's cursor, saved in the same transaction. Topics of the sink itself would need
a consumer and another right.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from bridge.model.record import later_gap
from sinks.gaps import UNKNOWN_GAP


class TopicState(msgspec.Struct, frozen=True, array_like=True):
    """A topic as the brokers described it."""

    id: str
    """A topic that is created again has another id. Empty where the brokers have no ids."""
    partitions: int


MAX_MARKED_PARTITIONS = 1_000
"""Partitions of all topics together. A notice about more partitions gets no markers."""


class KafkaMemory(msgspec.Struct, omit_defaults=True, rename={"newest_gap": "newest", "unmarked_gap": "unmarked"}):
    """``saved`` makes the bytes for ``Receipt.memory``, and ``read`` reads them back."""

    newest_gap: str = ""
    """The id of the newest gap; empty before the first."""
    unmarked_gap: str = ""
    """The id of the newest gap that lacks a marker in some partition where it belongs."""
    snapshot: str = ""
    """The id of the snapshot whose records are counted."""
    counts: dict[str, dict[int, int]] | None = {}
    """Topic → partition → records of the snapshot; None when there are too many partitions for markers."""
    topics: dict[str, TopicState] = {}
    """The topics as they were last seen, for ``topic_watch``."""
    key: str = ""
    """The option ``key`` as it was last; empty before the first time."""
    state: str = ""
    """The option ``state_topic`` as it was last; empty without one."""

    @classmethod
    def read(cls, saved: bytes) -> KafkaMemory:
        """Bytes that cannot be read stand for an unknown gap: every later record names it."""
        try:
            return msgspec.json.decode(saved, type=cls) if saved else cls()
        except (msgspec.MsgspecError, UnicodeDecodeError):
            return cls(UNKNOWN_GAP.decode(), UNKNOWN_GAP.decode())

    def saved(self) -> bytes:
        return msgspec.json.encode(self)

    def add_gap(self, gap: str, *, marked: bool) -> None:
        """The gap with this id is stored. ``marked``: every partition where the gap belongs has its marker."""
        self.newest_gap = later_gap(self.newest_gap, gap)
        if not marked:
            self.unmarked_gap = later_gap(self.unmarked_gap, gap)

    def count(self, snapshot: str, topic: str, partition: int) -> None:
        """Counts a record of this snapshot that is stored in the partition."""
        if snapshot != self.snapshot:
            self.snapshot, self.counts = snapshot, {}
        if self.counts is None:
            return
        counts = self.counts.setdefault(topic, {})
        counts[partition] = counts.get(partition, 0) + 1
        if counts[partition] == 1 and sum(map(len, self.counts.values())) > MAX_MARKED_PARTITIONS:
            self.counts = None

    def counts_of(self, snapshot: str) -> Mapping[str, Mapping[int, int]] | None:
        """Topic → partition → records of this snapshot; None when there are too many partitions for markers."""
        return self.counts if snapshot == self.snapshot else {}

    def end_snapshot(self) -> None:
        """The end of the snapshot is stored: the counts are no longer needed."""
        self.snapshot, self.counts = "", {}
