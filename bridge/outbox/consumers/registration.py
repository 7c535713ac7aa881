"""Sinks that come, change and go while the bridge runs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import NamedTuple

import apsw

from bridge.model.policies import StartPolicy
from bridge.model.record import Record
from bridge.outbox.appender import Appender
from bridge.outbox.consumers import backlogs, cursors, selections
from bridge.outbox.consumers.backlogs import OwnLog, OwnRecords
from bridge.outbox.consumers.cursors import CursorProgress, SinkCursor
from bridge.outbox.consumers.selections import Selections, StoredSelection
from bridge.outbox.consumers.sink_cursors import SinkCursors
from bridge.outbox.store import Store
from bridge.telemetry.facts import Report
from bridge.telemetry.facts.outbox import SinkForgotten


class _Begun(NamedTuple):
    cursors: Sequence[SinkCursor]
    selections: Mapping[str, StoredSelection]
    own: Mapping[str, Sequence[OwnRecords]]


class SinkRegistration:
    """Begins and ends the cursors of sinks, in the database and then in ``sinks`` and ``selections``."""

    def __init__(
        self,
        store: Store,
        appender: Appender,
        sinks: SinkCursors,
        selections: Selections,
        clock: Callable[[], str],
        report: Report,
    ) -> None:
        self._store = store
        self._appender = appender
        self._sinks = sinks
        self._selections = selections
        self._clock = clock
        self._report = report
        self._now = asyncio.get_running_loop().time
        self.lock = asyncio.Lock()
        """Held while cursors begin, and while the log is trimmed behind all cursors."""
        if selections.stored:
            appender.observe_by(self._count_own_records)

    async def begin(self, sinks: Mapping[str, StartPolicy], selecting: Collection[str], *, before: bool) -> None:
        """Begins the cursors of these sinks as the start of a process does: a new sink gets a cursor, a known sink goes
        on behind its settled records. None of them has a feed. ``selecting``: those with a selection; call
        ``Selections.expect_room`` first, and let no informer run if one of them had none before. ``before``: see
        Retention. Durable on return."""
        self._appender.keeps_before = before
        if not sinks:
            return
        async with self.lock:
            known = {cursor.sink: cursor for cursor in self._sinks.all}
            progress = [known[sink].progress for sink in sinks if sink in known]
            begin = partial(_begin, progress=progress, sinks=sinks, selecting=selecting, time=self._clock())
            await self._store.write(begin, committed=self._begun)

    def end(self, sink: str) -> None:
        """Counts a sink as absent from now on. It keeps its cursor, until it is forgotten."""
        self._sinks[sink].configured = False

    async def count_absence(self, seconds: float, forget_after: float) -> None:
        """Adds ``seconds`` to the absence of sinks that are not configured, and forgets those absent for
        ``forget_after`` seconds."""
        async with self.lock:
            absent = [cursor for cursor in self._sinks.all if not cursor.configured]
            for cursor in absent:
                cursor.absent_seconds += seconds
            if absent:
                sinks = [each.sink for each in absent]
                await self._store.write(partial(cursors.add_absence, sinks=sinks, seconds=seconds), shrinks=True)
            for cursor in absent:
                if cursor.absent_seconds >= forget_after:
                    await self._forget(cursor.sink)

    async def _forget(self, sink: str) -> None:
        self._report(SinkForgotten(sink, self._sinks.backlog_records(sink)))
        self._sinks.remove(sink)
        self._selections.stored.pop(sink, None)
        await self._store.write(partial(cursors.forget, sink=sink), shrinks=True)

    def _begun(self, begun: _Begun) -> None:
        # Runs once the cursors are durable, even if the caller was cancelled: memory follows the database.
        for cursor in begun.cursors:
            self._sinks.enter(cursor)
        self._selections.stored.update(begun.selections)
        for sink, records in begun.own.items():
            self._sinks.backlogs.begin(sink, OwnLog(begun.selections[sink], records, self._now()))
            self._appender.observe_by(self._count_own_records)

    def _count_own_records(self, records: Sequence[Record], size: int) -> None:
        self._sinks.backlogs.add(records, size, self._now())


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
