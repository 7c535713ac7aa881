"""The writer thread, which alone writes to the database.

It is on the hot path. Jobs that wait while a transaction runs share the next transaction (group commit). On a full
disk, jobs wait for room; jobs that free space run alone, ahead of the others.
"""

from __future__ import annotations

import asyncio
import queue
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Generic, TypeAlias, TypeVar

import apsw

from bridge.model.admin import DiskFull, UnknownTarget
from bridge.outbox.commits import Capture
from bridge.outbox.errors import Damaged
from bridge.outbox.storage.database import close, is_damage, page_bytes
from bridge.outbox.storage.directory_lock import FILE
from bridge.outbox.storage.state_directory import StateDirectory
from bridge.telemetry.facts import Report
from bridge.telemetry.facts.outbox import OutboxFull, OutboxHasRoom

T = TypeVar("T")

_FULL = (apsw.FullError, apsw.IOError, apsw.BusyError)

Work: TypeAlias = Callable[[apsw.Connection], T]
"""A job of the writer. It runs inside a transaction with other jobs, and runs again after a rollback on a full disk, so
it must have no effect outside the database. It may raise UnknownTarget before its first change."""


RETRY = 0.5
"""Seconds between two attempts on a full disk."""

ROOM_FOR_A_CHANGE = 1 << 20
"""Bytes that a change of the configuration needs at least, even if ``state.min_free_bytes`` is less: cursors, and pages
of the write-ahead log."""


class OutboxClosed(Exception):
    """The outbox was closed before the job was committed; the job has no effect."""


class NoRoom(Exception):
    """The disk has less free space than ``state.min_free_bytes``."""


@dataclass(slots=True)
class _Job(Generic[T]):
    """A submitted job."""

    work: Work[T]
    done: asyncio.Future[T]
    committed: Callable[[T], None] | None = None
    shrinks: bool = False
    """The job frees space or needs almost none; on a full disk it runs alone, ahead of others."""
    asked: bool = False
    """An operator waits for the answer: where even a job that shrinks finds no room, it is refused and never runs."""
    result: Any = field(default=None, init=False)
    refused: UnknownTarget | None = field(default=None, init=False)


