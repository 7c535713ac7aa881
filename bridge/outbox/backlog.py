"""How far behind sinks may be, how far behind they are, and what of the log may leave."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from operator import attrgetter

import msgspec

ROOM = 0.9
"""Part of a bound that is left after a drop: else the next record would be one too many again."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """What a backlog may be; None where it may be anything."""

    records: int | None = None
    bytes: int | None = None
    age: float | None = None
    """Seconds."""


@dataclass(frozen=True, slots=True)
class Size:
    """What a backlog is."""

    records: int
    bytes: int
    age: float
    """Of the oldest record, in seconds."""


def why_full(bounds: Bounds, size: Size) -> str:
    """Which bound was reached, in words; empty where there is room. A backlog of nothing is never full."""
    if not size.records:
        return ""
    if bounds.records is not None and size.records >= bounds.records:
        return f"{size.records} records wait, and max_backlog.records is {bounds.records}"
    if bounds.bytes is not None and size.bytes >= bounds.bytes:
        return f"{size.bytes} bytes wait, and max_backlog.bytes is {bounds.bytes}"
    if bounds.age is not None and size.age >= bounds.age:
        return f"the oldest record has waited {size.age:.0f} s, and max_backlog.age is {bounds.age:.0f} s"
    return ""


def drop_through(bounds: Bounds, milestones: Milestones, settled: int, last: int, now: float, beside: int = 0) -> int:
    """Behind this sequence number the backlog is within every bound, with room for more. ``settled`` where it is
    already. ``beside``: records that count and cannot be dropped."""
    through = settled
    if bounds.records is not None:
        through = max(through, last - max(0, int(bounds.records * ROOM) - beside))
    if bounds.bytes is not None:
        through = max(through, milestones.sequence_within_bytes(int(bounds.bytes * ROOM)))
    if bounds.age is not None:
        through = max(through, milestones.sequence_within_age(bounds.age * ROOM, now))
    return through


def trim_through(
    cursors: Iterable[int], retain_age: float, retain_bytes: int, milestones: Milestones, now: float, last: int
) -> int:
    """Records up to this sequence number may leave: every cursor is behind them, and they are older than ``retain_age``
    seconds, or are followed by ``retain_bytes`` bytes. 0 sets no such bound; without any, nothing is retained."""
    settled = min(cursors, default=last)
    retained = []
    if retain_age:
        retained.append(milestones.sequence_of_age(retain_age, now))
    if retain_bytes:
        retained.append(milestones.sequence_of_bytes(retain_bytes))
    return min(settled, last, max(retained, default=last))


class _Mark(msgspec.Struct, frozen=True, gc=False):
    """The records behind the mark before it, through this one."""

    sequence: int
    total: int
    """Bytes of all records through ``sequence``."""
    oldest: float
    newest: float


_sequence = attrgetter("sequence")
_total = attrgetter("total")
_oldest = attrgetter("oldest")
_newest = attrgetter("newest")


class Milestones:
    """How many bytes stand behind a sequence number, and how old they are, without a look into the log.

    It has a mark for each commit. Where these become more than ``most``, neighbours are merged: then a mark stands for
    about a thousandth (with the default) of the bytes or of the time that the log spans, whichever is met first.
    Answers err by one mark, to the side that each method says. Times are seconds of any clock that does not stand for a
    date; one that goes back is taken to stand still.
    """

    def __init__(self, most: int = 4000) -> None:
        self._most = most
        self._parts = most // 4
        self._marks = [_Mark(0, 0, float("-inf"), float("-inf"))]

    def __len__(self) -> int:
        return len(self._marks)

    def reached(self, sequence: int, total_bytes: int, now: float) -> None:
        """Records through ``sequence`` are there since ``now``; all that ever were, up to it, took ``total_bytes``."""
        before = self._marks[-1]
        if sequence <= before.sequence:
            return
        now = max(now, before.newest)
        self._marks.append(_Mark(sequence, total_bytes, now, now))
        if len(self._marks) > self._most:
            self._merge()

    def trim(self, through: int) -> None:
        """Nobody will ask about records up to here any more."""
        del self._marks[: self._at(through)]

    # ── About a sequence number ──────────────────────────────────────────────

    def bytes_after(self, sequence: int) -> int:
        """Bytes of the records behind ``sequence``; rather too many than too few."""
        return self._marks[-1].total - self._marks[self._at(sequence)].total

    def age_of(self, sequence: int, now: float) -> float:
        """Seconds since the oldest record behind ``sequence`` came; rather too many than too few. 0 where there is
        none."""
        at = self._at(sequence) + 1
        return max(0.0, now - self._marks[at].oldest) if at < len(self._marks) else 0.0

    # ── About sequence numbers ───────────────────────────────────────────────

    def sequence_of_age(self, seconds: float, now: float) -> int:
        """All records up to this one came ``seconds`` ago or earlier; perhaps some behind it did too."""
        return self._marks[max(0, bisect_right(self._marks, now - seconds, key=_newest) - 1)].sequence

    def sequence_within_age(self, seconds: float, now: float) -> int:
        """All records behind this one came within the last ``seconds``; perhaps some up to it did too."""
        return self._marks[max(0, bisect_left(self._marks, now - seconds, key=_oldest) - 1)].sequence

    def sequence_of_bytes(self, limit: int) -> int:
        """At least ``limit`` bytes stand behind this one, if there are as many."""
        return self._marks[max(0, bisect_right(self._marks, self._marks[-1].total - limit, key=_total) - 1)].sequence

    def sequence_within_bytes(self, limit: int) -> int:
        """At most ``limit`` bytes stand behind this one."""
        return self._marks[bisect_left(self._marks, self._marks[-1].total - limit, key=_total)].sequence

    def _at(self, sequence: int) -> int:
        """Place of the last mark up to ``sequence``."""
        return max(0, bisect_right(self._marks, sequence, key=_sequence) - 1)

    def _merge(self) -> None:
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
