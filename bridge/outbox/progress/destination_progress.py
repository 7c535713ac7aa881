"""Progress of sinks whose destination stores it with the records: made for each transaction, and recognised after a
restart."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from uuid import uuid4

from bridge.model.dead_letter import RetriedDeadLetter
from bridge.model.primitives.fetch import Fetch
from bridge.model.record import Record
from bridge.model.versions.progress import Progress
from bridge.outbox.consumers.cursors import SinkCursor
from bridge.outbox.progress import starts
from bridge.outbox.progress.starts import Starts
from bridge.outbox.store import Store


class DestinationProgress:
    """Of all sinks of this process."""

    def __init__(self, store: Store, last: int, term: int) -> None:
        """``last``: the newest record that the process found. ``term``: in which it leads; 0 without an election."""
        self._store = store
        self._last = last
        self.starts = Starts(uuid4().hex)
        self.term = term

    async def begin(self) -> None:
        """Call before a destination is asked for progress. Durable on return."""
        note = partial(starts.begin, present=self.starts.present, last=self._last)
        self.starts = await self._store.write(note, shrinks=True)

    def after(self, cursor: SinkCursor, fetch: Fetch[Record]) -> Progress:
        """The progress when this fetch is stored; all fetches before it are settled."""
        return self._progress(cursor, out=max(cursor.settled, fetch.through or 0), item=fetch.index)

    def after_letters(self, cursor: SinkCursor, letters: Sequence[RetriedDeadLetter]) -> Progress:
        """The same when these dead letters are stored; all fetches are settled."""
        item = None if cursor.backfill is None else cursor.item_to_save
        return self._progress(cursor, out=cursor.settled, item=item, letters=tuple(each.number for each in letters))

    def unknown(self, progress: Progress, cursor: SinkCursor) -> str:
        """See Starts.unknown."""
        return self.starts.unknown(progress, cursor)

    async def item_of(self, progress: Progress, cursor: SinkCursor) -> int | None:
        """The index through which items of the cursor's backfill are settled by this progress; None if none is."""
        backfill = cursor.backfill
        if backfill is None or progress.backfills < cursor.backfills:
            return None
        if progress.backfills > cursor.backfills:
            return backfill.last_item
        if progress.item is not None:
            return progress.item
        return await self._store.ask(partial(starts.in_flight_through, sink=cursor.sink, through=progress.out))

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
