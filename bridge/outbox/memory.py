"""The outbox in memory, of bounded length."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime

from bridge.model.change import Change, ChangeBatch
from bridge.model.record import Delta, Record
from bridge.model.ring import Ring, Slice


def utc_now() -> str:
    """RFC 3339 with microseconds, e.g. 2026-11-21T08:30:00.000001Z."""
    return datetime.now(UTC).isoformat(timespec="microseconds").removesuffix("+00:00") + "Z"


class MemoryOutbox:
    """Keeps what at least one sink has not settled, and of that the newest ``max_records`` and ``max_bytes`` of
    bodies. What leaves before a sink came to it is for the caller of ``read`` to see: the slice begins later."""

    def __init__(self, *, max_records: int, max_bytes: int, clock: Callable[[], str] = utc_now) -> None:
        self._ring: Ring[Record] = Ring(max_records, max_bytes)
        self._cursors: dict[str, int] = {}
        self._clock = clock

    @property
    def last(self) -> int:
        """Sequence number of the newest record; 0 before the first."""
        return self._ring.last

    @property
    def records(self) -> int:
        """Records that are kept at this moment."""
        return len(self._ring)

    @property
    def bytes(self) -> int:
        """Of bodies, kept at this moment."""
        return self._ring.bytes

    async def append(self, batch: ChangeBatch) -> Sequence[Delta]:
        """Store the changes of a batch, all or nothing; with them the watch position. Returns the records."""
        time = self._clock()
        first = self._ring.last + 1
        deltas = [_delta(batch, change, sequence, time) for sequence, change in enumerate(batch.changes, first)]
        for delta in deltas:
            self._ring.append(delta, len(delta.body))
        if not self._cursors:
            self._ring.trim(self._ring.last)
        return deltas

    async def read(self, after: int, limit: int) -> Slice[Record]:
        """At most ``limit`` records behind sequence number ``after``; the slice begins later where some are gone."""
        return self._ring.read(after, limit)

    # ── Cursors ──────────────────────────────────────────────────────────────

    def register(self, sink: str) -> int:
        """Keep records for this sink from now on. Returns its cursor: it has settled everything up to there."""
        return self._cursors.setdefault(sink, self._ring.last)

    def settle(self, sink: str, through: int) -> None:
        """Everything up to ``through`` is settled for this sink; what is settled for all of them is dropped."""
        self._cursors[sink] = max(self._cursors[sink], through)
        self._ring.trim(min(self._cursors.values()))

    def cursor(self, sink: str) -> int:
        return self._cursors[sink]

    def forget(self, sink: str) -> None:
        """This sink holds back nothing any more."""
        self._cursors.pop(sink, None)


def _delta(batch: ChangeBatch, change: Change, sequence: int, time: str) -> Delta:
    thing = change.object
    return Delta(
        sequence,
        change.op,
        change.evidence,
        batch.resource,
        thing.key,
        thing.uid,
        thing.resource_version,
        time,
        batch.epoch,
        thing.body,
        None,
        change.audience,
    )
