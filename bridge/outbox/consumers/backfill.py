"""Backfills: a snapshot, a compacted backlog, a Gap, a replay, or the earliest records for a new sink with a selection,
which a sink gets before it goes on with the log.

A backfill is a list of items in the database: numbers of records in the order of their delivery, each with the op that
the sink gets, or a notice. The sink reads the log through ``starts_after``, then the items, then the log behind
``resumes_after``. A backfill survives a crash; items that were delivered and not yet saved as settled are delivered
again.

Snapshot, compaction, drop and replay are this one mechanism. A snapshot in a long read transaction would keep the WAL
from being reset; a log that is rewritten for a compaction is not possible, since all sinks share the log; and a replay
would need a second cursor.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import NamedTuple

import apsw
import msgspec

from bridge.model.change import Op
from bridge.model.primitives.shard import Shard
from bridge.model.record import (
    Concern,
    Delta,
    Record,
    Snapshot,
    SnapshotEdge,
    SnapshotScope,
    dropped_gap,
    record_bytes,
    snapshot_id,
)
from bridge.model.resource import Resource
from bridge.outbox.errors import Damaged
from bridge.outbox.log import record_codec
from bridge.outbox.log.record_codec import LogRow
from bridge.outbox.storage.database import one, row
from bridge.outbox.store import bounded


class BackfillKind(StrEnum):
    SNAPSHOT = "snapshot"
    COMPACTED = "compacted"
    DROPPED = "dropped"
    REPLAY = "replay"
    SELECTED = "selected"
    """The sink's own records of a part of the log that other sinks need no more."""
    EARLIEST = "earliest"
    """The log of before the sink was there, as its selection judges it."""


@dataclass(frozen=True, slots=True)
class Backfill:
    """The progress of one sink's backfill, in memory."""

    kind: BackfillKind
    starts_after: int
    """The sink reads the log up to this sequence number before the first item."""
    resumes_after: int
    """The sink reads the log behind this sequence number after the last item."""
    read_through: int
    """Items up to this index have been read."""
    last_item: int
    """Index of the last item."""
    replay: int = 0
    """Number of the replay that this backfill is, or was before a compaction, or of the snapshot on demand; otherwise
    0."""
    through: int = 0
    """Of a snapshot: the sequence number as of which it has the objects' states."""
    objects: int = 0
    """Of a snapshot: its objects."""
    cancelled: bool = False
    """Of a snapshot on demand: an operator has cancelled it."""
    scope: str = ""
    """Of a snapshot on demand: see ``scope_text``."""
    settled_through: int | None = None
    """The log up to this sequence number was settled when the backfill was planned; None if the sink had settled all of
    the log through ``starts_after``."""
    in_flight: tuple[int, ...] = ()
    """Sequence numbers of the records that the sink had received and not settled at that time. They are items too, with
    the indexes from 0 down, so that the log behind ``settled_through`` can be trimmed while the sink is stuck; after a
    crash the sink reads them from the items."""

    @property
    def snapshot_op(self) -> Op | None:
        """The op of the snapshot's items; None for another backfill. A sink that asks for a snapshot may have the
        objects."""
        if self.kind is not BackfillKind.SNAPSHOT:
            return None
        return Op.SYNC if self.replay else Op.ADDED

    @property
    def needs_log_through(self) -> int:
        """The backfill needs no record of the log between this sequence number and ``resumes_after``."""
        return self.starts_after if self.settled_through is None else self.settled_through

    @property
    def left(self) -> int:
        """Items that have not been read."""
        return self.last_item - self.read_through


class BackfillItem(NamedTuple):
    """A row of a backfill's items, without sink and index."""

    sequence: int
    op: str
    """The op that the sink gets for a record; for a notice ``gap``, or the edge of a snapshot."""
    first: int | None = None
    records: int | None = None
    time: str | None = None
    """Of a notice that this module makes, RFC 3339; None for a record of the log."""
    before_sequence: int | None = None
    """The record whose ``before`` the sink gets; None for the item's own record."""
    before: bytes | None = None
    concerns: str | None = None
    """Resources of the records that a Gap of this module stands for: JSON pairs of resource number and namespace (or
    null). None if the records may be of any resource. Of the edge of a snapshot: its SnapshotScope as JSON, if any."""


