"""SQL statements of the log and the ledger: the writer's transactions, and the readers' questions. Hot."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import apsw
import msgspec
from msgspec.structs import astuple

from bridge.model.primitives.packing import pack
from bridge.model.record import Delta, Record
from bridge.outbox.log import ledger_sql, record_codec
from bridge.outbox.log.record_codec import LogRow
from bridge.outbox.storage.database import one

MOST_BYTES = 16 << 20
"""Unpacked bytes of a read. The record that crosses the bound is the last."""

_END_REBUILDING = "UPDATE meta SET rebuilt = 0 WHERE rebuilt AND NOT EXISTS (SELECT 1 FROM informers WHERE rebuilding)"
"""Ends the rebuilding of a lost database once every informer has listed."""


class Append(msgspec.Struct, frozen=True):
    """A batch of an informer, ready to be written."""

    informer: int | None
    """Number of the informer; None for deletes of objects that no informer covers."""
    kind: int
    resource: int | None
    """Number of the resource that the informer follows; None without an informer."""
    resources: Sequence[int]
    """For each delta, the number of the resource that its record names."""
    are_states: Sequence[bool]
    """For each delta, True if the record holds the state of its object from now on. Deletes and resyncs do not."""
    replaced: Sequence[int | None]
    """For each delta, the record that held the previous state. None if there was none, or if the delta changes no
    state."""
    position: str | None
    newest: str | None
    epoch: int
    removing: bool
    """True if deleted objects may still exist in the cluster, and come back in a later epoch."""
    rebuilding: bool
    """True if this batch may end the informer's first list after the database was lost."""
    members: Sequence[ledger_sql.Members] = ()
    """Objects whose selections changed, while their states did not."""


def without_informer(
    kind: int,
    resources: Sequence[int],
    replaced: Sequence[int | None],
    *,
    removing: bool = False,
    members: Sequence[ledger_sql.Members] = (),
) -> Append:
    """A batch of records that no informer exports, and that are no states."""
    no_states = [False] * len(resources)
    return Append(None, kind, None, resources, no_states, replaced, None, None, 1, removing, False, members)


def append(
    database: apsw.Connection, deltas: Sequence[Delta], batch: Append, compress: Callable[[bytes], bytes]
) -> int:
    """Writes log, ledger and position. ``compress`` packs a body. Returns the bytes of the packed bodies."""
    kind, informer = batch.kind, batch.informer
    written = rows(deltas, batch, compress)
    database.executemany(record_codec.INSERT, written)
    database.executemany(
        ledger_sql.ENTER,
        [
            (
                kind,
                delta.sequence,
                delta.key,
                informer if state else None,
                delta.uid,
                delta.resource_version,
                replaced,
                0 if delta.selected is None else delta.selected.members,
            )
            for delta, state, replaced in zip(deltas, batch.are_states, batch.replaced, strict=True)
        ],
    )
    if batch.members:
        ledger_sql.save_members(database, batch.members)
    if informer is None:
        _clear_positions(database, batch)
    if batch.removing:
        ledger_sql.raise_epoch(database, kind, (delta.epoch for delta in deltas))
    database.execute("UPDATE meta SET last = ?", (deltas[-1].sequence,))
    if informer is not None:
        database.execute(
            "UPDATE informers SET position = ?, newest = ?, epoch = ?, resource = ?,"
            " rebuilding = rebuilding AND ? WHERE id = ?",
            (batch.position, batch.newest, batch.epoch, batch.resource, batch.position is None, informer),
        )
        if batch.rebuilding:
            database.execute(_END_REBUILDING)
    return sum(len(row[-1]) + len(row[-2] or b"") for row in written)


def rows(deltas: Sequence[Delta], batch: Append, compress: Callable[[bytes], bytes]) -> list[LogRow]:
    """The rows of the records, with packed bodies."""
    kind = batch.kind
    return [
        (
            delta.sequence,
            delta.op.value,
            delta.evidence.value,
            kind,
            resource,
            delta.key,
            delta.uid,
            delta.resource_version,
            delta.time,
            delta.epoch,
            None if delta.targets is None else record_codec.encode(delta.targets).decode(),
            *(record_codec.UNDECIDED if delta.selected is None else astuple(delta.selected)),
            delta.selection,
            None if delta.before is None else compress(delta.before),
            compress(delta.body),
        )
        for delta, resource in zip(deltas, batch.resources, strict=True)
    ]


def _clear_positions(database: apsw.Connection, batch: Append) -> None:
    """Clears the positions of the informers that had these objects. The objects may still exist: an informer that gets
    its scope back must list, and not go on with its watch."""
    database.executemany(
        "UPDATE informers SET position = NULL"
        " WHERE id = (SELECT informer FROM ledger WHERE kind = ? AND seq = ?) AND position IS NOT NULL",
        [(batch.kind, replaced) for replaced in batch.replaced],
    )


class InformerProgress(msgspec.Struct, frozen=True):
    """The progress of an informer without a change."""

    position: str | None
    newest: str | None
    epoch: int


def reach(database: apsw.Connection, informers: Mapping[int, InformerProgress]) -> None:
    """Saves progress by the informers' numbers."""
    if not informers:
        return
    database.executemany(
        "UPDATE informers SET position = ?1, newest = ?2, epoch = ?3, rebuilding = rebuilding AND ?1 IS NULL"
        " WHERE id = ?4",
        [(each.position, each.newest, each.epoch, number) for number, each in informers.items()],
    )
    database.execute(_END_REBUILDING)


# ── Readers ──────────────────────────────────────────────────────────────────

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
        return list(bounded(record_codec.record_of(row, codec) for row in found)), first
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


def bounded(records: Iterable[Record]) -> Iterator[Record]:
    """The records up to ``MOST_BYTES``."""
    total = 0
    for record in records:
        yield record
        if isinstance(record, Delta):
            total += len(record.body) + len(record.before or b"")
        if total > MOST_BYTES:
            return
