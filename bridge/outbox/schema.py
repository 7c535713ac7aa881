"""The tables of the database, and the number of their format.

meta        one row: what this file is, and what it belongs to
kinds       resources by name, such as deployments.apps, whatever the version; in which epoch their informers begin
resources   each version of each of them that was ever served to us
informers   one row for each part of a resource that is watched: its selectors, how far it has come
objects     the ledger: every object that was told and not told deleted, and which record has its last state; it holds
            through meta.posted, see posting
log         records; those up to meta.trimmed are there only because they hold an object's last state, or did
superseded  which records through meta.posted hold no last state (any more)
dictionaries  what bodies are compressed with
cursors     how far each sink has come
selections  what a sink is told before it goes on with the log: records by their numbers, or a notice
letters     dead letters; each holds its record, so that the log may go on
"""

from __future__ import annotations

import re

import apsw

from bridge.outbox.errors import Damaged, UnknownFormat

FORMAT = 2
"""PRAGMA user_version. A change of the tables takes the next number, and a step in ``MIGRATIONS``."""
APPLICATION_ID = 0x6B646C74
"""PRAGMA application_id: "kdlt"."""

_TABLES = """
CREATE TABLE meta (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    cluster TEXT NOT NULL DEFAULT '',
    trimmed INTEGER NOT NULL DEFAULT 0,
    posted INTEGER NOT NULL DEFAULT 0,
    last INTEGER NOT NULL DEFAULT 0,
    rebuilt INTEGER NOT NULL DEFAULT 0,
    epoch INTEGER NOT NULL DEFAULT 1
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

CREATE TABLE objects (
    kind INTEGER NOT NULL,
    key TEXT NOT NULL,
    informer INTEGER NOT NULL,
    uid TEXT NOT NULL,
    version TEXT NOT NULL,
    seq INTEGER NOT NULL,
    PRIMARY KEY (kind, key)
) STRICT, WITHOUT ROWID;

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
    informer INTEGER,
    audience TEXT,
    before BLOB,
    body BLOB NOT NULL
) STRICT;

CREATE TABLE superseded (
    seq INTEGER PRIMARY KEY
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
    errand TEXT NOT NULL DEFAULT '',
    errand_after INTEGER NOT NULL DEFAULT 0,
    errand_cut INTEGER NOT NULL DEFAULT 0
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
    UNIQUE (sink, seq, record_id)
) STRICT;
CREATE INDEX letters_of ON letters (sink, resource_name, key, number);
"""

TABLES = frozenset(re.findall(r"^CREATE TABLE (\w+)", _TABLES, re.MULTILINE))

_EPOCHS_AND_POSTING = """
ALTER TABLE meta ADD COLUMN epoch INTEGER NOT NULL DEFAULT 1;
ALTER TABLE kinds ADD COLUMN epoch INTEGER NOT NULL DEFAULT 1;
UPDATE kinds SET epoch = 1 + max(
    (SELECT coalesce(max(epoch), 1) FROM informers),
    (SELECT coalesce(max(epoch), 1) FROM log)
);
ALTER TABLE meta ADD COLUMN posted INTEGER NOT NULL DEFAULT 0;
UPDATE meta SET posted = last;
ALTER TABLE log ADD COLUMN informer INTEGER;
CREATE TABLE superseded (seq INTEGER PRIMARY KEY) STRICT;
INSERT INTO superseded SELECT seq FROM log
    WHERE (SELECT o.seq FROM objects o WHERE o.kind = log.kind AND o.key = log.key) IS NOT log.seq ORDER BY seq;
"""
"""What format 1 had told of parts that were not watched any more, it had forgotten. Its ledger held through the last
record."""

MIGRATIONS = {1: _EPOCHS_AND_POSTING}
"""From the format of that number to the next one."""


def recognise(database: apsw.Connection, *, new: bool) -> None:
    """Before anything is done to a file: is it ours, and one that we can read? Raises UnknownFormat, and Damaged where
    it was ours once."""
    found, tables = _format(database), _tables(database)
    if not tables and not found:
        if not new:
            raise Damaged("there is nothing in it")
        return
    if int(database.pragma("application_id")) != APPLICATION_ID:
        raise UnknownFormat(f"{database.filename} is a database, but none of kubedelta's: move it away")
    if found != FORMAT and found not in MIGRATIONS:
        older = "an older" if found < FORMAT else "a newer"
        raise UnknownFormat(
            f"{database.filename} has format {found}, written by {older} kubedelta; this one reads {FORMAT}: run that "
            "version, or move the file away and let everything be told again"
        )
    if found == FORMAT and (missing := TABLES - tables):
        raise Damaged(f"tables are missing: {', '.join(sorted(missing))}")


def prepare(database: apsw.Connection) -> None:
    """Make the tables in a new file, or bring those of an older version to this one's format, in one transaction for
    each step."""
    if not _tables(database):
        with database:
            database.execute(_TABLES)
            database.pragma("user_version", FORMAT)
            database.pragma("application_id", APPLICATION_ID)
    while (found := _format(database)) < FORMAT:
        with database:
            database.execute(MIGRATIONS[found])
            database.pragma("user_version", found + 1)


def _format(database: apsw.Connection) -> int:
    return int(database.pragma("user_version"))


def _tables(database: apsw.Connection) -> set[str]:
    return {name for (name,) in database.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}
