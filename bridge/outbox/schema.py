"""The tables of the database, and the number of their format.

meta        one row: what this file is, and what it belongs to
kinds       resources by name, such as deployments.apps, whatever the version; in which epoch their informers begin
resources   each version of each of them that was ever served to us
informers   one row for each part of a resource that is watched: its selectors, how far it has come
log         records; those up to meta.trimmed are there only because they hold an object's last state, or did
ledger      a row for each record: of which object it is, which informer has the object in this state (none: it is no
            state), and which record it replaces as the one with the last state; see ledger_sql and clearing
awaited     records that could have been cleared away, were a sink not to be told of them out of turn
dictionaries  what bodies are compressed with
cursors     how far each sink has come
selections  what a sink is told before it goes on with the log: records by their numbers, or a notice
letters     dead letters; each holds its record, so that the log may go on
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import closing
from functools import cache
from typing import TypeAlias

import apsw

from bridge.outbox.errors import Damaged, UnknownFormat

FORMAT = 4
"""PRAGMA user_version. A change of the tables takes the next number, and ``MIGRATIONS`` lead to it."""
APPLICATION_ID = 0x6B646C74
"""PRAGMA application_id: "kdlt"."""

_LEDGER = """
CREATE TABLE ledger (
    kind INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    key TEXT NOT NULL,
    informer INTEGER,
    uid TEXT NOT NULL,
    version TEXT NOT NULL,
    replaces INTEGER,
    PRIMARY KEY (kind, seq)
) STRICT, WITHOUT ROWID;

CREATE TABLE awaited (
    seq INTEGER PRIMARY KEY,
    kind INTEGER NOT NULL
) STRICT;
"""

_TABLES = f"""
CREATE TABLE meta (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    cluster TEXT NOT NULL DEFAULT '',
    trimmed INTEGER NOT NULL DEFAULT 0,
    cleared INTEGER NOT NULL DEFAULT 0,
    last INTEGER NOT NULL DEFAULT 0,
    rebuilt INTEGER NOT NULL DEFAULT 0,
    epoch INTEGER NOT NULL DEFAULT 1,
    replays INTEGER NOT NULL DEFAULT 0
) STRICT;
INSERT INTO meta (one) VALUES (1);

CREATE TABLE kinds (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    epoch INTEGER NOT NULL DEFAULT 1
) STRICT;

CREATE TABLE resources (
    id INTEGER PRIMARY KEY,
    kind INTEGER NOT NULL REFERENCES kinds (id),
    api_group TEXT NOT NULL,
    version TEXT NOT NULL,
    plural TEXT NOT NULL,
    object_kind TEXT NOT NULL,
    namespaced INTEGER NOT NULL,
    UNIQUE (api_group, version, plural, object_kind, namespaced)
) STRICT;

CREATE TABLE informers (
    id INTEGER PRIMARY KEY,
    kind INTEGER NOT NULL REFERENCES kinds (id),
    resource INTEGER NOT NULL REFERENCES resources (id),
    namespace TEXT,
    label_selector TEXT NOT NULL,
    field_selector TEXT NOT NULL,
    position TEXT,
    newest TEXT,
    epoch INTEGER NOT NULL DEFAULT 1,
    rebuilding INTEGER NOT NULL DEFAULT 0
) STRICT;

CREATE TABLE log (
    seq INTEGER PRIMARY KEY,
    op TEXT NOT NULL,
    evidence TEXT NOT NULL,
    kind INTEGER NOT NULL,
    resource INTEGER NOT NULL,
    key TEXT NOT NULL,
    uid TEXT NOT NULL,
    version TEXT NOT NULL,
    time TEXT NOT NULL,
    epoch INTEGER NOT NULL,
    audience TEXT,
    before BLOB,
    body BLOB NOT NULL
) STRICT;

{_LEDGER}

CREATE TABLE dictionaries (
    number INTEGER PRIMARY KEY,
    kind INTEGER NOT NULL REFERENCES kinds (id),
    content BLOB NOT NULL
) STRICT;

