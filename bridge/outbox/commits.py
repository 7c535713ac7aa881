"""Write transactions as data, so that another replica's database equals this one, row by row.

SQLite's session extension notes which rows a transaction changes, and writes them as a *patchset*; applied to a copy
of the database as it was before, it makes the copy equal (https://sqlite.org/sessionintro.html). A ``Capture`` sits on
the only connection that writes, from the first write of opening on. It gives each transaction that changes something
the next number of ``meta.committed``, in that transaction, and hands its ``Frame`` to the event loop.

The table ``terms`` says in which term (of the Lease) each commit was made, as Kafka's leader epochs do (KIP-101): a
term number is used by one leader only, unless the API server is restored from a backup; so a term also has a random
mark, and two databases with the same newest ``Point`` have the same content. A database whose point is not in another
one's history has commits that the other never had.

What is not seen this way: the making of tables, and writes of a process that captures nothing. Both end the history
(``end_history``), so that a follower of the time before gets a base copy.
"""

from __future__ import annotations

import os
import secrets
import tempfile
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, Protocol

import apsw

from bridge.outbox.storage.database import columns, one, row, rows_of

LARGE = 8 << 20
"""Bytes of a changeset beyond which its patchset goes to a temporary file: the plan of a snapshot may have 100 MB."""
MOST_TERMS = 1000
"""Terms that a database remembers; a follower from before them gets a base copy."""


@dataclass(frozen=True, slots=True, order=True)
class Point:
    """A moment in the history of databases: the newest commit, and the term in which it was made."""

    term: int
    mark: int
    """Of the term."""
    commit: int


class StoredTerm(NamedTuple):
    """A term that led to a database."""

    term: int
    mark: int
    """Random, of 63 bits: another leader that takes the same number has another one."""
    first_commit: int


@dataclass(frozen=True, slots=True)
class CommitHistory:
    """The terms that led to a database, ascending, and its newest commit."""

    terms: Sequence[StoredTerm]
    commit: int

    @property
    def point(self) -> Point | None:
        """None for a database without a history, or behind the end of it."""
        if not self.terms or self.terms[-1].first_commit > self.commit:
            return None
        return Point(self.terms[-1].term, self.terms[-1].mark, self.commit)

    def contains(self, point: Point) -> bool:
        """Whether this database was once at that point."""
        ends = [*(each.first_commit for each in self.terms[1:]), self.commit + 1]
        return any(
            (each.term, each.mark) == (point.term, point.mark) and each.first_commit <= point.commit < end
            for each, end in zip(self.terms, ends, strict=True)
        )


def history_of(database: apsw.Connection) -> CommitHistory:
    """The history of the database as this connection sees it."""
    terms = rows_of(database, StoredTerm, f"SELECT {columns(StoredTerm)} FROM terms ORDER BY term")
    return CommitHistory([*terms], one(database, "SELECT committed FROM meta"))


def newest_term(database: apsw.Connection) -> int:
    """Of all terms that led to the database, those that were forgotten included; 0 without any."""
    return one(database, "SELECT max(term, (SELECT coalesce(max(term), 0) FROM terms)) FROM meta")


def is_of_a_replica(database: apsw.Connection) -> bool:
    """Whether a replica wrote this database, and no bridge without an election has opened it since: another replica may
    have gone on without it."""
    return bool(one(database, "SELECT count(*) FROM terms"))


def end_history(database: apsw.Connection) -> None:
    """Before the first write of a process that captures nothing: no point of before leads to what the database has
    then. The newest term stays, without a commit: see ``is_of_a_replica``."""
    if is_of_a_replica(database):
        with database:
            database.execute("DELETE FROM terms WHERE term < (SELECT max(term) FROM terms)")
            database.execute("UPDATE terms SET first_commit = (SELECT committed + 1 FROM meta)")


def leave_replicas(database: apsw.Connection) -> None:
    """For a bridge without an election. Part of a transaction."""
    database.execute("DELETE FROM terms")


# ── Frames ───────────────────────────────────────────────────────────────────


class LargePatchset:
    """In a temporary file without a name, which ends with the object. Every method blocks."""

    __slots__ = ("_file", "size")

    def __init__(self, folder: Path) -> None:
        """Raises OSError."""
        self._file, name = tempfile.mkstemp(dir=folder, prefix="patchset.")
        os.unlink(name)  # noqa: PTH108
        self.size = 0

    def __del__(self) -> None:
        os.close(self._file)

    def write(self, part: bytes | memoryview) -> None:
        """Appends. Raises OSError."""
        rest = memoryview(part)
        while rest:
            written = os.write(self._file, rest)
            self.size, rest = self.size + written, rest[written:]

    def part(self, start: int, size: int) -> bytes:
        """At most ``size`` bytes."""
        return os.pread(self._file, size, start)

    def reader(self) -> Callable[[int], bytes]:
        """Reads from the beginning, as a file does."""
        at = 0

        def read(size: int) -> bytes:
            nonlocal at
            part = self.part(at, size)
            at += len(part)
            return part

        return read


