"""The records of the log that a sink with a selection gets: numbers, bytes and ages, without a read of the log; and the
backlogs of all sinks.

A mark of the index stands for a record while there are few, and for neighbours when there are many: answers err by a
thousandth, to more.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple, cast

import apsw

from bridge.model.policies import BacklogBounds
from bridge.model.record import Delta, Record
from bridge.outbox.consumers import selections
from bridge.outbox.consumers.compaction import BacklogSize, drop_through
from bridge.outbox.consumers.cursors import SinkCursor
from bridge.outbox.consumers.selections import StoredSelection
from bridge.outbox.errors import Damaged
from bridge.outbox.log.retention import LogEnd, SparseIndex
from bridge.outbox.storage.database import one

_MOST = 4000
"""Parts in which a backlog is read at a start."""


class OwnRecords(NamedTuple):
    """Records of a sink that follow one another."""

    last: int
    """Sequence number of the last."""
    number: int
    bytes: int
    age: float
    """Of the first, in seconds."""


class OwnLog:
    """``bytes`` has the bytes and ages of the sink's records, ``records`` their numbers."""

    def __init__(self, selection: StoredSelection, known: Iterable[OwnRecords], now: float) -> None:
        self._sink = selection.sink
        self._mask = selection.mask
        self.bytes = SparseIndex()
        self.records = SparseIndex()
        """With a record as the unit in place of a byte."""
        self._bytes = self._records = 0
        for each in known:
            self._add(each.last, each.number, each.bytes, now - each.age)

    def add(self, deltas: Sequence[Delta], size: int, now: float) -> None:
        """Adds the sink's records of a commit, whose bodies take ``size`` bytes on disk."""
        total = sum(len(delta.body) for delta in deltas) or 1
        for delta in deltas:
            if self._is_own(delta):
                self._add(delta.sequence, 1, size * len(delta.body) // total, now)

    def add_notice(self, sequence: int, now: float) -> None:
        """A notice in the log is for every sink."""
        self._add(sequence, 1, 0, now)

    def between(self, after: int, through: int) -> int:
        """The number of records behind ``after``, up to ``through``."""
        return max(0, self.records.bytes_after(after) - self.records.bytes_after(through))

    def trim(self, through: int) -> None:
        """Forgets records up to ``through``."""
        self.bytes.trim(through)
        self.records.trim(through)

    def _is_own(self, delta: Delta) -> bool:
        if delta.targets is not None and self._sink not in delta.targets:
            return False
        return delta.selected is None or bool(delta.selected.takes & self._mask)

    def _add(self, sequence: int, count: int, size: int, now: float) -> None:
        self._bytes += size
        self._records += count
        self.bytes.reached(sequence, self._bytes, now)
        self.records.reached(sequence, self._records, now)


class Backlogs:
    """Measures backlogs: a sink with a selection has only its own records in it."""

    def __init__(self, own: Mapping[str, OwnLog], end: LogEnd) -> None:
        self._own = dict(own)
        self._end = end

    def begin(self, sink: str, own: OwnLog) -> None:
        """Measures the backlog of a sink by these records, and those that ``add`` brings from now on."""
        self._own[sink] = own

    def forget(self, sink: str) -> None:
        self._own.pop(sink, None)

    def add(self, records: Sequence[Record], size: int, now: float) -> None:
        """Adds the deltas of a commit, or its only notice. See OwnLog.add."""
        for own in self._own.values():
            if isinstance(records[0], Delta):
                own.add(cast("Sequence[Delta]", records), size, now)
            else:
                own.add_notice(records[0].sequence, now)

    def trim(self, cursors: Iterable[SinkCursor]) -> None:
        """Forgets records that are settled."""
        for cursor in cursors:
            if cursor.sink in self._own:
                self._own[cursor.sink].trim(cursor.counts_from)

    def records(self, cursor: SinkCursor) -> int:
        """Unsettled records."""
        own = self._own.get(cursor.sink)
        return cursor.backlog_records(self._end.last, _distance if own is None else own.between)

    def size(self, cursor: SinkCursor, whole: SparseIndex, now: float) -> BacklogSize:
        """Bytes and age are those of the log: items of a backfill count as records only, since their bytes belong to
        the ledger, which exists anyway. Not so the items of ``backfill_plans.extend``. ``whole``: the index of the
        log."""
        own = self._own.get(cursor.sink)
        index, after = (whole, cursor.holds) if own is None else (own.bytes, cursor.counts_from)
        age = index.age_of(after, now) if after < self._end.last else 0.0
        if cursor.has_in_flight:
            age = max(age, now - cursor.oldest_at)
        else:
            cursor.oldest_at = now - age
        return BacklogSize(self.records(cursor), index.bytes_after(after), age)

    def drop_through(
        self, cursor: SinkCursor, bounds: BacklogBounds, whole: SparseIndex, now: float, beside: int
    ) -> int:
        """See ``compaction.drop_through``."""
        own, held, last = self._own.get(cursor.sink), cursor.holds, self._end.last
        if own is None:
            return drop_through(bounds, whole, held, last, now, beside)
        return drop_through(bounds, own.bytes, held, last, now, beside, own.records.sequence_within_bytes)

    def bytes_for_others(self, cursor: SinkCursor, whole: SparseIndex) -> int:
        """Bytes of other sinks' records in the part of the log that this sink holds; 0 while its own are more."""
        if (own := self._own.get(cursor.sink)) is None:
            return 0
        held, mine = whole.bytes_after(cursor.holds), own.bytes.bytes_after(cursor.holds)
        return held - mine if held > 2 * mine else 0


def _distance(after: int, through: int) -> int:
    return max(0, through - after)


def read(database: apsw.Connection, sink: str, after: int, present: datetime) -> list[OwnRecords]:
    """The sink's records behind ``after``, in a bounded number of parts."""
    _, seen = selections.seen_by(database, sink)
    where, values = f"FROM log WHERE seq > ? AND {seen}", (after,)
    size = one(database, f"SELECT count(*) {where}", values) // _MOST + 1
    rows = database.execute(
        f"SELECT seq, length(body) + coalesce(length(before), 0), time {where} ORDER BY seq", values
    )
    return list(_parts(rows, size, present))


def read_all(database: apsw.Connection, settled: Mapping[str, int], now: str) -> dict[str, list[OwnRecords]]:
    """Sink with a selection → its records behind its cursor. ``now``: RFC 3339. Raises Damaged."""
    present = datetime.fromisoformat(now)
    known = selections.load(database)
    return {sink: read(database, sink, after, present) for sink, after in settled.items() if sink in known}


def age_of(time: str, present: datetime) -> float:
    """Seconds since a record's time; 0 where the clock went back. Raises Damaged."""
    try:
        return max(0.0, (present - datetime.fromisoformat(time)).total_seconds())
    except (ValueError, TypeError) as error:
        raise Damaged(f"a record has no valid time: {error}") from error


def _parts(rows: Iterator[tuple[int, int, str]], size: int, present: datetime) -> Iterator[OwnRecords]:
    count = total = last = 0
    age = 0.0
    for sequence, length, time in rows:
        age = age if count else age_of(time, present)
        last, count, total = sequence, count + 1, total + length
        if count == size:
            yield OwnRecords(last, count, total, age)
            count = total = 0
    if count:
        yield OwnRecords(last, count, total, age)
