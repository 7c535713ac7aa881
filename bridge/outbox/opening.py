"""Opens the state at the start of a bridge, and begins a new database in place of a damaged one.

``open_state`` takes the directory, opens the database or makes it, checks it, and reads what the outbox keeps in memory
(``OpenedState``). A database that is damaged, or that an earlier process has marked, is moved aside. The new one begins
behind every number and epoch that was exported, as far as the mark or the damaged file tells, or else the time: every
sink gets a Gap first, then all objects of the first lists. The mark stays until that is durable, so a crash in the
middle repeats the repair. ``open_existing`` is for an operator's command: it registers no sink and repairs no damage.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from time import time_ns

import apsw

from bridge.model.policies import StartPolicy
from bridge.model.record import Gap, rebuilt_gap, taken_over_gap
from bridge.outbox.commits import Capture, end_history, is_of_a_replica, leave_replicas
from bridge.outbox.consumers import backlogs, cursors, dead_letters, selections
from bridge.outbox.consumers.backlogs import OwnRecords
from bridge.outbox.consumers.cursors import SinkCursor
from bridge.outbox.consumers.dead_letters import SavedDeadLetters
from bridge.outbox.consumers.selections import StoredSelection
from bridge.outbox.encryption import Cipher, is_complete, renew_dictionaries, require_keys
from bridge.outbox.errors import Damaged, StateError, StateUnusable
from bridge.outbox.integrity import find_damage, require_small
from bridge.outbox.ledger import PRESENT
from bridge.outbox.log import cleaner, record_codec, statements
from bridge.outbox.log.body_codec import BodyCodec, load_dictionaries
from bridge.outbox.log.cleaner import CleanableLog
from bridge.outbox.storage.database import one, open_writer, row, usable
from bridge.outbox.storage.directory_lock import FILE, WAL
from bridge.outbox.storage.state_directory import Mark, StateDirectory
from bridge.telemetry.facts import Report
from bridge.telemetry.facts.outbox import OutboxOpened, OutboxRebuilt, ReplicasLeft, StateExposed, StateMigrated

MOST = 1 << 62
"""Exclusive upper bound of believable sequence numbers."""
NEWEST_EPOCH = (
    "SELECT max(epoch, (SELECT coalesce(max(epoch), 0) FROM kinds), (SELECT coalesce(max(epoch), 0) FROM informers))"
    " FROM meta"
)


@dataclass(frozen=True, slots=True)
class OpenedState:
    """The state as an outbox starts with it."""

    state_directory: StateDirectory
    connection: apsw.Connection
    codec: record_codec.Codec
    cursors: dict[str, SinkCursor]
    dead_letters: dict[str, SavedDeadLetters]
    last: int
    log_start: int
    objects: int
    cleanable: CleanableLog
    ranges: list[tuple[int, int, float]]
    """Ranges of the log: last sequence number, bytes, and age of the first record in seconds."""
    epoch: int
    """Upper bound of the epochs begun."""
    selections: dict[str, StoredSelection]
    own: dict[str, list[OwnRecords]]
    """The backlog of each sink with a selection."""
    renewed: bool
    """Whether all records have the key of new content."""
    term: int
    ahead: int
    """Both: see Outbox."""
    migrated: int = 0
    """The format from which the database was migrated; 0 if it was not."""
    damage: str = ""
    """Why the earlier database was moved aside; empty if it was not."""
    aside: Path | None = None
    """New path of the damaged database, if a file was left."""
    left_replicas: bool = False
    """A bridge without an election begins with the state of a replica; see ``begin_lacking``."""


def open_state(
    directory: Path,
    sinks: Mapping[str, StartPolicy],
    now: str,
    selecting: Collection[str] = (),
    *,
    behind: int,
    cipher: Cipher | None = None,
    capture: Capture | None = None,
    lacking: bool = False,
) -> OpenedState:
    """Opens or creates the state. Blocks: seconds for a log of millions of records. A crash in the middle of a repair
    repeats the repair. ``selecting``: the sinks that have a selection now. ``behind``: the number behind which the
    records of a new database begin. ``capture``: records what is written from here on. ``lacking``: see
    ``begin_lacking``; so is the state of a replica without ``capture``, since another replica may have gone on
    without it. Raises StateError."""
    state_directory = StateDirectory(directory)
    try:
        mark = state_directory.mark()
        if mark is None:
            try:
                return _read_all(
                    state_directory, sinks, now, selecting, cipher, behind=behind, capture=capture, lacking=lacking
                )
            except Damaged as error:
                mark = Mark(str(error))
                # Removed after the repair: a crash during the repair repeats it.
                state_directory.mark_damaged(mark.reason)
        # Another replica may have gone on with the numbers.
        last = max(last_exported(state_directory.file, mark), behind)
        epoch = unused_epoch(state_directory.file, mark)
        aside = state_directory.move_aside()
        connection = _open(state_directory, capture=capture)
        begin_anew(connection, last, epoch, sinks, now)
        state_directory.remove_mark()
        return replace(
            _read_or_close(state_directory, connection, sinks, now, selecting, cipher), damage=mark.reason, aside=aside
        )
    except BaseException:
        state_directory.release()
        raise


def open_existing(
    directory: Path, sinks: Mapping[str, StartPolicy], now: str, cipher: Cipher | None = None
) -> OpenedState:
    """Opens the state of a stopped bridge for an operator's command: no sink is registered, and a damaged database
    stays. Raises StateError and Damaged."""
    state_directory = StateDirectory(directory)
    try:
        if mark := state_directory.mark():
            raise Damaged(f"{state_directory.file} is damaged ({mark.reason}); the next start moves it aside")
        if not state_directory.has(FILE) and not state_directory.has(WAL):
            raise StateUnusable(f"state.directory: there is no {FILE} in {directory}: no bridge has run on it")
        _expect_file(state_directory)
        return _read_all(state_directory, dict.fromkeys(sinks), now, (), cipher, starts=False)
    except BaseException:
        state_directory.release()
        raise


def _read_all(
    state_directory: StateDirectory,
    sinks: Mapping[str, StartPolicy | None],
    now: str,
    selecting: Collection[str],
    cipher: Cipher | None,
    *,
    starts: bool = True,
    behind: int = 0,
    capture: Capture | None = None,
    lacking: bool = False,
) -> OpenedState:
    """``starts``: a bridge begins to run, and no command. Examines the database after any error of reading. Raises
    StateError, Damaged, or a bug."""
    formats: list[int] = []
    try:
        connection = _open(state_directory, formats.append if starts else None, behind, capture)
        left = starts and capture is None and is_of_a_replica(connection)
        opened = _read_or_close(
            state_directory,
            connection,
            sinks,
            now,
            selecting,
            cipher,
            lacking=behind if lacking or left else None,
            left=left,
        )
        return replace(opened, migrated=formats[0] if formats else 0, left_replicas=left)
    except Exception as error:
        if isinstance(error, Damaged | StateError) and not isinstance(error.__cause__, apsw.ReadOnlyError):
            raise
        if not (damage := find_damage(state_directory.file, cipher)):
            raise
        raise Damaged(damage) from error


def _open(
    state_directory: StateDirectory,
    migrates: Callable[[int], None] | None = None,
    behind: int = 0,
    capture: Capture | None = None,
) -> apsw.Connection:
    _expect_file(state_directory)
    if not state_directory.has(FILE):
        _make(state_directory, behind)
    connection = open_writer(state_directory.file, migrates=migrates)
    try:
        with usable(state_directory.file):
            if capture is None:
                end_history(connection)
            else:
                capture.open(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def _expect_file(state_directory: StateDirectory) -> None:
    """Raises Damaged if the write-ahead log is there without its database. A kill cannot cause this; somebody removed
    the file, and with it the records in front of the log."""
    if state_directory.has(WAL) and not state_directory.has(FILE):
        raise Damaged(f"{state_directory.file} is missing, and {WAL} is there")


def _make(state_directory: StateDirectory, behind: int) -> None:
    """Makes an empty database. A kill leaves none, or one with all its tables: a file without has lost its records."""
    try:
        with closing(open_writer(state_directory.begin_file(), made=True)) as database:
            begin_numbers(database, behind)
        state_directory.finish_file()
    except OSError as error:
        raise StateUnusable(f"state.directory: cannot make {state_directory.file}: {error.strerror}") from error


def _read_or_close(
    state_directory: StateDirectory,
    connection: apsw.Connection,
    sinks: Mapping[str, StartPolicy | None],
    now: str,
    selecting: Collection[str],
    cipher: Cipher | None,
    *,
    lacking: int | None = None,
    left: bool = False,
) -> OpenedState:
    try:
        return _read(state_directory, connection, sinks, now, selecting, cipher, lacking, left=left)
    except BaseException:
        connection.close()  # Now: SQLite's last close removes the write-ahead log by name, even the next database's.
        raise


def _read(
    state_directory: StateDirectory,
    connection: apsw.Connection,
    sinks: Mapping[str, StartPolicy | None],
    now: str,
    selecting: Collection[str],
    cipher: Cipher | None,
    lacking: int | None,
    *,
    left: bool,
) -> OpenedState:
    with usable(state_directory.file):
        _check(connection)
        cleaner.prepare(connection)
        with connection:
            require_keys(connection, cipher)
            cursors.configure(connection, sinks, selecting, now)
            if lacking is not None:
                begin_lacking(connection, lacking, now)
            if left:
                leave_replicas(connection)
            renew_dictionaries(connection, cipher)
        last, log_start, term, ahead = row(connection, "SELECT last, log_start, term, ahead FROM meta")
        ranges = list(_ranges(connection, log_start, now))  # First, since it examines the records.
        found = cursors.load(connection, sinks)
        return OpenedState(
            state_directory,
            connection,
            record_codec.Codec(record_codec.resources(connection), _bodies(connection, cipher)),
            found,
            dead_letters.load(connection, sinks),
            last,
            log_start,
            one(connection, f"SELECT count(*) FROM {PRESENT}"),
            cleaner.cleanable_log(connection),
            ranges,
            one(connection, NEWEST_EPOCH),
            selections.load(connection),
            backlogs.read_all(connection, {sink: each.settled for sink, each in found.items()}, now),
            is_complete(connection),
            term,
            ahead,
        )


def begin_lacking(connection: apsw.Connection, behind: int, now: str) -> None:
    """Another replica may have delivered records, and seen objects, that this state does not have. Records leave with
    larger numbers from now on than any that it can have given (``behind``); every sink gets a Gap, and a snapshot once
    it has taken the Gap. Part of a transaction."""
    last = one(connection, "SELECT last FROM meta")
    gap = taken_over_gap(last + 1, last + 1, now)
    _append(connection, gap)
    connection.execute("UPDATE meta SET last = ?, ahead = max(ahead, ? - last)", (gap.sequence, behind))
    connection.execute("UPDATE cursors SET owes_snapshot = ?", (gap.sequence,))


def _append(connection: apsw.Connection, gap: Gap) -> None:
    """Makes the Gap a record of the log, of no object."""
    connection.execute(record_codec.INSERT, record_codec.gap_row(gap))
    connection.execute(statements.ENTER, (0, gap.sequence, "", None, "", "", None, 0, None))


def _check(connection: apsw.Connection) -> None:
    require_small(connection)
    last, log_start, checkpoint = row(connection, "SELECT last, log_start, cleaner_checkpoint FROM meta")
    newest = one(connection, "SELECT coalesce(max(seq), 0) FROM log")
    settled = one(connection, "SELECT coalesce(max(settled), 0) FROM cursors")
    if not 1 <= checkpoint <= log_start <= last + 1 <= MOST or newest > last or settled > last:
        raise Damaged(
            f"the newest record has the number {newest}, the last assigned is {last}, the log starts at "
            f"{log_start}, the cleaner's checkpoint is {checkpoint}, the newest cursor is at {settled}"
        )


def _bodies(connection: apsw.Connection, cipher: Cipher | None) -> BodyCodec:
    try:
        return BodyCodec(load_dictionaries(connection, cipher), cipher)
    except ValueError as error:
        raise Damaged(str(error)) from error


def _ranges(connection: apsw.Connection, log_start: int, now: str) -> Iterator[tuple[int, int, float]]:
    present = datetime.fromisoformat(now)
    found = connection.execute(
        "SELECT max(seq), sum(length(body) + coalesce(length(before), 0)), min(time)"
        " FROM log WHERE seq >= ? GROUP BY seq / 1000 ORDER BY 1",
        (log_start,),
    )
    for last, size, time in found:
        try:
            age = (present - datetime.fromisoformat(time)).total_seconds()
        except (ValueError, TypeError) as error:
            raise Damaged(f"a record up to {last} has no valid time: {error}") from error
        if not isinstance(size, int):  # SQLite's sum() of NULLs only.
            raise Damaged(f"the records up to {last} have no bodies")
        yield last, size, max(0.0, age)


def report_opened(opened: OpenedState, records: int, sinks: Iterable[str], report: Report) -> None:
    """``records``: that sinks can read. ``sinks``: those that get a Gap after damage."""
    files = opened.state_directory
    report(OutboxOpened(str(files.file), apsw.sqlite_lib_version(), records, opened.objects))
    if opened.migrated:
        report(StateMigrated(str(files.file), opened.migrated))
    if opened.left_replicas:
        report(ReplicasLeft(str(files.file)))
    if files.exposed:
        report(StateExposed(str(files.file.parent), files.exposed))
    if opened.damage:
        report(OutboxRebuilt(str(opened.aside or ""), opened.damage, tuple(sinks)))


# ── A new database ───────────────────────────────────────────────────────────

_SKIPPED = 1_000_000
"""Sequence numbers left out behind the newest readable record of a damaged file: its last records may be unreadable."""
_MOST_EPOCHS = 1 << 31
"""Exclusive upper bound of believable epochs: CloudEvents integers are signed 32-bit."""
_2026 = 1_767_225_600
"""The beginning of 2026 as Unix time in seconds."""
_UNREADABLE = (apsw.Error, Damaged, ValueError, TypeError)


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
        _append(connection, gap)
        connection.executemany("INSERT INTO cursors (sink, settled) VALUES (?,?)", [(sink, last) for sink in sinks])
