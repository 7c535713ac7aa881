"""The outbox: records, the ledger and the cursors of all sinks, in one database."""

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
from bridge.model.change import ChangeBatch
from bridge.model.policies import StartPolicy
from bridge.model.record import Delta, Record
from bridge.model.ring import Slice
from bridge.model.upkeep import DeadLetter, StateReport, UnknownTarget
from bridge.outbox import checking, clearing, cursors, ledger_sql, letters, work
from bridge.outbox.backlog import Milestones, Size, trim_through
from bridge.outbox.bodies import FIRST_NUMBER, Dictionary, make_dictionary
from bridge.outbox.clearing import Clear, Rhythm
from bridge.outbox.cursors import Progress
from bridge.outbox.directory import Disk
from bridge.outbox.errors import Damaged, StateError
from bridge.outbox.intake import Intake
from bridge.outbox.integrity import find_damage
from bridge.outbox.ledger import Ledger
from bridge.outbox.letters import Letters
from bridge.outbox.opening import Opened, open_existing, open_state, utc_now
from bridge.outbox.sinks import Sinks
from bridge.outbox.store import Store
from bridge.outbox.writer import OutboxClosed

TICK = 0.5
"""Seconds between two savings of cursors and positions, with trimming."""
_TIGHT = 64 << 20
"""Bytes: with less than this free beyond what is kept free, nothing is left lying that could be cleared away."""
_ABSENCE = 60.0
"""Seconds between two countings of the sinks that are not configured."""

