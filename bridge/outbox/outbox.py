"""The outbox: records, ledger and cursors in one SQLite database, saved and trimmed in the background."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Self

from bridge.model.admin import DeadLetter, DeadLetterChain, StateReport
from bridge.model.policies import StartPolicy
from bridge.model.primitives.backoff import PollInterval
from bridge.model.primitives.ring import Slice
from bridge.model.primitives.shard import Shard
from bridge.model.record import Record
from bridge.outbox import integrity, opening
from bridge.outbox.appender import Appender, utc_now
from bridge.outbox.commits import Capture
from bridge.outbox.consumers import cursors, dead_letters
from bridge.outbox.consumers.backlogs import OwnLog
from bridge.outbox.consumers.compaction import BacklogSize
from bridge.outbox.consumers.dead_letters import DeadLetters
from bridge.outbox.consumers.selections import Selections
from bridge.outbox.consumers.sink_cursors import SinkCursors
from bridge.outbox.consumers.snapshot_plans import Snapshots
from bridge.outbox.encryption import Cipher
from bridge.outbox.errors import Damaged
from bridge.outbox.ledger import Ledger
from bridge.outbox.log.cleaner import CleanerPolicy
from bridge.outbox.log.retention import Retention, SparseIndex
from bridge.outbox.maintenance import LogMaintenance
from bridge.outbox.storage.state_directory import Disk
from bridge.outbox.store import Store, read_log
from bridge.outbox.writer import OutboxClosed
from bridge.telemetry.facts import Report

TICK = 0.5
"""Seconds between two saves of cursors and positions, each with a trim of the log."""
QUIET_TICK = 1.0  # while neither records nor progress come
_ABSENCE = 60.0  # seconds between two updates of the absence of sinks that are not configured

Committed = Callable[[Sequence[Record], int], None]


class Outbox:
    """Opens, appends, reads and maintains the database. One process at a time holds a directory. ``committed`` runs on
    the event loop after each commit of records, in the order of the log, with the records, which are durable then, and
    the sequence number of the last."""

    def __init__(
        self,
        opened: opening.OpenedState,
        retention: Retention,
        cleaner_policy: CleanerPolicy,
        report: Report,
        clock: Callable[[], str],
        committed: Committed,
        capture: Capture | None = None,
        shard: Shard | None = None,
    ) -> None:
        self._retention = retention
        self._now = asyncio.get_running_loop().time
        files = opened.state_directory
        store = Store(
            files, opened.connection, opened.codec, min_free=retention.min_free, report=report, capture=capture
        )
        self._store = store
        self._log = LogMaintenance(store, opened, retention, cleaner_policy)
        self._appender = Appender(store, self._log.end, retention, epoch=opened.epoch, clock=clock, committed=committed)
        self.append = self._appender.append
        self.body = store.body
        self.selections = Selections(store, self._appender, opened.selections, clock)
        files.count_by(self._counted)
        self.ledger = Ledger(store, self._appender, clock)
        term = 0 if capture is None else capture.term
        dead = {sink: DeadLetters(store, sink, found) for sink, found in opened.dead_letters.items()}
        own = {sink: OwnLog(opened.selections[sink], known, self._now()) for sink, known in opened.own.items()}
        self.sinks = SinkCursors(
            store,
            self._appender,
            self.selections,
            opened.cursors,
            dead,
            own,
            end=self._log.end,
            clock=clock,
            report=report,
            term=term,
            shard=shard,
        )
        self.leads = capture is not None
        """In an election."""
        self.snapshots = Snapshots(store, self.sinks, clock, report)
        self.term = opened.term
        """The newest term in which a bridge has led with this state; 0 without one."""
        self.ahead = opened.ahead
        """Records leave with numbers that are larger by this than those in the log: they ascend over all leaders."""
        self.last_at_start = opened.last
        """A process before may have delivered records up to this sequence number without saving the cursor."""

    @classmethod
    async def open(
        cls,
        directory: Path,
        sinks: Mapping[str, StartPolicy | None],
        *,
        report: Report,
        retention: Retention | None = None,
        clock: Callable[[], str] = utc_now,
        selecting: Collection[str] = (),
        only_existing: bool = False,
        first_behind: Callable[[], int] = opening.number_of_now,
        cipher: Cipher | None = None,
        committed: Committed = lambda _records, _last: None,
        cleaner_policy: CleanerPolicy = CleanerPolicy(),  # noqa: B008  # frozen
        capture: Capture | None = None,
        lacking: bool = False,
        shard: Shard | None = None,
    ) -> Outbox:
        """Opens the state in ``directory``. ``sinks``: the configured sinks, each with the starting point for a first
        start, or None if ``SinkCursors.begin`` follows; ``selecting``: those with a selection. A new database begins
        behind the number of ``first_behind``; a damaged one is moved aside, but with ``only_existing`` raises Damaged,
        and no cursor is created. ``cipher`` encrypts objects. ``capture`` records all transactions for other replicas;
        records are committed, for everybody here, when those have them. ``lacking``: another replica may have delivered
        what this state does not have; each sink gets a Gap, and behind it a snapshot. ``shard``: the part of all
        objects that the bridge has; None for all. Raises StateError."""
        begin = partial(
            opening.open_state,
            selecting=selecting,
            behind=first_behind(),
            cipher=cipher,
            capture=capture,
            lacking=lacking,
        )
        existing = partial(opening.open_existing, cipher=cipher)
        opened = await asyncio.to_thread(existing if only_existing else begin, directory, sinks, clock())
        outbox = cls(opened, retention or Retention(), cleaner_policy, report, clock, committed, capture, shard)
        opening.report_opened(opened, outbox.records, sinks, report)
        return outbox

    async def close(self) -> None:
        """Saves unsaved progress if there is room, and releases the directory. Raises Damaged if the files are gone,
        since the progress then went with them."""
        try:
            self._store.state_directory.require_files()
            with suppress(OutboxClosed, Damaged):
                if self._store.writer.failure is not None:
                    raise self._store.writer.failure
                self._save()
        finally:
            await self._store.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        """Examines the database after every error that may come from damage. Raises Damaged in place of such an
        error."""
        cause = error if isinstance(error, Exception) else self._store.writer.failure
        damage = await asyncio.to_thread(
            integrity.damage_behind, cause, self._store.state_directory, self._store.cipher
        )
        if not damage:
            await self.close()
            return
        self._store.state_directory.mark_damaged(damage)
        with suppress(Exception):  # The writer raises its failure again.
            await self.close()
        if not isinstance(error, Damaged):
            file = self._store.state_directory.file
            raise Damaged(f"{file} is damaged ({damage}); the next start moves it aside") from cause

    async def run(self) -> None:
        """Saves progress, trims, and watches for missing files, until cancelled. Raises Damaged, or a bug."""
        counted, interval, last = self._now(), PollInterval(TICK, QUIET_TICK), self.last
        while True:
            await self._pause(interval.seconds)
            self._store.state_directory.require_files()
            await self._examine_suspicion()
            progressed = await self.maintain()
            interval.looked(changed=progressed or self.last != last)
            last = self.last
            if self._now() - counted >= _ABSENCE:
                await self.sinks.count_absence(self._now() - counted, self._retention.forget_after)
                counted = self._now()

    async def _pause(self, seconds: float) -> None:
        """Ends early for a kind that can have a dictionary: a first list is over in less than a tick, and each of its
        bodies takes eight times the bytes and four times the CPU without."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._appender.sampled.wait()
        self._appender.sampled.clear()

    async def _examine_suspicion(self) -> None:
        """Examines the database after an error of a reader. Raises Damaged; a bug stays with its caller."""
        suspicion = self._store.take_suspicion()
        if isinstance(suspicion, Damaged):
            raise suspicion
        if suspicion is not None:
            damage = await asyncio.to_thread(
                integrity.find_damage, self._store.state_directory.file, self._store.cipher
            )
            if damage:
                raise Damaged(damage) from suspicion

    def _counted(self) -> tuple[int, int]:
        last, epoch = self._appender.counted()
        return last + self.ahead, epoch

    # ── Records ──────────────────────────────────────────────────────────────

    @property
    def retains(self) -> bool:
        """Whether settled records stay, for replays."""
        return self._retention.retains

    @property
    def last(self) -> int:
        """Sequence number of the newest durable record; 0 before the first."""
        return self._log.end.last

    @property
    def sparse_index(self) -> SparseIndex:
        """Bytes and ages of the records."""
        return self._log.end.mark()

    @property
    def first(self) -> int:
        """Sequence number of the oldest record that sinks can read; ``last + 1`` without records."""
        return self._log.start

    @property
    def records(self) -> int:
        """Number of records between the trimmed ones and the newest, kept for sinks and replays."""
        return self._log.records

    @property
    def size(self) -> int:
        """Bytes on disk of ``records``."""
        return self._log.size

    async def read(self, after: int, limit: int, mask: int | None = None) -> Slice[Record]:
        """At most ``limit`` records behind the sequence number ``after``. The slice begins later if the log was
        trimmed. ``mask``: see ``read_log``. Raises Damaged."""
        last = self.last
        read = partial(read_log, codec=self._store.codec, after=after, limit=limit, mask=mask)
        records, first = await self._store.ask(read)
        # The file may have records already that count as committed only when other replicas have them.
        return Slice([each for each in records if each.sequence <= last] if records else records, first)

    # ── State ────────────────────────────────────────────────────────────────

    def backlog_of(self, sink: str) -> BacklogSize:
        """See Backlogs.size."""
        return self.sinks.backlogs.size(self.sinks[sink], self.sparse_index, self._now())

    @property
    def oldest_seconds(self) -> float:
        """Age of the oldest record in seconds; 0 without records."""
        return self.sparse_index.age_of(self._log.start - 1, self._now()) if self.records else 0.0

    @property
    def no_room(self) -> str:
        """Why appends wait at the moment; empty while they succeed."""
        return self._store.writer.no_room

    async def find_room(self) -> None:
        """See Writer.find_room."""
        await self._store.writer.find_room()

    def disk(self) -> Disk:
        """Sizes of the database files, and the free space."""
        return self._store.state_directory.disk()

    async def dead_letters(self, sink: str | None, after: int, limit: int) -> Sequence[DeadLetter]:
        """At most ``limit`` dead letters with numbers above ``after``, ascending, of one sink or (None) of all."""
        listed = partial(dead_letters.listed, sink=sink, after=after, limit=limit, cipher=self._store.cipher)
        return await self._store.ask(listed)

    async def dead_letter_chains(self, sink: str | None, after: int, limit: int) -> Sequence[DeadLetterChain]:
        """At most ``limit`` chains whose first dead letters have numbers above ``after``, ascending."""
        chains = partial(dead_letters.chains, sink=sink, after=after, limit=limit, cipher=self._store.cipher)
        return await self._store.ask(chains)

    async def dead_letter(self, number: int) -> Record:
        """The record of a dead letter. Raises UnknownTarget."""
        return await self._store.ask(partial(dead_letters.record_of, number=number, cipher=self._store.cipher))

    async def check(self) -> StateReport:
        """The result of a complete integrity check. Reads the whole database: seconds for each gigabyte."""
        if gone := self._store.state_directory.gone():
            return integrity.report_without_database(self.disk(), gone)
        return await self._store.ask(partial(integrity.report, disk=self.disk(), cipher=self._store.cipher))

    # ── Housekeeping ─────────────────────────────────────────────────────────

    async def maintain(self) -> bool:
        """Saves the progress of sinks and informers, trims the log, and runs the log cleaner when it pays. Returns
        whether there was progress."""
        async with self.sinks.lock:
            held = [cursor.holds for cursor in self.sinks.all]  # Before the save, since sinks go on during it.
            progressed = await self._save_progress()
            await self._log.trim(held)
        if self._log.is_cleaning_due(has_backfills=any(cursor.backfill for cursor in self.sinks.all)):
            await self._log.clean(self._save_progress)
        await self._log.improve_bodies()
        return progressed

    async def _save_progress(self) -> bool:
        if (saved := self._save()) is not None:
            await saved
        return saved is not None

    def _save(self) -> asyncio.Future[None] | None:
        """None if there is no unsaved progress."""
        progress, reached = self.sinks.take_progress(), self._appender.take_reached()
        if not (progress or reached):
            return None
        return self._store.write(partial(cursors.save, progress=progress, reached=reached), shrinks=True)
