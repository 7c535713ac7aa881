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


class _Saved(msgspec.Struct, frozen=True, omit_defaults=True):
    newest: str = ""
    unmarked: str = ""
    snapshot: str = ""
    counts: dict[str, dict[int, int]] | None = {}
    topics: dict[str, TopicState] = {}
    key: str = ""
    state: str = ""


class KafkaMemory:
    """``saved`` gives the bytes for ``Receipt.memory``, and the constructor reads them back."""

    def __init__(self, saved: bytes = b"") -> None:
        """Bytes that cannot be read stand for an unknown gap: every later record names it."""
        try:
            found = msgspec.json.decode(saved, type=_Saved) if saved else _Saved()
        except (msgspec.MsgspecError, UnicodeDecodeError):
            found = _Saved(UNKNOWN_GAP.decode(), UNKNOWN_GAP.decode())
        self.newest_gap = found.newest
        """The id of the newest gap; empty before the first."""
        self.unmarked_gap = found.unmarked
        """The id of the newest gap that lacks a marker in some partition where it belongs."""
        self._snapshot = found.snapshot
        self._counts = found.counts
        """Topic → partition → records of the snapshot; None when there are too many partitions for markers."""
        self.topics: Mapping[str, TopicState] = found.topics
        """The topics as they were last seen, for ``topic_watch``."""
        self.key = found.key
        """The option ``key`` as it was last; empty before the first time."""
        self.state = found.state
        """The option ``state_topic`` as it was last; empty without one."""
        self.unchanged: bytes | None = saved
        """The bytes as they were given or last made; None since a change."""

    def saved(self) -> bytes:
        """Returns the same object until the state changes."""
        if self.unchanged is None:
            topics = dict(self.topics)
            self.unchanged = msgspec.json.encode(
                _Saved(self.newest_gap, self.unmarked_gap, self._snapshot, self._counts, topics, self.key, self.state)
            )
        return self.unchanged

    def add_gap(self, gap: str, *, marked: bool) -> None:
        """The gap with this id is stored. ``marked``: every partition where the gap belongs has its marker."""
        self.newest_gap = later_gap(self.newest_gap, gap)
        if not marked:
            self.unmarked_gap = later_gap(self.unmarked_gap, gap)
        self.unchanged = None

    def count(self, snapshot: str, topic: str, partition: int) -> None:
        """Counts a record of this snapshot that is stored in the partition."""
        if snapshot != self._snapshot:
            self._snapshot, self._counts = snapshot, {}
        self.unchanged = None
        if self._counts is None:
            return
        counts = self._counts.setdefault(topic, {})
        counts[partition] = counts.get(partition, 0) + 1
        if counts[partition] == 1 and sum(map(len, self._counts.values())) > MAX_MARKED_PARTITIONS:
            self._counts = None

    def set_options(self, key: str, state: str) -> None:
        if (key, state) != (self.key, self.state):
            self.key, self.state, self.unchanged = key, state, None

    def set_topics(self, topics: Mapping[str, TopicState]) -> None:
        """These topics were seen so."""
        changed = {**self.topics, **topics}
        if changed != self.topics:
            self.topics, self.unchanged = changed, None

    def counts(self, snapshot: str) -> Mapping[str, Mapping[int, int]] | None:
        """Topic → partition → records of this snapshot; None when there are too many partitions for markers."""
        return self._counts if snapshot == self._snapshot else {}

    def end_snapshot(self) -> None:
        """The end of the snapshot is stored: the counts are no longer needed."""
        if self._snapshot:
            self._snapshot, self._counts, self.unchanged = "", {}, None
