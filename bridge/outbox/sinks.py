"""Every sink's way through the log: its cursor, what it is told out of turn, its dead letters."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

import apsw

from bridge.facts import Report, SinkForgotten, SnapshotBegan, SnapshotEnded
from bridge.model.record import Record
from bridge.model.upkeep import UnknownTarget
from bridge.outbox import cursors, errands
from bridge.outbox.cursors import Cursor, Progress
from bridge.outbox.errands import Errand, ErrandKind
from bridge.outbox.letters import Letters
from bridge.outbox.store import Store


class Sinks:
    """``last`` tells the sequence number of the newest durable record."""

    def __init__(
        self,
        store: Store,
        known: Mapping[str, Cursor],
        letters: Mapping[str, Letters],
        *,
        last: Callable[[], int],
        clock: Callable[[], str],
        report: Report,
    ) -> None:
        self._store = store
        self._cursors = dict(known)
        self.letters = letters
        self._last = last
        self._clock = clock
        self._report = report
        for cursor in known.values():
            if cursor.errand is not None and cursor.errand.kind is ErrandKind.SNAPSHOT:
                report(SnapshotBegan(cursor.sink, max(0, cursor.errand.left - 2)))  # Without its two notices.

    def __getitem__(self, sink: str) -> Cursor:
        """Raises UnknownTarget."""
        try:
            return self._cursors[sink]
        except KeyError:
            raise UnknownTarget(f"there is no sink {sink}; there are: {', '.join(self._cursors) or 'none'}") from None

    @property
    def all(self) -> Sequence[Cursor]:
        return tuple(self._cursors.values())

    def lag(self, sink: str) -> int:
        """Records that this sink has not settled."""
        return self._cursors[sink].records_until(self._last())

    # ── Settling ─────────────────────────────────────────────────────────────

    def settle(self, sink: str, through: int) -> None:
        """Everything of the log up to ``through`` is settled for this sink."""
        cursor = self._cursors[sink]
        if through > cursor.settled:
            cursor.settled, cursor.dirty = through, True
            _settle_in_flight(cursor)

    def settle_errand(self, sink: str, place: int) -> None:
        """What it was told out of turn is settled up to this place."""
        cursor = self._cursors[sink]
        cursor.settled_place, cursor.dirty = place, True

    def remember(self, sink: str, memory: bytes) -> None:
        """What this sink is reminded of after a restart; saved together with what was settled until now."""
        cursor = self._cursors[sink]
        if memory != cursor.memory:
            cursor.memory, cursor.dirty = memory, True

    def end_errand(self, sink: str) -> None:
        """All of the errand is settled, and the log up to where it goes on."""
        cursor = self._cursors[sink]
        errand = cursor.errand
        if errand is None:
            return
        if errand.kind is ErrandKind.SNAPSHOT:
            self._report(SnapshotEnded(sink, max(0, errand.last - 2)))
        cursor.errand, cursor.settled_place, cursor.dirty = None, 0, True
        cursor.settled = max(cursor.settled, errand.cut)
        # The cursor is saved with it: ended without that, what was compacted would be told from the log.
        self._store.write(partial(_end, sink=sink, settled=cursor.settled, memory=cursor.memory), shrinks=True)

    @property
    def have_progressed(self) -> bool:
        """There are cursors to be saved."""
        return any(cursor.dirty for cursor in self._cursors.values())

    def take_progress(self) -> list[Progress]:
        """What changed since the last time, to be saved now."""
        progress = []
        for cursor in self._cursors.values():
            if cursor.dirty:
                progress.append(Progress(cursor.sink, cursor.settled, cursor.place_to_save, cursor.memory))
                cursor.dirty = False
        return progress

    # ── Errands ──────────────────────────────────────────────────────────────

    async def read_errand(self, sink: str, limit: int) -> tuple[Sequence[Record], int]:
        """The next records that this sink is told out of turn, and the place of the last; none where all were read."""
        cursor = self._cursors[sink]
        if cursor.errand is None:
            return (), 0
        question = partial(errands.read, codec=self._store.codec, sink=sink, errand=cursor.errand, limit=limit)
        records, told = await self._store.ask(question)
        cursor.errand = replace(cursor.errand, told=told)
        return records, told

    async def compact(self, sink: str, taken: int, told_through: int) -> tuple[int, int]:
        """Put the newest of each object in place of what this sink was not handed yet. The log was handed out up to
        ``taken``; up to ``told_through`` it may have been told before a crash. Returns records before and after."""
        cursor = self._cursors[sink]
        through = max(taken, self._last())  # What was just committed may be handed out before it is counted.
        plan = partial(
            errands.compacted, sink=sink, errand=cursor.errand, taken=taken, through=through, told_through=told_through
        )
        before, planned = await self._store.ask(plan)
        await self._replan(cursor, ErrandKind.COMPACTED, taken, through, planned)
        return before, len(planned)

    async def drop(self, sink: str, taken: int, through: int) -> tuple[int, int]:
        """Put a Gap in place of what this sink was not handed yet, up to ``through``. Returns the first record that it
        stands for, and how many."""
        cursor = self._cursors[sink]
        plan = partial(
            errands.dropped, sink=sink, errand=cursor.errand, taken=taken, through=through, time=self._clock()
        )
        planned = await self._store.ask(plan)
        await self._replan(cursor, ErrandKind.DROPPED, taken, through, planned)
        return planned[-1].first or 0, planned[-1].records or 0

    async def replay(
        self, sink: str, *, start: int | str, taken: int, kind: int | None, namespace: str | None
    ) -> tuple[int, int, int]:
        """Tell this sink once more what stands in the log from ``start`` (a sequence number or a time) up to ``taken``.
        Returns how many records, the first and the last. Raises UnknownTarget while an errand is under way."""
        cursor = self[sink]
        if cursor.errand is not None:
            raise UnknownTarget(
                f"sink {sink} is being told a {cursor.errand.kind}, {cursor.errand.left} records to go: ask again then"
            )
        begin = partial(
            errands.begin_replay,
            sink=sink,
            start=start,
            settled=cursor.settled,
            taken=taken,
            kind=kind,
            namespace=namespace,
        )
        _, found = await self._store.write(begin, committed=lambda begun: _set_errand(cursor, begun[0]), shrinks=True)
        return found

    async def _replan(
        self, cursor: Cursor, kind: ErrandKind, taken: int, cut: int, planned: Sequence[errands.Selected]
    ) -> None:
        await self._store.write(
            partial(
                errands.replan,
                sink=cursor.sink,
                kind=kind,
                errand=cursor.errand,
                settled=cursor.settled,
                taken=taken,
                cut=cut,
                planned=planned,
            ),
            committed=partial(_set_errand, cursor),
            shrinks=True,  # The sink is told nothing before it is done.
        )

    # ── Pauses ───────────────────────────────────────────────────────────────

    async def pause(self, sink: str, paused: bool) -> bool:
        """Pause this sink, or resume it. Returns when that is durable; False where it was so already. Raises
        UnknownTarget."""
        cursor = self[sink]
        if cursor.paused is paused:
            return False
        await self._store.write(
            partial(cursors.pause, sink=sink, paused=paused),
            committed=lambda _: setattr(cursor, "paused", paused),
            shrinks=True,
        )
        return True

    # ── Sinks that are gone ──────────────────────────────────────────────────

    async def count_absence(self, seconds: float, forget_after: float) -> None:
        """Sinks that are not configured were so for ``seconds`` more; those that were for longer are forgotten."""
        absent = [cursor for cursor in self._cursors.values() if not cursor.configured]
        for cursor in absent:
            cursor.absent_seconds += seconds
        if absent:
            await self._store.write(
                partial(cursors.miss, sinks=[each.sink for each in absent], seconds=seconds), shrinks=True
            )
        for cursor in absent:
            if cursor.absent_seconds >= forget_after:
                self._report(SinkForgotten(cursor.sink, self.lag(cursor.sink)))
                del self._cursors[cursor.sink]
                await self._store.write(partial(_forget, sink=cursor.sink), shrinks=True)


def _set_errand(cursor: Cursor, errand: Errand | None) -> None:
    """Whoever asked for it may be gone; that the database has it counts."""
    begins = cursor.errand is None
    cursor.errand = errand
    if begins and errand is not None:
        cursor.settled_place = -len(errand.in_flight)
        _settle_in_flight(cursor)


def _settle_in_flight(cursor: Cursor) -> None:
    """What was in flight when the errand was planned, and is settled by now, is so by its place too."""
    errand = cursor.errand
    if errand is not None and errand.in_flight:
        place = bisect_right(errand.in_flight, cursor.settled) - len(errand.in_flight)
        cursor.settled_place = max(cursor.settled_place, place)


def _end(database: apsw.Connection, sink: str, settled: int, memory: bytes) -> None:
    errands.end(database, sink)
    database.execute("UPDATE cursors SET settled = max(settled, ?), memory = ? WHERE sink = ?", (settled, memory, sink))


def _forget(database: apsw.Connection, sink: str) -> None:
    cursors.forget(database, sink)
