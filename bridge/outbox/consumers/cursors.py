"""Cursors: how far each sink has settled the log, at once in memory and a little later on disk. Progress that a crash
loses costs duplicates, never records."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple
from uuid import uuid4

import apsw

from bridge.model.policies import StartPolicy
from bridge.model.status import PauseCause
from bridge.outbox.consumers import backfill as backfills
from bridge.outbox.consumers import backfill_plans, selections
from bridge.outbox.consumers.backfill import Backfill, BackfillKind
from bridge.outbox.consumers.backfill_plans import Received
from bridge.outbox.ledger import PRESENT
from bridge.outbox.log import statements
from bridge.outbox.storage.database import columns, one, row, rows_of


@dataclass(slots=True)
class SinkCursor:
    """The progress of a sink, in memory."""

    sink: str
    settled: int
    """All records up to this sequence number are settled."""
    absent_seconds: float
    backfill: Backfill | None
    configured: bool = True
    dirty: bool = False
    settled_item: int = 0
    """Items of the backfill up to this index are settled."""
    paused: PauseCause = PauseCause.NONE
    """Durable: a restart resumes no sink."""
    memory: bytes = b""
    """Opaque bytes of the sink, handed back after a restart."""
    compacted_through: int = 0
    """Records up to this sequence number count only as items of the backfill."""
    birth: str = ""
    """Random: a cursor that is forgotten and made anew is another one."""
    backfills: int = 0
    """Backfills that have ended."""
    owes_snapshot: int = 0
    """The sink needs a snapshot once it has taken the log up to this sequence number; 0 if it needs none."""
    oldest_at: float = 0.0
    """Event loop time (seconds) since which some record is unsettled. Kept here because records in flight may have left
    the log."""

    @property
    def holds(self) -> int:
        """The log can be trimmed up to this sequence number as far as this sink goes. Records of a backfill stay even
        so."""
        if self.backfill is not None and self.settled >= self.backfill.needs_log_through:
            return max(self.settled, self.backfill.resumes_after)
        return self.settled

    @property
    def has_in_flight(self) -> bool:
        """True while records that the sink received before the backfill was planned are unsettled."""
        return self.backfill is not None and bool(self.backfill.in_flight) and self.settled < self.backfill.starts_after

    def received(self, taken: int) -> Received:
        """How far the sink has come, with the log received up to ``taken``."""
        return Received(self.sink, self.settled, taken, self.backfill)

    @property
    def progress(self) -> CursorProgress:
        """For ``save``."""
        backfill = self.backfill
        is_begun = backfill is not None and (self.settled_item != 0 or bool(backfill.in_flight))
        return CursorProgress(self.sink, self.settled, self.settled_item if is_begun else None, self.memory)

    @property
    def backfill_is_settled(self) -> bool:
        """True once the backfill and the log in front of it are settled."""
        backfill = self.backfill
        return (
            backfill is not None and self.settled >= backfill.starts_after and self.settled_item >= backfill.last_item
        )

    def settle(self, through: int) -> None:
        """Settles the log up to ``through``; a lower number has no effect. Saved with the next ``Outbox.maintain``."""
        if through > self.settled:
            self.settled, self.dirty = through, True
            if self.backfill is not None:
                self.settle_in_flight(self.backfill)

    def settle_backfill(self, index: int) -> None:
        """Settles the items of the backfill up to ``index``."""
        self.settled_item, self.dirty = index, True

    def skip_items(self, index: int) -> None:
        """The destination has the items of the backfill up to ``index``, which this process did not read."""
        if self.backfill is not None and index > self.settled_item:
            self.backfill = replace(self.backfill, read_through=max(self.backfill.read_through, index))
            self.settle_backfill(index)

    def settle_in_flight(self, backfill: Backfill) -> None:
        """Records that were in flight when the backfill was planned have items in it, settled with the log."""
        if backfill.in_flight:
            index = bisect_right(backfill.in_flight, self.settled) - len(backfill.in_flight)
            self.settled_item = max(self.settled_item, index)

    def follow(self, backfill: Backfill | None, *, compacts: bool = True) -> None:
        """Follows a backfill that was begun or changed in the database; None changes nothing. Runs once the plan is
        durable, even if the caller was cancelled. ``compacts``: it has not every record that it stands for."""
        if backfill is None:
            return
        begins, self.backfill = self.backfill is None, backfill
        if compacts:
            self.compacted_through = backfill.resumes_after
        if begins:
            self.settled_item = -len(backfill.in_flight)
            self.settle_in_flight(backfill)

    def remember(self, memory: bytes) -> None:
        """Stores bytes that the sink gets back after a restart. They are saved together with the cursor of that
        moment."""
        if memory != self.memory:
            self.memory, self.dirty = memory, True

    def backlog_records(self, last: int, between: Callable[[int, int], int]) -> int:
        """Records that are unsettled up to ``last``. ``between``: counts those behind a sequence number, up to
        another."""
        if self.backfill is None:
            return between(self.settled, last)
        before = between(self.settled, self.backfill.needs_log_through)
        return before + self.backfill.last_item - self.settled_item + between(self.backfill.resumes_after, last)

    @property
    def counts_from(self) -> int:
        """Of a sink with a selection: bytes and age of the backlog are those of its records behind this sequence
        number."""
        return self.settled if self.backfill is None else max(self.settled, self.compacted_through)


@dataclass(frozen=True, slots=True)
class CursorProgress:
    """The values of a cursor that are written to disk."""

    sink: str
    settled: int
    item: int | None
    """None if no item of a backfill is settled."""
    memory: bytes


class _CursorRow(NamedTuple):
    sink: str
    settled: int
    absent_seconds: float
    paused: int
    memory: bytes
    birth: str
    backfills: int
    owes_snapshot: int


def load(database: apsw.Connection, configured: Iterable[str]) -> dict[str, SinkCursor]:
    """All cursors of the database by sink; ``configured`` marks the sinks of the present configuration."""
    there = set(configured)
    cursors = {}
    for each in [*rows_of(database, _CursorRow, f"SELECT {columns(_CursorRow)} FROM cursors")]:
        backfill = backfills.load(database, each.sink)
        cursors[each.sink] = SinkCursor(
            each.sink,
            each.settled,
            each.absent_seconds,
            backfill,
            configured=each.sink in there,
            settled_item=0 if backfill is None else backfill.read_through,
            compacted_through=0 if backfill is None else _compacted_through(backfill),
            paused=PauseCause(each.paused),
            memory=each.memory,
            birth=each.birth,
            backfills=each.backfills,
            owes_snapshot=each.owes_snapshot,
        )
    return cursors


def _compacted_through(backfill: Backfill) -> int:
    return 0 if backfill.kind is BackfillKind.SELECTED else backfill.resumes_after


def save(
    database: apsw.Connection, progress: Iterable[CursorProgress], reached: Collection[statements.InformerProgress]
) -> None:
    """Writes cursors and the positions of informers, and deletes the items that are settled."""
    statements.reach(database, reached)
    for each in progress:
        # While the disk is full, the writer runs jobs out of order: an older value may arrive after a newer one.
        database.execute(
            "UPDATE cursors SET settled = max(settled, ?), memory = ? WHERE sink = ?",
            (each.settled, each.memory, each.sink),
        )
        if each.item is not None:
            backfills.settle(database, each.sink, each.item)


def end_backfill(database: apsw.Connection, sink: str, settled: int, memory: bytes, time: str) -> None:
    """Deletes a settled backfill, and moves the cursor to the record behind which the log goes on."""
    database.execute("DELETE FROM backfill_items WHERE sink = ?", (sink,))
    database.execute("UPDATE snapshots SET ended = ? WHERE sink = ? AND number > 0 AND ended = ''", (time, sink))
    database.execute(
        "UPDATE cursors SET settled = max(settled, ?), memory = ?, backfill = '', replay = 0,"
        " backfills = backfills + 1 WHERE sink = ?",
        (settled, memory, sink),
    )


def configure(
    database: apsw.Connection,
    sinks: Mapping[str, StartPolicy | None],
    selecting: Collection[str],
    time: str,
) -> None:
    """Counts these sinks as present: a new sink gets its cursor, unless its StartPolicy is None, and a sink of
    ``selecting`` its bit. Raises StateError if no bit is left."""
    known = {sink for (sink,) in database.execute("SELECT sink FROM cursors")}
    for sink, start in sinks.items():
        if sink not in known and start is not None:
            register(database, sink, start, time, selects=sink in selecting)
        # Without the condition every start would write, and fail on a full disk where deliveries can go on.
        database.execute("UPDATE cursors SET absent_seconds = 0 WHERE sink = ? AND absent_seconds", (sink,))
    for sink in selecting:
        if sink not in selections.load(database):
            selections.begin(database, sink, None)


def register(
    database: apsw.Connection,
    sink: str,
    start: StartPolicy,
    time: str,
    *,
    selects: bool = False,
) -> None:
    """Creates the cursor of a new sink. An empty ledger makes no snapshot: its two notices would surround no objects.
    ``selects``: the sink has a selection, and its snapshot waits until the selection is in effect."""
    last, log_start = row(database, "SELECT last, log_start FROM meta")
    settled = log_start - 1 if start is StartPolicy.EARLIEST else last
    database.execute("INSERT INTO cursors (sink, settled, birth) VALUES (?,?,?)", (sink, settled, uuid4().hex))
    if selects:
        selections.begin(database, sink, start)
    elif start is StartPolicy.SNAPSHOT and one(database, f"SELECT EXISTS (SELECT 1 FROM {PRESENT})"):
        backfill_plans.begin_first_snapshot(database, sink, time)


def add_absence(database: apsw.Connection, sinks: Iterable[str], seconds: float) -> None:
    """Adds ``seconds`` to the absence of sinks that are not configured. Only the running time of the bridge counts, so
    a clock that jumps forgets no sink."""
    database.executemany(
        "UPDATE cursors SET absent_seconds = absent_seconds + ? WHERE sink = ?", [(seconds, sink) for sink in sinks]
    )


def pause(database: apsw.Connection, sink: str, paused: PauseCause) -> bool:
    """Returns False, and changes nothing, if the sink was paused already, for whatever cause, or not at all."""
    database.execute(
        "UPDATE cursors SET paused = ? WHERE sink = ? AND (paused = 0) = ?", (paused.value, sink, bool(paused))
    )
    return database.changes() > 0


def forget(database: apsw.Connection, sink: str) -> None:
    """Deletes the cursor and the backfill of a sink."""
    database.execute("DELETE FROM cursors WHERE sink = ?", (sink,))
    database.execute("DELETE FROM backfill_items WHERE sink = ?", (sink,))
    database.execute("DELETE FROM snapshots WHERE sink = ?", (sink,))
    selections.forget(database, sink)
