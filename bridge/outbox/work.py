"""What the writer does inside a transaction, and what readers ask for: the SQL of the log and the ledger. Hot."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import apsw
import msgspec

from bridge.model.record import Delta, Record
from bridge.outbox import ledger_sql, rows
from bridge.outbox.bodies import Bodies
from bridge.outbox.sql import one

MOST_BYTES = 16 << 20
"""Of bodies as they are told, read at once; the record that goes beyond is the last."""


class Append(msgspec.Struct, frozen=True):
    """One batch of one informer, ready to be written."""

    informer: int | None
    """None where no informer told it: its object left what is configured."""
    kind: int
    resource: int | None
    """That the informer follows; None where there is none."""
    deltas: Sequence[Delta]
    resources: Sequence[int]
    """Of each of them: the resource that it is told of."""
    are_states: Sequence[bool]
    """Of each of them: whether it has the state of its object from now on; a delete has not, nor has a resync."""
    replaced: Sequence[int | None]
    """Of each of them: the record that had the last state of its object until now; None where it changes nothing, or
    none had it."""
    position: str | None
    newest: str | None
    epoch: int
    retiring: bool
    """What is told as deleted may be there all the same."""


def append(database: apsw.Connection, batch: Append, bodies: Bodies) -> int:
    """Log, ledger and position. Returns the bytes of the bodies that are kept."""
    written = [
        rows.delta_row(delta, batch.kind, resource, bodies)
        for delta, resource in zip(batch.deltas, batch.resources, strict=True)
    ]
    if written:
        database.executemany(rows.INSERT, written)
        ledger_sql.enter(database, _entries(batch))
        if batch.informer is None:
            _let_only_a_list_tell(database, batch)
        if batch.retiring:
            ledger_sql.leave_behind(database, batch.kind, (delta.epoch for delta in batch.deltas))
        database.execute("UPDATE meta SET last = ?", (batch.deltas[-1].sequence,))
    size = sum(len(row[-1]) + len(row[-2] or b"") for row in written)
    if batch.informer is None:
        return size
    database.execute(
        "UPDATE informers SET position = ?, newest = ?, epoch = ?, resource = ?,"
        " rebuilding = rebuilding AND ? WHERE id = ?",
        (batch.position, batch.newest, batch.epoch, batch.resource, batch.position is None, batch.informer),
    )
    _end_rebuilding(database)
    return size


def _entries(batch: Append) -> list[ledger_sql.Entry]:
    kind, informer = batch.kind, batch.informer
    return [
        (kind, delta.sequence, delta.key, informer if is_state else None, delta.uid, delta.resource_version, replaced)
        for delta, is_state, replaced in zip(batch.deltas, batch.are_states, batch.replaced, strict=True)
    ]


def _let_only_a_list_tell(database: apsw.Connection, batch: Append) -> None:
    """These objects left, and may still be there: an informer that had them and gets its scope back, before its row is
    gone, must not go on with a watch."""
    database.executemany(
        "UPDATE informers SET position = NULL"
        " WHERE id = (SELECT informer FROM ledger WHERE kind = ? AND seq = ?) AND position IS NOT NULL",
        [(batch.kind, replaced) for replaced in batch.replaced],
    )


def _end_rebuilding(database: apsw.Connection) -> None:
    """A rebuilt database is like any other once every informer has told all it found."""
    database.execute(
        "UPDATE meta SET rebuilt = 0 WHERE rebuilt AND NOT EXISTS (SELECT 1 FROM informers WHERE rebuilding)"
    )


class Reached(msgspec.Struct, frozen=True):
    """How far an informer has come without a change."""

    position: str | None
    newest: str | None
    epoch: int


def reach(database: apsw.Connection, informers: Mapping[int, Reached]) -> None:
    """By number of the informer."""
    if not informers:
        return
    database.executemany(
        "UPDATE informers SET position = ?1, newest = ?2, epoch = ?3, rebuilding = rebuilding AND ?1 IS NULL"
        " WHERE id = ?4",
        [(each.position, each.newest, each.epoch, number) for number, each in informers.items()],
    )
    _end_rebuilding(database)


# ── Readers ──────────────────────────────────────────────────────────────────


def read(database: apsw.Connection, codec: rows.Codec, after: int, limit: int) -> tuple[list[Record], int]:
    """At most ``limit`` records behind ``after``, and the sequence number of the first of them (of the next to come,
    where there are none)."""
    database.execute("BEGIN")  # Both questions see the same moment.
    try:
        first = max(after, one(database, "SELECT trimmed FROM meta")) + 1
        found = database.execute(f"SELECT {rows.COLUMNS} FROM log WHERE seq >= ? ORDER BY seq LIMIT ?", (first, limit))
        return list(bounded(rows.record_of(row, codec) for row in found)), first
    finally:
        database.execute("COMMIT")


def resource(database: apsw.Connection, sequence: int) -> int | None:
    found = database.execute("SELECT resource FROM log WHERE seq = ?", (sequence,)).fetchone()
    return None if found is None else found[0]


def body(database: apsw.Connection, sequence: int) -> bytes | None:
    found = database.execute("SELECT body FROM log WHERE seq = ?", (sequence,)).fetchone()
    return None if found is None else found[0]


def bounded(records: Iterable[Record]) -> Iterator[Record]:
    """As many of these as are read at once."""
    total = 0
    for record in records:
        yield record
        if isinstance(record, Delta):
            total += len(record.body) + len(record.before or b"")
        if total > MOST_BYTES:
            return
