"""The ledger is posted later, as in book-keeping the journal is posted to the ledger.

The log is the truth. The table ``objects`` holds through ``meta.posted``; what stands in the log behind that is posted
in bulk, in the order of the keys, so that a page of the ledger is written once for many changes and not for each. All
that posting needs is in the log: nothing is in memory that a crash could take.

Posted is also which records hold no last state (any more). They stand in ``superseded`` until they are cleared away:
when they are trimmed and no sink is to be told of them out of turn. That is done in bulk too, in the order of the log.
"""

from __future__ import annotations

from dataclasses import dataclass

import apsw

from bridge.outbox.sql import one

MOST = 20_000
"""Records posted in one transaction, which takes a tenth of a second."""
_CLEARED = 10_000
"""Records cleared away in one transaction."""

# What is built up within one transaction, and empty between two.
_TEMPORARY = """
CREATE TEMP TABLE told (
    seq INTEGER PRIMARY KEY, op TEXT, kind INTEGER, key TEXT, informer INTEGER, uid TEXT, version TEXT
) STRICT;
CREATE TEMP TABLE changed (
    kind INTEGER, key TEXT, informer INTEGER, uid TEXT, version TEXT, seq INTEGER NOT NULL,
    PRIMARY KEY (kind, key)
) STRICT, WITHOUT ROWID;
CREATE TEMP TABLE leaving (seq INTEGER PRIMARY KEY) STRICT;
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rhythm:
    """When posting pays, by numbers of records."""

    few: int = 1_000
    """Fewer in a tick are posted and cleared away at once."""
    many: int = MOST
    """As many are posted in any case, and as many at once."""
    cleared: int = 20_000
    """As many are cleared away in any case, where there are not so many objects that ``part`` is more."""
    part: float = 1 / 3
    """Of the number of objects."""

    def least_to_post(self, since_last_tick: int) -> int:
        return 1 if since_last_tick < self.few else self.many

    def least_to_clear(self, since_last_tick: int, objects: int) -> int:
        return 1 if since_last_tick < self.few else max(self.cleared, int(objects * self.part))


def prepare(database: apsw.Connection) -> None:
    """Before anything else here is called on this connection."""
    database.pragma("temp_store", 2)  # In memory: there may be no other place to write.
    database.execute(_TEMPORARY)


class Post:
    """Post at most so many records; returns through which it is done. Where there is no room for that, the next attempt
    posts half as many."""

    def __init__(self, most: int) -> None:
        self._most = most

    def __call__(self, database: apsw.Connection) -> int:
        most, self._most = self._most, max(1, self._most // 2)
        return _post(database, most)


def post_all(database: apsw.Connection) -> int:
    """Afterwards, in this transaction, the table ``objects`` is the present state. Returns through what."""
    last = one(database, "SELECT last FROM meta")
    while (posted := _post(database, MOST)) < last:
        pass
    return posted


def _post(database: apsw.Connection, most: int) -> int:
    posted = one(database, "SELECT posted FROM meta")
    upto = min(one(database, "SELECT last FROM meta"), posted + most)
    if upto <= posted:
        return upto
    database.execute(
        "INSERT INTO told SELECT seq, op, kind, key, informer, uid, version FROM log WHERE seq > ? AND seq <= ?",
        (posted, upto),
    )
    database.execute(
        "INSERT INTO changed SELECT kind, key, informer, uid, version, max(seq) FROM told"
        " WHERE informer IS NOT NULL OR op = 'deleted' GROUP BY kind, key"
    )
    database.execute(
        "INSERT OR IGNORE INTO superseded SELECT o.seq FROM changed c CROSS JOIN objects o"
        " ON o.kind = c.kind AND o.key = c.key ORDER BY o.seq"
    )
    database.execute(
        "INSERT OR IGNORE INTO superseded SELECT seq FROM told"
        " WHERE seq NOT IN (SELECT seq FROM changed WHERE informer IS NOT NULL) ORDER BY seq"
    )
    database.execute("DELETE FROM objects WHERE (kind, key) IN (SELECT kind, key FROM changed WHERE informer IS NULL)")
    database.execute(
        "INSERT OR REPLACE INTO objects (kind, key, informer, uid, version, seq)"
        " SELECT kind, key, informer, uid, version, seq FROM changed WHERE informer IS NOT NULL ORDER BY kind, key"
    )
    database.execute("DELETE FROM told; DELETE FROM changed")
    database.execute("UPDATE meta SET posted = ?", (upto,))
    return upto


# ── What leaves ──────────────────────────────────────────────────────────────


def trim(database: apsw.Connection, through: int, limit: int) -> int:
    """Nobody is told records up to ``through`` any more, but what is selected; at most ``limit`` of them at once, and
    none that are not posted. Returns through which it is done. What holds no last state leaves with ``clear``."""
    trimmed = one(database, "SELECT trimmed FROM meta")
    upto = min(through, one(database, "SELECT posted FROM meta"), trimmed + limit)
    if upto <= trimmed:
        return trimmed
    database.execute("UPDATE meta SET trimmed = ?", (upto,))
    if has_selections(database):
        _remove(database, trimmed, upto, limit)
    return upto


def clear(database: apsw.Connection, least: int) -> bool:
    """Let some trimmed records that hold no last state go, if there are ``least`` of them; not while there is
    something selected, since that would be looked at again and again: what was kept for an errand goes after its end.
    Whether some went: there may be more."""
    trimmed = one(database, "SELECT trimmed FROM meta")
    enough = "SELECT count(*) FROM (SELECT 1 FROM superseded WHERE seq <= ? LIMIT ?)"
    if has_selections(database) or one(database, enough, (trimmed, least)) < least:
        return False
    _remove(database, 0, trimmed, _CLEARED)
    return True


def objects(database: apsw.Connection) -> int:
    """As many are in the ledger. Reads all of it."""
    return one(database, "SELECT count(*) FROM objects")


def _remove(database: apsw.Connection, after: int, through: int, limit: int) -> None:
    database.execute(
        "INSERT INTO leaving SELECT seq FROM superseded WHERE seq > ? AND seq <= ?"
        " AND NOT EXISTS (SELECT 1 FROM selections s WHERE s.seq = superseded.seq) ORDER BY seq LIMIT ?",
        (after, through, limit),
    )
    database.execute("DELETE FROM log WHERE seq IN (SELECT seq FROM leaving)")
    database.execute("DELETE FROM superseded WHERE seq IN (SELECT seq FROM leaving)")
    database.execute("DELETE FROM leaving")


def has_selections(database: apsw.Connection) -> bool:
    return bool(one(database, "SELECT EXISTS (SELECT 1 FROM selections)"))
