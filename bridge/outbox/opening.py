"""Opens the state at the start of a bridge, and begins a new database in place of a damaged one.

``open_state`` takes the directory, opens the database or makes it, and reads what the outbox keeps in memory
(``OpenedState``). It finds the state in one of three conditions, and each says what follows:

- ``Whole``: the state has all that was delivered of it, and the bridge goes on.
- ``Lacking``: another replica may have gone on without it. The log goes on with a Gap, and every sink gets a snapshot.
- ``Rebuilt``: the database was damaged, or an earlier process has marked it, and was moved aside. The new one begins
  behind every number and epoch that was exported, as far as the mark or the damaged file tells, or else the time: every
  sink gets a Gap first, then all objects of the first lists. The mark stays until that is durable, so a crash in the
  middle repeats the repair.

``open_existing`` is for an operator's command: it registers no sink and repairs no damage.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from time import time_ns
from typing import TypeAlias

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
from bridge.outbox.log.statements import LedgerRow
from bridge.outbox.storage import schema
from bridge.outbox.storage.database import one, open_and_migrate, open_writer, row, usable
from bridge.outbox.storage.directory_lock import FILE, WAL
from bridge.outbox.storage.state_directory import Mark, StateDirectory
from bridge.telemetry.facts import Report
from bridge.telemetry.facts.outbox import OutboxOpened, OutboxRebuilt, ReplicasLeft, StateExposed, StateMigrated

MOST = 1 << 62
"""Exclusive upper bound of believable sequence numbers."""


# ── What a start finds ───────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Whole:
    """The state has all that was delivered of it; or it is new, and nothing was."""


@dataclass(frozen=True, slots=True)
class Lacking:
    """Another replica may have delivered records, and seen objects, that the state does not have. Records leave with
    larger numbers from now on than any that it can have given; every sink gets a Gap, and a snapshot once it has taken
    the Gap."""

    behind: int
    """The largest number that another replica can have given."""
    leaves_replicas: bool
    """A bridge without an election begins with the state of a replica: it is no replica's state any more."""


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """The database is a new one, behind all numbers of the earlier one. Every sink gets a Gap first, then all objects
    of the first lists as ``sync``, in a later epoch."""

    damage: str
    """Why the earlier database was moved aside."""
    aside: Path | None
    """New path of the earlier database, if a file was left."""


Found: TypeAlias = Whole | Lacking | Rebuilt


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenedState:
    """The state as an outbox starts with it."""

    found: Found
    former_format: int
    """Of the database; one other than FORMAT was migrated just now."""
    state_directory: StateDirectory
    connection: apsw.Connection
    codec: record_codec.Codec
    cursors: dict[str, SinkCursor]
    dead_letters: dict[str, SavedDeadLetters]
    last: int
    log_start: int
    objects: int
    cleanable: CleanableLog
    ranges: list[LogRange]
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


@dataclass(frozen=True, slots=True)
class LogRange:
    """Records of the log that follow one another."""

    last: int
    """Sequence number of the last."""
    bytes: int
    age: float
    """Of the first, in seconds."""


def report_opened(opened: OpenedState, records: int, sinks: Iterable[str], report: Report) -> None:
    """``records``: that sinks can read. ``sinks``: those that get a Gap after damage."""
    files, file = opened.state_directory, str(opened.state_directory.file)
    report(OutboxOpened(file, apsw.sqlite_lib_version(), records, opened.objects))
    if opened.former_format != schema.FORMAT:
        report(StateMigrated(file, opened.former_format))
    if isinstance(opened.found, Lacking) and opened.found.leaves_replicas:
        report(ReplicasLeft(file))
    if files.exposed:
        report(StateExposed(str(files.file.parent), files.exposed))
    if isinstance(opened.found, Rebuilt):
        report(OutboxRebuilt(str(opened.found.aside or ""), opened.found.damage, tuple(sinks)))


# ── Opening ──────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class _Start:
    """The directory, and who begins to work in it."""

    files: StateDirectory
    sinks: Mapping[str, StartPolicy | None]
    selecting: Collection[str]
    now: str
    cipher: Cipher | None
    capture: Capture | None


