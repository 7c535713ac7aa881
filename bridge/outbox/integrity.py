"""Finds damage in a database: in its pages, tables, values and frames, and where its tables disagree.

After an error that does not come from our own classes, ``find_damage`` examines the file. A problem found here is
damage, and the next start begins with a new database; without a problem the error is a bug, and the database stays.
The same checks are behind ``kubedelta state check``, whose ``report`` adds counts and sizes. Every start checks the
values of the small tables (``require_small``); everything else reads the whole file.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from functools import partial
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import apsw

from bridge.model.admin import StateReport, UnknownTarget
from bridge.model.change import Op
from bridge.model.record import SnapshotEdge
from bridge.outbox.consumers import backfill, dead_letters
from bridge.outbox.encryption import Cipher, Place, bytes_by_key
from bridge.outbox.errors import Damaged, StateError, StateUnusable
from bridge.outbox.ledger import PRESENT
from bridge.outbox.log import record_codec
from bridge.outbox.log.body_codec import BodyCodec, load_dictionaries
from bridge.outbox.storage import schema
from bridge.outbox.storage.database import columns, is_damage, one, open_reader, page_bytes, row, rows_of
from bridge.outbox.storage.state_directory import Disk, StateDirectory, shard_in

MOST = 100
"""Problems that are reported."""
_SCHEMA_ERRORS = (
    apsw.SQLError,
    apsw.MismatchError,
    apsw.TooBigError,
    apsw.FormatError,
    apsw.InternalError,
    apsw.ConstraintError,
)
"""Errors that our own statements can cause only on foreign or damaged tables. A full disk, lack of memory and locks say
no such thing."""
_TYPES = {"INTEGER": int, "REAL": float, "TEXT": str, "BLOB": bytes}
_SMALL = ("meta", "kinds", "resources", "informers", "cursors", "selections", "snapshots", "encryption_keys")
_REPLACED_LATER = (
    "SELECT replaces FROM ledger, meta WHERE replaces IS NOT NULL AND ledger.seq >= meta.cleaner_checkpoint"
)
_OPS = {*(op.value for op in Op), *(edge.value for edge in SnapshotEdge), record_codec.GAP}


def find_damage(file: Path, cipher: Cipher | None = None) -> str:
    """The first problem of this file, in words; empty if it is sound, or cannot be examined now. Reads the whole file:
    seconds for each gigabyte."""
    try:
        with closing(open_reader(file)) as database:
            return next(iter(problems(database, cipher)), "")
    except (Damaged, *_SCHEMA_ERRORS) as error:
        return str(error)
    except apsw.Error as error:
        return str(error) if is_damage(error) else ""
    except StateUnusable:
        return ""


def damage_behind(error: BaseException | None, state_directory: StateDirectory, cipher: Cipher | None) -> str:
    """The damage that explains an error, in words; empty if the error has another cause. Blocks as ``find_damage``."""
    if not isinstance(error, Exception) or isinstance(error, StateError | UnknownTarget | OSError):
        return ""
    if state_directory.gone():  # Another database may have the name now; ``Outbox.close`` reports that.
        return ""
    if known := _damage_in(error):
        return str(known)
    return find_damage(state_directory.file, cipher)


def _damage_in(error: BaseException) -> Damaged | None:
    if isinstance(error, BaseExceptionGroup):
        return next((found for each in error.exceptions if (found := _damage_in(each))), None)
    return error if isinstance(error, Damaged) else None


def problems(database: apsw.Connection, cipher: Cipher | None = None) -> list[str]:
    """At most MOST problems, from the first failing part: later parts rely on the earlier ones. Reads the whole
    database in one transaction. Raises KeyMissing, which is no problem of the database."""
    database.execute("BEGIN")  # One snapshot for all queries: the bridge may go on writing.
    try:
        parts = (_pages, _tables, _values, partial(_frames, cipher=cipher), _agreement)
        for part in parts if not schema.is_earlier(database) else (_pages,):
            if found := list(islice(_reported(part, database), MOST)):
                return found
        return []
    finally:
        with suppress(apsw.Error):  # ROLLBACK may report the error of a query that was not read to its end.
            database.execute("ROLLBACK")


def _reported(part: Callable[[apsw.Connection], Iterator[str]], database: apsw.Connection) -> Iterator[str]:
    try:
        yield from part(database)
    except (UnicodeDecodeError, Damaged, *_SCHEMA_ERRORS) as error:
        yield str(error)
    except apsw.Error as error:
        if not is_damage(error):
            raise
        yield str(error)


def require_small(database: apsw.Connection) -> None:
    """Checks the values of the small tables, at every start. SQLite itself accepts a wrong type in a STRICT table when
    it reads: 2.5 counts as true like 1. Raises Damaged, and UnicodeDecodeError."""
    for table in _SMALL:
        for problem in _values_of(table, database):
            raise Damaged(problem)


# ── The parts of the check ───────────────────────────────────────────────────


def _pages(database: apsw.Connection) -> Iterator[str]:
    """Runs SQLite's own check: page checksums, b-trees, and declared types."""
    for (found,) in database.execute(f"PRAGMA integrity_check({MOST})"):
        if found != "ok":
            yield str(found)
    if database.readonly("main") and os.access(database.filename, os.W_OK):
        yield "its header says that it was written by a later SQLite"


