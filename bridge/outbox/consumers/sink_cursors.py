"""The cursors of all sinks, with their backfills and dead letters: as they go through the log, and as they come, change
and go while the bridge runs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import apsw

from bridge.model.admin import Replayed, UnknownTarget
from bridge.model.policies import StartPolicy
from bridge.model.primitives.shard import Shard
from bridge.model.record import Record
from bridge.model.status import PauseCause
from bridge.outbox.appender import Appender
from bridge.outbox.consumers import backfill as backfills
from bridge.outbox.consumers import backfill_plans, backlogs, cursors, selections
from bridge.outbox.consumers.backfill import BackfillItem, BackfillKind, in_shard
from bridge.outbox.consumers.backlogs import Backlogs, OwnLog, OwnRecords
from bridge.outbox.consumers.cursors import CursorProgress, SinkCursor
from bridge.outbox.consumers.dead_letters import DeadLetters, SavedDeadLetters
from bridge.outbox.consumers.destination_progress import DestinationProgress
from bridge.outbox.consumers.selections import JudgedRecords, Selections, StoredSelection
from bridge.outbox.log.retention import LogEnd
from bridge.outbox.store import Condition, Store
from bridge.telemetry.facts import Report
from bridge.telemetry.facts.outbox import SinkForgotten, SnapshotBegan, SnapshotEnded


class SinkCursors:
    """Moves the cursors and plans the backfills."""

    def __init__(
        self,
        store: Store,
        appender: Appender,
        selections: Selections,
        known: Mapping[str, SinkCursor],
        dead_letters: Mapping[str, DeadLetters],
        own: Mapping[str, OwnLog],
        *,
        end: LogEnd,
        clock: Callable[[], str],
        report: Report,
        term: int = 0,
        shard: Shard | None = None,
    ) -> None:
        """``term``: in which this process leads; 0 without an election. ``shard``: the part of all objects that the
        bridge has; None for all."""
        self._store = store
        self._appender = appender
        self._selections = selections
        self._cursors: dict[str, SinkCursor] = {}
        self.dead_letters = dict(dead_letters)
        self._end = end
        self.backlogs = Backlogs(own, end)
        self._clock = clock
        self._report = report
        self.receivers: list[Callable[[str, Sequence[Record]], None]] = []
        """Get the records that a sink reads of its backfill, with the sink's name: for people who watch."""
        self.shard = shard
        self.progress = DestinationProgress(store, end.last, term)
        self._now = asyncio.get_running_loop().time
        self.lock = asyncio.Lock()
        """Held while cursors begin, and while the log is trimmed behind all cursors."""
        if selections.stored:
            appender.observe_by(self._count_own_records)
        for cursor in known.values():
            self._enter(cursor)

    def __getitem__(self, sink: str) -> SinkCursor:
        """Raises UnknownTarget."""
        try:
            return self._cursors[sink]
        except KeyError:
            raise UnknownTarget(f"there is no sink {sink}; there are: {', '.join(self._cursors) or 'none'}") from None

    @property
    def last(self) -> int:
        """Sequence number of the newest durable record."""
        return self._end.last

    @property
    def all(self) -> Sequence[SinkCursor]:
        """Every cursor, also of sinks that are no longer configured."""
        return tuple(self._cursors.values())

    def backlog_records(self, sink: str) -> int:
        """See Backlogs.records."""
        return self.backlogs.records(self._cursors[sink])

    # ── Settling ─────────────────────────────────────────────────────────────

    def end_backfill(self, sink: str) -> None:
        """Ends a settled backfill: the cursor moves to the record behind which the log goes on."""
        cursor = self._cursors[sink]
        backfill = cursor.backfill
        if backfill is None:
            return
        if backfill.kind is BackfillKind.SNAPSHOT and not backfill.cancelled:
            self._report(SnapshotEnded(sink, backfill.objects))
        cursor.backfill, cursor.settled_item, cursor.dirty = None, 0, True
        cursor.backfills += 1
        cursor.settled = max(cursor.settled, backfill.resumes_after)
        # In one transaction with the cursor: otherwise a crash in between would deliver the uncompacted log again.
        end = partial(cursors.end_backfill, sink=sink, settled=cursor.settled, memory=cursor.memory, time=self._clock())
        self._store.write(end, shrinks=True)

    def take_progress(self) -> list[CursorProgress]:
        """The unsaved progress of all cursors. The caller saves it."""
        self.backlogs.trim(self._cursors.values())
        progress = []
        for cursor in self._cursors.values():
            if cursor.dirty:
                progress.append(cursor.progress)
                cursor.dirty = False
        return progress

    # ── Backfills ──────────────────────────────────────────────────────────────

    async def read_backfill(self, sink: str, limit: int) -> tuple[Sequence[Record], int]:
        """At most ``limit`` further records of the sink's backfill, and the index of the last; no records once all were
        read. The edges of snapshots name the shard. Raises Damaged."""
        cursor = self._cursors[sink]
        if cursor.backfill is None:
            return (), 0
        question = partial(backfills.read, codec=self._store.codec, sink=sink, backfill=cursor.backfill, limit=limit)
        records, through = await self._store.ask(question)
        if self.shard is not None:
            records = [in_shard(each, self.shard) for each in records]
        cursor.backfill = replace(cursor.backfill, read_through=through)
        for receiver in self.receivers:
            receiver(sink, records)
        return records, through

    async def compact(self, sink: str, taken: int, uncertain_through: int) -> tuple[int, int]:
        """Replaces everything that the sink has not received with the newest record of each object. The sink has
        received the log up to ``taken``; up to ``uncertain_through`` a process that crashed may have delivered it.
        Returns the number of records before and after."""
        cursor = self._cursors[sink]
        through = max(taken, self._end.last)  # A sink may receive a record just before ``last`` counts it.
        plan = partial(backfill_plans.plan_compacted, received=cursor.received(taken), through=through)
        before, planned = await self._store.ask(partial(plan, uncertain_through=uncertain_through))
        await self._replan(cursor, BackfillKind.COMPACTED, taken, through, planned)
        return before, len(planned)

    async def drop(self, sink: str, taken: int, through: int) -> tuple[int, int]:
        """Replaces everything up to ``through`` that the sink has not received with a Gap. Returns the first sequence
        number and the number of the dropped records."""
        cursor = self._cursors[sink]
        plan = partial(backfill_plans.plan_dropped, received=cursor.received(taken), through=through)
        planned = await self._store.ask(partial(plan, time=self._clock()))
        await self._replan(cursor, BackfillKind.DROPPED, taken, through, planned)
        return planned[-1].first or 0, planned[-1].records or 0

    async def replay(self, sink: str, *, which: Condition, taken: int, judged: JudgedRecords | None = None) -> Replayed:
        """Plans another delivery of the log through ``taken``; of a sink with a selection, of the records ``judged``.
        Returns the range of its records. Raises UnknownTarget while the sink has a backfill."""
        received = self.without_backfill(sink).received(taken)
        begin = partial(backfill_plans.begin_replay, received=received, which=which, judged=judged)
        _, found = await self._store.write(begin, committed=lambda begun: self[sink].follow(begun[0]), asked=True)
        return found

    def without_backfill(self, sink: str) -> SinkCursor:
        """The cursor. Raises UnknownTarget while the sink has a backfill."""
        cursor = self[sink]
        if cursor.backfill is not None:
            left = cursor.backfill.last_item - max(0, cursor.settled_item)
            raise UnknownTarget(
                f"sink {sink} still gets a {cursor.backfill.kind}, {left} records to go: ask again after it"
            )
        return cursor

    async def begin_selection(self, sink: str, start: str, judged: JudgedRecords | None = None) -> None:
        """Puts a selection into effect, whose bits all objects have. A new sink with the StartPolicy ``snapshot`` gets
        a snapshot of the selected objects, with ``earliest`` the records ``judged``."""
        begin = partial(backfill_plans.begin_selection, sink=sink, start=start, time=self._clock(), judged=judged)
        cursor = self._cursors[sink]
        backfill = await self._store.write(begin, committed=cursor.follow)
        if backfill is not None and backfill.kind is BackfillKind.SNAPSHOT:
            self._report(SnapshotBegan(sink, backfill.left - 2))

    async def extend(self, sink: str, taken: int, through: int) -> None:
        """See ``backfill_plans.extend``."""
        cursor = self._cursors[sink]
        extend = partial(backfill_plans.extend, received=cursor.received(taken), through=through)
        await self._store.write(extend, committed=partial(cursor.follow, compacts=False), shrinks=True)

    async def _replan(
        self, cursor: SinkCursor, kind: BackfillKind, taken: int, through: int, planned: Sequence[BackfillItem]
    ) -> None:
        # The sink may have settled records while the plan was made.
        received = cursor.received(taken)
        replan = partial(backfill_plans.replan, received=received, kind=kind, through=through, planned=planned)
        # It shrinks: the sink waits for the plan, and a full disk must not stop deliveries.
        await self._store.write(replan, committed=cursor.follow, shrinks=True)

    # ── Pauses ───────────────────────────────────────────────────────────────

    async def pause(self, sink: str, cause: PauseCause) -> bool:
        """Pauses a sink, or resumes it (``NONE``). Returns when the change is durable; False if the sink was paused
        already, for whatever cause, or not at all. Of two calls at once the first counts. Raises UnknownTarget, also
        if an operator asks on a full disk."""
        _ = self[sink]

        def follow(changed: bool) -> None:
            if changed:
                self[sink].paused = cause  # Registration may have replaced the cursor meanwhile.

        pause = partial(cursors.pause, sink=sink, paused=cause)
        by_operator = cause in (PauseCause.NONE, PauseCause.OPERATOR)
        return await self._store.write(pause, committed=follow, shrinks=True, asked=by_operator)

    # ── Sinks that come and go ───────────────────────────────────────────────

    async def begin(self, sinks: Mapping[str, StartPolicy], selecting: Collection[str], *, before: bool) -> None:
        """Begins the cursors of these sinks as the start of a process does: a new sink gets a cursor, a known sink goes
        on behind its settled records. None of them has a feed. ``selecting``: those with a selection; call
        ``Selections.expect_room`` first, and let no informer run if one of them had none before. ``before``: see
        Retention. Durable on return."""
        self._appender.keeps_before = before
        if not sinks:
            return
        async with self.lock:
            progress = [self[sink].progress for sink in sinks if sink in self._cursors]
            begin = partial(_begin, progress=progress, sinks=sinks, selecting=selecting, time=self._clock())
            await self._store.write(begin, committed=self._begun)

    def end(self, sink: str) -> None:
        """Counts a sink as absent from now on. It keeps its cursor, until it is forgotten."""
        self[sink].configured = False

    async def count_absence(self, seconds: float, forget_after: float) -> None:
        """Adds ``seconds`` to the absence of sinks that are not configured, and forgets those absent for
        ``forget_after`` seconds."""
        async with self.lock:
            absent = [cursor for cursor in self.all if not cursor.configured]
            for cursor in absent:
                cursor.absent_seconds += seconds
            if absent:
                sinks = [each.sink for each in absent]
                await self._store.write(partial(cursors.add_absence, sinks=sinks, seconds=seconds), shrinks=True)
            for cursor in absent:
                if cursor.absent_seconds >= forget_after:
                    await self._forget(cursor.sink)

    async def _forget(self, sink: str) -> None:
        self._report(SinkForgotten(sink, self.backlog_records(sink)))
        del self._cursors[sink]
        self.backlogs.forget(sink)
        self._selections.stored.pop(sink, None)
        await self._store.write(partial(cursors.forget, sink=sink), shrinks=True)

    def _begun(self, begun: _Begun) -> None:
        # Runs once the cursors are durable, even if the caller was cancelled: memory follows the database.
        for cursor in begun.cursors:
            self._enter(cursor)
        self._selections.stored.update(begun.selections)
        for sink, records in begun.own.items():
            self.backlogs.begin(sink, OwnLog(begun.selections[sink], records, self._now()))
            self._appender.observe_by(self._count_own_records)

    def _count_own_records(self, records: Sequence[Record], size: int) -> None:
        self.backlogs.add(records, size, self._now())

    def _enter(self, cursor: SinkCursor) -> None:
        """Adds or replaces the cursor of a sink, as the database has it."""
        self._cursors[cursor.sink] = cursor
        if cursor.configured and cursor.sink not in self.dead_letters:
            self.dead_letters[cursor.sink] = DeadLetters(self._store, cursor.sink, SavedDeadLetters({}, False))
        if cursor.backfill is not None and cursor.backfill.kind is BackfillKind.SNAPSHOT:
            self._report(SnapshotBegan(cursor.sink, max(0, cursor.backfill.left - 2)))  # Without its two notices.


class _Begun(NamedTuple):
    cursors: Sequence[SinkCursor]
    selections: Mapping[str, StoredSelection]
    own: Mapping[str, Sequence[OwnRecords]]


def _begin(
    database: apsw.Connection,
    progress: Sequence[CursorProgress],
    sinks: Mapping[str, StartPolicy],
    selecting: Collection[str],
    time: str,
) -> _Begun:
    cursors.save(database, progress, ())
    cursors.configure(database, sinks, selecting, time)
    found, stored = cursors.load(database, sinks), selections.load(database)
    own = backlogs.read_all(database, {sink: found[sink].settled for sink in sinks}, time)
    return _Begun(
        [found[sink] for sink in sinks],
        {sink: each for sink, each in stored.items() if sink in sinks},
        own,
    )
