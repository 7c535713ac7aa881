"""Changes a database of an earlier format into one of this format, in a single transaction, when a bridge opens it.

A step adds tables, columns, and an index of dead letters, so it takes milliseconds, whatever the size of the log. New
columns stand behind the others: of a migrated ``log``, behind the bodies.
"""

from __future__ import annotations

from collections.abc import Mapping

import apsw

STEPS: Mapping[int, str] = {
    1: """
ALTER TABLE meta ADD COLUMN selections INTEGER NOT NULL DEFAULT 0;
ALTER TABLE log ADD COLUMN takes INTEGER;
ALTER TABLE log ADD COLUMN enters INTEGER;
ALTER TABLE log ADD COLUMN leaves INTEGER;
ALTER TABLE log ADD COLUMN members INTEGER;
ALTER TABLE log ADD COLUMN selection INTEGER NOT NULL DEFAULT 0;
ALTER TABLE ledger ADD COLUMN members INTEGER NOT NULL DEFAULT 0;
CREATE TABLE selections (
    sink TEXT PRIMARY KEY,
    mask INTEGER NOT NULL UNIQUE,
    since INTEGER NOT NULL,
    had_all INTEGER NOT NULL,
    number INTEGER NOT NULL DEFAULT 0,
    start TEXT NOT NULL DEFAULT '',
    pending INTEGER NOT NULL DEFAULT 1,
    entries TEXT NOT NULL DEFAULT '[]',
    names TEXT NOT NULL DEFAULT '{}'
) STRICT, WITHOUT ROWID;
""",
    2: """
ALTER TABLE selections ADD COLUMN effective INTEGER NOT NULL DEFAULT 0;
UPDATE selections SET effective = (SELECT last FROM meta);
""",
    3: """
ALTER TABLE informers ADD COLUMN ignored TEXT;
ALTER TABLE ledger ADD COLUMN digest BLOB;
""",
    4: """
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
""",
    5: """
ALTER TABLE dead_letters ADD COLUMN sealed BLOB;
CREATE TABLE encryption_keys (
    id TEXT PRIMARY KEY,
    proof BLOB NOT NULL,
    complete INTEGER NOT NULL DEFAULT 0
) STRICT, WITHOUT ROWID;
""",
    6: """
ALTER TABLE meta ADD COLUMN term INTEGER NOT NULL DEFAULT 0;
ALTER TABLE meta ADD COLUMN ahead INTEGER NOT NULL DEFAULT 0;
ALTER TABLE meta ADD COLUMN frontier TEXT NOT NULL DEFAULT '';
ALTER TABLE informers ADD COLUMN listed TEXT;
CREATE TABLE waypoints (
    last INTEGER PRIMARY KEY,
    first INTEGER NOT NULL,
    informer TEXT NOT NULL,
    epoch INTEGER,
    since TEXT
) STRICT;
ALTER TABLE cursors ADD COLUMN birth TEXT NOT NULL DEFAULT '';
ALTER TABLE cursors ADD COLUMN backfills INTEGER NOT NULL DEFAULT 0;
CREATE TABLE starts (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    last INTEGER NOT NULL
) STRICT;
""",
    7: "ALTER TABLE meta ADD COLUMN overtaken INTEGER NOT NULL DEFAULT 0;",
    8: "CREATE INDEX dead_letters_by_id ON dead_letters (sink, record_id);",
}
"""Format → SQL that makes the next format of it."""


def migrate(database: apsw.Connection, was: int, now: int) -> None:
    """The caller's transaction makes all steps one."""
    for step in range(was, now):
        database.execute(STEPS[step])
