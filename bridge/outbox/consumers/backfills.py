"""Backfills: a snapshot, a compacted backlog, a Gap or a replay that a sink gets before it goes on with the log.

A backfill is a list of items in the database: numbers of records in the order of their delivery, each with the op that
the sink gets, or a notice. The sink reads the log through ``after``, then the items, then the log behind ``cut``. A
backfill survives a crash; items that were delivered and not yet saved as settled are delivered again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from operator import attrgetter
from typing import Any, NamedTuple

import apsw
import msgspec

from bridge.model.change import Op
from bridge.model.gaps import dropped_gap
from bridge.model.record import Concern, Delta, Record, Snapshot, SnapshotEdge, snapshot_id
from bridge.outbox.consumers.compaction import BacklogRecord, compact
from bridge.outbox.errors import Damaged
from bridge.outbox.log import record_codec
from bridge.outbox.log.statements import bounded
from bridge.outbox.objects.ledger_sql import PRESENT
from bridge.outbox.storage.sql import one, row

_encode_about = msgspec.json.Encoder().encode
_decode_about = msgspec.json.Decoder(list[tuple[int, str | None]]).decode


class BackfillKind(StrEnum):
    SNAPSHOT = "snapshot"
    COMPACTED = "compacted"
    DROPPED = "dropped"
    REPLAY = "replay"


@dataclass(frozen=True, slots=True)
class Backfill:
    """The progress of one sink's backfill, in memory."""

    kind: BackfillKind
    after: int
    """The sink reads the log up to this sequence number before the first item."""
    cut: int
    """The sink reads the log behind this sequence number after the last item."""
    told: int
    """Items up to this index have been read."""
    last: int
    """Index of the last item."""
    replay: int = 0
    """Number of the replay that this backfill is, or was before a compaction; 0 outside of replays."""
    since: int | None = None
    """The log up to this sequence number was settled when the backfill was planned; None if the sink had settled all of
    the log through ``after``."""
    in_flight: tuple[int, ...] = ()
    """Sequence numbers of the records that the sink had received and not settled at that time. They are items too, with
    the indexes from 0 down, so that the log behind ``since`` can be trimmed while the sink is stuck; after a crash the
    sink reads them from the items."""

    @property
    def log_from(self) -> int:
        """The backfill needs no record of the log between this sequence number and ``cut``."""
        return self.after if self.since is None else self.since

    @property
    def left(self) -> int:
        """Items that have not been read."""
        return self.last - self.told


class BackfillItem(NamedTuple):
    """A row of a backfill's items, without sink and index."""

    sequence: int
    op: str
    """The op that the sink gets for a record; or ``gap``, ``began``, ``ended`` for a notice."""
    first: int | None = None
    records: int | None = None
    time: str | None = None
    """Of a notice that this module makes, RFC 3339; None for a record of the log."""
    before_sequence: int | None = None
    """The record whose ``before`` the sink gets; None for the item's own record."""
    before: bytes | None = None
    concerns: str | None = None
    """Resources of the records that a Gap of this module stands for: JSON pairs of resource number and namespace (or
    null). None if the records may be of any resource."""


_PART = 10_000
"""Rows read in each transaction."""
MOST_CONCERNS = 1_000
"""Pairs of resource and namespace in a Gap. A Gap about more pairs names the resources only."""


def load(database: apsw.Connection, sink: str) -> Backfill | None:
    """The backfill of one sink in the database, or None. Raises Damaged for an unknown kind."""
    kind, after, cut, replay = row(
        database,
        "SELECT backfill, backfill_starts_after, backfill_resumes_after, replay FROM cursors WHERE sink = ?",
        (sink,),
    )
    if not kind:
        return None
    first, last = row(database, "SELECT min(item), max(item) FROM backfill_items WHERE sink = ?", (sink,))
    if kind not in set(BackfillKind):
        raise Damaged(f"sink {sink} has a backfill of an unknown kind: {kind}")
    return Backfill(BackfillKind(kind), after, cut, 0 if first is None else first - 1, last or 0, replay)