class Writer:
    """Owns the only connection that writes. Belongs to the event loop that made it; the thread ends with ``close`` or
    with the process."""

    def __init__(
        self,
        connection: apsw.Connection,
        state_directory: StateDirectory,
        *,
        min_free: int,
        report: Report,
        retry: float = RETRY,
        capture: Capture | None = None,
    ) -> None:
        """``min_free``: bytes on the disk that jobs leave free. ``retry``: seconds between two attempts on a full
        disk. ``capture``: records the transactions for other replicas, has done so since ``connection`` was opened, and
        says when those have a transaction; only then are its jobs done."""
        self._connection = connection
        self._capture = capture
        self._state_directory = state_directory
        self._min_free = min_free
        self._report = report
        self._retry = retry
        self._loop = asyncio.get_running_loop()
        self._jobs: queue.SimpleQueue[_Job[Any] | None] = queue.SimpleQueue()
        self._closing = threading.Event()
        self.no_room = ""
        """Why transactions fail at the moment; empty while they succeed."""
        self.failure: BaseException | None = None
        """The error that ended the thread before ``close``."""
        if capture is not None:
            capture.replicas.committed(capture.opened(), _nothing)
        self._thread = threading.Thread(target=self._run, name="outbox writer", daemon=True)
        self._thread.start()

    # ── On the event loop ────────────────────────────────────────────────────

    def submit(
        self,
        work: Work[T],
        *,
        committed: Callable[[T], None] | None = None,
        shrinks: bool = False,
        asked: bool = False,
    ) -> asyncio.Future[T]:
        """Queues a job behind all earlier ones, which waits for room on a full disk. ``asked``: an operator waits, so
        the job shrinks, and on a disk without any room the future raises UnknownTarget, and nothing is changed.
        ``committed`` gets the result of the job on the event loop, in the order of submission, before the future is
        done. The future raises UnknownTarget, Damaged, OutboxClosed, or a bug."""
        if self.failure is not None:
            raise self.failure
        if self._closing.is_set():
            raise OutboxClosed
        done: asyncio.Future[T] = self._loop.create_future()
        self._jobs.put(_Job(work, done, committed, shrinks or asked, asked))
        return done

    async def find_room(self) -> None:
        """For an operator who asks for a change that consists of many jobs: raises DiskFull if these would wait for
        room now."""
        await self.submit(self._has_room, asked=True)

    async def close(self) -> None:
        """Commits the queue, with a single attempt on a full disk, and ends the thread."""
        self._closing.set()
        self._jobs.put(None)
        await asyncio.to_thread(self._thread.join)

    # ── In the writer thread ─────────────────────────────────────────────────

    def _run(self) -> None:
        group: list[_Job[Any]] = []
        try:
            while (job := self._jobs.get()) is not None:
                group = [job, *self._waiting()]
                self._commit(group)
        except BaseException as error:
            self._fail(self._as_state_error(error), group)
        finally:
            close(self._connection, gone=bool(self._state_directory.gone()))

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
                # Read before the queue: jobs that were submitted before ``close`` are in this group then.
                closing = self._closing.is_set()
                group[:] = self._make_room(group)
                if closing and group:
                    raise OutboxClosed from error
                self._refuse(group, error)
                if not group and stuck_since is None:
                    return
                self.no_room = (
                    str(error) if isinstance(error, NoRoom) else f"{self._state_directory.directory}: {error}"
                )
                if stuck_since is None:
                    stuck_since = time.monotonic()
                    self._report_on_loop(OutboxFull(self.no_room, self._retry))
                self._closing.wait(self._retry)
            else:
                break
        if stuck_since is not None:
            self.no_room = ""
            self._report_on_loop(OutboxHasRoom(time.monotonic() - stuck_since))

    def _transact(self, group: list[_Job[Any]]) -> None:
        """All jobs of the group in one transaction, and one fsync: all are durable behind it, or none. A job that is
        refused changes nothing, and leaves the others alone."""
        connection, capture = self._connection, self._capture
        frame = None
        try:
            connection.execute("BEGIN IMMEDIATE")
            if capture is not None:
                capture.begin()
            for job in group:
                try:
                    job.result = job.work(connection)
                except UnknownTarget as refusal:
                    job.refused = refusal
            if capture is not None:
                frame = capture.end()
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            if capture is not None:
                capture.discard()
            raise
        if capture is None:
            self._loop.call_soon_threadsafe(_finish, group)
        else:
            self._loop.call_soon_threadsafe(capture.replicas.committed, frame, partial(_finish, group))

    def _make_room(self, group: list[_Job[Any]]) -> list[_Job[Any]]:
        """Runs the jobs that free space, also those queued meanwhile. Returns the other jobs."""
        group.extend(self._waiting())
        left = [job for job in group if not (job.shrinks and self._fits(job))]
        with suppress(*_FULL):
            # Free pages are reusable only in the database file; the truncated log gives its own space back to the disk.
            self._connection.pragma("wal_checkpoint(truncate)")
        return left

    def _refuse(self, group: list[_Job[Any]], error: Exception) -> None:
        """Takes the jobs that an operator waits for out of the group."""
        refused = [job for job in group if job.asked]
        group[:] = [job for job in group if not job.asked]
        for job in refused:
            job.refused = _disk_full(error)
        if refused:
            self._loop.call_soon_threadsafe(_finish, refused)

    def _fits(self, job: _Job[Any]) -> bool:
        """Runs a job in a transaction of its own, so that no large job holds up a small one. Returns False on a full
        disk."""
        try:
            self._transact([job])
        except _FULL as error:
            if is_damage(error):
                raise
            return False
        return True

    def _waiting(self) -> list[_Job[Any]]:
        """Takes the queued jobs; the end marker stays in the queue."""
        jobs = [self._jobs.get_nowait() for _ in range(self._jobs.qsize())]
        if None in jobs:
            self._jobs.put(None)
        return [job for job in jobs if job is not None]

    def _has_room(self, _: apsw.Connection) -> None:
        if self.no_room:
            raise _disk_full(self.no_room)
        if (free := self._state_directory.free_bytes()) < ROOM_FOR_A_CHANGE:
            raise _disk_full(f"{self._state_directory.directory} has {free} bytes free")
        try:
            self._look_for_room()
        except NoRoom as error:
            raise _disk_full(error) from error

    def _look_for_room(self) -> None:
        free = self._state_directory.free_bytes()
        if free >= self._min_free:
            return
        # Trimmed records leave free pages inside the file, which SQLite reuses and the file system never sees.
        inside = int(self._connection.pragma("freelist_count")) * page_bytes(self._connection)
        if free + inside < self._min_free:
            raise NoRoom(
                f"{self._state_directory.directory} has {free} bytes free, and {inside} inside {FILE}; "
                f"state.min_free_bytes keeps {self._min_free}"
            )

    def _report_on_loop(self, fact: OutboxFull | OutboxHasRoom) -> None:
        self._loop.call_soon_threadsafe(self._report, fact)

    def _as_state_error(self, error: BaseException) -> BaseException:
        if not is_damage(error) and not isinstance(error, Damaged):
            return error
        self._state_directory.mark_damaged(str(error))
        return Damaged(
            f"{self._state_directory.file} is damaged ({error}); the next start moves it aside and exports all again"
        )

    def _fail(self, error: BaseException, group: list[_Job[Any]]) -> None:
        self.failure = error
        self._loop.call_soon_threadsafe(self._break, group, error)

    def _break(self, group: list[_Job[Any]], error: BaseException) -> None:
        # On the event loop, where ``submit`` runs too: no job can enter the queue behind this last look.
        for job in (*group, *self._waiting()):
            if not job.done.done():
                job.done.set_exception(error)
                job.done.exception()  # Retrieved here, since some futures have no waiter and asyncio would log them.


def _disk_full(why: object) -> DiskFull:
    return DiskFull(f"the disk of the state is full, nothing changed: {why}")


def _nothing() -> None:
    pass


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