def open_state(
    directory: Path,
    sinks: Mapping[str, StartPolicy | None],
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
    records of a new database begin. ``capture``: records what is written from here on. ``lacking``: the state may be
    ``Lacking``; so may that of a replica without ``capture``. Raises StateError."""
    files = StateDirectory(directory)
    start = _Start(files, sinks, selecting, now, cipher, capture)
    try:
        mark = files.mark()
        if mark is None:
            try:
                return _go_on(start, behind, lacking=lacking)
            except Damaged as error:
                mark = Mark(str(error))
                # Removed after the repair: a crash during the repair repeats it.
                files.mark_damaged(mark.reason)
        return _rebuild(start, mark, behind)
    except BaseException:
        files.release()
        raise


def open_existing(directory: Path, sinks: Iterable[str], now: str, cipher: Cipher | None = None) -> OpenedState:
    """Opens the state of a stopped bridge for an operator's command: no sink is registered, and a damaged database
    stays. Raises StateError and Damaged."""
    files = StateDirectory(directory)
    start = _Start(files, dict.fromkeys(sinks), (), now, cipher, None)
    try:
        if mark := files.mark():
            raise Damaged(f"{files.file} is damaged ({mark.reason}); the next start moves it aside")
        if not files.has(FILE) and not files.has(WAL):
            raise StateUnusable(f"state.directory: there is no {FILE} in {directory}: no bridge has run on it")
        with _examined(start):
            _expect_file(files)
            connection = open_writer(files.file)
            with _closed_after_error(start, connection):
                _begin_history(start, connection)
                return _read(start, connection, Whole(), schema.FORMAT)
    except BaseException:
        files.release()
        raise


def _go_on(start: _Start, behind: int, *, lacking: bool) -> OpenedState:
    """Raises StateError, Damaged, or a bug."""
    with _examined(start):
        _expect_file(start.files)
        if not start.files.has(FILE):
            _make(start.files, behind)
        connection, former_format = open_and_migrate(start.files.file)
        with _closed_after_error(start, connection):
            _begin_history(start, connection)
            leaves_replicas = start.capture is None and is_of_a_replica(connection)
            found = Lacking(behind, leaves_replicas) if lacking or leaves_replicas else Whole()
            return _read(start, connection, found, former_format)


def _rebuild(start: _Start, mark: Mark, behind: int) -> OpenedState:
    files = start.files
    last = max(last_exported(files.file, mark), behind)  # Another replica may have gone on with the numbers.
    epoch = unused_epoch(files.file, mark)
    found = Rebuilt(mark.reason, files.move_aside())
    _make(files, last, epoch)  # With both: a kill before the next step is followed by another repair, behind them.
    connection = open_writer(files.file)
    with _closed_after_error(start, connection):
        _begin_history(start, connection)
        begin_anew(connection, last, epoch, start)
        files.remove_mark()
        return _read(start, connection, found, schema.FORMAT)


def _expect_file(files: StateDirectory) -> None:
    """Raises Damaged if the write-ahead log is there without its database. A kill cannot cause this; somebody removed
    the file, and with it the records in front of the log."""
    if files.has(WAL) and not files.has(FILE):
        raise Damaged(f"{files.file} is missing, and {WAL} is there")


def _make(files: StateDirectory, behind: int, epoch: int = 1) -> None:
    """Makes an empty database, whose first record has the number after ``behind``, in this epoch. A kill leaves none,
    or one with all its tables: a file without has lost its records."""
    try:
        with closing(open_writer(files.begin_file(), made=True)) as database:
            database.execute(
                "UPDATE meta SET last = ?1, log_start = ?1 + 1, cleaner_checkpoint = ?1 + 1, epoch = ?2",
                (behind, epoch),
            )
        files.finish_file()
    except OSError as error:
        raise StateUnusable(f"state.directory: cannot make {files.file}: {error.strerror}") from error


def _begin_history(start: _Start, connection: apsw.Connection) -> None:
    """Before the first write."""
    if start.capture is None:
        end_history(connection)
    else:
        start.capture.open(connection)


@contextmanager
def _examined(start: _Start) -> Iterator[None]:
    """Examines the database after an error that may come from damage, and raises Damaged for it then."""
    try:
        yield
    except Exception as error:
        if isinstance(error, Damaged | StateError) and not isinstance(error.__cause__, apsw.ReadOnlyError):
            raise
        if not (damage := find_damage(start.files.file, start.cipher)):
            raise
        raise Damaged(damage) from error


@contextmanager
def _closed_after_error(start: _Start, connection: apsw.Connection) -> Iterator[None]:
    try:
        with usable(start.files.file):
            yield
    except BaseException:
        connection.close()  # Now: SQLite's last close removes the write-ahead log by name, even the next database's.
        raise


# ── Reading ──────────────────────────────────────────────────────────────────

_NEWEST_NUMBER = "SELECT max(last, (SELECT coalesce(max(seq), 0) FROM log)) + ahead FROM meta"
_NEWEST_EPOCH = (
    "SELECT max(epoch, (SELECT coalesce(max(epoch), 0) FROM kinds), (SELECT coalesce(max(epoch), 0) FROM informers))"
    " FROM meta"
)


def _read(start: _Start, connection: apsw.Connection, found: Found, former_format: int) -> OpenedState:
    _check(connection)
    cleaner.prepare(connection)
    with connection:
        require_keys(connection, start.cipher)
        cursors.configure(connection, start.sinks, start.selecting, start.now)
        if isinstance(found, Lacking):
            _begin_lacking(connection, found, start.now)
        renew_dictionaries(connection, start.cipher)
    last, log_start, term, ahead = row(connection, "SELECT last, log_start, term, ahead FROM meta")
    ranges = list(_ranges(connection, log_start, start.now))  # First, since it examines the records.
    there = cursors.load(connection, start.sinks)
    return OpenedState(
        found=found,
        former_format=former_format,
        state_directory=start.files,
        connection=connection,
        codec=record_codec.Codec(record_codec.resources(connection), _bodies(connection, start.cipher)),
        cursors=there,
        dead_letters=dead_letters.load(connection, start.sinks),
        last=last,
        log_start=log_start,
        objects=one(connection, f"SELECT count(*) FROM {PRESENT}"),
        cleanable=cleaner.cleanable_log(connection),
        ranges=ranges,
        epoch=one(connection, _NEWEST_EPOCH),
        selections=selections.load(connection),
        own=backlogs.read_all(connection, {sink: each.settled for sink, each in there.items()}, start.now),
        renewed=is_complete(connection),
        term=term,
        ahead=ahead,
    )


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


def _ranges(connection: apsw.Connection, log_start: int, now: str) -> Iterator[LogRange]:
    present = datetime.fromisoformat(now)
    found = connection.execute(
        "SELECT max(seq), sum(length(body) + coalesce(length(before), 0)), min(time)"
        " FROM log WHERE seq >= ? GROUP BY seq / 1000 ORDER BY 1",
        (log_start,),
    )
    for last, size, time in found:
        if not isinstance(size, int):  # SQLite's sum() of NULLs only.
            raise Damaged(f"the records up to {last} have no bodies")
        yield LogRange(last, size, backlogs.age_of(time, present))


# ── A state that lacks records ───────────────────────────────────────────────


def _begin_lacking(connection: apsw.Connection, found: Lacking, now: str) -> None:
    """Part of a transaction."""
    last = one(connection, "SELECT last FROM meta")
    gap = taken_over_gap(last + 1, last + 1, now)
    _append(connection, gap)
    connection.execute("UPDATE meta SET last = ?, ahead = max(ahead, ? - last)", (gap.sequence, found.behind))
    connection.execute("UPDATE cursors SET owes_snapshot = ?", (gap.sequence,))
    if found.leaves_replicas:
        leave_replicas(connection)


def _append(connection: apsw.Connection, gap: Gap) -> None:
    """Makes the Gap a record of the log, of no object."""
    connection.execute(record_codec.INSERT, record_codec.gap_row(gap))
    connection.execute(statements.ENTER, LedgerRow(seq=gap.sequence))


# ── A new database in place of a damaged one ─────────────────────────────────

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
    known = max(mark.last or 0, _number_in(file, _NEWEST_NUMBER, MOST))
    return known + _SKIPPED if known else number_of_now()


def unused_epoch(file: Path, mark: Mark) -> int:
    """An epoch without exported records: from the mark or the damaged file; if neither has one, made of the time."""
    known = max(mark.epoch or 0, _number_in(file, _NEWEST_EPOCH, _MOST_EPOCHS - 1))
    return known + 1 if known else max(2, time_ns() // 10**9 - _2026)


def _number_in(file: Path, query: str, bound: int) -> int:
    """A number of a damaged file; 0 if it cannot be read, or is not between 0 and ``bound``."""
    try:
        with closing(apsw.Connection(str(file), flags=apsw.SQLITE_OPEN_READONLY)) as connection:
            found = one(connection, query)
    except _UNREADABLE:
        return 0
    return found if 0 < found < bound else 0


def number_of_now() -> int:
    """Microseconds since 1970: the number behind which the records of a new state begin, so that they ascend over a
    state that was lost. No bridge numbers a million records a second for long, so that a lost state did not get ahead
    of the clock. Below 2^53 until 2255, which every reader of JSON holds."""
    return time_ns() // 1000


def begin_anew(connection: apsw.Connection, last: int, epoch: int, start: _Start) -> None:
    """Begins the new database behind ``last``."""
    gap = rebuilt_gap(last + 1, start.now)
    with connection:
        connection.execute(
            # Replay numbers must not repeat; no earlier database planned more replays than it had records.
            "UPDATE meta SET last = ?1, log_start = ?1, cleaner_checkpoint = ?1, rebuilt = 1, epoch = ?3, replays = ?2",
            (gap.sequence, last, epoch),
        )
        _append(connection, gap)
        connection.executemany(
            "INSERT INTO cursors (sink, settled) VALUES (?,?)", [(sink, last) for sink in start.sinks]
        )
