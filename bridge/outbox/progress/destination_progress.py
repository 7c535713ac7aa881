"""Progress of sinks whose destination stores it with the records: made for each transaction, and recognised after a
restart."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Protocol, TypeAlias
from uuid import uuid4

from bridge.model.dead_letter import RetriedDeadLetter
from bridge.model.primitives.fetch import Fetch
from bridge.model.record import OrderingKey, Record
from bridge.model.versions.progress import BeyondPart, LettersBefore, Progress, SharedProgress
from bridge.outbox.consumers.cursors import SinkCursor
from bridge.outbox.progress import starts
from bridge.outbox.progress.starts import Starts
from bridge.outbox.store import Store

ReadOthers: TypeAlias = Callable[[], Awaitable[Sequence[Progress] | None]]
"""Asks a destination for the progress of the sink in all other shards; None if it cannot answer."""


class Sharing(Protocol):
    """The same progress for every replica of an election. See ``standby.destinations``."""

    @property
    def term(self) -> int:
        """In which this replica leads."""
        ...

    async def recover(
        self, sink: str, found: Progress | None, parts: Sequence[BeyondPart], others: ReadOthers
    ) -> Progress | None: ...

    def has(self, sink: str, record: Record) -> bool: ...

    def after(self, sink: str, fetch: Fetch[Record]) -> tuple[SharedProgress, BeyondPart | None]: ...

    def after_letters(self, sink: str, records: Sequence[Record]) -> tuple[SharedProgress, BeyondPart | None]: ...

    def settle(self, sink: str) -> None: ...

    def letters_before(self, sink: str) -> Mapping[str, LettersBefore] | None: ...

    async def letters_of_former_shard(self, sink: str) -> Mapping[str, LettersBefore] | None: ...

    async def name_letters(self, sink: str, keys: Collection[OrderingKey]) -> None: ...


class DestinationProgress:
    """Of all sinks of this process."""

    def __init__(self, store: Store, last: int) -> None:
        """``last``: the newest record that the process found."""
        self._store = store
        self._last = last
        self.starts = Starts(uuid4().hex)
        self.sharing: Sharing | None = None
        """None without an election."""

    @property
    def term(self) -> int:
        """In which this process leads; 0 without an election."""
        return 0 if self.sharing is None else self.sharing.term

    async def begin(self) -> None:
        """Call before a destination is asked for progress, and before an election. Durable on return."""
        note = partial(starts.begin, present=self.starts.present, last=self._last)
        self.starts = await self._store.write(note, shrinks=True)

    def after(self, cursor: SinkCursor, fetch: Fetch[Record]) -> tuple[Progress, BeyondPart | None]:
        """The progress when this fetch is stored, and what is stored beside it; all fetches before it are settled."""
        out = max(cursor.settled, fetch.through or 0)
        shared, part = (None, None) if self.sharing is None else self.sharing.after(cursor.sink, fetch)
        return self._progress(cursor, shared, out=out, item=fetch.index), part

    def after_letters(
        self, cursor: SinkCursor, letters: Sequence[RetriedDeadLetter]
    ) -> tuple[Progress, BeyondPart | None]:
        """The same when these dead letters are stored; all fetches are settled."""
        item = None if cursor.backfill is None else cursor.item_to_save
        records, numbers = [each.record for each in letters], tuple(each.number for each in letters)
        shared, part = (None, None) if self.sharing is None else self.sharing.after_letters(cursor.sink, records)
        return self._progress(cursor, shared, out=cursor.settled, item=item, letters=numbers), part

    def letters_before(self, sink: str) -> Mapping[str, LettersBefore] | None:
        """The dead letters that other replicas delivered last, by the ids of their cursors; None until the leader has
        read the destination's progress, behind the transactions of those before it."""
        return None if self.sharing is None else self.sharing.letters_before(sink)

    async def letters_of_former_shard(self, sink: str) -> Mapping[str, LettersBefore] | None:
        """The same, with those that replicas of other shards delivered last."""
        return None if self.sharing is None else await self.sharing.letters_of_former_shard(sink)

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
        shared: SharedProgress | None,
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
            frontier=shared,
        )
