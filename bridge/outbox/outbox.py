"""The outbox: records, ledger and cursors in one SQLite database, with the background work that saves and trims
them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Self

import apsw

from bridge.facts import OutboxOpened, OutboxRebuilt, Report, StateExposed
from bridge.model.admin import DeadLetter, StateReport, UnknownTarget
from bridge.model.policies import StartPolicy
from bridge.model.primitives.ring import Slice
from bridge.model.record import Delta, Record
from bridge.outbox.consumers import cursors, dead_letters_sql
from bridge.outbox.consumers.backlog import BacklogSize, trim_through
from bridge.outbox.consumers.cursors import Progress
from bridge.outbox.consumers.dead_letters import DeadLetters
from bridge.outbox.consumers.sink_cursors import SinkCursors
from bridge.outbox.errors import Damaged, StateError
from bridge.outbox.log import cleaner, statements
from bridge.outbox.log.appender import Appender
from bridge.outbox.log.body_codec import FIRST_NUMBER, Dictionary, make_dictionary
from bridge.outbox.log.cleaner import CleanerPolicy, LogCleaner
from bridge.outbox.log.sparse_index import SparseIndex
from bridge.outbox.objects import ledger_sql
from bridge.outbox.objects.ledger import Ledger
from bridge.outbox.recovery import OpenedState, open_existing, open_state, utc_now
from bridge.outbox.storage import state_check
from bridge.outbox.storage.integrity import find_damage
from bridge.outbox.storage.state_directory import Disk
from bridge.outbox.store import Store
from bridge.outbox.writer import OutboxClosed

TICK = 0.5
"""Seconds between two saves of cursors and positions, each with a trim of the log."""
_TIGHT = 64 << 20
"""Bytes. With less free space than this above ``min_free``, the log cleaner runs whenever it can free a record."""
_ABSENCE = 60.0
"""Seconds between two updates of the absence of sinks that are not configured."""

Committed = Callable[[Sequence[Delta], int], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """Records and space that are kept beyond need. 0 turns a retention off."""

    retain_age: float = 0.0
    """Seconds that a settled record stays in the log, for replays."""
    retain_bytes: int = 0
    """Bytes of settled records that stay in the log, for replays."""
    forget_after: float = 7 * 86_400.0
    """Seconds until a sink that is not configured loses its cursor."""
    min_free: int = 0
    """Bytes on the disk that appends leave free."""
    before: bool = False
    """True if some sink delivers the state of an object before each change."""


class Outbox:
    """Opens, appends, reads and maintains the database. One process at a time holds a directory.

    ``committed`` runs on the event loop after each commit of records, in the order of the log, with the records and the
    sequence number of the last. Records are durable then.
    """

    def __init__(
        self,
        opened: OpenedState,
        retention: Retention,
        cleaner_policy: CleanerPolicy,
        report: Report,
        clock: Callable[[], str],
        committed: Committed,
    ) -> None:
        self._committed = committed
        self._keeping = retention
        self._rhythm = cleaner_policy
        self._now = asyncio.get_running_loop().time
        self._store = Store(
            opened.state_directory, opened.connection, opened.codec, min_free=retention.min_free, report=report
        )
        self._last, self._log_start = opened.last, opened.log_start
        self._loose = opened.loose
        self._bytes = 0
        self.sparse_index = SparseIndex()
        for last, size, age in opened.marks:
            self._bytes += size
            self.sparse_index.reached(last, self._bytes, self._now() - age)
        self._intake = Appender(
            self._store,
            opened.last,
            epoch=opened.epoch,
            before=retention.before,
            clock=clock,
            committed=self._notice_committed,
        )
        self.append = self._intake.append
        opened.state_directory.counted = self._intake.counted
        self.ledger = Ledger(self._store, self._intake, clock)
        dead = {sink: DeadLetters(self._store, sink, found) for sink, found in opened.dead_letters.items()}
        self.sinks = SinkCursors(self._store, opened.cursors, dead, last=lambda: self._last, clock=clock, report=report)
        self.boot_last = opened.last
        """A process before this start may have delivered records up to this sequence number without saving the
        cursor."""

    @classmethod
    async def open(
        cls,
        directory: Path,
        sinks: Mapping[str, StartPolicy],
        *,
        report: Report,
        retention: Retention | None = None,
        clock: Callable[[], str] = utc_now,
        as_it_is: bool = False,
        committed: Committed = lambda _records, _last: None,
        cleaner_policy: CleanerPolicy = CleanerPolicy(),  # noqa: B008  # frozen
    ) -> Outbox:
        """Opens the state in ``directory``. ``sinks``: the configured sinks, each with the starting point for a first
        start. An empty directory gets a new database; a damaged database is moved aside. With ``as_it_is`` the state
        stays unchanged: no cursor is created, and a damaged database raises Damaged. Raises StateError."""
        opened = await asyncio.to_thread(open_existing if as_it_is else open_state, directory, sinks, clock())
        outbox = cls(opened, retention or Retention(), cleaner_policy, report, clock, committed)
        report(
            OutboxOpened(str(opened.state_directory.file), apsw.sqlite_lib_version(), outbox.records, opened.objects)
        )
        if opened.state_directory.exposed:
            report(StateExposed(str(directory), opened.state_directory.exposed))
        if opened.damage:
            report(OutboxRebuilt(str(opened.aside or ""), opened.damage, tuple(sinks)))
        return outbox

    async def close(self) -> None:
        """Saves unsaved progress if there is room, and releases the directory. Raises Damaged if the files are gone,
        since the progress then went with them."""
        try:
            self._require_files()
            with suppress(OutboxClosed, Damaged):
                self._save()
        finally:
            await self._store.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Examines the database after every error that may come from damage. Raises Damaged in place of such an
        error."""
        cause = error if isinstance(error, Exception) else self._store.failure
        damage = await self._damage_behind(cause)
        if not damage:
            await self.close()
            return
        self._store.state_directory.mark_damaged(damage)
        with suppress(Exception):  # The writer raises its failure again.
            await self.close()
        if not isinstance(error, Damaged):
            raise Damaged(
                f"{self._store.state_directory.file} is damaged ({damage}); the next start moves it aside"
            ) from cause

    async def _damage_behind(self, error: BaseException | None) -> str:
        if not isinstance(error, Exception) or isinstance(error, StateError | UnknownTarget | OSError):
            return ""
        if self._store.state_directory.gone():  # Another database may have the name now; ``close`` reports that.
            return ""
        if known := _damage_in(error):
            return str(known)
        return await asyncio.to_thread(find_damage, self._store.state_directory.file)

    async def run(self) -> None:
        """Saves cursors and positions, trims, and watches for missing files, until cancelled. Raises Damaged, or a
        bug."""
        counted = self._now()
        while True:
            await asyncio.sleep(TICK)
            self._require_files()
            await self._store.clear_up()
            await self.tidy()
            if self._now() - counted >= _ABSENCE:
                await self.sinks.count_absence(self._now() - counted, self._keeping.forget_after)
                counted = self._now()

    # ── Records ──────────────────────────────────────────────────────────────

    @property
    def last(self) -> int:
        """Sequence number of the newest durable record; 0 before the first."""
        return self._last

    @property
    def first(self) -> int:
        """Sequence number of the oldest record that sinks can read; ``last + 1`` without records."""
        return self._log_start

    @property
    def records(self) -> int:
        """Number of records between the trimmed ones and the newest, kept for sinks and replays."""
        return self._last + 1 - self._log_start

    @property
    def size(self) -> int:
        """Bytes on disk of ``records``."""
        return self.sparse_index.bytes_after(self._log_start - 1)

    async def read(self, after: int, limit: int) -> Slice[Record]:
        """At most ``limit`` records behind the sequence number ``after``. The slice begins later if the log was
        trimmed. Raises Damaged."""
        question = partial(statements.read, codec=self._store.codec, after=after, limit=limit)
        records, first = await self._store.ask(question)
        return Slice(records, first)

    def body(self, sequence: int) -> bytes:
        """See Store.body."""
        return self._store.body(sequence)

    def _notice_committed(self, deltas: Sequence[Delta], size: int) -> None:
        self._last = deltas[-1].sequence
        self._bytes += size
        self.sparse_index.reached(self._last, self._bytes, self._now())
        self._committed(deltas, self._last)

    # ── State ────────────────────────────────────────────────────────────────

    def backlog_of(self, sink: str) -> BacklogSize:
        """The records, bytes and age that this sink has not settled. Items of a backfill count as records only: their
        bytes belong to the ledger, which exists anyway."""
        cursor, now = self.sinks[sink], self._now()
        held = cursor.holds
        age = self.sparse_index.age_of(held, now) if held < self._last else 0.0
        if cursor.has_in_flight:
            age = max(age, now - cursor.oldest_at)
        else:
            cursor.oldest_at = now - age
        return BacklogSize(self.sinks.lag(sink), self.sparse_index.bytes_after(held), age)

    @property
    def oldest_seconds(self) -> float:
        """Age of the oldest record in seconds; 0 without records."""
        return self.sparse_index.age_of(self._log_start - 1, self._now()) if self.records else 0.0

    @property
    def no_room(self) -> str:
        """Why appends wait at the moment; empty while they succeed."""
        return self._store.no_room

    def disk(self) -> Disk:
        """Sizes of the database files, and the free space."""
        return self._store.state_directory.disk()

    async def dead_letters(self, sink: str | None, after: int, limit: int) -> Sequence[DeadLetter]:
        """At most ``limit`` dead letters with numbers above ``after``, of one sink or (None) of all, in the order of
        their numbers."""
        return await self._store.ask(partial(dead_letters_sql.listed, sink=sink, after=after, limit=limit))

    async def dead_letter(self, number: int) -> Record:
        """The record of a dead letter. Raises UnknownTarget."""
        return await self._store.ask(partial(dead_letters_sql.record_of, number=number))

    async def check(self) -> StateReport:
        """The result of a complete integrity check. Reads the whole database: seconds for each gigabyte."""
        if gone := self._store.state_directory.gone():
            return state_check.report_without_database(self.disk(), gone)
        return await self._store.ask(partial(state_check.report, disk=self.disk()))

    # ── Housekeeping ─────────────────────────────────────────────────────────

    async def tidy(self) -> None:
        """Saves the progress of sinks and informers, trims the log, and runs the log cleaner when it pays."""
        held = [cursor.holds for cursor in self.sinks.all]  # Before the save, since sinks go on during it.
        await self._save_progress()
        through = trim_through(
            held,
            self._keeping.retain_age,
            self._keeping.retain_bytes,
            self.sparse_index,
            self._now(),
            self._last,
        )
        if self._log_start <= through:
            # After the save: a cursor on disk never points at a trimmed record, whenever the process is killed.
            start, gone = self._log_start, self._bytes - self.size
            self._log_start = await self._store.write(partial(cleaner.trim, through=through), shrinks=True)
            self.sparse_index.trim(self._log_start - 1)
            self._loose.add(self._log_start - start, self._bytes - self.size - gone)
        if self._is_clearing_due():
            await self._clear()
        if samples := self._store.codec.bodies.take_samples():
            await self._make_dictionary(*samples)

    def _is_clearing_due(self) -> bool:
        if self._loose.has_pinned and not any(cursor.backfill for cursor in self.sinks.all):
            return True
        if self._store.state_directory.free_bytes() < self._keeping.min_free + _TIGHT:
            return self._loose.checkpoint < self._log_start
        return self._loose.is_due(self._rhythm, self._log_start)

    async def _clear(self) -> None:
        clear = LogCleaner(self._rhythm)
        while await self._store.write(clear, committed=clear.was_done, shrinks=True):
            await self._save_progress()
        while await self._store.write(cleaner.vacuum, shrinks=True):
            await self._save_progress()
        self._loose = await self._store.ask(cleaner.loose)

    async def _make_dictionary(self, kind: int, samples: list[bytes]) -> None:
        number = FIRST_NUMBER + kind
        content = await asyncio.to_thread(make_dictionary, samples, number)
        if content is not None:
            dictionary = Dictionary(number, kind, content)
            # In use only once it is durable: a body must not need a dictionary that a crash lost.
            self._store.write(
                partial(ledger_sql.add_dictionary, dictionary=dictionary),
                committed=lambda _: self._store.codec.bodies.learn(dictionary),
            )

    def _require_files(self) -> None:
        """Raises Damaged if the open files no longer have their names: whatever is written then disappears with the
        process."""
        if not (gone := self._store.state_directory.gone()):
            return
        last, epoch = self._intake.counted()
        if self._store.state_directory.mark_gone(gone):
            raise Damaged(f"{gone}: the next start begins behind record {last}, and every sink gets a Gap first")
        raise Damaged(
            f"{gone}. The next start finds no mark there: on an empty directory it exports every object again, with "
            f"record 1 in epoch 1 and without a Gap. The last record was {last}, in epoch {epoch} at most. If the "
            "directory was moved, move it back; otherwise let consumers forget the ids that they remember"
        )

    async def _save_progress(self) -> None:
        if self._intake.has_reached or self.sinks.have_progressed:
            await self._save()

    def _save(self) -> asyncio.Future[None]:
        reached = self._intake.take_reached() if self._intake.has_reached else {}
        progress = self.sinks.take_progress()
        return self._store.write(partial(_save, reached=reached, progress=progress), shrinks=True)


def _damage_in(error: BaseException) -> Damaged | None:
    if isinstance(error, BaseExceptionGroup):
        return next((found for each in error.exceptions if (found := _damage_in(each))), None)
    return error if isinstance(error, Damaged) else None


def _save(database: apsw.Connection, reached: Mapping[int, statements.Reached], progress: Sequence[Progress]) -> None:
    if reached:
        statements.reach(database, reached)
    cursors.save(database, progress)