def read(
    database: apsw.Connection, codec: record_codec.Codec, sink: str, backfill: Backfill, limit: int
) -> tuple[list[Record], int]:
    """At most ``limit`` records behind the last item that was read, and the index of the last item returned. Raises
    Damaged if a record of the log is missing."""
    columns = ", ".join(f"l.{name}" for name in record_codec.COLUMNS.split(", "))
    found = database.execute(
        f"SELECT s.item, {_SELECTED}, {columns} FROM backfill_items s"
        " LEFT JOIN log l ON l.seq = s.seq WHERE s.sink = ? AND s.item > ? ORDER BY s.item LIMIT ?",
        (sink, backfill.told, limit),
    )
    items = [backfill.told]
    last = _end_of_snapshot(database, sink, backfill)

    def records() -> Iterator[Record]:
        for item, *values in found:
            items.append(item)
            record = _record(sink, BackfillItem(*values[:_WIDTH]), values[_WIDTH:], codec)
            # Indexes up to 0 are records in flight before the replay: these keep the ids of their first delivery.
            if backfill.replay and item > 0 and not isinstance(record, Snapshot):
                record = msgspec.structs.replace(record, replay=backfill.replay)
            if item <= last and isinstance(record, Delta):
                record = msgspec.structs.replace(
                    record, snapshot=snapshot_id(sink, backfill.after), last_of_snapshot=item == last
                )
            yield record

    return list(bounded(records())), items[-1]


def _end_of_snapshot(database: apsw.Connection, sink: str, backfill: Backfill) -> int:
    """Index of the snapshot's last object; 0 if the snapshot has no unread object, or the backfill is no snapshot.
    Items that a compaction appended are newer than the snapshot."""
    if backfill.kind is not BackfillKind.SNAPSHOT:
        return 0
    query = (
        "SELECT item FROM backfill_items WHERE sink = ? AND item > ? AND time IS NULL AND seq <= ?"
        " ORDER BY item DESC LIMIT 1"
    )
    found = database.execute(query, (sink, backfill.told, backfill.after)).fetchone()
    return 0 if found is None else int(found[0])


_SELECTED = "s.seq, s.op, s.first_seq, s.records, s.time, s.before_seq, s.before, s.concerns"
_WIDTH = len(BackfillItem._fields)


def _record(sink: str, selected: BackfillItem, logged: Sequence[Any], codec: record_codec.Codec) -> Record:
    sequence, op, first, count, time, before_sequence, before, concerns = selected
    if time is not None:
        if op == record_codec.GAP:
            return dropped_gap(first or sequence, sequence, count or 0, time, _concerns_of(concerns, codec))
        return Snapshot(SnapshotEdge(op), sequence, sink, count or 0, time)
    if logged[0] is None:
        raise Damaged(f"record {sequence}, which sink {sink} has not settled, is missing")
    if op == record_codec.GAP:
        return record_codec.record_of(logged, codec)
    if op == Op.ADDED:
        # The log may have the record as ``updated``; an ``added`` never has a state before it.
        before = None
    elif before_sequence is None:
        before = logged[-2]
    return record_codec.record_of([*logged[:-2], before, logged[-1]], codec, Op(op))


def _concerns_of(concerns: str | None, codec: record_codec.Codec) -> tuple[Concern, ...] | None:
    if concerns is None:
        return None
    try:
        return tuple(Concern(codec.resources[number], namespace) for number, namespace in _decode_about(concerns))
    except (KeyError, msgspec.MsgspecError) as error:
        raise Damaged(f"the resources of a gap cannot be read: {error!r}") from error


# ── Plans ────────────────────────────────────────────────────────────────────


def begin_snapshot(database: apsw.Connection, sink: str, time: str) -> Backfill:
    """Plans every object of the ledger as ``added``, in the order of their last records, between two notices."""
    cut = one(database, "SELECT last FROM meta")
    database.execute(
        "INSERT INTO backfill_items (sink, item, seq, op)"
        f" SELECT ?, row_number() OVER (ORDER BY seq) + 1, seq, 'added' FROM {PRESENT}",
        (sink,),
    )
    count = database.changes()
    _insert(database, sink, [(1, BackfillItem(cut, SnapshotEdge.BEGAN, records=count, time=time))])
    _insert(database, sink, [(count + 2, BackfillItem(cut, SnapshotEdge.ENDED, records=count, time=time))])
    return _set(database, sink, Backfill(BackfillKind.SNAPSHOT, cut, cut, 0, count + 2))