def _tables(database: apsw.Connection) -> Iterator[str]:
    found = schema.shape(database)
    for table, parts in schema.expected().items():
        if missing := parts - found.get(table, frozenset()):
            yield f"table {table} is not as it was made: {tuple(min(missing))}"


def _values(database: apsw.Connection) -> Iterator[str]:
    """Checks types and text of all tables. SQLite accepts any bytes as text when it reads."""
    for table in schema.expected():
        yield from _values_of(table, database)


def _values_of(table: str, database: apsw.Connection) -> Iterator[str]:
    parts = sorted(part for part in schema.expected()[table] if part.role == "column")
    names = [part.name for part in parts]
    wanted = [(_TYPES[part.type], bool(part.filled)) for part in parts]
    right: set[tuple[type, ...]] = set()
    for values in database.execute(f"SELECT {', '.join(names)} FROM {table}"):
        types = tuple(map(type, values))
        if types in right:
            continue
        for name, found, (expected, filled) in zip(names, types, wanted, strict=True):
            if found is not expected and (filled or found is not type(None)):
                yield f"{table}.{name} is {found.__name__}, not {expected.__name__}"
        right.add(types)


class _ItemRow(NamedTuple):
    sink: str
    item: int
    op: str
    before: bytes | None
    before_seq: int | None


def _frames(database: apsw.Connection, cipher: Cipher | None) -> Iterator[str]:
    """Decodes every body, dead letter, item and backfill."""
    try:
        bodies = BodyCodec(load_dictionaries(database, cipher), cipher)
    except ValueError as error:
        yield str(error)
        return
    codec = record_codec.Codec(record_codec.resources(database), bodies)
    for record in database.execute(f"SELECT {record_codec.COLUMNS} FROM log ORDER BY seq"):
        try:
            record_codec.record_of(record, codec)
        except Damaged as error:
            yield str(error)
    for dead_letter in dead_letters.all_rows(database):
        try:
            record_codec.decode_record(dead_letter.letter.content(cipher))
            dead_letter.letter.texts(cipher)
        except Damaged as error:
            yield f"dead letter {dead_letter.number}: {error}"
    for each in rows_of(database, _ItemRow, f"SELECT {columns(_ItemRow)} FROM backfill_items"):
        if each.op not in _OPS:
            yield f"item {each.item} of the backfill of {each.sink} has the op {each.op}"
        try:
            bodies.unpack(each.before, Place.before, each.before_seq or 0) if each.before is not None else b""
        except ValueError as error:
            yield f"item {each.item} of the backfill of {each.sink}: {error}"
    for (sink,) in list(database.execute("SELECT sink FROM cursors")):
        backfill.load(database, sink)


def _agreement(database: apsw.Connection) -> Iterator[str]:
    for problem, question in _QUESTIONS.items():
        if count := one(database, question):
            yield f"{problem}: {count}"


