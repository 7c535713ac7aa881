"""Before the first record: the directory is taken, the file opened, moved aside where it is damaged, and read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from time import time_ns

import apsw

from bridge.model.record import Gap
from bridge.outbox import clearing, cursors, ledger_sql, letters, rows
from bridge.outbox.bodies import Bodies
from bridge.outbox.clearing import Loose
from bridge.outbox.cursors import Cursor, Start
from bridge.outbox.database import FILE, Holder, open_writer, usable
from bridge.outbox.errors import Damaged, StateUnusable
from bridge.outbox.sql import one, row

_REBUILT = "the database was damaged; what it held and nobody had been told is not known"
_SKIPPED = 1_000_000
"""Sequence numbers left out behind the newest one that a damaged file still tells."""
_MOST = 1 << 62
"""Nobody counts as far as this."""
_MOST_EPOCHS = 1 << 31
"""An integer of CloudEvents is smaller."""
_2026 = 1_767_225_600
"""When it began, in seconds of Unix time."""


@dataclass(frozen=True, slots=True)
class Opened:
    holder: Holder
    connection: apsw.Connection
    codec: rows.Codec
    """By the number that rows of the log name."""
    cursors: dict[str, Cursor]
    letters: dict[str, letters.Found]
    last: int
    trimmed: int
    objects: int
    loose: Loose
    marks: list[tuple[int, int, float]]
    """Stretches of the log: the last sequence number of each, its bytes, and the age of its first record in seconds."""
    damage: str = ""
    """Why what was there before had to be moved aside; empty where it had not."""
    aside: Path | None = None


def open_state(directory: Path, sinks: Mapping[str, Start], now: str) -> Opened:
    """Blocks: seconds for a log of millions of records. Raises StateError."""
    holder = Holder(directory)
    try:
        damage = holder.damage()
        if not damage:
            try:
                return _read_or_close(holder, open_writer(holder.file), sinks, now)
            except Damaged as error:
                damage = str(error)
                holder.mark_damaged(damage)  # Until it is mended: a crash on the way begins here again.
        last, epoch = _last_told(holder.file), _epoch_untold(holder.file)
        aside = holder.move_aside()
        connection = open_writer(holder.file)
        _begin_anew(connection, last, epoch, sinks, now)
        holder.mended()
        return replace(_read_or_close(holder, connection, sinks, now), damage=damage, aside=aside)
    except BaseException:
        holder.release()
        raise


def open_existing(directory: Path, sinks: Mapping[str, Start], now: str) -> Opened:
    """For who looks at the state of a bridge that does not run: nothing begins, and nothing is mended. Raises
    StateError and Damaged."""
    holder = Holder(directory)
    try:
        if not holder.file.exists():
            raise StateUnusable(f"state.directory: there is no {FILE} in {directory}: no bridge has run on it")
        if damage := holder.damage():
            raise Damaged(f"{holder.file} is damaged ({damage}); the next start moves it aside")
        return _read_or_close(holder, open_writer(holder.file), dict.fromkeys(sinks), now)
    except BaseException:
        holder.release()
        raise


def _read_or_close(holder: Holder, connection: apsw.Connection, sinks: Mapping[str, Start | None], now: str) -> Opened:
    try:
        return _read(holder, connection, sinks, now)
    except BaseException:
        connection.close()  # Closed later, it would take the write-ahead log of the next database with it.
        raise


def _read(holder: Holder, connection: apsw.Connection, sinks: Mapping[str, Start | None], now: str) -> Opened:
    with usable(holder.file):
        _check(connection)
        clearing.prepare(connection)
        with connection:
            known = {row[0] for row in connection.execute("SELECT sink FROM cursors")}
            for sink, start in sinks.items():
                if sink not in known and start is not None:
                    cursors.register(connection, sink, start, now)
                # Nothing is written that is so already: a disk may be full, and sinks are told all the same.
                connection.execute("UPDATE cursors SET absent_seconds = 0 WHERE sink = ? AND absent_seconds", (sink,))
        last, trimmed = row(connection, "SELECT last, trimmed FROM meta")
        return Opened(
            holder,
            connection,
            rows.Codec(ledger_sql.resources(connection), _bodies(connection)),
            cursors.load(connection, sinks),
            letters.load(connection, sinks),
            last,
            trimmed,
            one(connection, f"SELECT count(*) FROM {ledger_sql.PRESENT}"),
            clearing.loose(connection),
            list(_marks(connection, trimmed, now)),
        )


def _check(connection: apsw.Connection) -> None:
    last, trimmed, cleared = row(connection, "SELECT last, trimmed, cleared FROM meta")
    newest = one(connection, "SELECT coalesce(max(seq), 0) FROM log")
    if not 0 <= cleared <= trimmed <= last < _MOST or newest > last:
        raise Damaged(
            f"the newest record has the number {newest}, counted were {last}, {trimmed} are gone, {cleared} looked at"
        )


def _bodies(connection: apsw.Connection) -> Bodies:
    try:
        return Bodies(ledger_sql.dictionaries(connection))
    except ValueError as error:
        raise Damaged(str(error)) from error


def _marks(connection: apsw.Connection, trimmed: int, now: str) -> Iterator[tuple[int, int, float]]:
    present = datetime.fromisoformat(now)
    found = connection.execute(
        "SELECT max(seq), sum(length(body) + coalesce(length(before), 0)), min(time)"
        " FROM log WHERE seq > ? GROUP BY seq / 1000 ORDER BY 1",
        (trimmed,),
    )
    for last, size, time in found:
        try:
            age = (present - datetime.fromisoformat(time)).total_seconds()
        except (ValueError, TypeError) as error:
            raise Damaged(f"a record up to {last} has no time: {error}") from error
        yield last, size, max(0.0, age)


def _begin_anew(connection: apsw.Connection, last: int, epoch: int, sinks: Mapping[str, Start], now: str) -> None:
    """Every sink gets a Gap first, and then everything that the first lists find, in this epoch."""
    gap = Gap(last + 1, last + 1, None, _REBUILT, now)
    with usable(Path(connection.filename)), connection:
        connection.execute(
            # No database before this one had as many replays.
            "UPDATE meta SET last = ?, trimmed = ?2, cleared = ?2, rebuilt = 1, epoch = ?3, replays = ?2",
            (gap.sequence, last, epoch),
        )
        connection.execute(rows.INSERT, rows.gap_row(gap))
        ledger_sql.enter(connection, [(0, gap.sequence, "", None, "", "", None)])
        connection.executemany("INSERT INTO cursors (sink, settled) VALUES (?,?)", [(sink, last) for sink in sinks])


def _last_told(file: Path) -> int:
    """A sequence number that no sink has seen. Where the damaged file tells nothing, one made of the time."""
    try:
        with closing(apsw.Connection(str(file), flags=apsw.SQLITE_OPEN_READONLY)) as connection:
            last = one(connection, "SELECT max(last, (SELECT coalesce(max(seq), 0) FROM log)) FROM meta")
    except (apsw.Error, Damaged):
        last = 0
    return last + _SKIPPED if 0 < last < _MOST else time_ns() // 1000


def _epoch_untold(file: Path) -> int:
    """One in which nothing was told. Where the damaged file does not tell all that there were, one made of the time."""
    try:
        with closing(apsw.Connection(str(file), flags=apsw.SQLITE_OPEN_READONLY)) as connection:
            epoch = 1 + one(
                connection,
                "SELECT max(epoch, (SELECT coalesce(max(epoch), 0) FROM kinds),"
                " (SELECT coalesce(max(epoch), 0) FROM informers)) FROM meta",
            )
    except (apsw.Error, Damaged):
        epoch = 0
    return epoch if 1 < epoch < _MOST_EPOCHS else max(2, time_ns() // 10**9 - _2026)


def utc_now() -> str:
    """RFC 3339 with microseconds, e.g. 2026-11-21T08:30:00.000001Z."""
    return datetime.now(UTC).isoformat(timespec="microseconds").removesuffix("+00:00") + "Z"