def begin_replay(
    database: apsw.Connection,
    sink: str,
    *,
    start: int | str,
    settled: int,
    taken: int,
    kind: int | None,
    namespace: str | None,
) -> tuple[Backfill | None, tuple[int, int, int]]:
    """Plans the log from ``start`` (a sequence number, or an RFC 3339 time) through ``taken`` once more, for a kind or
    namespace if given. Returns the backfill (None for no records), and the count, first and last sequence number of its
    records. The replay's number becomes durable with the items: a replay that goes on after a crash keeps its number,
    and no other replay of this database gets the same."""
    log_start = one(database, "SELECT log_start FROM meta")
    wheres = ["seq >= ?", "seq <= ?", _MEANT_FOR]
    values: list[int | str] = [log_start, taken, _quoted(sink)]
    # Times are RFC 3339 in UTC with microseconds: texts of one length, whose order is the order of time.
    wheres.append("seq >= ?" if isinstance(start, int) else "time >= ?")
    values.append(start)
    if kind is not None:
        wheres.append("kind = ?")
        values.append(kind)
    if namespace is not None:
        wheres.append("substr(key, 1, length(?) + 1) = ? || '/'")
        values += [namespace, namespace]
    database.execute(
        "INSERT INTO backfill_items (sink, item, seq, op) SELECT ?, row_number() OVER (ORDER BY seq), seq, op FROM log"
        f" WHERE {' AND '.join(wheres)}",
        (sink, *values),
    )
    count, first, last = row(
        database,
        "SELECT count(*), coalesce(min(seq), 0), coalesce(max(seq), 0) FROM backfill_items WHERE sink = ?",
        (sink,),
    )
    if not count:
        return None, (count, first, last)
    number = one(database, "UPDATE meta SET replays = replays + 1 RETURNING replays")
    backfill = Backfill(BackfillKind.REPLAY, taken, taken, 0, count, number)
    return _set(database, sink, _with_in_flight(database, sink, backfill, settled)), (count, first, last)


def compacted(
    database: apsw.Connection, sink: str, backfill: Backfill | None, taken: int, through: int, uncertain_through: int
) -> tuple[int, list[BackfillItem]]:
    """Plans the newest record of each object through ``through``, between the notices that were waiting. Returns the
    number of records before, and the items. ``taken``: the sink has received the log up to here, unless it reads a
    backfill. The function reads row by row, since a backlog may exceed memory."""
    if backfill is not None:
        # A replay repeats records that the sink may have received long ago, so none of them certainly is new to it.
        uncertain_through = max(uncertain_through, backfill.after)
    notices: list[BackfillItem] = []
    befores: dict[int, bytes | None] = {}
    count = of_snapshot = 0
    snapshot = backfill.after if backfill is not None and backfill.kind is BackfillKind.SNAPSHOT else 0

    def waiting() -> Iterator[BacklogRecord]:
        nonlocal count, of_snapshot
        for selected, _, kind, key, uid in _waiting(database, sink, backfill, taken, through):
            count += 1
            if selected.time is not None or selected.op == record_codec.GAP:
                notices.append(selected)
                continue
            of_snapshot += selected.sequence <= snapshot
            if selected.before_sequence is not None:
                befores[selected.before_sequence] = selected.before
            yield BacklogRecord(selected.sequence, (kind, key), uid, Op(selected.op), selected.before_sequence)

    planned = []
    for kept in compact(waiting(), uncertain_through):
        if kept.before == kept.sequence:
            planned.append(BackfillItem(kept.sequence, kept.op.value))
        else:
            before = befores[kept.before] if kept.before in befores else _before(database, kept.before)
            planned.append(BackfillItem(kept.sequence, kept.op.value, before_sequence=kept.before, before=before))
    gone = of_snapshot - sum(each.sequence <= snapshot for each in planned)
    return count, _bracketed([_without(gone, notice) for notice in notices], planned)