@dataclass(frozen=True, slots=True)
class Frame:
    """A captured commit, and its patchset."""

    commit: int
    patchset: bytes | LargePatchset

    @property
    def in_memory(self) -> int:
        """Bytes."""
        return len(self.patchset) if isinstance(self.patchset, bytes) else 0


class FrameLog:
    """The newest frames, for followers that are a little behind. Bounded in bytes of memory; the newest stays."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._frames: deque[Frame] = deque()
        self._bytes = 0

    def add(self, frame: Frame) -> None:
        """The frame behind the newest one."""
        self._frames.append(frame)
        self._bytes += frame.in_memory
        while self._bytes > self._most and len(self._frames) > 1:
            self._bytes -= self._frames.popleft().in_memory

    @property
    def newest(self) -> int:
        """Its commit; 0 without frames."""
        return self._frames[-1].commit if self._frames else 0

    def behind(self, commit: int) -> Frame | None:
        """The frame that follows this commit; None if it is not here any more, or not yet."""
        index = commit + 1 - self._frames[0].commit if self._frames else -1
        return self._frames[index] if 0 <= index < len(self._frames) else None


# ── Capturing ────────────────────────────────────────────────────────────────


class Replicas(Protocol):
    """Who gets the frames. Called on the event loop, in the order of the commits."""

    def committed(self, frame: Frame | None, finish: Callable[[], None]) -> None:
        """A transaction is durable here; without a frame it changed nothing. Calls ``finish`` once the replicas in sync
        have this transaction and all before it: its jobs count as done then, and its records can be delivered."""
        ...


@dataclass(slots=True)
class Capture:
    """Numbers and records the transactions of a term. All methods block, and belong to the connection's thread."""

    term: int
    replicas: Replicas
    folder: Path
    """For patchsets that are too large for the memory."""
    _connection: apsw.Connection = field(init=False)
    _session: apsw.Session | None = field(init=False, default=None)
    history: CommitHistory = field(init=False)
    """That of the database, from ``open`` on: the term is its last one."""

    def open(self, connection: apsw.Connection) -> None:
        """Begins the term, durably, before the first write of opening; what opening writes is one frame. Whatever
        happens to this process from here on, no other database has this commit."""
        self._connection = connection
        newest = newest_term(connection)
        if newest >= self.term:
            raise ValueError(f"term {self.term} is not above {newest}, the newest of the database")
        self.begin()
        with connection:
            connection.execute("UPDATE meta SET committed = committed + 1, term = ?", (self.term,))
            connection.execute(
                "INSERT INTO terms (term, mark, first_commit) SELECT ?, ?, committed FROM meta",
                (self.term, secrets.randbits(63)),
            )
            connection.execute(
                "DELETE FROM terms WHERE term NOT IN (SELECT term FROM terms ORDER BY term DESC LIMIT ?)", (MOST_TERMS,)
            )
        self.history = history_of(connection)

    def opened(self) -> Frame:
        """The frame of all that opening wrote."""
        return self._frame(one(self._connection, "SELECT committed FROM meta"))

    def begin(self) -> None:
        """Before the first write of a transaction."""
        self._session = apsw.Session(self._connection, "main")
        self._session.config(apsw.SQLITE_SESSION_OBJCONFIG_SIZE, True)
        self._session.attach()

    def end(self) -> Frame | None:
        """Before the COMMIT of the transaction. None if it changes nothing."""
        if self._session is None or self._session.is_empty:
            self.discard()
            return None
        (commit,) = row(self._connection, "UPDATE meta SET committed = committed + 1 RETURNING committed")
        return self._frame(commit)

    def discard(self) -> None:
        """The transaction was rolled back."""
        if self._session is not None:
            self._session.close()
            self._session = None

    def _frame(self, commit: int) -> Frame:
        session = self._session
        if session is None:
            raise RuntimeError("a frame outside of a transaction")
        try:
            if session.changeset_size <= LARGE:
                return Frame(commit, session.patchset())
            large = LargePatchset(self.folder)
            session.patchset_stream(large.write)
            return Frame(commit, large)
        finally:
            self.discard()
