"""The log cleaner (as Kafka's LogCleaner) removes records that no sink and no object needs, many in a pass.

A record is needed until every sink has settled it (then it is trimmed), while a backfill has it, and as long as it
holds the last state of its object. The ledger says which record does: each row names the record that it replaces.
Replaced records stay until the next pass. Where objects change at random, immediate removal would write a page of the
log and a page of the ledger for every change.

A pass reads the ledger from ``meta.cleared`` to ``meta.trimmed``, range by range. It collects the numbers of the
garbage in memory, in order, and removes the records in steps, so that each page is written once for many of them. After
a crash the pass reads its range again.
"""

from __future__ import annotations

from dataclasses import dataclass

import apsw

from bridge.outbox.storage.database import page_bytes
from bridge.outbox.storage.sql import one, row

_ROW_BYTES = 300
"""Estimate of a record without its body: rows of the log and the ledger, and free space in their pages."""
_PAGES = 1024
"""Pages returned to the disk in each transaction."""

# The state of a pass between transactions: the progress within a range, and its garbage. Lost in a crash.
_TEMPORARY = """
CREATE TEMP TABLE stretch (looked INTEGER NOT NULL, through INTEGER NOT NULL) STRICT;
CREATE TEMP TABLE leaving (seq INTEGER PRIMARY KEY, kind INTEGER NOT NULL) STRICT;
"""

