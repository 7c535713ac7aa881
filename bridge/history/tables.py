"""The file in SQL: its tables, how it is opened, and what a reader of the stream knows.

The tables are for other programs, too (Datasette, ``sqlite3``): times are microseconds since 1970, names are the API's.
Bodies are packed, and for this room alone.
"""

from __future__ import annotations

import fcntl
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import apsw
import msgspec
from kubedelta_reader import Known
from kubedelta_reader.stores import TABLES, SqlEntries
from msgspec.structs import replace

from bridge.history.bodies import Packing
from bridge.history.points import NotInHistory
from bridge.model.formats.object_paths import ObjectName
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


class ToldPart(msgspec.Struct, frozen=True, omit_defaults=True, order=True):
    """See ``model.record.WatchedPart``. A later version may have further states and members."""

    resource: str
    state: str
    namespace: str = ""
    """Empty for all."""
    label_selector: str = ""
    field_selector: str = ""

    @property
    def scope(self) -> Scope:
        return Scope(self.namespace or None, self.label_selector, self.field_selector)

    @property
    def is_well(self) -> bool:
        return self.state in (InformerState.LIVE, InformerState.RECONNECTING)


decode_parts = msgspec.json.Decoder(list[ToldPart]).decode
"""``watched`` of the end of a snapshot, and ``parts`` of the table."""


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
    application, form = connection.pragma("application_id"), connection.pragma("user_version")
    if (application, form) == (_APPLICATION, FORMAT):
        return
    if application == _APPLICATION:
        raise NotInHistory(f"{path} has format {form}, and this version of kubedelta reads format {FORMAT}")
    if not writable:
        raise NotInHistory(f"{path} is no history of kubedelta")
    # Another build may make the tables at the same time, and SQLite's locks do not cover the change to a log ahead.
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        if connection.pragma("application_id") != _APPLICATION:
            _make(connection, path)
    finally:
        os.close(folder)


def _make(connection: apsw.Connection, path: Path) -> None:
    # A build may have been killed before it made the tables.
    if connection.execute("SELECT count(*) FROM sqlite_schema").get:
        raise NotInHistory(f"{path} is no history of kubedelta")
    path.chmod(0o600)  # It may have been there, and empty.
    # The layout of pages has to be set before the first table exists.
    connection.pragma("auto_vacuum", "incremental")
    connection.pragma("journal_mode", "wal")
    with connection:
        connection.execute(_TABLES + TABLES)
        connection.pragma("application_id", _APPLICATION)
        connection.pragma("user_version", FORMAT)


class KnownObjects(SqlEntries):
    """What the reader of the stream knows. The states are those of ``objects``, which the recorder writes behind the
    reader's steps; ``older`` and ``objects`` give none, so that no list of them is in memory."""

    def __init__(self, connection: apsw.Connection, incarnations: Incarnations) -> None:
        super().__init__(connection)
        self._incarnations = incarnations

    def get(self, key: str) -> Known | None:
        known = super().get(key)
        if known is None or known.deleted or (incarnation := self._incarnations.find(key, known.uid)) is None:
            return known
        return replace(known, state=incarnation.state)

    def put(self, key: str, known: Known) -> None:
        super().put(key, replace(known, state=b""))


# ── Objects ──────────────────────────────────────────────────────────────────


@dataclass(slots=True)
class Incarnation:
    """A row of ``objects``: an object under its name with its uid."""

    id: int
    resource: int
    state: bytes
    """The newest."""
    time: int
    patches: int


_FIND = (
    "SELECT id, state, time, patches FROM objects WHERE resource = ? AND namespace = ? AND name = ? AND uid = ?"
    " ORDER BY id DESC LIMIT 1"
)


class Incarnations:
    """Finds and makes rows of ``objects``. The last one is kept, since a record asks twice."""

    def __init__(self, connection: apsw.Connection, packing: Packing) -> None:
        self._connection = connection
        self._packing = packing
        rows: Any = connection.execute('SELECT id, cluster, "group", plural, seen FROM resources').fetchall()
        self._resources: dict[tuple[str, str, str], int] = {(*names,): id for id, *names, _ in rows}
        self._seen: dict[int, int] = {id: seen for id, *_, seen in rows}
        self._last: tuple[str, str, Incarnation] | None = None

    def resource(self, name: ObjectName) -> int | None:
        """The number of the object's resource; None for one that the file does not have."""
        return self._resources.get((name.cluster, name.group, name.plural))

    def add_resource(self, name: ObjectName, api_version: str, kind: str) -> int:
        names = name.cluster, name.group, name.plural
        self._connection.execute(
            'INSERT INTO resources (cluster, "group", plural, api_version, kind, seen) VALUES (?,?,?,?,?,0)',
            (*names, api_version, kind),
        )
        self._resources[names] = self._connection.last_insert_rowid()
        return self._resources[names]

    def seen(self, resource: int) -> int:
        """The time of the newest step of the resource that the bridge saw happen; 0 before the first."""
        return self._seen.get(resource, 0)

    def see(self, resource: int, time: int) -> None:
        """Kept by ``save_seen``, at the end of a batch."""
        self._seen[resource] = max(time, self.seen(resource))

    def save_seen(self) -> None:
        for resource, time in self._seen.items():
            self._connection.execute("UPDATE resources SET seen = ? WHERE id = ? AND seen < ?", (time, resource, time))

    def find(self, key: str, uid: str) -> Incarnation | None:
        if self._last is not None and self._last[:2] == (key, uid):
            return self._last[2]
        name = ObjectName.of(key)
        resource = self.resource(name)
        if resource is None:
            return None
        row = self._connection.execute(_FIND, (resource, name.namespace, name.name, uid)).fetchone()
        if row is None:
            return None
        id, state, time, patches = row
        found = Incarnation(id, resource, self._packing.unpacked(state), time, patches)
        self._last = key, uid, found
        return found

    def add(self, key: str, uid: str, resource: int, state: bytes, time: int) -> Incarnation:
        _, _, _, namespace, name = ObjectName.of(key)
        self._connection.execute(
            "INSERT INTO objects (resource, namespace, name, uid, state, time, patches) VALUES (?,?,?,?,?,?,0)",
            (resource, namespace, name, uid, self._packing.packed(resource, state), time),
        )
        found = Incarnation(self._connection.last_insert_rowid(), resource, state, time, 0)
        self._last = key, uid, found
        return found

    def save(self, found: Incarnation) -> None:
        self._connection.execute(
            "UPDATE objects SET state = ?, time = ?, patches = ? WHERE id = ?",
            (self._packing.packed(found.resource, found.state), found.time, found.patches, found.id),
        )

    def forget(self) -> None:
        """Behind a trim, which may have removed the last one."""
        self._last = None
