"""Where a reader keeps the objects that it knows: in memory, or in SQLite.

A StateStore has an entry for each object, and for each object that is gone until a snapshot proves that no record of it
can revive it; and the reader's notes, a few kilobytes. ``SqliteStore`` also has the position in the stream, and changes
all of them in one transaction: a process that is killed reads the same records again, and comes to the same state.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import msgspec
from msgspec.structs import astuple, replace


class Known(msgspec.Struct, frozen=True, gc=False):
    """What a reader knows of an object."""

    uid: str
    sequence: int
    """Of its newest record."""
    id: str
    """Source and id of that record."""
    partition: str = ""
    term: int = 0
    snapshot: str = ""
    """The snapshot that its newest record belongs to."""
    counted: str = ""
    """The last snapshot that had the object."""
    deleted: bool = False
    """The object is gone. The entry stays, so that an older record that comes again does not revive it."""
    state: bytes = b""
    """JSON: the newest state; of a deleted object empty."""


class StateStore(Protocol):
    """The entries of one reader. A reader calls it from one thread."""

    def get(self, key: str) -> Known | None: ...

    def put(self, key: str, known: Known) -> None: ...

    def drop(self, key: str) -> None: ...

    def older(self, partition: str, sequence: int) -> Iterable[tuple[str, Known]]:
        """The entries of a partition whose newest record is before this one. They may be changed meanwhile."""
        ...

    def objects(self) -> Iterable[tuple[str, Known]]:
        """All entries that are not deleted."""
        ...

    def notes(self) -> bytes:
        """What was saved last; empty at first."""
        ...

    def save(self, notes: bytes) -> None: ...


class MemoryStore:
    """Ends with the process: a reader with it reads its stream from the beginning, or from a snapshot."""

    def __init__(self) -> None:
        self._known: dict[str, Known] = {}
        self._notes = b""

    def get(self, key: str) -> Known | None:
        return self._known.get(key)

    def put(self, key: str, known: Known) -> None:
        self._known[key] = known

    def drop(self, key: str) -> None:
        self._known.pop(key, None)

    def older(self, partition: str, sequence: int) -> Iterable[tuple[str, Known]]:
        return [
            (key, each) for key, each in self._known.items() if each.partition == partition and each.sequence < sequence
        ]

    def objects(self) -> Iterable[tuple[str, Known]]:
        return [(key, each) for key, each in self._known.items() if not each.deleted]

    def notes(self) -> bytes:
        return self._notes

    def save(self, notes: bytes) -> None:
        self._notes = notes


TABLES = """
CREATE TABLE IF NOT EXISTS known (
    key TEXT PRIMARY KEY, uid TEXT NOT NULL, sequence INTEGER NOT NULL, id TEXT NOT NULL, partition TEXT NOT NULL,
    term INTEGER NOT NULL, snapshot TEXT NOT NULL, counted TEXT NOT NULL, deleted INTEGER NOT NULL,
    state BLOB NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS known_by_sequence ON known (partition, sequence);
CREATE TABLE IF NOT EXISTS reader (
    one INTEGER PRIMARY KEY CHECK (one = 1), notes BLOB NOT NULL, position BLOB NOT NULL
) STRICT;
INSERT OR IGNORE INTO reader VALUES (1, x'', x'');
"""
# The columns are the key and the members of Known, in their order.
_SELECT = "SELECT key, uid, sequence, id, partition, term, snapshot, counted, deleted, state FROM known WHERE "
_ONE = _SELECT + "key = ?"
_OLDER = _SELECT + "partition = ? AND sequence < ?"
_OBJECTS = _SELECT + "NOT deleted ORDER BY key"
_PUT = "INSERT OR REPLACE INTO known VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"


class SqlEntries:
    """A StateStore in the tables ``TABLES`` of a database of SQLite, whose transactions are its owner's."""

    def __init__(self, connection: Any) -> None:
        """``connection``: of sqlite3, or of apsw."""
        self.connection = connection

    @property
    def position(self) -> bytes:
        """Where to go on in the stream, as the caller saved it; empty at first."""
        (found,) = self.connection.execute("SELECT position FROM reader").fetchone()
        return bytes(found)

    @position.setter
    def position(self, position: bytes) -> None:
        self.connection.execute("UPDATE reader SET position = ?", (position,))

    def get(self, key: str) -> Known | None:
        found = self.connection.execute(_ONE, (key,)).fetchone()
        return None if found is None else _known(*found)[1]

    def put(self, key: str, known: Known) -> None:
        self.connection.execute(_PUT, (key, *astuple(known)))

    def drop(self, key: str) -> None:
        self.connection.execute("DELETE FROM known WHERE key = ?", (key,))

    def older(self, partition: str, sequence: int) -> Iterable[tuple[str, Known]]:
        return [_known(*each) for each in self.connection.execute(_OLDER, (partition, sequence))]

    def objects(self) -> Iterable[tuple[str, Known]]:
        return (_known(*each) for each in self.connection.execute(_OBJECTS))

    def notes(self) -> bytes:
        (found,) = self.connection.execute("SELECT notes FROM reader").fetchone()
        return bytes(found)

    def save(self, notes: bytes) -> None:
        self.connection.execute("UPDATE reader SET notes = ?", (notes,))


class SqliteStore(SqlEntries):
    """A file of SQLite. ``with store.transaction():`` around the records of a batch and the position behind them::

        with store.transaction():
            for event in batch:
                handle(reader.apply(event))
            store.position = b"..."  # the offsets behind the batch

    Tables of your own in the same file (``connection``) change in the same transaction."""

    def __init__(self, path: Path | str) -> None:
        """Makes the file, with mode 0600, if it is not there or empty. Raises sqlite3.Error and OSError."""
        import sqlite3  # Whoever has another store does without it.

        if path != ":memory:":
            file = Path(path)
            file.touch(0o600)
            if not file.stat().st_size:
                file.chmod(0o600)
        super().__init__(sqlite3.connect(path, isolation_level=None))
        self.connection.execute("PRAGMA journal_mode = WAL")
        self.connection.executescript(TABLES)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Durable at its end, or without effect. A reader whose transaction failed is made anew: it has notes of what
        was rolled back."""
        self.connection.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self.connection.execute("ROLLBACK")
            raise
        self.connection.execute("COMMIT")

    def close(self) -> None:
        self.connection.close()


def _known(key: str, *columns: Any) -> tuple[str, Known]:
    """``columns``: the members of Known, in their order."""
    known = Known(*columns)
    return key, replace(known, deleted=bool(known.deleted))
