"""The reasons for a Gap, and the Gap of each reason: the only place that makes new ones.

A Gap stands in a sink's stream in place of records that the sink will never get.
"""

from __future__ import annotations

from collections.abc import Sequence

from bridge.model.record import Concern, Gap

OVERRUN = "the sink was further behind than the outbox is long"
DROPPED = "the sink's backlog was at its bound, and its policy is drop"
REBUILT = "the database was damaged, and undelivered records in it are lost"

TAKEN_OVER = "a replica took over that did not follow the former leader: deletes may be missing, and states in between"


def overrun_gap(first: int, last: int, time: str) -> Gap:
    """The log was trimmed before the sink read these records. ``time``: now, as RFC 3339."""
    return Gap(last, first, last - first + 1, OVERRUN, time)


def dropped_gap(first: int, last: int, count: int, time: str, concerns: Sequence[Concern] | None) -> Gap:
    """The policy ``drop`` removed ``count`` records. ``concerns``: everything that they may be about; None if that is
    unknown."""
    return Gap(last, first, count, DROPPED, time, concerns=tuple(concerns or ()), only=concerns is not None)


def lost_gap(through: int, reason: str, time: str, concerns: Sequence[Concern] | None) -> Gap:
    """The destination had stored these records, and has lost them: any record up to the number ``through`` may be
    missing. ``reason``: how. ``concerns``: as in ``dropped_gap``."""
    return Gap(through, 1, None, reason, time, concerns=tuple(concerns or ()), only=concerns is not None)


def rebuilt_gap(sequence: int, time: str) -> Gap:
    """The first record of a database that replaces a damaged one. Nobody knows how many records are missing."""
    return Gap(sequence, sequence, None, REBUILT, time)


def taken_over_gap(first: int, sequence: int, time: str) -> Gap:
    """Another replica may have delivered objects that were gone before this replica's first list."""
    return Gap(sequence, first, None, TAKEN_OVER, time)


def later_gap(known: str, delivered: str) -> str:
    """The later of two ids of gaps in the order of the stream, where empty comes first. A replay or a dead letter may
    deliver an older gap again, which must not replace a newer gap."""
    return delivered if _end_of_gap(delivered) >= _end_of_gap(known) else known


def _end_of_gap(gap: str) -> int:
    last = gap.rpartition("/")[2]
    return int(last) if last.isdecimal() else -1
