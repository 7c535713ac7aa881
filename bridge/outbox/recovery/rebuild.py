"""The new database in place of a damaged one: it begins behind every number and epoch that was exported."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from time import time_ns

import apsw

from bridge.model.gaps import rebuilt_gap, taken_over_gap
from bridge.model.policies import StartPolicy
from bridge.outbox.errors import Damaged
from bridge.outbox.log import ledger_sql, record_codec
from bridge.outbox.storage.database import one, usable
from bridge.outbox.storage.mark import Mark

MOST = 1 << 62
"""Exclusive upper bound of believable sequence numbers."""
_SKIPPED = 1_000_000
"""Sequence numbers left out behind the newest readable record of a damaged file: its last records may be unreadable."""
_MOST_EPOCHS = 1 << 31
"""Exclusive upper bound of believable epochs: CloudEvents integers are signed 32-bit."""
_2026 = 1_767_225_600
"""The beginning of 2026 as Unix time in seconds."""
_UNREADABLE = (apsw.Error, Damaged, ValueError, TypeError)
NEWEST_EPOCH = (
    "SELECT max(epoch, (SELECT coalesce(max(epoch), 0) FROM kinds), (SELECT coalesce(max(epoch), 0) FROM informers))"
    " FROM meta"
)


def number_of_now() -> int:
    """Microseconds since 1970: the number behind which the records of a new state begin, so that they ascend over a
    state that was lost. No bridge numbers a million records a second for long, so that a lost state did not get ahead
    of the clock. Below 2^53 until 2255, which every reader of JSON holds."""
    return time_ns() // 1000


def begin_numbers(connection: apsw.Connection, behind: int) -> None:
    """The first record of this new database has the next number."""
    connection.execute("UPDATE meta SET last = ?1, log_start = ?1 + 1, cleaner_checkpoint = ?1 + 1", (behind,))


def begin_anew(connection: apsw.Connection, last: int, epoch: int, sinks: Mapping[str, StartPolicy], now: str) -> None:
    """Starts the new database behind ``last``: every sink gets a Gap first, then all objects of the first lists as
    ``sync``, in this epoch."""
    gap = rebuilt_gap(last + 1, now)
    with usable(Path(connection.filename)), connection:
        connection.execute(
            # Replay numbers must not repeat; no earlier database planned more replays than it had records.
            "UPDATE meta SET last = ?1, log_start = ?1, cleaner_checkpoint = ?1, rebuilt = 1, epoch = ?3, replays = ?2",
            (gap.sequence, last, epoch),
        )
        connection.execute(record_codec.INSERT, record_codec.gap_row(gap))
        connection.execute(ledger_sql.ENTER, (0, gap.sequence, "", None, "", "", None, 0, None))
        connection.executemany("INSERT INTO cursors (sink, settled) VALUES (?,?)", [(sink, last) for sink in sinks])


def begin_lacking(connection: apsw.Connection, behind: int, now: str) -> None:
    """Another replica may have delivered records, and seen objects, that this state does not have. Records leave with
    larger numbers from now on than any that it can have given (``behind``); every sink gets a Gap, and a snapshot once
    it has taken the Gap. Part of a transaction."""
    last = one(connection, "SELECT last FROM meta")
    gap = taken_over_gap(last + 1, last + 1, now)
    connection.execute(record_codec.INSERT, record_codec.gap_row(gap))
    connection.execute(ledger_sql.ENTER, (0, gap.sequence, "", None, "", "", None, 0, None))
    connection.execute("UPDATE meta SET last = ?, ahead = max(ahead, ? - last)", (gap.sequence, behind))
    connection.execute("UPDATE cursors SET owes_snapshot = ?", (gap.sequence,))


def last_exported(file: Path, mark: Mark) -> int:
    """A sequence number behind all that any sink has received of this state: from the mark or the damaged file; if
    neither has one, made of the time."""
    try:
        with closing(apsw.Connection(str(file), flags=apsw.SQLITE_OPEN_READONLY)) as connection:
            last = one(connection, "SELECT max(last, (SELECT coalesce(max(seq), 0) FROM log)) + ahead FROM meta")
    except _UNREADABLE:
        last = 0
    known = max(mark.last or 0, last if 0 < last < MOST else 0)
    return known + _SKIPPED if known else number_of_now()


def unused_epoch(file: Path, mark: Mark) -> int:
    """An epoch without exported records: from the mark or the damaged file; if neither has one, made of the time."""
    try:
        with closing(apsw.Connection(str(file), flags=apsw.SQLITE_OPEN_READONLY)) as connection:
            epoch = one(connection, NEWEST_EPOCH)
    except _UNREADABLE:
        epoch = 0
    known = max(mark.epoch or 0, epoch if 0 < epoch < _MOST_EPOCHS - 1 else 0)
    return known + 1 if known else max(2, time_ns() // 10**9 - _2026)