Committed = Callable[[Sequence[Delta], int], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Keeping:
    """What is kept beyond need. Seconds; bytes on disk."""

    retain_age: float = 0.0
    retain_bytes: int = 0
    forget_after: float = 7 * 86_400.0
    min_free: int = 0
    before: bool = False
    """Some sink tells what an object was before."""


class Outbox:
    """``committed`` is called on the event loop with the records of each batch, and the sequence number of the last of
    them, in the order of the log, once they are durable."""

    def __init__(
        self, opened: Opened, keeping: Keeping, rhythm: Rhythm, report: Report, clock: Callable[[], str]
    ) -> None:
        self._keeping = keeping
        self._rhythm = rhythm
        self._now = asyncio.get_running_loop().time
        self._store = Store(opened.holder, opened.connection, opened.codec, min_free=keeping.min_free, report=report)
        self._last, self._trimmed = opened.last, opened.trimmed
        self._loose = opened.loose
        self._bytes = 0
        self.milestones = Milestones()
        for last, size, age in opened.marks:
            self._bytes += size
            self.milestones.reached(last, self._bytes, self._now() - age)
        self._intake = Intake(
            self._store,
            opened.last,
            epoch=opened.epoch,
            before=keeping.before,
            clock=clock,
            committed=self._notice_committed,
        )
        opened.holder.counted = self._intake.counted
        self.ledger = Ledger(self._store, self._intake, clock)
        dead = {sink: Letters(self._store, sink, found) for sink, found in opened.letters.items()}
        self.sinks = Sinks(self._store, opened.cursors, dead, last=lambda: self._last, clock=clock, report=report)
        self.boot_last = opened.last
        """Records up to here may have reached a sink before this start without its cursor saying so."""
        self.committed: Committed = lambda _records, _last: None

    @classmethod
    async def open(
        cls,
        directory: Path,
        sinks: Mapping[str, StartPolicy],
        *,
        report: Report,
        keeping: Keeping | None = None,
        clock: Callable[[], str] = utc_now,
        as_it_is: bool = False,
        rhythm: Rhythm = Rhythm(),  # noqa: B008  # frozen
    ) -> Outbox:
        """``sinks`` are those that are configured, and how one begins that was never there before. A directory that
        holds nothing yet becomes a state; a damaged database is moved aside. With ``as_it_is`` neither is done: no
        sink begins, and Damaged is raised. Raises StateError."""
        opened = await asyncio.to_thread(open_existing if as_it_is else open_state, directory, sinks, clock())
        outbox = cls(opened, keeping or Keeping(), rhythm, report, clock)
        report(OutboxOpened(str(opened.holder.file), apsw.sqlite_lib_version(), outbox.records, opened.objects))
        if opened.holder.exposed:
            report(StateExposed(str(directory), opened.holder.exposed))
        if opened.damage:
            report(OutboxRebuilt(str(opened.aside or ""), opened.damage, tuple(sinks)))
        return outbox

    async def close(self) -> None:
        """Save what is to be saved, where there is room, and let the directory go. Raises Damaged where the files are
        gone, and so is what was to be saved."""
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
        """Whatever ends what was done with the state, damage is looked for behind it. Raises Damaged in its place."""
        cause = error if isinstance(error, Exception) else self._store.failure
        damage = await self._damage_behind(cause)
        if not damage:
            await self.close()
            return
        self._store.holder.mark_damaged(damage)
        with suppress(Exception):  # The writer's failure once more.
            await self.close()
        if not isinstance(error, Damaged):
            raise Damaged(f"{self._store.holder.file} is damaged ({damage}); the next start moves it aside") from cause

    async def _damage_behind(self, error: BaseException | None) -> str:
        if not isinstance(error, Exception) or isinstance(error, StateError | UnknownTarget | OSError):
            return ""
        if self._store.holder.gone():  # Another database may lie there; closing says it.
            return ""
        if known := _damage_in(error):
            return str(known)
        return await asyncio.to_thread(find_damage, self._store.holder.file)

    async def run(self) -> None:
        """Save cursors and positions, and trim, until cancelled; and look whether the files are there. Raises Damaged,
        or a bug."""
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

    async def append(self, batch: ChangeBatch) -> Sequence[Delta]:
        """See Intake.append."""
        return await self._intake.append(batch)

    @property
    def last(self) -> int:
        """Sequence number of the newest record that is durable; 0 before the first."""
        return self._last

    @property
    def first(self) -> int:
        """Of the oldest record that can still be told; ``last + 1`` where there is none."""
        return self._trimmed + 1

    @property
    def records(self) -> int:
        """That are kept because a sink has not settled them, or for a replay."""
        return self._last - self._trimmed

    @property
    def size(self) -> int:
        """Bytes on disk, of these."""
        return self.milestones.bytes_after(self._trimmed)

    async def read(self, after: int, limit: int) -> Slice[Record]:
        """At most ``limit`` records behind sequence number ``after``; the slice begins later where some are gone."""
        question = partial(work.read, codec=self._store.codec, after=after, limit=limit)
        records, first = await self._store.ask(question)
        return Slice(records, first)

    def body(self, sequence: int) -> bytes:
        """See Store.body."""
        return self._store.body(sequence)

    def _notice_committed(self, deltas: Sequence[Delta], size: int) -> None:
        self._last = deltas[-1].sequence
        self._bytes += size
        self.milestones.reached(self._last, self._bytes, self._now())
        self.committed(deltas, self._last)

    # ── How it stands ────────────────────────────────────────────────────────

    def backlog_of(self, sink: str) -> Size:
        """What this sink has not settled. Of what it is told out of turn, records alone are counted: their bytes are
        those of the ledger."""
        cursor, now = self.sinks[sink], self._now()
        held = cursor.holds
        age = self.milestones.age_of(held, now) if held < self._last else 0.0
        if cursor.has_in_flight:
            age = max(age, now - cursor.oldest_at)
        else:
            cursor.oldest_at = now - age
        return Size(self.sinks.lag(sink), self.milestones.bytes_after(held), age)

    @property
    def oldest_seconds(self) -> float:
        """Age of the oldest record; 0 where there is none."""
        return self.milestones.age_of(self._trimmed, self._now()) if self.records else 0.0

    @property
    def no_room(self) -> str:
        """Why nothing can be appended at this moment; empty while it can."""
        return self._store.no_room

    def disk(self) -> Disk:
        return self._store.holder.disk()

    async def dead_letters(self, sink: str | None, after: int, limit: int) -> Sequence[DeadLetter]:
        """In the order of their numbers, behind ``after``; of all sinks, or of one."""
        return await self._store.ask(partial(letters.listed, sink=sink, after=after, limit=limit))

    async def dead_letter(self, number: int) -> Record:
        """Raises UnknownTarget."""
        return await self._store.ask(partial(letters.record_of, number=number))

    async def check(self) -> StateReport:
        """Reads the whole database; not one that is gone."""
        if gone := self._store.holder.gone():
            return checking.nothing_left(self.disk(), gone)
        return await self._store.ask(partial(checking.report, disk=self.disk()))

    # ── Housekeeping ─────────────────────────────────────────────────────────

    async def tidy(self) -> None:
        """Save what was settled and reached, and let go what nobody needs any more."""
        held = [cursor.holds for cursor in self.sinks.all]  # As they are saved now; sinks go on meanwhile.
        await self._save_progress()
        through = trim_through(
            held,
            self._keeping.retain_age,
            self._keeping.retain_bytes,
            self.milestones,
            self._now(),
            self._last,
        )
        if self._trimmed < through:
            # Behind what was just saved: a cursor on disk never points at what is gone.
            trimmed, gone = self._trimmed, self._bytes - self.size
            self._trimmed = await self._store.write(partial(clearing.trim, through=through), shrinks=True)
            self.milestones.trim(self._trimmed)
            self._loose.trimmed(self._trimmed - trimmed, self._bytes - self.size - gone)
        if self._is_clearing_due():
            await self._clear()
        if samples := self._store.codec.bodies.take_samples():
            await self._make_dictionary(*samples)

    def _is_clearing_due(self) -> bool:
        if self._loose.awaiting and not any(cursor.errand for cursor in self.sinks.all):
            return True
        if self._store.holder.free_bytes() < self._keeping.min_free + _TIGHT:
            return self._loose.cleared < self._trimmed
        return self._loose.is_due(self._rhythm, self._trimmed)

    async def _clear(self) -> None:
        clear = Clear(self._rhythm)
        while await self._store.write(clear, committed=clear.was_done, shrinks=True):
            await self._save_progress()
        while await self._store.write(clearing.vacuum, shrinks=True):
            await self._save_progress()
        self._loose = await self._store.ask(clearing.loose)

    async def _make_dictionary(self, kind: int, samples: list[bytes]) -> None:
        number = FIRST_NUMBER + kind
        content = await asyncio.to_thread(make_dictionary, samples, number)
        if content is not None:
            dictionary = Dictionary(number, kind, content)
            # Used only once it is durable: no body may need a dictionary that a crash took.
            self._store.write(
                partial(ledger_sql.add_dictionary, dictionary=dictionary),
                committed=lambda _: self._store.codec.bodies.learn(dictionary),
            )

    def _require_files(self) -> None:
        """What is written to a file that was removed is not there any more after the process. Raises Damaged."""
        if not (gone := self._store.holder.gone()):
            return
        last, epoch = self._intake.counted()
        if self._store.holder.mark_gone(gone):
            raise Damaged(f"{gone}: the next start begins behind record {last}, and tells every sink a Gap first")
        raise Damaged(
            f"{gone}. Nothing can be left there for the next start: on an empty directory it begins as if nothing had "
            f"ever been told, with record 1 in epoch 1, and tells no Gap. The last record was {last}, in epoch {epoch} "
            "at most. If the directory was moved, move it back; if not, let consumers forget the ids that they remember"
        )

    async def _save_progress(self) -> None:
        if self._intake.has_reached or self.sinks.have_progressed:
            await self._save()

    def _save(self) -> asyncio.Future[None]:
        reached, progress = self._intake.take_reached(), self.sinks.take_progress()
        return self._store.write(partial(_save, reached=reached, progress=progress), shrinks=True)


def _damage_in(error: BaseException) -> Damaged | None:
    if isinstance(error, BaseExceptionGroup):
        return next((found for each in error.exceptions if (found := _damage_in(each))), None)
    return error if isinstance(error, Damaged) else None


def _save(database: apsw.Connection, reached: Mapping[int, work.Reached], progress: Sequence[Progress]) -> None:
    work.reach(database, reached)
    cursors.save(database, progress)
