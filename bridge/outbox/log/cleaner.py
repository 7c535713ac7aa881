"""The log cleaner (as Kafka's LogCleaner) removes records that no sink and no object needs, many in a pass.

A record is needed until every sink has settled it (then it is trimmed), while a backfill has it, and as long as it
holds the last state of its object. The ledger says which record does: each row names the record that it replaces.
Replaced records stay until the next pass. Where objects change at random, immediate removal would write a page of the
log and a page of the ledger for every change.

A pass reads the ledger from ``meta.cleaner_checkpoint`` to ``meta.log_start``, range by range. It collects the numbers
of the garbage in memory, in order, and removes the records in steps, so that each page is written once for many of
them. After a crash the pass reads its range again.
"""

from __future__ import annotations

import apsw
import msgspec

from bridge.outbox.storage.database import one, page_bytes, row

_ROW_BYTES = 300
"""Estimate of a record without its body: rows of the log and the ledger, and free space in their pages."""
_PAGES = 1024
"""Pages returned to the disk in each transaction."""

# The state of a pass between transactions: the progress within a range, and its garbage. Lost in a crash.
_TEMPORARY = """
CREATE TEMP TABLE cleaner_range (next INTEGER NOT NULL, stop INTEGER NOT NULL) STRICT;
CREATE TEMP TABLE garbage (seq INTEGER PRIMARY KEY, kind INTEGER NOT NULL) STRICT;
"""

# Kind by kind, in the order of the ledger's primary key: without this SQLite would scan the ledger for each range.
_RECORDS = (
    "(SELECT 0 AS id UNION ALL SELECT id FROM kinds) k"
    " CROSS JOIN ledger l ON l.kind = k.id AND l.seq >= ?1 AND l.seq < ?2"
)


class CleanerPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """Decides when a pass of the cleaner pays, and the sizes of its steps."""

    min_bytes: int = 4 << 20
    """Bytes of garbage that start a pass."""
    min_ratio: float = 1.0
    """Records trimmed since the last pass that start a pass, as a ratio to the records that it kept (compare Kafka's
    min.cleanable.dirty.ratio). Both bounds must be reached, which makes the cost of a removed record constant."""
    range_records: int = 500_000
    """Records in a range. The cleaner holds a few bytes in memory for each of its garbage records."""
    examined: int = 20_000
    """Records examined in each transaction."""
    removed: int = 2_000
    """Records removed in each transaction. Appends wait for that transaction."""


class CleanableLog(msgspec.Struct):
    """Estimate of the garbage in the log, without a read of the ledger."""

    bytes: int
    """Bytes that a pass would free."""
    checkpoint: int
    """The first record that the cleaner has not examined. Of the garbage before it, only the pinned is left."""
    kept: int
    """Records before ``checkpoint`` that the last pass kept."""
    has_pinned: bool
    """True if some of them stayed for a backfill only."""

    def add(self, records: int, size: int) -> None:
        """Adds ``records`` trimmed records with bodies of ``size`` bytes."""
        self.bytes += size + records * _ROW_BYTES

    def is_due(self, cleaner_policy: CleanerPolicy, log_start: int) -> bool:
        """True if a pass pays now."""
        trimmed = log_start - self.checkpoint
        return self.bytes >= cleaner_policy.min_bytes and trimmed >= max(1, cleaner_policy.min_ratio * self.kept)


def prepare(database: apsw.Connection) -> None:
    """Creates the cleaner's temporary tables. Call once on the connection before the LogCleaner runs."""
    database.pragma("temp_store", 2)  # Memory: the file system may be read-only except for state.directory.
    database.execute(_TEMPORARY)


def trim(database: apsw.Connection, through: int) -> int:
    """Trims the log up to ``through``: sinks read those records no more, except as items of a backfill. Returns the new
    start of the log, which never goes back."""
    database.execute("UPDATE meta SET log_start = max(log_start, ?)", (through + 1,))
    return one(database, "SELECT log_start FROM meta")


