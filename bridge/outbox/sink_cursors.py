"""The cursors of all sinks, with their backfills and dead letters."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

import apsw

from bridge.facts import Report, SinkForgotten, SnapshotBegan, SnapshotEnded
from bridge.model.admin import Replayed, UnknownTarget
from bridge.model.record import Record
from bridge.model.status import PauseCause
from bridge.outbox.consumers import backfill as backfills
from bridge.outbox.consumers import backfill_plans, cursors
from bridge.outbox.consumers.backfill import Backfill, BackfillItem, BackfillKind
from bridge.outbox.consumers.backlog import BacklogSize
from bridge.outbox.consumers.cursors import Progress, SinkCursor
from bridge.outbox.dead_letters import DeadLetters
from bridge.outbox.log.sparse_index import SparseIndex
from bridge.outbox.store import Store


class SinkCursors:
    """Moves the cursors and plans the backfills. ``last`` returns the sequence number of the newest durable record."""

    def __init__(
        self,
        store: Store,
        known: Mapping[str, SinkCursor],
        dead_letters: Mapping[str, DeadLetters],
        *,
        last: Callable[[], int],
        clock: Callable[[], str],
        report: Report,
    ) -> None:
        self._store = store
        self._cursors = dict(known)
        self.dead_letters = dead_letters
        self._last = last
        self._clock = clock
        self._report = report
        for cursor in known.values():
            if cursor.backfill is not None and cursor.backfill.kind is BackfillKind.SNAPSHOT:
                report(SnapshotBegan(cursor.sink, max(0, cursor.backfill.left - 2)))  # Without its two notices.

    def __getitem__(self, sink: str) -> SinkCursor:
        """Raises UnknownTarget."""
        try:
            return self._cursors[sink]
        except KeyError:
            raise UnknownTarget(f"there is no sink {sink}; there are: {', '.join(self._cursors) or 'none'}") from None

    @property
    def all(self) -> Sequence[SinkCursor]:
        """Every cursor, also of sinks that are no longer configured."""
        return tuple(self._cursors.values())

    def backlog_records(self, sink: str) -> int:
        """Records that this sink has not settled."""
        return self._cursors[sink].backlog_records(self._last())

    def backlog(self, sink: str, index: SparseIndex, now: float) -> BacklogSize:
        """The records, bytes and age that this sink has not settled. Items of a backfill count as records only: their
        bytes belong to the ledger, which exists anyway."""
        cursor = self._cursors[sink]
        held = cursor.holds
        age = index.age_of(held, now) if held < self._last() else 0.0
        if cursor.has_in_flight:
            age = max(age, now - cursor.oldest_at)
        else:
            cursor.oldest_at = now - age
        return BacklogSize(self.backlog_records(sink), index.bytes_after(held), age)

    # ── Settling ─────────────────────────────────────────────────────────────

    def end_backfill(self, sink: str) -> None:
        """Ends a settled backfill: the cursor moves to the record behind which the log goes on."""
        cursor = self._cursors[sink]
        backfill = cursor.backfill
        if backfill is None:
            return
        if backfill.kind is BackfillKind.SNAPSHOT:
            self._report(SnapshotEnded(sink, max(0, backfill.last_item - 2)))
        cursor.backfill, cursor.settled_item, cursor.dirty = None, 0, True
        cursor.settled = max(cursor.settled, backfill.resumes_after)
        # In one transaction with the cursor: otherwise a crash in between would deliver the uncompacted log again.
        self._store.write(partial(_end, sink=sink, settled=cursor.settled, memory=cursor.memory), shrinks=True)

    def take_progress(self) -> list[Progress]:
        """The unsaved progress of all cursors. The caller saves it."""
        progress = []
        for cursor in self._cursors.values():
            if cursor.dirty:
                item = None if cursor.backfill is None else cursor.item_to_save
                progress.append(Progress(cursor.sink, cursor.settled, item, cursor.memory))
                cursor.dirty = False
        return progress

    # ── Backfills ──────────────────────────────────────────────────────────────

    async def read_backfill(self, sink: str, limit: int) -> tuple[Sequence[Record], int]:
        """At most ``limit`` further records of the sink's backfill, and the index of the last; no records once all were
        read. Raises Damaged."""
        cursor = self._cursors[sink]
        if cursor.backfill is None:
            return (), 0
        question = partial(backfills.read, codec=self._store.codec, sink=sink, backfill=cursor.backfill, limit=limit)
        records, through = await self._store.ask(question)
        cursor.backfill = replace(cursor.backfill, read_through=through)
        return records, through

    async def compact(self, sink: str, taken: int, uncertain_through: int) -> tuple[int, int]:
        """Replaces everything that the sink has not received with the newest record of each object. The sink has
        received the log up to ``taken``; up to ``uncertain_through`` a process that crashed may have delivered it.
        Returns the number of records before and after."""
        cursor = self._cursors[sink]
        through = max(taken, self._last())  # A sink may receive a record just before ``last`` counts it.
        plan = partial(
            backfill_plans.plan_compacted,
            sink=sink,
            backfill=cursor.backfill,
            taken=taken,
            through=through,
            uncertain_through=uncertain_through,
        )
        before, planned = await self._store.ask(plan)
        await self._replan(cursor, BackfillKind.COMPACTED, taken, through, planned)
        return before, len(planned)

    async def drop(self, sink: str, taken: int, through: int) -> tuple[int, int]:
        """Replaces everything up to ``through`` that the sink has not received with a Gap. Returns the first sequence
        number and the number of the dropped records."""
        cursor = self._cursors[sink]
        plan = partial(
            backfill_plans.plan_dropped,
            sink=sink,
            backfill=cursor.backfill,
            taken=taken,
            through=through,
            time=self._clock(),
        )
        planned = await self._store.ask(plan)
        await self._replan(cursor, BackfillKind.DROPPED, taken, through, planned)
        return planned[-1].first or 0, planned[-1].records or 0

    async def replay(
        self, sink: str, *, start: int | str, taken: int, kind: int | None, namespace: str | None
    ) -> Replayed:
        """Plans another delivery of the log from ``start`` (a sequence number, or an RFC 3339 time) through ``taken``.
        Returns the range of its records. Raises UnknownTarget while the sink has a backfill."""
        cursor = self[sink]
        if cursor.backfill is not None:
            raise UnknownTarget(
                f"sink {sink} still gets a {cursor.backfill.kind}, {cursor.backfill.left} records to go:"
                " ask again after it"
            )
        begin = partial(
            backfill_plans.begin_replay,
            sink=sink,
            start=start,
            settled=cursor.settled,
            taken=taken,
            kind=kind,
            namespace=namespace,
        )
        _, found = await self._store.write(begin, committed=lambda begun: _set_backfill(cursor, begun[0]), shrinks=True)
        return found

    async def begin_selection(self, sink: str, start: str) -> None:
        """Puts a selection into effect, whose bits all objects have. A new sink with the StartPolicy ``snapshot`` gets
        a snapshot of the selected objects."""
        begin = partial(backfill_plans.begin_selection, sink=sink, start=start, time=self._clock())
        cursor = self._cursors[sink]
        backfill = await self._store.write(begin, committed=lambda it: _set_backfill(cursor, it or cursor.backfill))
        if backfill is not None:
            self._report(SnapshotBegan(sink, backfill.left - 2))

    async def _replan(
        self, cursor: SinkCursor, kind: BackfillKind, taken: int, through: int, planned: Sequence[BackfillItem]
    ) -> None:
        await self._store.write(
            partial(
                backfill_plans.replan,
                sink=cursor.sink,
                kind=kind,
                backfill=cursor.backfill,
                settled=cursor.settled,
                taken=taken,
                through=through,
                planned=planned,
            ),
            committed=partial(_set_backfill, cursor),
            shrinks=True,  # The sink waits for the plan, and a full disk must not stop deliveries.
        )

    # ── Pauses ───────────────────────────────────────────────────────────────

    async def pause(self, sink: str, cause: PauseCause) -> bool:
        """Pauses a sink, or resumes it (``NONE``). Returns when the change is durable; False if the sink was paused
        already, for whatever cause, or not at all. Raises UnknownTarget."""
        cursor = self[sink]
        if bool(cursor.paused) is bool(cause):
            return False
        await self._store.write(
            partial(cursors.pause, sink=sink, paused=cause),
            committed=lambda _: setattr(cursor, "paused", cause),
            shrinks=True,
        )
        return True

    # ── Sinks that are gone ──────────────────────────────────────────────────

    async def count_absence(self, seconds: float, forget_after: float) -> None:
        """Adds ``seconds`` to the absence of sinks that are not configured, and forgets those absent for
        ``forget_after`` seconds."""
        absent = [cursor for cursor in self._cursors.values() if not cursor.configured]
        for cursor in absent:
            cursor.absent_seconds += seconds
        if absent:
            await self._store.write(
                partial(cursors.add_absence, sinks=[each.sink for each in absent], seconds=seconds), shrinks=True
            )
        for cursor in absent:
            if cursor.absent_seconds >= forget_after:
                self._report(SinkForgotten(cursor.sink, self.backlog_records(cursor.sink)))
                del self._cursors[cursor.sink]
                await self._store.write(partial(_forget, sink=cursor.sink), shrinks=True)


def _set_backfill(cursor: SinkCursor, backfill: Backfill | None) -> None:
    """Runs once the plan is durable, even if the caller was cancelled: memory follows the database."""
    begins = cursor.backfill is None
    cursor.backfill = backfill
    if begins and backfill is not None:
        cursor.settled_item = -len(backfill.in_flight)
        cursor.settle_in_flight(backfill)


def _end(database: apsw.Connection, sink: str, settled: int, memory: bytes) -> None:
    backfills.end(database, sink)
    database.execute("UPDATE cursors SET settled = max(settled, ?), memory = ? WHERE sink = ?", (settled, memory, sink))


def _forget(database: apsw.Connection, sink: str) -> None:
    cursors.forget(database, sink)
