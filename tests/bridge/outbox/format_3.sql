-- The tables as version 3 of the format made them.
CREATE TABLE meta (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    cluster TEXT NOT NULL DEFAULT '',
    trimmed INTEGER NOT NULL DEFAULT 0,
    cleared INTEGER NOT NULL DEFAULT 0,
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

PRAGMA user_version = 3;
PRAGMA application_id = 1801743476;