class LogCleaner:
    """A job for the writer, repeated until it returns False. Each call examines some records, or removes some. After a
    full disk, the next call removes half as many."""

    def __init__(self, cleaner_policy: CleanerPolicy) -> None:
        self._policy = cleaner_policy
        self._most = self._tried = cleaner_policy.removed

    def __call__(self, database: apsw.Connection) -> bool:
        # Halved before the attempt: on a full disk the writer rolls back and calls again, and ``was_done`` never runs.
        self._tried, self._most = self._most, max(1, self._most // 2)
        begin, stop = _current_range(database, self._policy.range_records)
        if begin < stop:
            _collect(database, begin, min(stop, begin + self._policy.examined))
        elif not _remove(database, self._tried):
            database.execute("UPDATE meta SET cleaner_checkpoint = ?", (stop,))
            database.execute("DELETE FROM cleaner_range")
        return bool(
            one(database, "SELECT EXISTS (SELECT 1 FROM cleaner_range) OR cleaner_checkpoint < log_start FROM meta")
        )

    def was_done(self, _more: bool) -> None:
        """Runs after the commit: there was room, so the next step may be larger."""
        self._most = min(self._policy.removed, 2 * self._tried)


def _current_range(database: apsw.Connection, most: int) -> tuple[int, int]:
    """The next record of the current range, and its end (exclusive). A new range takes over the pinned garbage of
    earlier ranges once no backfill is left; before, each pass would examine that garbage again."""
    if not one(database, "SELECT EXISTS (SELECT 1 FROM cleaner_range)"):
        database.execute(
            "INSERT INTO cleaner_range SELECT cleaner_checkpoint, min(log_start, cleaner_checkpoint + ?) FROM meta",
            (most,),
        )
        if not _has_backfills(database):
            database.execute("INSERT INTO garbage SELECT seq, kind FROM pinned")
    begin, stop = row(database, "SELECT next, stop FROM cleaner_range")
    return begin, stop


def _collect(database: apsw.Connection, begin: int, stop: int) -> None:
    """Collects the garbage that the records from ``begin`` up to ``stop`` (exclusive) left. Pinned records stay even if
    the record that replaced them is removed: see ``ledger.PRESENT``."""
    bounds = (begin, stop)
    database.execute(
        f"INSERT OR IGNORE INTO garbage SELECT l.replaces, l.kind FROM {_RECORDS} WHERE l.replaces IS NOT NULL", bounds
    )
    database.execute(
        f"INSERT OR IGNORE INTO garbage SELECT l.seq, l.kind FROM {_RECORDS} WHERE l.informer IS NULL", bounds
    )
    database.execute("UPDATE cleaner_range SET next = ?", (stop,))
    if _has_backfills(database):
        database.execute(
            "INSERT OR IGNORE INTO pinned SELECT seq, kind FROM garbage"
            " WHERE EXISTS (SELECT 1 FROM backfill_items s WHERE s.seq = garbage.seq)"
        )
        database.execute("DELETE FROM garbage WHERE seq IN (SELECT seq FROM pinned)")


def _remove(database: apsw.Connection, most: int) -> bool:
    """Removes the first ``most`` records of the garbage. Returns False if there was no garbage."""
    [last] = row(database, "SELECT max(seq) FROM (SELECT seq FROM garbage ORDER BY seq LIMIT ?)", (most,))
    if last is None:
        return False
    database.execute("DELETE FROM log WHERE seq IN (SELECT seq FROM garbage WHERE seq <= ?)", (last,))
    database.execute("DELETE FROM ledger WHERE (kind, seq) IN (SELECT kind, seq FROM garbage WHERE seq <= ?)", (last,))
    database.execute("DELETE FROM pinned WHERE seq IN (SELECT seq FROM garbage WHERE seq <= ?)", (last,))
    database.execute("DELETE FROM garbage WHERE seq <= ?", (last,))
    return True


def _has_backfills(database: apsw.Connection) -> bool:
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


def cleanable_log(database: apsw.Connection) -> CleanableLog:
    """The estimate from the database. Counts the ledger."""
    last, log_start, checkpoint = row(database, "SELECT last, log_start, cleaner_checkpoint FROM meta")
    records, unexamined = one(database, "SELECT count(*) FROM ledger"), last + 1 - checkpoint
    pages = int(database.pragma("page_count")) - int(database.pragma("freelist_count"))
    return CleanableLog(
        pages * page_bytes(database) * (log_start - checkpoint) // max(records, unexamined, 1),
        checkpoint,
        max(0, records - unexamined),
        bool(one(database, "SELECT EXISTS (SELECT 1 FROM pinned)")),
    )