_QUESTIONS = {
    "wrong number of rows in meta": "SELECT count(*) <> 1 FROM meta",
    "impossible sequence numbers": (
        "SELECT NOT (1 <= cleaner_checkpoint AND cleaner_checkpoint <= log_start AND log_start <= last + 1"
        " AND (SELECT coalesce(max(seq), 0) FROM log) <= last) FROM meta"
    ),
    "references to missing rows": "SELECT count(*) FROM pragma_foreign_key_check",
    "records without a row in the ledger, or rows without a record": (
        "SELECT (SELECT count(*) FROM log WHERE (kind, seq) NOT IN (SELECT kind, seq FROM ledger))"
        " + (SELECT count(*) FROM ledger WHERE seq NOT IN (SELECT seq FROM log))"
    ),
    "objects of a missing informer": (f"SELECT count(*) FROM {PRESENT} AND informer NOT IN (SELECT id FROM informers)"),
    "objects with more than one last state": (
        f"SELECT count(*) FROM (SELECT 1 FROM {PRESENT} GROUP BY kind, key HAVING count(*) > 1)"
    ),
    "last states replaced by records of another object": (
        "SELECT count(*) FROM ledger n JOIN ledger o ON o.kind = n.kind AND o.seq = n.replaces WHERE o.key <> n.key"
    ),
    "records missing in the log": (
        "SELECT last + 1 - log_start - (SELECT count(*) FROM log WHERE seq >= log_start) FROM meta"
    ),
    "records that the log cleaner missed": (
        f"SELECT count(*) FROM log, meta WHERE seq < cleaner_checkpoint AND seq NOT IN (SELECT seq FROM {PRESENT})"
        f" AND seq NOT IN (SELECT seq FROM pinned) AND seq NOT IN ({_REPLACED_LATER})"
    ),
    "cursors that point at trimmed records": (
        "SELECT count(*) FROM cursors, meta"
        " WHERE settled < log_start - 1 AND (backfill = '' OR settled < backfill_starts_after)"
    ),
    "cursors that point beyond the log": "SELECT count(*) FROM cursors, meta WHERE settled > last",
}


# ── The report of the command ────────────────────────────────────────────────


def report(database: apsw.Connection, disk: Disk, cipher: Cipher | None) -> StateReport:
    """Reads the whole database: SQLite's own check, every record, and whether the tables agree."""
    page = page_bytes(database)
    found = problems(database, cipher)
    shard = shard_in(disk.path.parent)
    if shard is not None:
        objects = database.execute(f"SELECT uid, key FROM {PRESENT}")
        if others := sum(not shard.contains(uid, key) for uid, key in objects):
            found = [*found, f"{others} objects are not of {shard}, whose objects the state has"]
    return StateReport(
        path=str(disk.path),
        sqlite=apsw.sqlite_lib_version(),
        format=int(database.pragma("user_version")),
        cluster=str(row(database, "SELECT cluster FROM meta")[0]),
        problems=found,
        records=one(database, "SELECT count(*) FROM log, meta WHERE log.seq >= meta.log_start"),
        objects=one(database, f"SELECT count(*) FROM {PRESENT}"),
        informers=one(database, "SELECT count(*) FROM informers"),
        sinks=one(database, "SELECT count(*) FROM cursors"),
        dead_letters=one(database, "SELECT count(*) FROM dead_letters"),
        file_bytes=disk.file,
        wal_bytes=disk.wal,
        free_bytes=int(database.pragma("freelist_count")) * page,
        bytes_by_key={} if found else dict(bytes_by_key(database)),
        shard=str(shard or ""),
    )


def report_without_database(disk: Disk, reason: str) -> StateReport:
    """The report without a database; ``reason`` says why there is none."""
    return StateReport(
        path=str(disk.path),
        sqlite=apsw.sqlite_lib_version(),
        format=schema.FORMAT,
        cluster="",
        problems=[reason],
        file_bytes=disk.file,
        wal_bytes=disk.wal,
    )
