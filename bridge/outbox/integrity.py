"""Whether a database can be what was written to it: its pages, tables, values and frames, and whether they agree.

For ``kubedelta state check``, and behind every error that is none of ours: what is found here is damage, and the next
start begins anew; where nothing is found the error is a bug, and the database stays.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from itertools import islice
from pathlib import Path

import apsw

from bridge.model.change import Op
from bridge.model.record import SnapshotEdge
from bridge.outbox import errands, ledger_sql, rows, schema
from bridge.outbox.bodies import Bodies
from bridge.outbox.database import is_damage, open_reader
from bridge.outbox.errors import Damaged, StateUnusable
from bridge.outbox.ledger_sql import PRESENT
from bridge.outbox.sql import one

MOST = 100
"""Problems told."""
_TELLING = (
    apsw.SQLError,
    apsw.MismatchError,
    apsw.TooBigError,
    apsw.FormatError,
    apsw.InternalError,
    apsw.ConstraintError,
)
"""What SQLite says of our own questions only where the tables are not ours any more. That there is no room, no memory
or no lock tells nothing about them."""
_TYPES = {"INTEGER": int, "REAL": float, "TEXT": str, "BLOB": bytes}
_SMALL = ("meta", "kinds", "resources", "informers", "cursors")
_REPLACED_LATER = "SELECT replaces FROM ledger, meta WHERE replaces IS NOT NULL AND ledger.seq > meta.cleared"
_OPS = {*(op.value for op in Op), *(edge.value for edge in SnapshotEdge), rows.GAP}


def find_damage(file: Path) -> str:
    """The first problem of this file, in words; empty where there is none, or where nobody can tell now. Reads all of
    it: seconds for each gigabyte."""
    try:
        with closing(open_reader(file)) as database:
            return next(iter(problems(database)), "")
    except (Damaged, *_TELLING) as error:
        return str(error)
    except apsw.Error as error:
        return str(error) if is_damage(error) else ""
    except StateUnusable:
        return ""


def problems(database: apsw.Connection) -> list[str]:
    """At most MOST, of the first part that has some: the later ones read what the earlier ones found right."""
    database.execute("BEGIN")  # All of them see the same moment.
    try:
        for part in _PARTS:
            if found := list(islice(_told(part, database), MOST)):
                return found
        return []
    finally:
        with suppress(apsw.Error):  # A question that was not read to its end may have an answer for that, too.
            database.execute("ROLLBACK")


def _told(part: Callable[[apsw.Connection], Iterator[str]], database: apsw.Connection) -> Iterator[str]:
    try:
        yield from part(database)
    except (UnicodeDecodeError, Damaged, *_TELLING) as error:
        yield str(error)
    except apsw.Error as error:
        if not is_damage(error):
            raise
        yield str(error)


def require_small(database: apsw.Connection) -> None:
    """The tables that do not grow with the number of objects hold what they are declared to hold. Asked at each start,
    since a wrong type is not always an error: 2.5 is as true as 1. Raises Damaged, and UnicodeDecodeError."""
    for table in _SMALL:
        for problem in _values_of(table, database):
            raise Damaged(problem)


def _pages(database: apsw.Connection) -> Iterator[str]:
    """With the checksums of all pages that hold something, and the types that the tables are declared with."""
    for (found,) in database.execute(f"PRAGMA integrity_check({MOST})"):
        if found != "ok":
            yield str(found)
    if database.readonly("main") and os.access(database.filename, os.W_OK):
        yield "its header says that it was written by a later SQLite"


def _tables(database: apsw.Connection) -> Iterator[str]:
    found = schema.shape(database)
    for table, parts in schema.expected().items():
        if missing := parts - found.get(table, frozenset()):
            yield f"table {table} is not as it was made: {min(missing)}"


def _values(database: apsw.Connection) -> Iterator[str]:
    """Types again, and text: SQLite reads any bytes for text."""
    for table in schema.expected():
        yield from _values_of(table, database)


def _values_of(table: str, database: apsw.Connection) -> Iterator[str]:
    columns = sorted(part for part in schema.expected()[table] if part[0] == "column")
    names = [str(name) for _, name, *_ in columns]
    wanted = [(_TYPES[str(kind)], bool(filled)) for _, _, kind, filled, *_ in columns]
    right: set[tuple[type, ...]] = set()
    for values in database.execute(f"SELECT {', '.join(names)} FROM {table}"):
        types = tuple(map(type, values))
        if types in right:
            continue
        for name, found, (expected, filled) in zip(names, types, wanted, strict=True):
            if found is not expected and (filled or found is not type(None)):
                yield f"{table}.{name} is {found.__name__}, not {expected.__name__}"
        right.add(types)


def _frames(database: apsw.Connection) -> Iterator[str]:
    """Whatever is packed or has a meaning of its own can be read."""
    try:
        bodies = Bodies(ledger_sql.dictionaries(database))
    except ValueError as error:
        yield str(error)
        return
    codec = rows.Codec(ledger_sql.resources(database), bodies)
    for record in database.execute(f"SELECT {rows.COLUMNS} FROM log ORDER BY seq"):
        try:
            rows.record_of(record, codec)
        except Damaged as error:
            yield str(error)
    for number, letter in database.execute("SELECT number, record FROM letters ORDER BY number"):
        try:
            rows.opened(letter)
        except Damaged as error:
            yield f"dead letter {number}: {error}"
    for sink, place, op, before in database.execute("SELECT sink, place, op, before FROM selections"):
        if op not in _OPS:
            yield f"place {place} of what {sink} is told has the op {op}"
        try:
            bodies.unpack(before) if before is not None else b""
        except ValueError as error:
            yield f"place {place} of what {sink} is told: {error}"
    for (sink,) in list(database.execute("SELECT sink FROM cursors")):
        errands.load(database, sink)


def _agreement(database: apsw.Connection) -> Iterator[str]:
    for what, question in _QUESTIONS.items():
        if count := one(database, question):
            yield f"{what}: {count}"


_QUESTIONS = {
    "rows of what this is": "SELECT count(*) <> 1 FROM meta",
    "numbers that cannot be": (
        "SELECT NOT (0 <= cleared AND cleared <= trimmed AND trimmed <= last"
        " AND (SELECT coalesce(max(seq), 0) FROM log) <= last) FROM meta"
    ),
    "references to what is not there": "SELECT count(*) FROM pragma_foreign_key_check",
    "records without a row in the ledger, or rows without a record": (
        "SELECT (SELECT count(*) FROM log WHERE (kind, seq) NOT IN (SELECT kind, seq FROM ledger))"
        " + (SELECT count(*) FROM ledger WHERE seq NOT IN (SELECT seq FROM log))"
    ),
    "objects of an informer that is not there": (
        f"SELECT count(*) FROM {PRESENT} AND informer NOT IN (SELECT id FROM informers)"
    ),
    "objects with more than one last state": (
        f"SELECT count(*) FROM (SELECT 1 FROM {PRESENT} GROUP BY kind, key HAVING count(*) > 1)"
    ),
    "last states replaced by those of another object": (
        "SELECT count(*) FROM ledger n JOIN ledger o ON o.kind = n.kind AND o.seq = n.replaces WHERE o.key <> n.key"
    ),
    "records missing in the log": (
        "SELECT meta.last - meta.trimmed - (SELECT count(*) FROM log WHERE seq > meta.trimmed) FROM meta"
    ),
    "records kept for nobody": (
        f"SELECT count(*) FROM log, meta WHERE seq <= cleared AND seq NOT IN (SELECT seq FROM {PRESENT})"
        f" AND seq NOT IN (SELECT seq FROM awaited) AND seq NOT IN ({_REPLACED_LATER})"
    ),
    "cursors that point at what is gone": (
        "SELECT count(*) FROM cursors, meta WHERE settled < trimmed AND (errand = '' OR settled < errand_after)"
    ),
    "cursors that point at what is to come": "SELECT count(*) FROM cursors, meta WHERE settled > last",
}

_PARTS = (_pages, _tables, _values, _frames, _agreement)
