"""The starts of bridges on this state directory: by them, progress that a destination has stored is recognised as that
of this state directory.

A state directory that was restored from a copy numbers its records anew from the copy on, and the destination has
progress of numbers that now belong to other records. So each start notes the newest record that it found: what an
earlier start numbered beyond that is unknown here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise

import apsw

from bridge.model.versions.progress import Progress
from bridge.outbox.consumers.cursors import SinkCursor

_MOST = 1000
"""Starts that are remembered."""


@dataclass(frozen=True, slots=True)
class Starts:
    """The present start, and those before it."""

    present: str
    """Its id: random."""
    ends: Mapping[str, int] = field(default_factory=dict)
    """Id of an earlier start → the newest of its records that this state directory has."""

    def unknown(self, progress: Progress, cursor: SinkCursor) -> str:
        """Why the progress is not of this cursor; empty if it is."""
        if not progress.start:
            return "no bridge has stored progress there"
        if progress.start != self.present:
            end = self.ends.get(progress.start)
            if end is None:
                return "a bridge with another state directory has stored it"
            if progress.out > end:
                return f"it is at record {progress.out}, and this state directory was restored from a copy at {end}"
        if progress.cursor != cursor.birth:
            return "it is of an earlier sink of this name"
        if progress.item is not None and progress.backfills >= cursor.backfills and cursor.backfill is None:
            return "it is in a backfill that this state directory does not have"
        return ""


def begin(database: apsw.Connection, present: str, last: int) -> Starts:
    """Notes a start that found ``last`` as the newest record. Noted once, however often this runs."""
    database.execute("INSERT OR IGNORE INTO starts (id, last) VALUES (?,?)", (present, last))
    database.execute("DELETE FROM starts WHERE number <= (SELECT max(number) FROM starts) - ?", (_MOST,))
    found = list(database.execute("SELECT id, last FROM starts ORDER BY number"))
    return Starts(present, {id_: end for (id_, _), (_, end) in pairwise(found)})


def in_flight_through(database: apsw.Connection, sink: str, through: int) -> int | None:
    """The index of the last item that was in flight when the backfill was planned, up to this sequence number."""
    found = database.execute(
        "SELECT max(item) FROM backfill_items WHERE sink = ? AND item <= 0 AND seq <= ?", (sink, through)
    ).fetchone()
    return None if found is None else found[0]
