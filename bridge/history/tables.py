"""The file in SQL: its tables, how it is opened, and what a reader of the stream knows.

The tables are for other programs, too (Datasette, ``sqlite3``): times are microseconds since 1970, names are the API's.
Bodies are packed, and for this room alone.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

import apsw
from kubedelta_reader import Known
from kubedelta_reader.stores import TABLES, SqlEntries
from msgspec.structs import replace

from bridge.history.points import NotInHistory
from bridge.model.resource import Scope
from bridge.model.status import InformerState

FORMAT = 3
_APPLICATION = 0x6B64_6C68
"""SQLite's application id: "kdlh"."""

_TABLES = """
CREATE TABLE history (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    source TEXT NOT NULL,
    newest INTEGER NOT NULL, -- the largest time of a record
    trimmed INTEGER NOT NULL, -- the newest step that is not kept, or only as the state at the beginning
    since INTEGER NOT NULL -- its time: the beginning of what is kept; 0 before the first trim
) STRICT;
CREATE TABLE resources (
    id INTEGER PRIMARY KEY, cluster TEXT NOT NULL, "group" TEXT NOT NULL, plural TEXT NOT NULL,
    api_version TEXT NOT NULL, kind TEXT NOT NULL,
    seen INTEGER NOT NULL, -- the newest step that the bridge saw happen
    UNIQUE (cluster, "group", plural)
) STRICT;
CREATE TABLE coverage ( -- since when a resource is told, and how its objects of that time came
    resource INTEGER NOT NULL, time INTEGER NOT NULL, sequence INTEGER NOT NULL, how TEXT NOT NULL,
    PRIMARY KEY (resource, time, how)
) STRICT, WITHOUT ROWID;
CREATE TABLE watched ( -- what a bridge watched, as the ends of its snapshots told
    cluster TEXT NOT NULL, time INTEGER NOT NULL, -- from then on
    parts TEXT NOT NULL, -- a JSON list, as docs/events.md has it
    PRIMARY KEY (cluster, time)
) STRICT, WITHOUT ROWID;
CREATE TABLE objects ( -- an incarnation of an object: its name and uid
    id INTEGER PRIMARY KEY, resource INTEGER NOT NULL, namespace TEXT NOT NULL, name TEXT NOT NULL, uid TEXT NOT NULL,
    state BLOB NOT NULL, -- the newest
    time INTEGER NOT NULL, -- of the newest step
    patches INTEGER NOT NULL -- steps since one that has the whole state before it
) STRICT;
CREATE INDEX objects_by_name ON objects (resource, namespace, name);
CREATE TABLE steps ( -- in the order in which they came, which for an object is the order in which they happened
    id INTEGER PRIMARY KEY, object INTEGER NOT NULL, sequence INTEGER NOT NULL, time INTEGER NOT NULL,
    op TEXT NOT NULL, evidence TEXT NOT NULL, version TEXT NOT NULL, managers BLOB,
    blind INTEGER, -- of a step that the bridge did not see happen: the time since when it may have
    whole INTEGER NOT NULL, -- back is the state before, and no patch
    back BLOB -- the way from this state to the one before; null in the first step, and in most where both are the same
) STRICT;
CREATE INDEX steps_by_object ON steps (object, time);
CREATE TABLE gaps ( -- records that never came; of a new epoch, versions that ran backwards
    id TEXT NOT NULL, partition TEXT NOT NULL, -- empty: any
    sequence INTEGER NOT NULL, resources TEXT, -- a JSON list; null: any
    time INTEGER NOT NULL, settled INTEGER, -- when a snapshot had told what became of the objects
    data TEXT NOT NULL, PRIMARY KEY (id, partition)
) STRICT, WITHOUT ROWID;
CREATE TABLE dictionaries (number INTEGER PRIMARY KEY, resource INTEGER NOT NULL, content BLOB NOT NULL) STRICT;
INSERT INTO history VALUES (1, '', 0, 0, 0);
"""
_CACHE_BYTES = 32 << 20


class ToldPart(Scope, frozen=True, kw_only=True, omit_defaults=True):
    """See ``model.record.WatchedPart``: an item of ``watched`` in the end of a snapshot, and of ``parts`` in the table.
    A later version may have further states and members."""

    resource: str
    state: str

    @property
    def is_well(self) -> bool:
        return self.state in (InformerState.LIVE, InformerState.RECONNECTING)


def opened(path: Path, *, writable: bool) -> apsw.Connection:
    """The file; with ``writable`` it is made, with mode 0600, where there is none. Raises NotInHistory for a file that
    is not there, cannot be made or read, or is none of this room, and apsw.Error."""
    try:
        is_there = path.exists()
        if writable and not is_there:
            path.touch(0o600)
    except OSError as error:
        raise NotInHistory(f"cannot {'make' if writable else 'read'} {path}: {error.strerror}") from error
    if not writable and not is_there:
        raise NotInHistory(f"there is no history {path}: make one with kubedelta history build --from … --to {path}")
    # Who may write also removes the write-ahead log with the last connection; a file on a read-only disk can be read.
    may_write = writable or os.access(path, os.W_OK)
    flags = apsw.SQLITE_OPEN_READWRITE if may_write else apsw.SQLITE_OPEN_READONLY
    try:
        connection = apsw.Connection(str(path), flags=flags)
    except apsw.CantOpenError:
        raise NotInHistory(f"cannot open {path}: it is no file, or you may not read it") from None
    try:
        connection.set_busy_timeout(10_000)
        connection.pragma("cache_size", -(_CACHE_BYTES // 1024))
        _recognise(connection, path, writable=writable)
        if writable:
            connection.transaction_mode = "IMMEDIATE"
            # A power cut may take the last transactions away, each as a whole: their records are read again.
            connection.pragma("synchronous", "normal")
        else:
            connection.pragma("query_only", True)
            connection.execute("BEGIN")  # Every answer is about one state of the file.
    except apsw.NotADBError:
        connection.close()
        raise NotInHistory(f"{path} is no history of kubedelta") from None
    except BaseException:
        connection.close()
        raise
    return connection


def _recognise(connection: apsw.Connection, path: Path, *, writable: bool) -> None:
    if writable and not connection.pragma("application_id"):
        _make(connection, path)
    application, form = connection.pragma("application_id"), connection.pragma("user_version")
    if application != _APPLICATION:
        raise NotInHistory(f"{path} is no history of kubedelta")
    if form != FORMAT:
        raise NotInHistory(f"{path} has format {form}, and this version of kubedelta reads format {FORMAT}")


def _make(connection: apsw.Connection, path: Path) -> None:
    """Makes the tables of a file that has none: a new one, an empty one, or that of a build that was killed here."""
    # Another build may make them at the same time, and SQLite's locks do not cover the change to a log ahead.
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        if connection.execute("SELECT count(*) FROM sqlite_schema").get:
            return
        path.chmod(0o600)
        # The layout of pages has to be set before the first table exists.
        connection.pragma("auto_vacuum", "incremental")
        connection.pragma("journal_mode", "wal")
        with connection:
            connection.execute(_TABLES + TABLES)
            connection.pragma("application_id", _APPLICATION)
            connection.pragma("user_version", FORMAT)
    finally:
        os.close(folder)


class KnownObjects(SqlEntries):
    """What the reader of the stream knows, without the states: those are in ``objects``."""

    def put(self, key: str, known: Known) -> None:
        super().put(key, replace(known, state=b""))
