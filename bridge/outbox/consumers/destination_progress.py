"""Progress of sinks whose destination stores it with the records: made for each transaction, and recognised after a
restart.

A state directory that was restored from a copy numbers its records anew from the copy on, and the destination has
progress of numbers that now belong to other records. So each start of a bridge notes the newest record that it found
(``Starts``): what an earlier start numbered beyond that is unknown here. ``Starts.unknown`` says whether progress is of
this state directory and of this cursor.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from uuid import uuid4

import apsw

from bridge.model.primitives.ring import Fetch
from bridge.model.progress import Progress
from bridge.model.record import Record, RetriedDeadLetter
from bridge.outbox.consumers.cursors import SinkCursor
from bridge.outbox.store import Store

_MOST = 1000
"""Starts that are remembered."""


class DestinationProgress:
    """Makes and recognises the progress of all sinks of this process."""

    def __init__(self, store: Store, last: int, term: int) -> None:
        """``last``: the newest record that the process found. ``term``: in which it leads; 0 without an election."""
        self._store = store
        self._last = last
        self.starts = Starts(uuid4().hex)
        self.term = term

    async def begin(self) -> None:
        """Call before a destination is asked for progress. Durable on return."""
        note = partial(begin, present=self.starts.present, last=self._last)
        self.starts = await self._store.write(note, shrinks=True)

    def after(self, cursor: SinkCursor, fetch: Fetch[Record]) -> Progress:
        """The progress when this fetch is stored; all fetches before it are settled."""
        return self._progress(cursor, out=max(cursor.settled, fetch.through or 0), item=fetch.index)

    def after_letters(self, cursor: SinkCursor, letters: Sequence[RetriedDeadLetter]) -> Progress:
        """The same when these dead letters are stored; all fetches are settled."""
        return self._progress(
            cursor, out=cursor.settled, item=cursor.progress.item, letters=tuple(each.number for each in letters)
        )

    async def item_of(self, progress: Progress, cursor: SinkCursor) -> int | None:
        """The index through which items of the cursor's backfill are settled by this progress; None if none is."""
        backfill = cursor.backfill
        if backfill is None or progress.backfills < cursor.backfills:
            return None
        if progress.backfills > cursor.backfills:
            return backfill.last_item
        if progress.item is not None:
            return progress.item
        return await self._store.ask(partial(in_flight_through, sink=cursor.sink, through=progress.out))

    def _progress(
        self,
        cursor: SinkCursor,
        *,
        out: int,
        item: int | None,
        letters: tuple[int, ...] = (),
    ) -> Progress:
        return Progress(
            term=self.term,
            start=self.starts.present,
            cursor=cursor.birth,
            backfills=cursor.backfills,
            out=out,
            item=item,
            letters=letters,
        )


def in_flight_through(database: apsw.Connection, sink: str, through: int) -> int | None:
    """The index of the last item that was in flight when the backfill was planned, up to this sequence number."""
    found = database.execute(
        "SELECT max(item) FROM backfill_items WHERE sink = ? AND item <= 0 AND seq <= ?", (sink, through)
    ).fetchone()
    return None if found is None else found[0]


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
