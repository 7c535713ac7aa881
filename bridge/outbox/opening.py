"""Before the first record: the directory is taken, the file opened, moved aside where it is damaged, and read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from time import time_ns

import apsw

from bridge.model.policies import StartPolicy
from bridge.model.record import Gap
from bridge.outbox import clearing, cursors, ledger_sql, letters, rows
from bridge.outbox.bodies import Bodies
from bridge.outbox.clearing import Loose
from bridge.outbox.cursors import Cursor
from bridge.outbox.database import open_writer, usable
from bridge.outbox.directory import FILE, WAL, Holder
from bridge.outbox.errors import Damaged, StateError, StateUnusable
from bridge.outbox.integrity import find_damage, require_small
from bridge.outbox.mark import Mark
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
    epoch: int
    """The newest that may have begun."""
    damage: str = ""
    """Why what was there before is given up; empty where it is not."""
    aside: Path | None = None
    """Where it lies now, if anything was left of it."""


def open_state(directory: Path, sinks: Mapping[str, StartPolicy], now: str) -> Opened:
    """Blocks: seconds for a log of millions of records. Raises StateError."""
    holder = Holder(directory)
    try:
        mark = holder.mark()
        if mark is None:
            try:
                return _read_all(holder, sinks, now)
            except Damaged as error:
                mark = Mark(str(error))
                holder.mark_damaged(mark.reason)  # Until it is mended: a crash on the way begins here again.
        last, epoch = _last_told(holder.file, mark), _epoch_untold(holder.file, mark)
        aside = holder.move_aside()
        connection = _open(holder)
        _begin_anew(connection, last, epoch, sinks, now)
        holder.mended()
        return replace(_read_or_close(holder, connection, sinks, now), damage=mark.reason, aside=aside)
    except BaseException:
        holder.release()
        raise


def open_existing(directory: Path, sinks: Mapping[str, StartPolicy], now: str) -> Opened:
    """For who looks at the state of a bridge that does not run: nothing begins, and nothing is mended. Raises
    StateError and Damaged."""
    holder = Holder(directory)
    try:
        if mark := holder.mark():
            raise Damaged(f"{holder.file} is damaged ({mark.reason}); the next start moves it aside")
        if not holder.has(FILE) and not holder.has(WAL):
            raise StateUnusable(f"state.directory: there is no {FILE} in {directory}: no bridge has run on it")
        _expect_file(holder)
        return _read_all(holder, dict.fromkeys(sinks), now)
    except BaseException:
        holder.release()
        raise


def _read_all(holder: Holder, sinks: Mapping[str, StartPolicy | None], now: str) -> Opened:
    """Whatever reading raises, damage is looked for behind it. Raises StateError, Damaged, and a bug."""
    try:
        return _read_or_close(holder, _open(holder), sinks, now)
    except Exception as error:
        if isinstance(error, Damaged | StateError) and not isinstance(error.__cause__, apsw.ReadOnlyError):
            raise
        if not (damage := find_damage(holder.file)):
            raise
        raise Damaged(damage) from error


def _open(holder: Holder) -> apsw.Connection:
    _expect_file(holder)
    try:
        made = holder.make_file()
    except OSError as error:
        raise StateUnusable(f"state.directory: cannot make {holder.file}: {error.strerror}") from error
    return open_writer(holder.file, made=made)


def _expect_file(holder: Holder) -> None:
    """What a killed process had written last lies beside the file: without the file, it was somebody who removed it."""
    if holder.has(WAL) and not holder.has(FILE):
        raise Damaged(f"{holder.file} is missing, and {WAL} is there")


def _read_or_close(
    holder: Holder, connection: apsw.Connection, sinks: Mapping[str, StartPolicy | None], now: str
) -> Opened:
    try:
        return _read(holder, connection, sinks, now)
    except BaseException:
        connection.close()  # Closed later, it would take the write-ahead log of the next database with it.
        raise


def _read(holder: Holder, connection: apsw.Connection, sinks: Mapping[str, StartPolicy | None], now: str) -> Opened:
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
            one(connection, _NEWEST_EPOCH),
        )


def _check(connection: apsw.Connection) -> None:
    require_small(connection)
    last, trimmed, cleared = row(connection, "SELECT last, trimmed, cleared FROM meta")
    newest = one(connection, "SELECT coalesce(max(seq), 0) FROM log")
    settled = one(connection, "SELECT coalesce(max(settled), 0) FROM cursors")
    if not 0 <= cleared <= trimmed <= last < _MOST or newest > last or settled > last:
        raise Damaged(
            f"the newest record has the number {newest}, counted were {last}, {trimmed} are gone, {cleared} looked at,"
            f" {settled} settled"
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


def _begin_anew(connection: apsw.Connection, last: int, epoch: int, sinks: Mapping[str, StartPolicy], now: str) -> None:
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


_UNREADABLE = (apsw.Error, Damaged, ValueError, TypeError)
_NEWEST_EPOCH = (
    "SELECT max(epoch, (SELECT coalesce(max(epoch), 0) FROM kinds), (SELECT coalesce(max(epoch), 0) FROM informers))"
    " FROM meta"
)


def _last_told(file: Path, mark: Mark) -> int:
    """A sequence number behind all that a sink has seen. Where neither the mark nor the damaged file tells any, one
    made of the time."""
    try:
        with closing(apsw.Connection(str(file), flags=apsw.SQLITE_OPEN_READONLY)) as connection:
            last = one(connection, "SELECT max(last, (SELECT coalesce(max(seq), 0) FROM log)) FROM meta")
    except _UNREADABLE:
        last = 0
    known = max(mark.last or 0, last if 0 < last < _MOST else 0)
    return known + _SKIPPED if known else time_ns() // 1000


def _epoch_untold(file: Path, mark: Mark) -> int:
    """One in which nothing was told. Where neither the mark nor the damaged file tells which there were, one made of
    the time."""
    try:
        with closing(apsw.Connection(str(file), flags=apsw.SQLITE_OPEN_READONLY)) as connection:
            epoch = one(connection, _NEWEST_EPOCH)
    except _UNREADABLE:
        epoch = 0
    known = max(mark.epoch or 0, epoch if 0 < epoch < _MOST_EPOCHS - 1 else 0)
    return known + 1 if known else max(2, time_ns() // 10**9 - _2026)


def utc_now() -> str:
    """RFC 3339 with microseconds, e.g. 2026-11-21T08:30:00.000001Z."""
    return datetime.now(UTC).isoformat(timespec="microseconds").removesuffix("+00:00") + "Z"
