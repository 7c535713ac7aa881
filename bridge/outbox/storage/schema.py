"""The tables of the database, the number of their format, and the steps from earlier formats.

``recognise`` looks at a file before anything in it changes, and ``prepare`` makes the tables in an empty file, or
migrates a file of an earlier format, in a single transaction, when a bridge opens it. A file whose tables are not those
of its format raises Damaged, and stays as it is.

meta            a single row: the uid of the cluster's namespace kube-system; the newest numbers ever given to a record
                (last), replay, changed selection, dead letter, term and commit (committed); records before log_start
                are kept for the ledger only, those before cleaner_checkpoint are cleaned; ahead: how far numbers that
                leave are above those in the log, behind a takeover that may lack something
kinds           resources by name, such as deployments.apps, without a version; the epoch in which informers begin
resources       each version of a kind that was ever served
informers       a watched part of a resource: selectors, position, and the newest ignored change up to there
log             records; those before meta.log_start are kept only for the last states that they hold. Bodies are zstd
                frames with a checksum; consumers.selections explains the bits of sinks
ledger          a row for each record: the object, the informer that has the object in this state (NULL: the record is
                no state), the record with the previous state, the sinks whose selection contains the object, and the
                digest of the state where changes are ignored; see ledger and cleaner
pinned          garbage that stays in the log for a backfill only
dictionaries    compression dictionaries of bodies of a kind; a frame names its dictionary
cursors         progress of each sink, its backfill and replay; paused: 1 an operator, 2 the destination is gone, 3
                another bridge took it over; a random id (birth); the record behind which it owes a snapshot, or 0
starts          starts of a bridge with an exactly-once sink: a random id, and the newest record then
selections      each sink with a selection: its bit in log and ledger, and the entries that its bits were decided by
backfill_items  items of each sink's backfill: numbers of records, or notices with what they are about
snapshots       the newest snapshot on demand of each sink: its conditions, the objects that a cancel left out, and the
                time from which its schedule counts
dead_letters    each contains its record, so that the log can be trimmed; sealed: reason and answer, encrypted
encryption_keys keys under which the database has content; proof tells keys of equal ids apart
terms           with an election: terms of leaders, with a random mark and the first commit

A step of a migration adds tables, columns and indexes, so it takes milliseconds, whatever the size of the log: a
rewrite of the log would take minutes and the size of the file. New columns stand behind the others. The price: in a
migrated file the bits of a record stand behind its body, and a sink that passes over a record follows its pages to
their end. The first release writes format 10, and no format before it was released.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing
from functools import cache
from typing import NamedTuple, TypeAlias

import apsw

from bridge.outbox.errors import Damaged, UnknownFormat

SQL = """
CREATE TABLE meta (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    cluster TEXT NOT NULL DEFAULT '',
    log_start INTEGER NOT NULL DEFAULT 1,
    cleaner_checkpoint INTEGER NOT NULL DEFAULT 1,
    last INTEGER NOT NULL DEFAULT 0,
    rebuilt INTEGER NOT NULL DEFAULT 0,
    epoch INTEGER NOT NULL DEFAULT 1,
    replays INTEGER NOT NULL DEFAULT 0,
    selections INTEGER NOT NULL DEFAULT 0,
    dead_letters INTEGER NOT NULL DEFAULT 0,
    term INTEGER NOT NULL DEFAULT 0,
    ahead INTEGER NOT NULL DEFAULT 0,
    committed INTEGER NOT NULL DEFAULT 0
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
    rebuilding INTEGER NOT NULL DEFAULT 0,
    ignored TEXT
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
    takes INTEGER,
    enters INTEGER,
    leaves INTEGER,
    members INTEGER,
    selection INTEGER NOT NULL DEFAULT 0,
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
    members INTEGER NOT NULL DEFAULT 0,
    digest BLOB,
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
    memory BLOB NOT NULL DEFAULT x'',
    birth TEXT NOT NULL DEFAULT '',
    backfills INTEGER NOT NULL DEFAULT 0,
    owes_snapshot INTEGER NOT NULL DEFAULT 0
) STRICT, WITHOUT ROWID;

