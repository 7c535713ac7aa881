"""Answers how many bytes follow a record in the log, how old these are, and how far to trim the log; reads no row.

``SparseIndex`` keeps marks of sequence number, bytes and time. ``LogEnd`` follows the commits, and makes a mark when a
megabyte was written or the index is needed. ``Retention`` says what is kept beyond need, and ``trim_through`` decides
by the cursors and by that. Times are given by the caller, so every decision can be tested without a clock.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from operator import attrgetter

import msgspec

_MARK_BYTES = 1 << 20
"""Bytes in the log after which a commit makes a mark of the index, whoever needs the index."""


class _Mark(msgspec.Struct, frozen=True, gc=False):
    """Stands for the records behind the previous mark, through this one."""

    sequence: int
    total: int
    """Bytes of all records through ``sequence``, since the start."""
    oldest: float
    newest: float


_sequence = attrgetter("sequence")
_total = attrgetter("total")
_oldest = attrgetter("oldest")
_newest = attrgetter("newest")


class SparseIndex:
    """A sparse index of the log (as Kafka's offset and time index): bytes and ages of records without a read of the
    log.

    A mark stands for the commits of some time. Above ``most`` marks, neighbours are merged; a mark then stands for
    about a thousandth (with the default) of the log's bytes or of its time span, whichever comes first. Answers err by
    one mark, to the side that each method documents. Times are seconds of a monotonic clock; a time that goes back
    counts as equal to the newest one.
    """

    def __init__(self, most: int = 4000) -> None:
        self._most = most
        self._parts = most // 4
        self._marks = [_Mark(0, 0, float("-inf"), float("-inf"))]

    def __len__(self) -> int:
        return len(self._marks)

    def reached(self, sequence: int, total_bytes: int, now: float, since: float | None = None) -> None:
        """Records through ``sequence`` exist at ``now``, the first of them behind the newest mark since ``since`` (by
        default ``now``); all records so far, trimmed ones included, took ``total_bytes``."""
        before = self._marks[-1]
        if sequence <= before.sequence:
            return
        now = max(now, before.newest)
        oldest = now if since is None else max(since, before.newest)
        self._marks.append(_Mark(sequence, total_bytes, oldest, now))
        if len(self._marks) > self._most:
            self._merge()

    def trim(self, through: int) -> None:
        """Drops marks up to ``through``; later questions are about newer records."""
        del self._marks[: self._at(through)]

    # ── About a sequence number ──────────────────────────────────────────────

    def bytes_after(self, sequence: int) -> int:
        """Bytes of the records behind ``sequence``, or a little more."""
        return self._marks[-1].total - self._marks[self._at(sequence)].total

    def age_of(self, sequence: int, now: float) -> float:
        """Seconds since the oldest record behind ``sequence`` was committed, or a little more; 0 without such a
        record."""
        at = self._at(sequence) + 1
        return max(0.0, now - self._marks[at].oldest) if at < len(self._marks) else 0.0

    # ── About sequence numbers ───────────────────────────────────────────────

    def sequence_of_age(self, seconds: float, now: float) -> int:
        """All records up to the result are at least ``seconds`` old; a few behind it may be, too."""
        return self._marks[max(0, bisect_right(self._marks, now - seconds, key=_newest) - 1)].sequence

    def sequence_within_age(self, seconds: float, now: float) -> int:
        """All records behind the result are at most ``seconds`` old; a few up to it may be, too."""
        return self._marks[max(0, bisect_left(self._marks, now - seconds, key=_oldest) - 1)].sequence

    def sequence_of_bytes(self, limit: int) -> int:
        """At least ``limit`` bytes follow the result, if the log has as many."""
        return self._marks[max(0, bisect_right(self._marks, self._marks[-1].total - limit, key=_total) - 1)].sequence

    def sequence_within_bytes(self, limit: int) -> int:
        """At most ``limit`` bytes follow the result."""
        return self._marks[bisect_left(self._marks, self._marks[-1].total - limit, key=_total)].sequence

    def _at(self, sequence: int) -> int:
        """Index of the last mark up to ``sequence``."""
        return max(0, bisect_right(self._marks, sequence, key=_sequence) - 1)

    def _merge(self) -> None:
        """Keeps the ends, and joins neighbours that together span less than 4/``most`` of the bytes and of the time."""
        first, last = self._marks[0], self._marks[-1]
        size = (last.total - first.total) / self._parts
        seconds = (last.newest - self._marks[1].oldest) / self._parts
        merged = [first]
        oldest: float | None = None
        for mark in self._marks[1:]:
            before = merged[-1]
            oldest = mark.oldest if oldest is None else oldest
            if mark is last or mark.total - before.total > size or mark.newest - before.newest > seconds:
                merged.append(msgspec.structs.replace(mark, oldest=oldest))
                oldest = None
        self._marks = merged


@dataclass(slots=True)
class LogEnd:
    """The end of the log, in memory: ``last`` and ``bytes`` after each commit, and the index in steps."""

    last: int
    """Sequence number of the newest durable record."""
    bytes: int
    """Of all records through ``last``, trimmed ones included, since the start."""
    index: SparseIndex
    now: Callable[[], float]
    """Monotonic seconds."""
    unmarked_since: float | None = None
    """Time of the first commit that has no mark in ``index``; None if there is none."""
    mark_at: int = 0
    """``bytes`` at which the next commit makes a mark."""

    def mark(self) -> SparseIndex:
        """The index through ``last``. Marks by time are made when the index is needed, not at each commit."""
        if self.unmarked_since is not None:
            self.index.reached(self.last, self.bytes, self.now(), self.unmarked_since)
            self.unmarked_since, self.mark_at = None, self.bytes + _MARK_BYTES
        return self.index


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """Records and space that are kept beyond need. 0 turns a retention off."""

    retain_age: float = 0.0
    """Seconds that a settled record stays in the log, for replays."""
    retain_bytes: int = 0
    """Bytes of settled records that stay in the log, for replays."""
    forget_after: float = 7 * 86_400.0
    """Seconds until a sink that is not configured loses its cursor."""
    min_free: int = 0
    """Bytes on the disk that appends leave free."""
    before: bool = False
    """True if some sink delivers the state of an object before each change."""
    managers: bool = False
    """True if some sink delivers the field managers of each change."""

    @property
    def retains(self) -> bool:
        """Whether settled records stay in the log."""
        return bool(self.retain_age or self.retain_bytes)


def trim_through(
    cursors: Iterable[int], retain_age: float, retain_bytes: int, sparse_index: SparseIndex, now: float, last: int
) -> int:
    """The log can be trimmed up to this sequence number: every cursor has passed it, and the records are older than
    ``retain_age`` seconds, or ``retain_bytes`` bytes follow them. 0 turns a bound off; without any bound, no settled
    record is retained."""
    settled = min(cursors, default=last)
    retained = []
    if retain_age:
        retained.append(sparse_index.sequence_of_age(retain_age, now))
    if retain_bytes:
        retained.append(sparse_index.sequence_of_bytes(retain_bytes))
    return min(settled, last, max(retained, default=last))
