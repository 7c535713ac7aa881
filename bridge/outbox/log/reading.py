"""The readers' questions about records of the log."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

import apsw

from bridge.model.primitives.packing import pack
from bridge.model.record import Delta, Record
from bridge.outbox.log import record_codec
from bridge.outbox.storage.database import one

T = TypeVar("T")

MOST_BYTES = 16 << 20
"""Unpacked bytes of a read. The record that crosses the bound is the last."""

_EMPTY = pack(b"")
# A column that CASE does not choose is not read: a body may have many pages.
_SKIPPING = record_codec.COLUMNS.removesuffix("before, body") + "".join(
    f"{comma}CASE WHEN takes & ?3 = 0 THEN {other} ELSE {column} END"
    for comma, column, other in (("", "before", "NULL"), (", ", "body", "?4"))
)


def read(
    database: apsw.Connection, codec: record_codec.Codec, after: int, limit: int, mask: int | None = None
) -> tuple[list[Record], int]:
    """At most ``limit`` records behind ``after``, and the sequence number at which the result begins, even if it is
    empty. With the ``mask`` of a sink that has a selection, records that it does not get have empty bodies, since none
    is read for them. Raises Damaged."""
    database.execute("BEGIN")  # One snapshot for both queries: a trim in between would leave a hole.
    try:
        first = max(after + 1, one(database, "SELECT log_start FROM meta"))
        found = database.execute(
            f"SELECT {record_codec.COLUMNS if mask is None else _SKIPPING} FROM log WHERE seq >= ?1 ORDER BY seq"
            " LIMIT ?2",
            (first, limit) if mask is None else (first, limit, mask, _EMPTY),
        )
        return list(bounded((record_codec.record_of(row, codec) for row in found), record_bytes)), first
    finally:
        database.execute("COMMIT")


def resource(database: apsw.Connection, sequence: int) -> int | None:
    """The resource number of a record; None if the record is not in the log."""
    found = database.execute("SELECT resource FROM log WHERE seq = ?", (sequence,)).fetchone()
    return None if found is None else found[0]


def body(database: apsw.Connection, sequence: int) -> bytes | None:
    """The compressed body of a record; None if the record is not in the log."""
    found = database.execute("SELECT body FROM log WHERE seq = ?", (sequence,)).fetchone()
    return None if found is None else found[0]


def body_before(database: apsw.Connection, kind: int, sequence: int) -> tuple[bytes, int] | None:
    """The compressed body of the record that this record replaced, and its number; None if it is not in the log."""
    query = "SELECT g.body, g.seq FROM ledger l JOIN log g ON g.seq = l.replaces WHERE l.kind = ? AND l.seq = ?"
    found = database.execute(query, (kind, sequence)).fetchone()
    return None if found is None else (found[0], found[1])


def bounded(items: Iterable[T], size: Callable[[T], int]) -> Iterator[T]:
    """The items up to ``MOST_BYTES``: the item that crosses the bound is the last."""
    total = 0
    for item in items:
        yield item
        total += size(item)
        if total > MOST_BYTES:
            return


def record_bytes(record: Record) -> int:
    """Bytes of a record's bodies."""
    return len(record.body) + len(record.before or b"") if isinstance(record, Delta) else 0