CREATE TABLE starts (
    number INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    last INTEGER NOT NULL
) STRICT;

CREATE TABLE selections (
    sink TEXT PRIMARY KEY,
    mask INTEGER NOT NULL UNIQUE,
    since INTEGER NOT NULL,
    had_all INTEGER NOT NULL,
    number INTEGER NOT NULL DEFAULT 0,
    start TEXT NOT NULL DEFAULT '',
    pending INTEGER NOT NULL DEFAULT 1,
    entries TEXT NOT NULL DEFAULT '[]',
    names TEXT NOT NULL DEFAULT '{}',
    effective INTEGER NOT NULL DEFAULT 0
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

CREATE TABLE snapshots (
    sink TEXT PRIMARY KEY,
    number INTEGER NOT NULL DEFAULT 0,
    through INTEGER NOT NULL DEFAULT 0,
    objects INTEGER NOT NULL DEFAULT 0,
    scope TEXT NOT NULL DEFAULT '',
    began TEXT NOT NULL DEFAULT '',
    ended TEXT NOT NULL DEFAULT '',
    left_out INTEGER,
    scheduled TEXT NOT NULL DEFAULT ''
) STRICT, WITHOUT ROWID;

CREATE TABLE dead_letters (
    number INTEGER PRIMARY KEY,
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
    sealed BLOB,
    UNIQUE (sink, seq, record_id)
) STRICT;
CREATE INDEX dead_letters_of ON dead_letters (sink, resource_name, key, number);

CREATE TABLE encryption_keys (
    id TEXT PRIMARY KEY,
    proof BLOB NOT NULL,
    complete INTEGER NOT NULL DEFAULT 0
) STRICT, WITHOUT ROWID;

CREATE TABLE terms (
    term INTEGER PRIMARY KEY,
    mark INTEGER NOT NULL,
    first_commit INTEGER NOT NULL
) STRICT;
"""


FORMAT = 10
"""PRAGMA user_version. A change of the tables takes the next number, and a step in ``STEPS``."""

STEPS: Mapping[int, str] = {}
"""Format → SQL that makes the next format of it."""
APPLICATION_ID = 0x6B646F62
"""PRAGMA application_id: "kdob", for kubedelta's outbox. SQLite and file(1) read it from bytes 68 to 71 of the file."""


class TablePart(NamedTuple):
    """A part of a table."""

    role: str
    """``column``, ``index`` or ``table``."""
    name: str
    type: str
    """Of a column; the columns of an index; of a table whether it is strict."""
    filled: int
    """A column without NULL; a unique index; a table without row ids."""
    default: str = ""
    key: int = 0
    """The place of a column in the primary key, from 1."""


Shape: TypeAlias = Mapping[str, frozenset[TablePart]]
"""Parts by table."""


def recognise(database: apsw.Connection, *, new: bool) -> int:
    """The format of the file: FORMAT, or an earlier one that ``prepare`` migrates; FORMAT for an empty file. Refuses a
    file that this version cannot use, before anything in it changes. ``new``: the file was created just now, and may be
    empty. Raises UnknownFormat for another program's database and for an unknown format, and Damaged for a file of this
    format whose header or tables were lost."""
    application, found = int(database.pragma("application_id")), _format(database)
    if application == APPLICATION_ID and found == FORMAT:
        return found
    if _has_our_shape(database):  # Another format has other tables: so the header is wrong, and not the version.
        raise Damaged(f"its header does not say kubedelta's format {FORMAT}, although its tables are of that format")
    if application == APPLICATION_ID and found in STEPS:
        return found
    if not found and not _tables(database):
        if not new:
            raise Damaged("the file has no tables")
        return FORMAT
    if application != APPLICATION_ID:
        raise UnknownFormat(f"{database.filename} is a database, but none of kubedelta's: move it away")
    oldest = min(STEPS, default=FORMAT)
    raise UnknownFormat(
        f"{database.filename} has format {found}, written by another kubedelta; this version reads the formats from "
        f"{oldest} to {FORMAT}: run the version that wrote it, restore the copy of state.directory from "
        "before that version, or give state.directory an empty directory: the next start exports every object again"
    )


def format_for_followers(database: apsw.Connection) -> int | None:
    """The format of a database that a follower of this version can have: its own, or an earlier one, which is migrated
    when the follower leads. None for a file that has lost its header or its tables: a base copy takes its place. Raises
    UnknownFormat for one that another version or program wrote: nothing may take its place."""
    try:
        found = recognise(database, new=False)
    except Damaged:
        return None
    return found if found in STEPS or _has_our_shape(database) else None


def is_earlier(database: apsw.Connection) -> bool:
    """Whether it is of an earlier format, and waits for its migration."""
    return _format(database) in STEPS and not _has_our_shape(database)


def waits_for_migration(file: str, found: int) -> str:
    """Why a command cannot use a file of an earlier format."""
    return f"{file} has format {found}, and this version has format {FORMAT}: the next start of the bridge migrates it"


def prepare(database: apsw.Connection) -> None:
    """Creates the tables in an empty file, and migrates a file of an earlier format; each in one transaction. Raises
    Damaged for a file whose tables are not those of its format, and which stays as it is."""
    if not _tables(database):
        with database:
            database.execute(SQL)
            database.pragma("user_version", FORMAT)
            database.pragma("application_id", APPLICATION_ID)
    elif (was := _format(database)) != FORMAT:
        with database:
            try:
                for step in range(was, FORMAT):
                    database.execute(STEPS[step])
            except apsw.SQLError as error:
                raise Damaged(f"its tables are not those of its format {was}: {error}") from error
            if not _has_our_shape(database):
                raise Damaged(f"its tables are not those of its format {was}")
            database.pragma("user_version", FORMAT)


# ── The shape of tables ──────────────────────────────────────────────────────


def shape(database: apsw.Connection) -> Shape:
    """The tables of a database: columns with their types, explicit indexes, and storage options."""
    return {table: frozenset(_parts(database, table)) for table in _tables(database) if not table.startswith("sqlite_")}


def _parts(database: apsw.Connection, table: str) -> Iterator[TablePart]:
    query = """SELECT 'column', name, type, "notnull" OR pk, coalesce(dflt_value, ''), pk FROM pragma_table_xinfo(?)"""
    yield from map(TablePart._make, database.execute(query, (table,)))
    for name, unique in database.execute(
        "SELECT name, \"unique\" FROM pragma_index_list(?) WHERE origin = 'c'", (table,)
    ):
        columns = [str(column) for (column,) in database.execute("SELECT name FROM pragma_index_info(?)", (name,))]
        yield TablePart("index", name, ",".join(columns), unique)
    for without_rowid, strict in database.execute(
        "SELECT wr, strict FROM pragma_table_list(?) WHERE schema = 'main'", (table,)
    ):
        yield TablePart("table", "", "strict" if strict else "", without_rowid)


@cache
def expected() -> Shape:
    """The tables of a database of this format."""
    with closing(apsw.Connection(":memory:")) as database:
        database.execute(SQL)
        return shape(database)


def _has_our_shape(database: apsw.Connection) -> bool:
    try:
        return shape(database) == expected()
    except (apsw.Error, UnicodeDecodeError):  # What a newer format has, this SQLite may not be able to read.
        return False


def _format(database: apsw.Connection) -> int:
    return int(database.pragma("user_version"))


def _tables(database: apsw.Connection) -> set[str]:
    return {name for (name,) in database.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}
