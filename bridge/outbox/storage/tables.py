"""The tables of the database.

meta            a single row: the cluster, counters, the start of the log, the checkpoint of the log cleaner
kinds           resources by name, such as deployments.apps, without a version; the epoch in which informers begin
resources       each version of a kind that was ever served
informers       a watched part of a resource: selectors, and progress
log             records; those before meta.log_start are kept only for the last states that they hold
ledger          a row for each record: the object, the informer that has the object in this state (NULL: the record is
                no state), the record with the previous state, the sinks whose selection contains the object, and the
                digest of the state where changes are ignored; see ledger_sql and cleaner
pinned          garbage that stays in the log for a backfill only
dictionaries    compression dictionaries of bodies
cursors         progress of each sink
starts          starts of a bridge on the state directory, each with the newest record then
selections      each sink with a selection: its bit in log and ledger, and the entries that its bits were decided by
backfill_items  items of each sink's backfill: numbers of records, or notices
snapshots       the newest snapshot on demand of each sink, and the time from which its schedule counts
dead_letters    each contains its record, so that the log can be trimmed
encryption_keys keys under which the database has content
terms           with an election: terms of leaders, each with its first commit; meta.committed is the newest
"""

from __future__ import annotations

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
    first_commit INTEGER NOT NULL
) STRICT;
"""