CREATE TABLE cursors (
    sink TEXT PRIMARY KEY,
    settled INTEGER NOT NULL,
    absent_seconds REAL NOT NULL DEFAULT 0,
    errand TEXT NOT NULL DEFAULT '',
    errand_after INTEGER NOT NULL DEFAULT 0,
    errand_cut INTEGER NOT NULL DEFAULT 0,
    replay INTEGER NOT NULL DEFAULT 0,
    paused INTEGER NOT NULL DEFAULT 0,
    memory BLOB NOT NULL DEFAULT x''
) STRICT, WITHOUT ROWID;

CREATE TABLE selections (
    sink TEXT NOT NULL,
    place INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    op TEXT NOT NULL,
    first INTEGER,
    count INTEGER,
    time TEXT,
    before_seq INTEGER,
    before BLOB,
    concerns TEXT,
    PRIMARY KEY (sink, place)
) STRICT, WITHOUT ROWID;
CREATE INDEX selected ON selections (seq);

CREATE TABLE letters (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    sink TEXT NOT NULL,
    seq INTEGER NOT NULL,
    record_id TEXT NOT NULL,
    resource_name TEXT NOT NULL,
    key TEXT NOT NULL,
    reason TEXT NOT NULL,
    parked INTEGER NOT NULL,
    retrying INTEGER NOT NULL DEFAULT 0,
    record BLOB NOT NULL,
    answer TEXT NOT NULL DEFAULT '',
    UNIQUE (sink, seq, record_id)
) STRICT;
CREATE INDEX letters_of ON letters (sink, resource_name, key, number);
"""

TABLES = frozenset(re.findall(r"^CREATE TABLE (\w+)", _TABLES, re.MULTILINE))

_EPOCHS = """
ALTER TABLE meta ADD COLUMN epoch INTEGER NOT NULL DEFAULT 1;
ALTER TABLE kinds ADD COLUMN epoch INTEGER NOT NULL DEFAULT 1;
UPDATE kinds SET epoch = 1 + max(
    (SELECT coalesce(max(epoch), 1) FROM informers),
    (SELECT coalesce(max(epoch), 1) FROM log)
);
"""
"""What format 1 had told of parts that were not watched any more, it had forgotten."""

_POSTED = """
DELETE FROM objects WHERE (kind, key) IN (SELECT kind, key FROM log, meta WHERE seq > posted AND op = 'deleted');
INSERT OR REPLACE INTO objects (kind, key, informer, uid, version, seq)
    SELECT kind, key, informer, uid, version, max(seq) FROM log, meta
    WHERE seq > posted AND (informer IS NOT NULL OR op = 'deleted') GROUP BY kind, key HAVING informer IS NOT NULL;
DROP TABLE superseded;
ALTER TABLE log DROP COLUMN informer;
ALTER TABLE meta DROP COLUMN posted;
"""
"""Format 2 had a table of all objects that held through ``meta.posted``."""

_ONE_LEDGER = f"""
{_LEDGER}
INSERT INTO ledger (kind, seq, key, informer, uid, version)
    SELECT l.kind, l.seq, l.key, o.informer, l.uid, l.version
    FROM log l LEFT JOIN objects o ON o.kind = l.kind AND o.key = l.key AND o.seq = l.seq;
