"""What nobody needs any more leaves the database, much of it at once.

A record is needed until every sink has settled it (then it is trimmed), while a sink is to be told of it out of turn,
and as long as it holds the last state of its object. Which one does, the ledger tells: a row names the record that it
replaces. Nothing is removed just then: where objects change at random, that would write one page of the log and one of
the ledger for every change.

Instead the ledger is looked through from ``meta.cleared`` to ``meta.trimmed``, one stretch after the other: the numbers
of what goes are put in order, in memory, and taken away part by part, so that a page is written once for many of them.
A crash in between costs nothing but looking again.
"""

from __future__ import annotations

from dataclasses import dataclass

import apsw

from bridge.outbox.database import page_bytes
from bridge.outbox.sql import one, row

_ROW_BYTES = 300
"""Of a record besides its body: in the log, in the ledger, and left free in their pages."""
_PAGES = 1024
"""Given back in one transaction."""

# What is kept of a stretch from one transaction to the next: how far it was looked at, and what goes.
_TEMPORARY = """
CREATE TEMP TABLE stretch (looked INTEGER NOT NULL, through INTEGER NOT NULL) STRICT;
CREATE TEMP TABLE leaving (seq INTEGER PRIMARY KEY, kind INTEGER NOT NULL) STRICT;
"""

# Kind by kind, since that is how the ledger is ordered.
_RECORDS = (
    "(SELECT 0 AS id UNION ALL SELECT id FROM kinds) k"
    " CROSS JOIN ledger l ON l.kind = k.id AND l.seq > ?1 AND l.seq <= ?2"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rhythm:
    """When clearing pays, and in which steps."""

    least: int = 4 << 20
    """Bytes that can go, at least."""
    part: float = 1.0
    """And records, as a part of those that were kept when it was last done: at least."""
    stretch: int = 500_000
    """Records that are looked at before some are removed; of each that goes a few bytes are in memory."""
    looked: int = 20_000
    """Records looked at in one transaction."""
    removed: int = 2_000
    """Records removed in one transaction: an append waits for it."""


@dataclass(slots=True)
class Loose:
    """What can go, as far as one can tell without looking."""

    bytes: int
    cleared: int
    """Nothing that can go is left up to this record, but what is awaited."""
    kept: int
    """Records up to ``cleared`` that stayed."""
    awaiting: bool
    """Some of those stayed for an errand alone."""

    def trimmed(self, records: int, size: int) -> None:
        """So many more, with bodies of so many bytes."""
        self.bytes += size + records * _ROW_BYTES

    def is_due(self, rhythm: Rhythm, trimmed: int) -> bool:
        return self.bytes >= rhythm.least and trimmed - self.cleared >= max(1, rhythm.part * self.kept)


def prepare(database: apsw.Connection) -> None:
    """Before ``Clear`` runs on this connection."""
    database.pragma("temp_store", 2)  # In memory: there may be no other place to write.
    database.execute(_TEMPORARY)


def trim(database: apsw.Connection, through: int) -> int:
    """Nobody is told records up to ``through`` any more, but what is selected. Returns through which that is so."""
    database.execute("UPDATE meta SET trimmed = max(trimmed, ?)", (through,))
    return one(database, "SELECT trimmed FROM meta")


class Clear:
    """Work for the writer, to be done until there is no more of it: looks at some records, or takes some away, and says
    whether there is more to do. Where there is no room to take so many away, the next attempt takes half as many."""

    def __init__(self, rhythm: Rhythm) -> None:
        self._rhythm = rhythm
        self._most = self._tried = rhythm.removed

    def __call__(self, database: apsw.Connection) -> bool:
        self._tried, self._most = self._most, max(1, self._most // 2)
        looked, through = _stretch(database, self._rhythm.stretch)
        if looked < through:
            _look(database, looked, min(through, looked + self._rhythm.looked))
        elif not _remove(database, self._tried):
            database.execute("UPDATE meta SET cleared = ?", (through,))
            database.execute("DELETE FROM stretch")
        return bool(one(database, "SELECT EXISTS (SELECT 1 FROM stretch) OR cleared < trimmed FROM meta"))

    def was_done(self, _more: bool) -> None:
        """There was room for that."""
        self._most = min(self._rhythm.removed, 2 * self._tried)


def _stretch(database: apsw.Connection, most: int) -> tuple[int, int]:
    """How far the present one was looked at, and where it ends. One that begins has what was kept for errands before,
    once there are none: before, it would be looked at again and again."""
    if not one(database, "SELECT EXISTS (SELECT 1 FROM stretch)"):
        database.execute("INSERT INTO stretch SELECT cleared, min(trimmed, cleared + ?) FROM meta", (most,))
        if not _are_some_selected(database):
            database.execute("INSERT INTO leaving SELECT seq, kind FROM awaited")
    looked, through = row(database, "SELECT looked, through FROM stretch")
    return looked, through


def _look(database: apsw.Connection, after: int, through: int) -> None:
    """Put the numbers of what goes into ``leaving``. What is awaited stays, though what replaced it may go: see
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
            " WHERE EXISTS (SELECT 1 FROM selections s WHERE s.seq = leaving.seq)"
        )
        database.execute("DELETE FROM leaving WHERE seq IN (SELECT seq FROM awaited)")


def _remove(database: apsw.Connection, most: int) -> bool:
    """The first so many of ``leaving``. Whether there were any."""
    [last] = row(database, "SELECT max(seq) FROM (SELECT seq FROM leaving ORDER BY seq LIMIT ?)", (most,))
    if last is None:
        return False
    database.execute("DELETE FROM log WHERE seq IN (SELECT seq FROM leaving WHERE seq <= ?)", (last,))
    database.execute("DELETE FROM ledger WHERE (kind, seq) IN (SELECT kind, seq FROM leaving WHERE seq <= ?)", (last,))
    database.execute("DELETE FROM awaited WHERE seq IN (SELECT seq FROM leaving WHERE seq <= ?)", (last,))
    database.execute("DELETE FROM leaving WHERE seq <= ?", (last,))
    return True


def _are_some_selected(database: apsw.Connection) -> bool:
    return bool(one(database, "SELECT EXISTS (SELECT 1 FROM selections)"))


def vacuum(database: apsw.Connection) -> bool:
    """Give some free pages back to the disk where two thirds of the file are free, and say whether there are more to
    give. Less than that is soon needed again: half of the file is free after each clearing."""
    if not _has_too_many_free(database):
        return False
    for _ in database.execute(f"PRAGMA incremental_vacuum({_PAGES})"):  # Each row that is read is a page.
        pass
    return _has_too_many_free(database)


def _has_too_many_free(database: apsw.Connection) -> bool:
    free, total = int(database.pragma("freelist_count")), int(database.pragma("page_count"))
    return free > _PAGES and free * 3 > total * 2


# ── How much there is ────────────────────────────────────────────────────────


def loose(database: apsw.Connection) -> Loose:
    """Counts the ledger."""
    last, trimmed, cleared = row(database, "SELECT last, trimmed, cleared FROM meta")
    records = one(database, "SELECT count(*) FROM ledger")
    pages = int(database.pragma("page_count")) - int(database.pragma("freelist_count"))
    return Loose(
        pages * page_bytes(database) * (trimmed - cleared) // max(records, last - cleared, 1),
        cleared,
        max(0, records - (last - cleared)),
        bool(one(database, "SELECT EXISTS (SELECT 1 FROM awaited)")),
    )
