"""The tables of the database, and the number of their format.

meta            a single row: the cluster, counters, the start of the log, the checkpoint of the log cleaner
kinds           resources by name, such as deployments.apps, without a version; the epoch in which informers begin
resources       each version of a kind that was ever served
informers       a watched part of a resource: selectors, and progress
log             records; those before meta.log_start are kept only for the last states that they hold
ledger          a row for each record: the object, the informer that has the object in this state (NULL: the record is
                no state), and the record with the previous state; see ledger_sql and cleaner
pinned          garbage that stays in the log for a backfill only
dictionaries    compression dictionaries of bodies
cursors         progress of each sink
backfill_items  items of each sink's backfill: numbers of records, or notices
dead_letters    each contains its record, so that the log can be trimmed
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing
from functools import cache
from typing import TypeAlias

import apsw

from bridge.outbox.errors import Damaged, UnknownFormat

FORMAT = 1
"""PRAGMA user_version: the number of the first released format. A change of the tables takes the next number."""
APPLICATION_ID = 0x6B646F62
"""PRAGMA application_id: "kdob", for kubedelta's outbox. SQLite and file(1) read it from bytes 68 to 71 of the file."""
_UNRELEASED_ID = 0x6B646C74
"""The application id "kdlt" of the formats 1 to 4, which no release wrote. Their tables have other names."""

_TABLES = """
CREATE TABLE meta (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    cluster TEXT NOT NULL DEFAULT '',
    log_start INTEGER NOT NULL DEFAULT 1,
    cleaner_checkpoint INTEGER NOT NULL DEFAULT 1,
    last INTEGER NOT NULL DEFAULT 0,
    rebuilt INTEGER NOT NULL DEFAULT 0,
    epoch INTEGER NOT NULL DEFAULT 1,
    replays INTEGER NOT NULL DEFAULT 0
) STRICT;
INSERT INTO meta (id) VALUES (1);

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
    targets TEXT,
    before BLOB,
    body BLOB NOT NULL
) STRICT;

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

CREATE TABLE pinned (
    seq INTEGER PRIMARY KEY,
    kind INTEGER NOT NULL
) STRICT;

CREATE TABLE dictionaries (
    number INTEGER PRIMARY KEY,
    kind INTEGER NOT NULL REFERENCES kinds (id),
    content BLOB NOT NULL
) STRICT;

CREATE TABLE cursors (
    sink TEXT PRIMARY KEY,
    settled INTEGER NOT NULL,
    absent_seconds REAL NOT NULL DEFAULT 0,
    backfill TEXT NOT NULL DEFAULT '',
    backfill_starts_after INTEGER NOT NULL DEFAULT 0,
    backfill_resumes_after INTEGER NOT NULL DEFAULT 0,
    replay INTEGER NOT NULL DEFAULT 0,
    paused INTEGER NOT NULL DEFAULT 0,
    memory BLOB NOT NULL DEFAULT x''
) STRICT, WITHOUT ROWID;

CREATE TABLE backfill_items (
    sink TEXT NOT NULL,
    item INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    op TEXT NOT NULL,
    first_seq INTEGER,
    records INTEGER,
    time TEXT,
    before_seq INTEGER,
    before BLOB,
    concerns TEXT,
    PRIMARY KEY (sink, item)
) STRICT, WITHOUT ROWID;
CREATE INDEX backfilled ON backfill_items (seq);

CREATE TABLE dead_letters (
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
CREATE INDEX dead_letters_of ON dead_letters (sink, resource_name, key, number);
"""


Part: TypeAlias = tuple[str, str, str, int, str, int]
"""A part of a table: "column", "index" or "table", then its name and four properties."""
Shape: TypeAlias = Mapping[str, frozenset[Part]]
"""Parts by table."""


def shape(database: apsw.Connection) -> Shape:
    """The tables of a database: columns with their types, explicit indexes, and storage options."""
    return {table: frozenset(_parts(database, table)) for table in _tables(database) if not table.startswith("sqlite_")}


@cache
def expected() -> Shape:
    """The tables of a database of this format."""
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
    """Refuses a file that this version cannot use, before anything in it changes. ``new``: the file was created just
    now, and may be empty. Raises UnknownFormat for another program's database and for another format, and Damaged for a
    file of this format whose header or tables were lost."""
    application, found = int(database.pragma("application_id")), _format(database)
    if application == APPLICATION_ID and found == FORMAT:
        return
    if application == _UNRELEASED_ID:
        raise UnknownFormat(
            f"{database.filename} was written by an unreleased kubedelta (format {found}), and no release reads it: "
            "give state.directory an empty directory; the next start exports every object again, without a migration"
        )
    if _has_our_shape(database):  # Another format has other tables: so the header is wrong, and not the version.
        raise Damaged(f"its header does not say kubedelta's format {FORMAT}, although its tables are of that format")
    if not found and not _tables(database):
        if not new:
            raise Damaged("the file has no tables")
        return
    if application != APPLICATION_ID:
        raise UnknownFormat(f"{database.filename} is a database, but none of kubedelta's: move it away")
    raise UnknownFormat(
        f"{database.filename} has format {found}, written by another kubedelta; this version reads format {FORMAT}: "
        "run the version that wrote it, or give state.directory an empty directory: the next start exports every "
        "object again"
    )


def _has_our_shape(database: apsw.Connection) -> bool:
    try:
        return shape(database) == expected()
    except (apsw.Error, UnicodeDecodeError):  # What a newer format has, this SQLite may not be able to read.
        return False


def prepare(database: apsw.Connection) -> None:
    """Creates the tables in an empty file, in one transaction; a file that has tables stays as it is."""
    if not _tables(database):
        with database:
            database.execute(_TABLES)
            database.pragma("user_version", FORMAT)
            database.pragma("application_id", APPLICATION_ID)


def _format(database: apsw.Connection) -> int:
    return int(database.pragma("user_version"))


def _tables(database: apsw.Connection) -> set[str]:
    return {name for (name,) in database.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}
