"""The one thread that writes. What many ask for at about the same time becomes one transaction (group commit). Hot."""

from __future__ import annotations

import asyncio
import queue
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Generic, TypeAlias, TypeVar

import apsw

from bridge.facts import OutboxFull, OutboxHasRoom, Report
from bridge.model.upkeep import UnknownTarget
from bridge.outbox.database import close, is_damage, page_bytes
from bridge.outbox.directory import FILE, Holder
from bridge.outbox.errors import Damaged

T = TypeVar("T")

_FULL = (apsw.FullError, apsw.IOError, apsw.BusyError)

Work: TypeAlias = Callable[[apsw.Connection], T]
"""Runs inside a transaction that others may share. Where there is no room it is rolled back and run again, so all it
changes is the database. It may refuse with UnknownTarget before it has changed anything."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """Seconds, and records."""

    window: float = 0.002
    """Waited for others to join a transaction that holds fewer than ``records``."""
    records: int = 500
    retry: float = 0.5
    """Between two attempts where there is no room."""


class OutboxClosed(Exception):
    """The outbox was closed before this was committed: nothing of it happened."""


class NoRoom(Exception):
    """The disk has less room left than is to be kept free."""


@dataclass(slots=True)
class _Job(Generic[T]):
    work: Work[T]
    done: asyncio.Future[T]
    committed: Callable[[T], None] | None = None
    weight: int = 1
    """Records."""
    shrinks: bool = False
    """It makes room, or needs next to none: it need not wait behind what finds no room."""
    result: Any = field(default=None, init=False)
    refused: UnknownTarget | None = field(default=None, init=False)


class Writer:
    """Runs on the event loop that made it; its thread ends with ``close``, and never outlives the process."""

    def __init__(
        self, connection: apsw.Connection, holder: Holder, *, min_free: int, report: Report, pace: Pace | None = None
    ) -> None:
        self._connection = connection
        self._holder = holder
        self._min_free = min_free
        self._report = report
        self._pace = pace or Pace()
        self._loop = asyncio.get_running_loop()
        self._jobs: queue.SimpleQueue[_Job[Any] | None] = queue.SimpleQueue()
        self._closing = threading.Event()
        self.no_room = ""
        """Why transactions do not go through at this moment; empty while they do."""
        self.failure: BaseException | None = None
        """Why the thread has ended before ``close``."""
        self._thread = threading.Thread(target=self._run, name="outbox writer", daemon=True)
        self._thread.start()

    # ── On the event loop ────────────────────────────────────────────────────

    def submit(
        self,
        work: Work[T],
        *,
        committed: Callable[[T], None] | None = None,
        weight: int = 1,
        shrinks: bool = False,
    ) -> asyncio.Future[T]:
        """Queue work behind all that was submitted before. ``committed`` is called with its result on the event loop,
        in that same order, before the future is done. The future raises UnknownTarget, Damaged, OutboxClosed, or a
        bug."""
        if self.failure is not None:
            raise self.failure
        if self._closing.is_set():
            raise OutboxClosed
        done: asyncio.Future[T] = self._loop.create_future()
        self._jobs.put(_Job(work, done, committed, weight, shrinks))
        return done

    async def close(self) -> None:
        """Commit what is queued, once more where there was no room, and end the thread."""
        self._closing.set()
        self._jobs.put(None)
        await asyncio.to_thread(self._thread.join)

    # ── In the thread ────────────────────────────────────────────────────────

    def _run(self) -> None:
        group: list[_Job[Any]] = []
        try:
            while True:
                group = []
                goes_on = self._collect(group)
                if group:
                    self._commit(group)
                if not goes_on:
                    return
        except BaseException as error:
            self._fail(self._understood(error), group)
        finally:
            close(self._connection, gone=bool(self._holder.gone()))

    def _collect(self, group: list[_Job[Any]]) -> bool:
        """Wait for a job, and a little for others. False where the last one came."""
        job = self._jobs.get()
        deadline = time.monotonic() + self._pace.window
        weight = 0
        while job is not None:
            group.append(job)
            weight += job.weight
            try:
                # Beyond the window, or where it is full, only what is there already comes along.
                left = deadline - time.monotonic() if weight < self._pace.records else 0.0
                job = self._jobs.get(timeout=left) if left > 0 else self._jobs.get_nowait()
            except queue.Empty:
                return True
        return False

    def _commit(self, group: list[_Job[Any]]) -> None:
        stuck_since: float | None = None
        while True:
            try:
                if any(not job.shrinks for job in group):
                    self._look_for_room()
                self._transact(group)
            except (*_FULL, NoRoom) as error:
                if is_damage(error):
                    raise
                group[:] = self._make_room(group)
                if self._closing.is_set() and group:
                    raise OutboxClosed from error
                self.no_room = str(error)
                if stuck_since is None:
                    stuck_since = time.monotonic()
                    self._tell(OutboxFull(str(error), self._pace.retry))
                self._closing.wait(self._pace.retry)
            else:
                break
        if stuck_since is not None:
            self.no_room = ""
            self._tell(OutboxHasRoom(time.monotonic() - stuck_since))

    def _transact(self, group: list[_Job[Any]]) -> None:
        connection = self._connection
        try:
            connection.execute("BEGIN IMMEDIATE")
            for job in group:
                try:
                    job.result = job.work(connection)
                except UnknownTarget as refusal:
                    job.refused = refusal
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise
        self._loop.call_soon_threadsafe(_finish, group)

    def _make_room(self, group: list[_Job[Any]]) -> list[_Job[Any]]:
        """Do what makes room, that of jobs which came meanwhile as well. Returns what is still to be done."""
        group.extend(self._waiting())
        left = [job for job in group if not (job.shrinks and self._fits(job))]
        with suppress(*_FULL):
            self._connection.pragma("wal_checkpoint(truncate)")
        return left

    def _fits(self, job: _Job[Any]) -> bool:
        """Do it by itself: what takes more room than there is does not hold up what takes none."""
        try:
            self._transact([job])
        except _FULL as error:
            if is_damage(error):
                raise
            return False
        return True

    def _waiting(self) -> Iterator[_Job[Any]]:
        """What is queued; the end of the queue stays in it."""
        while True:
            try:
                job = self._jobs.get_nowait()
            except queue.Empty:
                return
            if job is None:
                self._jobs.put(None)
                return
            yield job

    def _look_for_room(self) -> None:
        free = self._holder.free_bytes()
        if free >= self._min_free:
            return
        # What sinks settled leaves pages that are free inside the file, and the disk may never see them.
        inside = int(self._connection.pragma("freelist_count")) * page_bytes(self._connection)
        if free + inside < self._min_free:
            raise NoRoom(
                f"{self._holder.directory} has {free} bytes free, and {inside} inside {FILE}; state.min_free_bytes "
                f"keeps {self._min_free}"
            )

    def _tell(self, fact: OutboxFull | OutboxHasRoom) -> None:
        self._loop.call_soon_threadsafe(self._report, fact)

    def _understood(self, error: BaseException) -> BaseException:
        if not is_damage(error) and not isinstance(error, Damaged):
            return error
        self._holder.mark_damaged(str(error))
        return Damaged(f"{self._holder.file} is damaged ({error}); the next start moves it aside and tells all again")

    def _fail(self, error: BaseException, group: list[_Job[Any]]) -> None:
        self.failure = error
        self._loop.call_soon_threadsafe(self._break, group, error)

    def _break(self, group: list[_Job[Any]], error: BaseException) -> None:
        # On the event loop: nothing is submitted between the last look at the queue and the refusals.
        for job in (*group, *self._waiting()):
            if not job.done.done():
                job.done.set_exception(error)
                job.done.exception()  # Nobody waits for some of them; whoever submits next hears of it as well.


def _finish(group: list[_Job[Any]]) -> None:
    for job in group:
        if job.refused is None and job.committed is not None:
            job.committed(job.result)
        if job.done.done():
            continue
        if job.refused is not None:
            job.done.set_exception(job.refused)
        else:
            job.done.set_result(job.result)