# Kind by kind, in the order of the ledger's primary key: without this SQLite would scan the ledger for each range.
_RECORDS = (
    "(SELECT 0 AS id UNION ALL SELECT id FROM kinds) k"
    " CROSS JOIN ledger l ON l.kind = k.id AND l.seq > ?1 AND l.seq <= ?2"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanerPolicy:
    """Decides when a pass of the cleaner pays, and the sizes of its steps."""

    least: int = 4 << 20
    """Bytes of garbage that start a pass."""
    part: float = 1.0
    """Records trimmed since the last pass that start a pass, as a part of the records that it kept. Both bounds must be
    reached, which makes the cost of a removed record constant."""
    stretch: int = 500_000
    """Records in a range. The cleaner holds a few bytes in memory for each of its garbage records."""
    looked: int = 20_000
    """Records examined in each transaction."""
    removed: int = 2_000
    """Records removed in each transaction. Appends wait for that transaction."""


@dataclass(slots=True)
class CleanableLog:
    """Estimate of the garbage in the log, without a read of the ledger."""

    bytes: int
    """Bytes that a pass would free."""
    cleared: int
    """The cleaner's checkpoint: up to this record only pinned garbage is left."""
    kept: int
    """Records up to ``cleared`` that the last pass kept."""
    awaiting: bool
    """True if some of them stayed for a backfill only."""

    def trimmed(self, records: int, size: int) -> None:
        """Adds ``records`` trimmed records with bodies of ``size`` bytes."""
        self.bytes += size + records * _ROW_BYTES

    def is_due(self, cleaner_policy: CleanerPolicy, trimmed: int) -> bool:
        """True if a pass pays now."""
        return self.bytes >= cleaner_policy.least and trimmed - self.cleared >= max(1, cleaner_policy.part * self.kept)


def prepare(database: apsw.Connection) -> None:
    """Creates the cleaner's temporary tables. Call once on the connection before ``Clear`` runs."""
    database.pragma("temp_store", 2)  # Memory: the file system may be read-only except for state.directory.
    database.execute(_TEMPORARY)


def trim(database: apsw.Connection, through: int) -> int:
    """Trims the log up to ``through``: sinks read those records no more, except as items of a backfill. Returns the new
    start of the log, which never goes back."""
    database.execute("UPDATE meta SET trimmed = max(trimmed, ?)", (through,))
    return one(database, "SELECT trimmed FROM meta")


class LogCleaner:
    """A job for the writer, repeated until it returns False. Each call examines some records, or removes some. After a
    full disk, the next call removes half as many."""

    def __init__(self, cleaner_policy: CleanerPolicy) -> None:
        self._rhythm = cleaner_policy
        self._most = self._tried = cleaner_policy.removed

    def __call__(self, database: apsw.Connection) -> bool:
        # Halved before the attempt: on a full disk the writer rolls back and calls again, and ``was_done`` never runs.
        self._tried, self._most = self._most, max(1, self._most // 2)
        looked, through = _stretch(database, self._rhythm.stretch)
        if looked < through:
            _look(database, looked, min(through, looked + self._rhythm.looked))
        elif not _remove(database, self._tried):
            database.execute("UPDATE meta SET cleared = ?", (through,))
            database.execute("DELETE FROM stretch")
        return bool(one(database, "SELECT EXISTS (SELECT 1 FROM stretch) OR cleared < trimmed FROM meta"))

    def was_done(self, _more: bool) -> None:
        """Runs after the commit: there was room, so the next step may be larger."""
        self._most = min(self._rhythm.removed, 2 * self._tried)


def _stretch(database: apsw.Connection, most: int) -> tuple[int, int]:
    """Progress within the current range, and its end. A new range takes over the pinned garbage of earlier ranges once
    no backfill is left; before, each pass would examine that garbage again."""
    if not one(database, "SELECT EXISTS (SELECT 1 FROM stretch)"):
        database.execute("INSERT INTO stretch SELECT cleared, min(trimmed, cleared + ?) FROM meta", (most,))
        if not _are_some_selected(database):
            database.execute("INSERT INTO leaving SELECT seq, kind FROM awaited")
    looked, through = row(database, "SELECT looked, through FROM stretch")
    return looked, through


def _look(database: apsw.Connection, after: int, through: int) -> None:
    """Collects garbage. Pinned records stay even if the record that replaced them is removed: see
    ``ledger_sql.PRESENT``."""
    bounds = (after, through)
    database.execute(
        f"INSERT OR IGNORE INTO leaving SELECT l.replaces, l.kind FROM {_RECORDS} WHERE l.replaces IS NOT NULL", bounds
    )
    database.execute(
        f"INSERT OR IGNORE INTO leaving SELECT l.seq, l.kind FROM {_RECORDS} WHERE l.informer IS NULL", bounds
    )
    database.execute("UPDATE stretch SET looked = ?", (through,))
    if _are_some_selected(database):
        database.execute(
            "INSERT OR IGNORE INTO awaited SELECT seq, kind FROM leaving"
            " WHERE EXISTS (SELECT 1 FROM backfill_items s WHERE s.seq = leaving.seq)"
        )
        database.execute("DELETE FROM leaving WHERE seq IN (SELECT seq FROM awaited)")


def _remove(database: apsw.Connection, most: int) -> bool:
    """Removes the first ``most`` records of the garbage. Returns False if there was no garbage."""
    [last] = row(database, "SELECT max(seq) FROM (SELECT seq FROM leaving ORDER BY seq LIMIT ?)", (most,))
    if last is None:
        return False
    database.execute("DELETE FROM log WHERE seq IN (SELECT seq FROM leaving WHERE seq <= ?)", (last,))
    database.execute("DELETE FROM ledger WHERE (kind, seq) IN (SELECT kind, seq FROM leaving WHERE seq <= ?)", (last,))
    database.execute("DELETE FROM awaited WHERE seq IN (SELECT seq FROM leaving WHERE seq <= ?)", (last,))
    database.execute("DELETE FROM leaving WHERE seq <= ?", (last,))
    return True


def _are_some_selected(database: apsw.Connection) -> bool:
    return bool(one(database, "SELECT EXISTS (SELECT 1 FROM backfill_items)"))


def vacuum(database: apsw.Connection) -> bool:
    """Returns free pages to the disk if two thirds of the file are free, and returns True if there are more. A smaller
    share is reused soon: half of the file is free after each pass."""
    if not _has_too_many_free(database):
        return False
    for _ in database.execute(f"PRAGMA incremental_vacuum({_PAGES})"):  # SQLite frees a page for each row that is read.
        pass
    return _has_too_many_free(database)


def _has_too_many_free(database: apsw.Connection) -> bool:
    free, total = int(database.pragma("freelist_count")), int(database.pragma("page_count"))
    return free > _PAGES and free * 3 > total * 2


# ── Estimate ─────────────────────────────────────────────────────────────────


def loose(database: apsw.Connection) -> CleanableLog:
    """The estimate from the database. Counts the ledger."""
    last, trimmed, cleared = row(database, "SELECT last, trimmed, cleared FROM meta")
    records = one(database, "SELECT count(*) FROM ledger")
    pages = int(database.pragma("page_count")) - int(database.pragma("freelist_count"))
    return CleanableLog(
        pages * page_bytes(database) * (trimmed - cleared) // max(records, last - cleared, 1),
        cleared,
        max(0, records - (last - cleared)),
        bool(one(database, "SELECT EXISTS (SELECT 1 FROM awaited)")),
    )