def dropped(
    database: apsw.Connection, sink: str, backfill: Backfill | None, taken: int, through: int, time: str
) -> list[BackfillItem]:
    """Plans a Gap in place of all records of the log through ``through`` that the sink has not received; a Gap that is
    waiting already grows instead. The Gap is the last item."""
    start = taken if backfill is None else backfill.cut
    first, count = start + 1, 0
    notices: list[BackfillItem] = []
    kept: list[BackfillItem] = []
    about = _About()
    for selected, resource, _, key, _ in _waiting(database, sink, backfill, taken, through):
        if selected.op == record_codec.GAP and selected.time is not None:
            first, count = min(first, selected.first or first), count + (selected.records or 0)
            about.add_all(selected.concerns)
        elif selected.time is not None or selected.op == record_codec.GAP:
            notices.append(selected)
        elif selected.sequence <= start:
            kept.append(selected)
        else:
            count += 1
            about.add(resource, key)
    return [
        *_bracketed(notices, kept),
        BackfillItem(through, record_codec.GAP, first, count, time, concerns=about.text()),
    ]


class _About:
    """Collects resources by number, with the namespaces of the missing records."""

    def __init__(self) -> None:
        self._found: set[tuple[int, str | None]] | None = set()
        self._named = True
        """False above ``MOST_CONCERNS`` pairs: then resources stand without namespaces."""

    def add(self, resource: int, key: str) -> None:
        namespace, slash, _ = key.partition("/")
        self._add(resource, namespace if slash else None)

    def add_all(self, concerns: str | None) -> None:
        """Adds the pairs of an earlier Gap; None means any resource."""
        if concerns is None:
            self._found = None
            return
        for resource, namespace in _decode_about(concerns):
            self._add(resource, namespace)

    def text(self) -> str | None:
        return None if self._found is None else _encode_about(sorted(self._found, key=str)).decode()

    def _add(self, resource: int, namespace: str | None) -> None:
        if self._found is None:
            return
        self._found.add((resource, namespace if self._named else None))
        if self._named and len(self._found) > MOST_CONCERNS:
            self._named = False
            self._found = {(each, None) for each, _ in self._found}


def _waiting(
    database: apsw.Connection, sink: str, backfill: Backfill | None, taken: int, through: int
) -> Iterator[tuple[BackfillItem, Any, Any, Any, Any]]:
    """All items and records that the sink has not received, in order, each with resource, kind, key and uid of its
    object."""
    if backfill is not None:
        selections = (
            f"SELECT s.item, {_SELECTED}, l.resource, l.kind, l.key, l.uid FROM backfill_items s"
            " LEFT JOIN log l ON l.seq = s.seq WHERE s.item > ? AND s.sink = ? ORDER BY s.item"
        )
        for _, *values, resource, kind, key, uid in _in_parts(database, selections, backfill.told, sink):
            yield BackfillItem(*values), resource, kind, key, uid
    log = f"SELECT seq, op, resource, kind, key, uid FROM log WHERE seq > ? AND seq <= ? AND {_MEANT_FOR} ORDER BY seq"
    start = taken if backfill is None else backfill.cut
    for sequence, op, resource, kind, key, uid in _in_parts(database, log, start, through, _quoted(sink)):
        yield BackfillItem(sequence, op), resource, kind, key, uid


def _in_parts(database: apsw.Connection, query: str, after: int, *values: Any) -> Iterator[tuple[Any, ...]]:
    """Rows behind ``after``, which is the query's first value, by its first column. What waits for a sink stays as it
    is meanwhile; in short transactions it may take long, and does not keep the write-ahead log from being reset."""
    while part := list(database.execute(f"{query} LIMIT {_PART}", (after, *values))):
        yield from part
        after = part[-1][0]