def load(database: apsw.Connection, sink: str) -> Backfill | None:
    """The backfill of one sink in the database, or None. Raises Damaged for an unknown kind."""
    kind, starts_after, resumes_after, replay = row(
        database,
        "SELECT backfill, backfill_starts_after, backfill_resumes_after, replay FROM cursors WHERE sink = ?",
        (sink,),
    )
    if not kind:
        return None
    first, last = row(database, "SELECT min(item), max(item) FROM backfill_items WHERE sink = ?", (sink,))
    if kind not in set(BackfillKind):
        raise Damaged(f"sink {sink} has a backfill of an unknown kind: {kind}")
    read_through = 0 if first is None else first - 1
    backfill = Backfill(BackfillKind(kind), starts_after, resumes_after, read_through, last or 0, replay)
    if backfill.kind is not BackfillKind.SNAPSHOT:
        return backfill
    # A crash makes ``starts_after`` older than the snapshot, where records were in flight.
    question = (
        "SELECT through, objects, left_out IS NOT NULL, scope FROM snapshots WHERE sink = ?1 AND number = ?2"
        if replay
        else "SELECT seq, records, 0, '' FROM backfill_items WHERE sink = ?1 AND op = 'ended'"
    )
    found = database.execute(question, (sink, replay)[: 1 + bool(replay)])
    through, objects, cancelled, scope = next(found, (0, 0, 0, ""))
    return replace(backfill, through=through, objects=objects, cancelled=bool(cancelled), scope=scope)


def read(
    database: apsw.Connection, codec: record_codec.Codec, sink: str, backfill: Backfill, limit: int
) -> tuple[list[Record], int]:
    """At most ``limit`` records behind the last item that was read, and the index of the last item returned. An object
    of a snapshot has the number as of which the snapshot has its state: no record of it that the sink had before has a
    larger number, also where a changed selection exported the unchanged object again. Raises Damaged if a record of the
    log is missing."""
    logged = ", ".join(f"l.{name}" for name in LogRow._fields)
    found = database.execute(
        f"SELECT s.item, {ITEM_COLUMNS}, {logged} FROM backfill_items s"
        " LEFT JOIN log l ON l.seq = s.seq WHERE s.sink = ? AND s.item > ? ORDER BY s.item LIMIT ?",
        (sink, backfill.read_through, limit),
    )
    items = [backfill.read_through]
    last = _end_of_snapshot(database, sink, backfill)

    def records() -> Iterator[Record]:
        for item, *values in found:
            items.append(item)
            row = None if values[_WIDTH] is None else LogRow._make(values[_WIDTH:])
            record = _record(backfill, sink, BackfillItem._make(values[:_WIDTH]), row, codec)
            # Indexes up to 0 are records in flight before the backfill: these keep the ids of their first delivery.
            if item > 0 and isinstance(record, Delta) and _is_of_snapshot(backfill, record):
                record = msgspec.structs.replace(
                    record,
                    sequence=backfill.through,
                    replay=backfill.replay,
                    snapshot=snapshot_id(sink, backfill.through, backfill.replay),
                    last_of_snapshot=item == last,
                )
            elif backfill.replay and item > 0 and backfill.snapshot_op is None and not isinstance(record, Snapshot):
                record = msgspec.structs.replace(record, replay=backfill.replay)
            yield record

    return list(bounded(records(), record_bytes)), items[-1]


def _is_of_snapshot(backfill: Backfill, record: Delta) -> bool:
    """Whether the record of an item above 0 is one of the snapshot. Items that a compaction appended are newer."""
    return record.op is backfill.snapshot_op and record.sequence <= backfill.through


OBJECTS_LEFT = "FROM backfill_items WHERE sink = ? AND item > ? AND item > 0 AND time IS NULL AND op = ? AND seq <= ?"
"""The items of a snapshot's objects behind an index: parameters as in ``objects_left``."""


def objects_left(database: apsw.Connection, sink: str, backfill: Backfill, behind: int) -> int:
    """The number of a snapshot's objects behind the index ``behind``; 0 for another backfill."""
    if backfill.snapshot_op is None:
        return 0
    values = (sink, behind, backfill.snapshot_op, backfill.through)
    return one(database, f"SELECT count(*) {OBJECTS_LEFT}", values)


def _end_of_snapshot(database: apsw.Connection, sink: str, backfill: Backfill) -> int:
    """Index of the snapshot's last object; 0 if the snapshot has no unread object, if it is cancelled, or the backfill
    is no snapshot."""
    if backfill.snapshot_op is None or backfill.cancelled:
        return 0
    values = (sink, backfill.read_through, backfill.snapshot_op, backfill.through)
    return one(database, f"SELECT coalesce(max(item), 0) {OBJECTS_LEFT}", values)


ITEM_COLUMNS = "s.seq, s.op, s.first_seq, s.records, s.time, s.before_seq, s.before, s.concerns"
_WIDTH = len(BackfillItem._fields)


def _record(backfill: Backfill, sink: str, item: BackfillItem, row: LogRow | None, codec: record_codec.Codec) -> Record:
    """``row``: the record of the log that the item is about; None for a notice."""
    if item.time is not None:
        count = item.records or 0
        if item.op == record_codec.GAP:
            concerns = concerns_of(item.concerns, codec.resources)
            return dropped_gap(item.first or item.sequence, item.sequence, count, item.time, concerns)
        edge = SnapshotEdge(item.op)
        return Snapshot(edge, item.sequence, sink, count, item.time, backfill.replay, scope_of(item.concerns))
    if row is None:
        raise Damaged(f"record {item.sequence}, which sink {sink} has not settled, is missing")
    if item.op == record_codec.GAP:
        return record_codec.record_of(row, codec)
    before = item.before
    if item.op == Op.ADDED or (item.op == Op.SYNC and row.op != item.op):
        # The log may have the record as ``updated``; a new object, or one of a snapshot, has no state before it.
        before = None
    elif item.before_sequence is None:
        before = row.before
    return record_codec.record_of(row._replace(before=before), codec, Op(item.op), item.before_sequence)