ALTER TABLE meta ADD COLUMN cleared INTEGER NOT NULL DEFAULT 0;
UPDATE meta SET cleared = min(trimmed, coalesce((SELECT min(seq) - 1 FROM log), trimmed));
DROP TABLE objects;
"""
"""Formats 1 and 2 had a table of all objects; every other record goes when it is not needed any more."""

_REPLAYS_PAUSES_ANSWERS = """
ALTER TABLE meta ADD COLUMN replays INTEGER NOT NULL DEFAULT 0;
ALTER TABLE cursors ADD COLUMN replay INTEGER NOT NULL DEFAULT 0;
ALTER TABLE cursors ADD COLUMN paused INTEGER NOT NULL DEFAULT 0;
ALTER TABLE letters ADD COLUMN answer TEXT NOT NULL DEFAULT '';
"""
"""Format 3 did not number replays; one that it left under way goes on without a number."""

_MEMORIES = """
ALTER TABLE cursors ADD COLUMN memory BLOB NOT NULL DEFAULT x'';
ALTER TABLE selections ADD COLUMN concerns TEXT;
"""
"""What a gap that waited in format 3 is about is not known."""

_FROM_3 = _REPLAYS_PAUSES_ANSWERS + _MEMORIES
MIGRATIONS = {1: _EPOCHS + _ONE_LEDGER + _FROM_3, 2: _POSTED + _ONE_LEDGER + _FROM_3, 3: _FROM_3}
"""From the format of that number to this one."""


Part: TypeAlias = tuple[str, str, str, int, str, int]
"""Of a table: what it is, its name, and four things more."""
Shape: TypeAlias = Mapping[str, frozenset[Part]]
"""Tables by name."""


def shape(database: apsw.Connection) -> Shape:
    """The tables that this database has: columns with their types, indexes that were asked for, and how they are
    kept."""
    return {table: frozenset(_parts(database, table)) for table in _tables(database) if not table.startswith("sqlite_")}


@cache
def expected() -> Shape:
    """That of a database of this format."""
    with closing(apsw.Connection(":memory:")) as database:
        database.execute(_TABLES)
        return shape(database)


def _parts(database: apsw.Connection, table: str) -> Iterator[Part]:
    for name, kind, filled, default, key in database.execute(
        'SELECT name, type, "notnull" OR pk, dflt_value, pk FROM pragma_table_xinfo(?)', (table,)
    ):
        yield ("column", name, kind, filled, default or "", key)
    for name, unique in database.execute(
        "SELECT name, \"unique\" FROM pragma_index_list(?) WHERE origin = 'c'", (table,)
    ):
        columns = [str(column) for (column,) in database.execute("SELECT name FROM pragma_index_info(?)", (name,))]
        yield ("index", name, ",".join(columns), unique, "", 0)
    for without_rowid, strict in database.execute(
        "SELECT wr, strict FROM pragma_table_list(?) WHERE schema = 'main'", (table,)
    ):
        yield ("table", "", "strict" if strict else "", without_rowid, "", 0)


def recognise(database: apsw.Connection, *, new: bool) -> None:
    """Before anything is done to a file: is it ours, and one that we can read? Raises UnknownFormat, and Damaged where
    it was ours once."""
    ours, found = int(database.pragma("application_id")) == APPLICATION_ID, _format(database)
    if ours and found == FORMAT:
        return
    if _has_our_shape(database):  # Another format has other tables.
        raise Damaged(f"its header says that it is not of kubedelta's format {FORMAT}, and its tables are")
    if ours and found in MIGRATIONS:
        return
    if not found and not _tables(database):
        if not new:
            raise Damaged("there is nothing in it")
        return
    if not ours:
        raise UnknownFormat(f"{database.filename} is a database, but none of kubedelta's: move it away")
    older = "an older" if found < FORMAT else "a newer"
    raise UnknownFormat(
        f"{database.filename} has format {found}, written by {older} kubedelta; this one reads {FORMAT}: run that "
        "version, or move the file away and let everything be told again"
    )


def _has_our_shape(database: apsw.Connection) -> bool:
    try:
        return shape(database) == expected()
    except (apsw.Error, UnicodeDecodeError):  # What a newer format has, this SQLite may not be able to read.
        return False


def prepare(database: apsw.Connection) -> None:
    """Make the tables in a new file, or bring those of an older version to this one's format, in one transaction."""
    if not _tables(database):
        with database:
            database.execute(_TABLES)
            database.pragma("user_version", FORMAT)
            database.pragma("application_id", APPLICATION_ID)
    elif (found := _format(database)) < FORMAT:
        with database:
            database.execute(MIGRATIONS[found])
            database.pragma("user_version", FORMAT)


def _format(database: apsw.Connection) -> int:
    return int(database.pragma("user_version"))


def _tables(database: apsw.Connection) -> set[str]:
    return {name for (name,) in database.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}
