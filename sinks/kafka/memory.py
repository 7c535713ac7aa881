"""What a Kafka sink must know again after a restart. Pure.

Where a gap has a marker in every partition that it belongs to, the marker is all that is to be said. Where it has not,
every later record names the gap in its headers. How many records of a snapshot came into which partition is counted
until the snapshot ends, because the marker at its end says so.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from bridge.model.record import later_gap

MOST_PARTITIONS = 1_000
"""That get a marker, of all topics together."""
_NOBODY_KNOWS = "gap/unknown"


class _Saved(msgspec.Struct, frozen=True, omit_defaults=True):
    newest: str = ""
    unmarked: str = ""
    snapshot: str = ""
    counts: dict[str, dict[int, int]] | None = {}


class Memory:
    def __init__(self, saved: bytes = b"") -> None:
        try:
            found = msgspec.json.decode(saved, type=_Saved) if saved else _Saved()
        except (msgspec.MsgspecError, UnicodeDecodeError):
            found = _Saved(_NOBODY_KNOWS, _NOBODY_KNOWS)
        self.newest_gap = found.newest
        """Its id; empty before the first."""
        self.unmarked_gap = found.unmarked
        """The newest that did not get its marker in every partition where it belongs."""
        self._snapshot = found.snapshot
        self._counts = found.counts
        """Topic → partition → records of the snapshot; None where there are too many partitions for markers."""
        self._saved: bytes | None = saved

    def saved(self) -> bytes:
        """The same object until something changes."""
        if self._saved is None:
            self._saved = msgspec.json.encode(_Saved(self.newest_gap, self.unmarked_gap, self._snapshot, self._counts))
        return self._saved

    def gap(self, gap: str, *, marked: bool) -> None:
        """This gap was told, and whether it has its marker wherever it belongs."""
        self.newest_gap = later_gap(self.newest_gap, gap)
        if not marked:
            self.unmarked_gap = later_gap(self.unmarked_gap, gap)
        self._saved = None

    def count(self, snapshot: str, topic: str, partition: int) -> None:
        """A record of this snapshot is stored there."""
        if snapshot != self._snapshot:
            self._snapshot, self._counts = snapshot, {}
        self._saved = None
        if self._counts is None:
            return
        counts = self._counts.setdefault(topic, {})
        counts[partition] = counts.get(partition, 0) + 1
        if counts[partition] == 1 and sum(map(len, self._counts.values())) > MOST_PARTITIONS:
            self._counts = None

    def counts(self, snapshot: str) -> Mapping[str, Mapping[int, int]] | None:
        """Topic → partition → records of this snapshot; None where there are more partitions than get markers."""
        return self._counts if snapshot == self._snapshot else {}

    def ended(self) -> None:
        """The snapshot was told to its end."""
        if self._snapshot:
            self._snapshot, self._counts, self._saved = "", {}, None
