"""The records of a sink, in order: the log, with backfills in between.

``SinkFeed`` reads the listener of its sink; a backfill (a snapshot, a replay, a compacted backlog) comes in front of
the log behind it. For a sink with a selection, ``view_of`` makes of each record of the log the one that the sink gets,
or None, by the decision that was stored with the record. This runs for every record of such a sink, and ``SelectedLog``
reads no body of a record that is for others. ``TransactionFeed`` takes the position from the destination, which stores
it with the records.

``Feeds`` makes the feed of each sink: a commit of the outbox hands its records to the ``SharedProcessor``, which
distributes them to the listener of each sink, and the feed begins where the sink's cursor is.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from operator import attrgetter

import msgspec
from msgspec.structs import replace

from bridge.model.admin import UnknownTarget
from bridge.model.change import Evidence, Op
from bridge.model.primitives.ring import Fetch, Slice
from bridge.model.progress import Progress
from bridge.model.record import Delta, Record, RetriedDeadLetter, Snapshot, SnapshotEdge, WatchedPart, body_bytes
from bridge.outbox import (
    Backfill,
    JudgedRecords,
    Outbox,
    SinkCursors,
    StoredSelection,
    Turns,
)
from bridge.processor.shared_processor import ProcessorListener, SharedProcessor
from bridge.telemetry.facts.delivery import ProgressRead


class SelectedLog:
    """The log for a sink with a selection. Records that the sink does not get have empty bodies, which the view leaves
    out: no body is read for them."""

    def __init__(self, outbox: Outbox, selection: StoredSelection) -> None:
        self._outbox = outbox
        self._selection = selection

    @property
    def last(self) -> int:
        """See ``processor.shared_processor.Log``."""
        return self._outbox.last

    async def read(self, after: int, limit: int) -> Slice[Record]:
        """See ``processor.shared_processor.Log``."""
        # Older records have no decision for the sink; a bit in them may be that of a sink which is forgotten.
        is_decided = after >= self._selection.since
        return await self._outbox.read(after, limit, self._selection.mask if is_decided else None)


def view_of(selection: StoredSelection) -> Callable[[Record], Record | None]:
    """A function from a record of the log to the record that the sink gets by the decision stored with the record;
    None if the record is not for the sink."""
    mask, since, had_all = selection.mask, selection.since, selection.had_all

    def view(record: Record) -> Record | None:
        if not isinstance(record, Delta):
            return record
        if record.sequence <= since:
            return record if had_all else None
        selected = record.selected
        if selected is None:
            return record
        if not selected.takes & mask:
            return None
        if selected.enters & mask:
            return replace(record, op=Op.ADDED, before=None)
        if selected.leaves & mask:
            return replace(record, op=Op.DELETED, evidence=Evidence.UNSELECTED)
        return record

    return view


_EXTENDED = 20_000  # records of the log that ``extend`` examines in each transaction


class SinkFeed:
    """The records of one sink, for its worker. A backfill is planned only while no ``take`` runs, so we know which
    records the sink may have received. Later records wait until the backfill is settled, so it can still be re-planned
    together with them, however long an object in front is stuck."""

    def __init__(
        self,
        sink: str,
        listener: ProcessorListener[Record],
        sinks: SinkCursors,
        uncertain_through: int,
        turns: Turns,
        *,
        selection: StoredSelection | None = None,
        redact: Callable[[Record], Record] | None = None,
        watching: Callable[[], tuple[WatchedPart, ...] | None] | None = None,
    ) -> None:
        """``uncertain_through``: an earlier feed of the sink may have handed out the log up to here. ``selection``:
        None for a sink that gets everything. ``redact``: makes the sink's form of a record, in which it is delivered
        and kept as a dead letter; None for the record as it is. It is called in ``turns``. ``watching``: returns what
        the bridge watches now, for the ends of snapshots; None as long as nobody knows."""
        self.sink = sink
        self._uncertain_through = uncertain_through
        self.redact = redact
        self.view = None if selection is None else view_of(selection)
        """Makes the record that a sink with a selection gets of a record of the log; None if it gets none. The items of
        a backfill were selected when it was planned."""
        self.held = selection is not None and bool(selection.start)
        """True for a new sink with a selection, until ``begin_selection``: ``take`` returns no records."""
        self._listener = listener
        self._sinks = sinks
        self._turns = turns
        self._watching = watching
        self._cursor = sinks[sink]
        self._planning = asyncio.Lock()  # Held while a backfill is planned.
        self._taking = False
        self._ended = False
        """No ``take`` follows, and another feed may have the cursor."""
        self._took = asyncio.Event()
        self._advanced = asyncio.Event()
        """Set by ``settle`` during a backfill, and by ``wake``."""

    @property
    def taken(self) -> int:
        """Sequence number through which the log was taken."""
        return self._listener.taken

    @property
    def in_memory(self) -> int:
        return self._listener.in_memory

    @property
    def backlog_records(self) -> int:
        """Records that are not settled, taken or not."""
        return self._sinks.backlog_records(self.sink)

    @property
    def backfill(self) -> Backfill | None:
        """The backfill under way; None once it is settled."""
        return self._cursor.backfill

    @property
    def handed_out(self) -> int:
        """Number of records that were taken and are not settled."""
        cursor = self._cursor
        backfill = cursor.backfill
        if backfill is None:
            return max(0, self.taken - cursor.settled)
        through = min(self.taken, backfill.needs_log_through)
        return max(0, through - cursor.settled) + backfill.read_through - cursor.settled_item

    @property
    def exhausted(self) -> bool:
        """Every available record was taken: ``take`` would wait, and not for a disk."""
        if self.backfill is not None:
            return self._waits_for_backfill
        return self.held or self._listener.exhausted

    @property
    def _waits_for_backfill(self) -> bool:
        """Whether the backfill, and the log before it, was taken and is not settled."""
        cursor = self._cursor
        backfill = cursor.backfill
        if backfill is None or backfill.left or self._listener.taken < backfill.starts_after:
            return False
        return not cursor.backfill_is_settled

    async def take(self, limit: int) -> Fetch[Record]:
        """Waits for records and returns at most ``limit``. A fetch may be empty: all its records were for other sinks,
        or ``wake`` was called."""
        if self.held or (self._cursor.backfill is not None and self._waits_for_backfill):
            await self._advanced.wait()
            self._advanced.clear()
            return Fetch(())
        while self._planning.locked():
            async with self._planning:
                pass
        self._taking = True
        try:
            backfill = self._cursor.backfill
            if backfill is not None:
                if self._listener.taken >= backfill.starts_after:
                    fetch = await self._take_backfill(limit)
                else:
                    fetch = await self._take_log(min(limit, backfill.starts_after - self._listener.taken))
            elif self.view is None:
                fetch = await self._listener.take(limit)
            else:
                fetch = await self._take_log(limit)
            if self.redact is None:
                return fetch
            return msgspec.structs.replace(fetch, items=await self._turns.map(self.redact, fetch.items))
        finally:
            self._taking = False
            if self._planning.locked():
                self._took.set()

    async def _take_log(self, limit: int) -> Fetch[Record]:
        fetch = await self._listener.take(limit)
        if self.view is None:
            return fetch
        return msgspec.structs.replace(fetch, items=[seen for record in fetch.items if (seen := self.view(record))])

    async def _take_backfill(self, limit: int) -> Fetch[Record]:
        items, index = await self._sinks.read_backfill(self.sink, limit)
        if items:
            return Fetch([self._with_watched(each) for each in items], index=index)
        self.end_settled_backfill()
        return Fetch(())

    def _with_watched(self, item: Record) -> Record:
        if isinstance(item, Snapshot) and item.edge is SnapshotEdge.ENDED and self._watching is not None:
            return replace(item, watched=self._watching())
        return item

    def end_settled_backfill(self) -> None:
        """The log follows at once behind a backfill of which nothing is left. Without effect otherwise."""
        backfill = self._cursor.backfill
        if backfill is not None and self._cursor.backfill_is_settled:
            self._sinks.end_backfill(self.sink)
            self._listener.skip(backfill.resumes_after)

    def wake(self) -> None:
        """Makes ``take`` return now, or at once when it is called next."""
        self._listener.wake()
        self._advanced.set()

    def settle(self, fetch: Fetch[Record], memory: bytes | None = None) -> None:
        """Every record of this fetch and of all earlier fetches is stored or a dead letter. Called once for each fetch,
        in the order of ``take``. ``memory``: the sink's newest (``Receipt.memory``), saved together with that; None
        before the first."""
        if fetch.through is not None:
            self._cursor.settle(fetch.through)
        if fetch.index is not None:
            self._cursor.settle_backfill(fetch.index)
        if memory is not None and memory is not self._cursor.memory:
            self._cursor.remember(memory)
        if self._cursor.backfill is not None:
            self._advanced.set()

    @asynccontextmanager
    async def _between_takes(self) -> AsyncIterator[None]:
        async with self._planning:
            self._listener.wake()
            while self._taking:
                self._took.clear()
                await self._took.wait()
            yield

    @asynccontextmanager
    async def ending(self) -> AsyncIterator[None]:
        """Ends the feed: it plans no backfill any more. Inside the context no ``take`` begins; the caller waits until
        the taken records are settled, as far as it wants to, and ends the worker."""
        async with self._between_takes():
            self._ended = True
            yield

    # ── Backfills ────────────────────────────────────────────────────────────

    async def begin_selection(self, start: str, judged: JudgedRecords | None = None) -> None:
        """See SinkCursors.begin_selection."""
        async with self._between_takes():
            await self._sinks.begin_selection(self.sink, start, judged)
            self.held = False
            self._advanced.set()

    async def compact(self) -> tuple[int, int]:
        """See SinkCursors.compact. (0, 0) if the feed has ended."""
        async with self._between_takes():
            if self._ended:
                return (0, 0)
            return await self._sinks.compact(self.sink, self.taken, self._uncertain_through)

    async def extend(self) -> None:
        """See SinkCursors.extend. Appends go on between its parts. Without effect if the feed has ended."""
        async with self._between_takes():
            through = max(self.taken, self._sinks.last)
            done = -1
            while done < through and not self._ended:
                begin = self.taken if self.backfill is None else self.backfill.resumes_after
                done = min(through, begin + _EXTENDED)
                await self._sinks.extend(self.sink, self.taken, done)

    async def drop(self, through: int) -> tuple[int, int]:
        """See SinkCursors.drop. (0, 0) if the feed has ended."""
        if not self._can_drop(through):
            return (0, 0)
        async with self._between_takes():
            if self._ended or not self._can_drop(through):
                return (0, 0)
            return await self._sinks.drop(self.sink, self.taken, through)

    def _can_drop(self, through: int) -> bool:
        """Whether some record up to there was not taken."""
        backfill = self.backfill
        return through > (self.taken if backfill is None else backfill.resumes_after)

    @asynccontextmanager
    async def changing_backfill(self) -> AsyncIterator[int]:
        """Inside the context no ``take`` runs, and the caller may plan a backfill, or end one. Yields ``taken``. Raises
        UnknownTarget if the feed has ended."""
        async with self._between_takes():
            if self._ended:
                raise UnknownTarget(f"the configuration of sink {self.sink} is changed at this moment: ask again")
            yield self.taken
        self._advanced.set()


class TransactionFeed(SinkFeed):
    """The records of a sink whose destination stores the progress with the records. It knows better than the cursor on
    disk, which is saved twice a second, what it has."""

    _progress = Progress()

    def progress(self) -> Progress:
        """See SinkContext."""
        return self._progress

    async def begin(self) -> None:
        """Before the sink is opened. Durable on return."""
        await self._sinks.progress.begin()

    async def recover(self, committed: Progress | None) -> ProgressRead | None:
        """After the sink is opened, before the first ``take``: records that the destination has are not taken again.
        ``committed``: its newest progress; None if it has none. Returns the fact to report."""
        cursor, progress, before = self._cursor, self._sinks.progress, self.backlog_records
        unknown = "" if committed is None else progress.starts.unknown(committed, cursor)
        if committed is not None and not unknown:
            await self._move(committed)
            if committed.letters:
                await self._sinks.dead_letters[self.sink].delivered(committed.letters)
        if cursor.settled > self._listener.taken:
            self._listener.skip(cursor.settled)
        if committed is None:
            return None
        return ProgressRead(self.sink, 0 if unknown else before - self.backlog_records, unknown)

    def hand_over(self, fetch: Fetch[Record]) -> None:
        """The next delivery is of this fetch; every earlier fetch is settled."""
        self._progress = self._sinks.progress.after(self._cursor, fetch)

    def hand_over_letters(self, letters: Sequence[RetriedDeadLetter]) -> None:
        """The next delivery is of these dead letters; every fetch is settled."""
        self._progress = self._sinks.progress.after_letters(self._cursor, letters)

    async def _move(self, committed: Progress) -> None:
        """Moves the cursor forward to this progress."""
        cursor = self._cursor
        backfill = cursor.backfill
        if backfill is not None:
            if (item := await self._sinks.progress.item_of(committed, cursor)) is not None:
                cursor.settle(backfill.starts_after)
                cursor.skip_items(item)
            cursor.settle(min(committed.out, backfill.starts_after))
            self.end_settled_backfill()
        if cursor.backfill is None:
            cursor.settle(committed.out)


# ── Feeds of an outbox ───────────────────────────────────────────────────────


def record_processor() -> SharedProcessor[Record]:
    """A processor of records. Its ``distribute`` is the ``committed`` of an outbox that is opened for ``Feeds``."""
    return SharedProcessor[Record](targets=attrgetter("targets"), size=body_bytes)


class Feeds:
    """Joins the outbox, the processor and the feeds: the outbox hands each commit to ``processor.distribute``, and the
    processor to the feed of each sink."""

    def __init__(self, outbox: Outbox, processor: SharedProcessor[Record]) -> None:
        """``processor``: see ``record_processor``."""
        self.outbox = outbox
        self.processor = processor
        self._fed: set[str] = set()
        """Sinks that had a feed in this run."""

    def feed(
        self,
        sink: str,
        kind: type[SinkFeed] = SinkFeed,
        *,
        window: int = 1000,
        resync: float = 0.0,
        redact: Callable[[Record], Record] | None = None,
        watching: Callable[[], tuple[WatchedPart, ...] | None] | None = None,
    ) -> SinkFeed:
        """Begins where the sink's cursor is. ``window``: records in memory; ``resync``: seconds, 0 for never;
        ``redact`` and ``watching``: see SinkFeed.
        Raises UnknownTarget for a sink without a cursor, and ListenerExists for a second feed: ``end`` the first."""
        cursor = self.outbox.sinks[sink]
        selection = self.outbox.selections.stored.get(sink)
        log = self.outbox if selection is None else SelectedLog(self.outbox, selection)
        listener = self.processor.add(sink, log, after=cursor.settled, window=window, resync=resync)
        # The feed before this one was ended, perhaps with records in flight; and so was the process before.
        uncertain_through = self.outbox.last if sink in self._fed else self.outbox.last_at_start
        self._fed.add(sink)
        sinks, turns = self.outbox.sinks, self.outbox.selections.turns
        return kind(
            sink, listener, sinks, uncertain_through, turns, selection=selection, redact=redact, watching=watching
        )

    def end(self, sink: str) -> None:
        """Removes the feed of a sink, whose worker has ended."""
        self.processor.remove(sink)