def settle(database: apsw.Connection, sink: str, item: int) -> None:
    """Deletes the items up to ``item``, which the sink has settled."""
    database.execute("DELETE FROM backfill_items WHERE sink = ? AND item <= ?", (sink, item))


def insert(database: apsw.Connection, sink: str, planned: Iterable[tuple[int, BackfillItem]]) -> None:
    """Adds items by their indexes."""
    database.executemany(
        "INSERT INTO backfill_items (sink, item, seq, op, first_seq, records, time, before_seq, before, concerns)"
        " VALUES (?,?,?,?,?,?,?,?,?,?)",
        ((sink, item, *selected) for item, selected in planned),
    )


def save(database: apsw.Connection, sink: str, backfill: Backfill) -> Backfill:
    """Makes the backfill part of the sink's cursor, and returns it."""
    database.execute(
        "UPDATE cursors SET backfill = ?, backfill_starts_after = ?, backfill_resumes_after = ?, replay = ?"
        " WHERE sink = ?",
        (backfill.kind.value, backfill.needs_log_through, backfill.resumes_after, backfill.replay, sink),
    )
    return backfill


# ── Objects of a notice: of a Gap in JSON of numbers, of a snapshot in JSON of names


_encode_concerns = msgspec.json.Encoder().encode
_decode_concerns = msgspec.json.Decoder(list[tuple[int, str | None]]).decode
_decode_scope = msgspec.json.Decoder(SnapshotScope).decode

MOST_CONCERNS = 1_000
"""Pairs of resource and namespace in a Gap. A Gap about more pairs names the resources only."""


class GapConcerns:
    """Collects resources by number, with the namespaces of the missing records."""

    def __init__(self) -> None:
        self._found: set[tuple[int, str | None]] | None = set()
        self._named = True
        """False above ``MOST_CONCERNS`` pairs: then resources stand without namespaces."""

    def add(self, resource: int, key: str) -> None:
        """Adds the resource and the namespace of a missing record."""
        namespace, slash, _ = key.partition("/")
        self._add(resource, namespace if slash else None)

    def add_all(self, concerns: str | None) -> None:
        """Adds the pairs of an earlier Gap; None means any resource."""
        if concerns is None:
            self._found = None
            return
        for resource, namespace in _decode_concerns(concerns):
            self._add(resource, namespace)

    def text(self) -> str | None:
        """For ``BackfillItem.concerns``."""
        return None if self._found is None else _encode_concerns(sorted(self._found, key=str)).decode()

    def _add(self, resource: int, namespace: str | None) -> None:
        if self._found is None:
            return
        self._found.add((resource, namespace if self._named else None))
        if self._named and len(self._found) > MOST_CONCERNS:
            self._named = False
            self._found = {(each, None) for each, _ in self._found}


def concerns_of(concerns: str | None, resources: Mapping[int, Resource]) -> tuple[Concern, ...] | None:
    """The concerns of a Gap; None if they are unknown. Raises Damaged."""
    if concerns is None:
        return None
    try:
        return tuple(Concern(resources[number], namespace) for number, namespace in _decode_concerns(concerns))
    except (KeyError, msgspec.MsgspecError) as error:
        raise Damaged(f"the resources of a gap cannot be read: {error!r}") from error


def in_shard(record: Record, shard: Shard) -> Record:
    """A record of a snapshot with the shard, since other bridges have the other objects, and the same numbers: of its
    edges it is a condition. Other records stay as they are."""
    if isinstance(record, Snapshot):
        return msgspec.structs.replace(
            record, only=msgspec.structs.replace(record.only or SnapshotScope(), shard=shard)
        )
    if not isinstance(record, Delta) or record.snapshot is None:
        return record
    return msgspec.structs.replace(record, snapshot=record.snapshot.replace("/", f"/{shard.name}/", 1))


def scope_text(scope: SnapshotScope | None) -> str:
    """For ``BackfillItem.concerns``; empty for every object of the sink."""
    return "" if scope is None else _encode_concerns(scope).decode()


def scope_of(text: str | None) -> SnapshotScope | None:
    """The objects of a snapshot; None for every object of the sink. Raises Damaged."""
    try:
        return _decode_scope(text) if text else None
    except msgspec.MsgspecError as error:
        raise Damaged(f"the objects of a snapshot cannot be read: {error!r}") from error