def _without(gone: int, notice: BackfillItem) -> BackfillItem:
    """The end of a snapshot carries the number of its objects; ``gone`` of them were replaced by newer records."""
    if notice.op != SnapshotEdge.ENDED:
        return notice
    return notice._replace(records=(notice.records or 0) - gone)


def _bracketed(notices: Sequence[BackfillItem], planned: Sequence[BackfillItem]) -> list[BackfillItem]:
    """Keeps a Gap behind all records that are older. A consumer may read the cluster when the Gap arrives; an older
    record after that would set the consumer's state back."""
    begins = [notice for notice in notices if notice.op == SnapshotEdge.BEGAN]
    ends = [notice for notice in notices if notice.op == SnapshotEdge.ENDED]
    gaps = [notice for notice in notices if notice.op == record_codec.GAP]
    return [*begins, *sorted([*planned, *gaps], key=attrgetter("sequence")), *ends]


def _before(database: apsw.Connection, sequence: int) -> bytes | None:
    found = database.execute("SELECT before FROM log WHERE seq = ?", (sequence,)).fetchone()
    return found[0] if found else None


def replan(
    database: apsw.Connection,
    sink: str,
    kind: BackfillKind,
    backfill: Backfill | None,
    settled: int,
    taken: int,
    cut: int,
    planned: Iterable[BackfillItem],
) -> Backfill:
    """Replaces everything through ``cut`` that the sink has not received with the items ``planned``."""
    base = backfill or _with_in_flight(database, sink, Backfill(kind, taken, taken, 0, 0), settled)
    database.execute("DELETE FROM backfill_items WHERE sink = ? AND item > ?", (sink, base.told))
    begin = max(base.told, 0)
    numbered = list(enumerate(planned, begin + 1))
    _insert(database, sink, numbered)
    # A compacted snapshot is still a snapshot: its end has to be announced.
    kind = base.kind if base.kind is BackfillKind.SNAPSHOT else kind
    return _set(database, sink, replace(base, kind=kind, cut=cut, last=begin + len(numbered)))


def _with_in_flight(database: apsw.Connection, sink: str, backfill: Backfill, settled: int) -> Backfill:
    """Adds the records that the sink has received and not settled as items, with indexes from 0 down."""
    found = database.execute(
        f"SELECT seq, op FROM log WHERE seq > ? AND seq <= ? AND {_MEANT_FOR} ORDER BY seq",
        (settled, backfill.after, _quoted(sink)),
    )
    in_flight = list(found)
    _insert(database, sink, enumerate((BackfillItem(*each) for each in in_flight), 1 - len(in_flight)))
    return replace(backfill, since=settled, in_flight=tuple(sequence for sequence, _ in in_flight))


def settle(database: apsw.Connection, sink: str, item: int) -> None:
    """Deletes the items up to ``item``, which the sink has settled."""
    database.execute("DELETE FROM backfill_items WHERE sink = ? AND item <= ?", (sink, item))


def end(database: apsw.Connection, sink: str) -> None:
    """Deletes a backfill that was delivered and settled. The caller saves the cursor in the same transaction."""
    database.execute("DELETE FROM backfill_items WHERE sink = ?", (sink,))
    database.execute("UPDATE cursors SET backfill = '', replay = 0 WHERE sink = ?", (sink,))


_MEANT_FOR = "(targets IS NULL OR instr(targets, ?))"


def _quoted(sink: str) -> str:
    return f'"{sink}"'


def _insert(database: apsw.Connection, sink: str, planned: Iterable[tuple[int, BackfillItem]]) -> None:
    database.executemany(
        "INSERT INTO backfill_items (sink, item, seq, op, first_seq, records, time, before_seq, before, concerns)"
        " VALUES (?,?,?,?,?,?,?,?,?,?)",
        [(sink, item, *selected) for item, selected in planned],
    )


def _set(database: apsw.Connection, sink: str, backfill: Backfill) -> Backfill:
    database.execute(
        "UPDATE cursors SET backfill = ?, backfill_starts_after = ?, backfill_resumes_after = ?, replay = ?"
        " WHERE sink = ?",
        (backfill.kind.value, backfill.log_from, backfill.cut, backfill.replay, sink),
    )
    return backfill
