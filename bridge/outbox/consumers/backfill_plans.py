"""Plans of backfills: which records become items, with which op, and what happens to the items that wait already.

Each function runs in a transaction. A plan that replaces another one covers everything that the sink has not received.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Any, NamedTuple

import apsw

from bridge.model.admin import Replayed
from bridge.model.change import Op
from bridge.model.policies import StartPolicy
from bridge.model.record import SnapshotEdge
from bridge.outbox.consumers import selections
from bridge.outbox.consumers.backfill import (
    ITEM_COLUMNS,
    Backfill,
    BackfillItem,
    BackfillKind,
    GapConcerns,
    insert,
    objects_left,
    save,
)
from bridge.outbox.consumers.compaction import BacklogRecord, compact
from bridge.outbox.consumers.selections import JudgedRecords
from bridge.outbox.ledger import PRESENT
from bridge.outbox.log import record_codec
from bridge.outbox.storage.database import one, row
from bridge.outbox.store import Condition

_CHUNK = 10_000
"""Rows read in each transaction."""


@dataclass(frozen=True, slots=True)
class Received:
    """How far a sink has come when it gets a plan."""

    sink: str
    settled: int
    """It has settled the log up to this sequence number."""
    taken: int
    """It has received the log up to this sequence number, unless it reads a backfill."""
    backfill: Backfill | None

    @property
    def planned_through(self) -> int:
        """The sink has received the log up to this sequence number, or gets that from its backfill."""
        return self.taken if self.backfill is None else self.backfill.resumes_after


def plan_compacted(
    database: apsw.Connection, received: Received, through: int, uncertain_through: int
) -> tuple[int, list[BackfillItem]]:
    """Plans the newest record of each object through ``through``, between the notices that were waiting. Returns the
    number of records before, and the items. The function reads row by row, since a backlog may exceed memory."""
    backfill = received.backfill
    if backfill is not None:
        # A replay repeats records that the sink may have received long ago, so none of them certainly is new to it.
        uncertain_through = max(uncertain_through, backfill.starts_after)
    notices: list[BackfillItem] = []
    befores: dict[int, bytes | None] = {}
    count = 0

    def waiting() -> Iterator[BacklogRecord]:
        nonlocal count
        for each in _waiting(database, received, through):
            item = each.item
            count += 1
            if item.time is not None or item.op == record_codec.GAP:
                notices.append(item)
                continue
            if item.before_sequence is not None:
                befores[item.before_sequence] = item.before
            yield BacklogRecord(item.sequence, (each.kind, each.key), each.uid, Op(item.op), item.before_sequence)

    planned = []
    for kept in compact(waiting(), uncertain_through):
        if kept.before == kept.sequence:
            planned.append(BackfillItem(kept.sequence, kept.op.value))
        else:
            before = befores[kept.before] if kept.before in befores else _before(database, kept.before)
            planned.append(BackfillItem(kept.sequence, kept.op.value, before_sequence=kept.before, before=before))
    if backfill is None or backfill.snapshot_op is None:
        return count, _bracketed(notices, planned)
    of_snapshot = objects_left(database, received.sink, backfill, backfill.read_through)
    stays = sum(each.op == backfill.snapshot_op and each.sequence <= backfill.through for each in planned)
    return count, _bracketed([_without(of_snapshot - stays, notice) for notice in notices], planned)


def plan_dropped(database: apsw.Connection, received: Received, through: int, time: str) -> list[BackfillItem]:
    """Plans a Gap in place of all records of the log through ``through`` that the sink has not received; a Gap that is
    waiting already grows instead. The Gap is the last item."""
    start = received.planned_through
    first, count = start + 1, 0
    notices: list[BackfillItem] = []
    kept: list[BackfillItem] = []
    concerns = GapConcerns()
    for each in _waiting(database, received, through):
        item = each.item
        if item.op == record_codec.GAP and item.time is not None:
            first, count = min(first, item.first or first), count + (item.records or 0)
            concerns.add_all(item.concerns)
        elif item.time is not None or item.op == record_codec.GAP:
            notices.append(item)
        elif item.sequence <= start:
            kept.append(item)
        else:
            count += 1
            concerns.add(each.resource, each.key)
    return [
        *_bracketed(notices, kept),
        BackfillItem(through, record_codec.GAP, first, count, time, concerns=concerns.text()),
    ]


def replan(
    database: apsw.Connection, received: Received, kind: BackfillKind, through: int, planned: Iterable[BackfillItem]
) -> Backfill:
    """Replaces everything up to ``through`` that the sink has not received with the items ``planned``."""
    sink, base = received.sink, _base(database, received, kind)
    database.execute("DELETE FROM backfill_items WHERE sink = ? AND item > ?", (sink, base.read_through))
    begin = max(base.read_through, 0)
    numbered = list(enumerate(planned, begin + 1))
    insert(database, sink, numbered)
    # A compacted snapshot is still a snapshot: its end has to be announced.
    kind = base.kind if base.kind is BackfillKind.SNAPSHOT else kind
    ends = [each.records or 0 for _, each in numbered if each.op == SnapshotEdge.ENDED]
    changed = replace(base, kind=kind, resumes_after=through, last_item=begin + len(numbered))
    return save(database, sink, replace(changed, objects=ends[0]) if ends else changed)


def extend(database: apsw.Connection, received: Received, through: int) -> Backfill:
    """Makes items of the sink's records up to ``through``, as they are: the log can be trimmed that far, however many
    records there are for other sinks."""
    sink, base = received.sink, _base(database, received, BackfillKind.SELECTED)
    op, seen = selections.seen_by(database, sink)
    begin = max(base.last_item, 0)
    database.execute(
        "INSERT INTO backfill_items (sink, item, seq, op)"
        f" SELECT ?, ? + row_number() OVER (ORDER BY seq), seq, {op} FROM log WHERE seq > ? AND seq <= ? AND {seen}",
        (sink, begin, base.resumes_after, through),
    )
    last_item = begin + database.changes()
    return save(database, sink, replace(base, resumes_after=through, last_item=last_item))


# ── Replays, and the beginning of a sink ─────────────────────────────────────


def begin_replay(
    database: apsw.Connection, received: Received, which: Condition, judged: JudgedRecords | None
) -> tuple[Backfill | None, Replayed]:
    """Plans these records of the log, of those that the sink has taken, once more; for a sink with a selection those of
    ``judged``. Returns the backfill (None for no records), and the range of its records. The replay's number becomes
    durable with the items: a replay that goes on after a crash keeps its number, and no other replay of this database
    gets the same."""
    sink, taken = received.sink, received.taken
    log_start = one(database, "SELECT log_start FROM meta")
    if judged is not None:
        insert(database, sink, enumerate(judged.items(log_start), 1))
    else:
        op, seen = selections.seen_by(database, sink)
        where, values = which
        database.execute(
            f"INSERT INTO backfill_items (sink, item, seq, op) SELECT ?, row_number() OVER (ORDER BY seq), seq, {op}"
            f" FROM log WHERE seq >= ? AND seq <= ? AND {seen} AND {where}",
            (sink, log_start, taken, *values),
        )
    found = row(
        database,
        "SELECT count(*), coalesce(min(seq), 0), coalesce(max(seq), 0) FROM backfill_items WHERE sink = ?",
        (sink,),
    )
    planned = Replayed(*found)
    if not planned.records:
        return None, planned
    number = one(database, "UPDATE meta SET replays = replays + 1 RETURNING replays")
    backfill = Backfill(BackfillKind.REPLAY, taken, taken, 0, planned.records, number)
    return save(database, sink, with_in_flight(database, backfill, received)), planned


def begin_first_snapshot(database: apsw.Connection, sink: str, time: str) -> Backfill:
    """Plans every object that the sink's selection contains as ``added``, in the order of their last records, between
    two notices."""
    last, has = one(database, "SELECT last FROM meta"), selections.contains(database, sink)
    database.execute(
        "INSERT INTO backfill_items (sink, item, seq, op)"
        f" SELECT ?, row_number() OVER (ORDER BY seq) + 1, seq, 'added' FROM {PRESENT} AND {has}",
        (sink,),
    )
    count = database.changes()
    insert(database, sink, [(1, BackfillItem(last, SnapshotEdge.BEGAN, records=count, time=time))])
    insert(database, sink, [(count + 2, BackfillItem(last, SnapshotEdge.ENDED, records=count, time=time))])
    return save(database, sink, Backfill(BackfillKind.SNAPSHOT, last, last, 0, count + 2, through=last, objects=count))


def begin_earliest(database: apsw.Connection, sink: str, judged: JudgedRecords) -> Backfill | None:
    """Plans what the sink gets of the records that are in the log now. None for no records."""
    settled, last, log_start = row(
        database, "SELECT settled, last, log_start FROM cursors, meta WHERE sink = ?", (sink,)
    )
    insert(database, sink, enumerate(judged.items(log_start), 1))
    count = one(database, "SELECT count(*) FROM backfill_items WHERE sink = ?", (sink,))
    if not count:
        return None
    return save(database, sink, Backfill(BackfillKind.EARLIEST, settled, last, 0, count))


def begin_selection(
    database: apsw.Connection, sink: str, start: str, time: str, judged: JudgedRecords | None
) -> Backfill | None:
    """Puts a selection into effect. ``start``: the StartPolicy of a new sink; empty for other sinks. ``judged``: the
    records of the log, for ``earliest``."""
    selections.end(database, sink)
    if judged is not None:
        return begin_earliest(database, sink, judged)
    if start != StartPolicy.SNAPSHOT or not one(database, f"SELECT EXISTS (SELECT 1 FROM {PRESENT})"):
        return None
    return begin_first_snapshot(database, sink, time)


# ── Parts of a plan ──────────────────────────────────────────────────────────


class _Waiting(NamedTuple):
    item: BackfillItem
    """Also for a record of the log."""
    resource: Any
    """This and the others: of the record's object; None for a notice."""
    kind: Any
    key: Any
    uid: Any


def _base(database: apsw.Connection, received: Received, kind: BackfillKind) -> Backfill:
    """The backfill that a plan changes: the present one, or an empty one of this kind."""
    return received.backfill or with_in_flight(database, Backfill(kind, received.taken, received.taken, 0, 0), received)


def _waiting(database: apsw.Connection, received: Received, through: int) -> Iterator[_Waiting]:
    """All items and records that the sink has not received, in order."""
    sink, backfill = received.sink, received.backfill
    if backfill is not None:
        items = (
            f"SELECT s.item, {ITEM_COLUMNS}, l.resource, l.kind, l.key, l.uid FROM backfill_items s"
            " LEFT JOIN log l ON l.seq = s.seq WHERE s.item > ? AND s.sink = ? ORDER BY s.item"
        )
        for _, *values, resource, kind, key, uid in _in_chunks(database, items, backfill.read_through, sink):
            yield _Waiting(BackfillItem._make(values), resource, kind, key, uid)
    op, seen = selections.seen_by(database, sink)
    log = f"SELECT seq, {op}, resource, kind, key, uid FROM log WHERE seq > ? AND seq <= ? AND {seen} ORDER BY seq"
    start = received.planned_through
    for sequence, op, resource, kind, key, uid in _in_chunks(database, log, start, through):
        yield _Waiting(BackfillItem(sequence, op), resource, kind, key, uid)


def _in_chunks(database: apsw.Connection, query: str, after: int, *values: Any) -> Iterator[tuple[Any, ...]]:
    """The rows of a query, whose first value is ``after`` and whose first column grows. Each chunk has its own short
    read transaction, so that the write-ahead log can be reset. Safe, because rows that wait for this sink do not
    change."""
    while chunk := list(database.execute(f"{query} LIMIT {_CHUNK}", (after, *values))):
        yield from chunk
        after = chunk[-1][0]


def with_in_flight(database: apsw.Connection, backfill: Backfill, received: Received) -> Backfill:
    """Adds the records that the sink has received and not settled as items, with indexes from 0 down."""
    sink, settled = received.sink, received.settled
    op, seen = selections.seen_by(database, sink)
    found = database.execute(
        f"SELECT seq, {op} FROM log WHERE seq > ? AND seq <= ? AND {seen} ORDER BY seq",
        (settled, backfill.starts_after),
    )
    in_flight = list(found)
    insert(database, sink, enumerate((BackfillItem(*each) for each in in_flight), 1 - len(in_flight)))
    return replace(backfill, settled_through=settled, in_flight=tuple(sequence for sequence, _ in in_flight))


def _without(replaced: int, notice: BackfillItem) -> BackfillItem:
    """The end of a snapshot carries the number of its objects; ``replaced`` of them were replaced by newer records."""
    if notice.op != SnapshotEdge.ENDED:
        return notice
    return notice._replace(records=(notice.records or 0) - replaced)


def _bracketed(notices: Sequence[BackfillItem], planned: Sequence[BackfillItem]) -> list[BackfillItem]:
    """Keeps a Gap behind all records that are older. A consumer may read the cluster when the Gap arrives; an older
    record after that would set the consumer's state back."""
    begins = [notice for notice in notices if notice.op == SnapshotEdge.BEGAN]
    ends = [notice for notice in notices if notice.op in (SnapshotEdge.ENDED, SnapshotEdge.CANCELLED)]
    gaps = [notice for notice in notices if notice.op == record_codec.GAP]
    return [*begins, *sorted([*planned, *gaps], key=attrgetter("sequence")), *ends]


def _before(database: apsw.Connection, sequence: int) -> bytes | None:
    found = database.execute("SELECT before FROM log WHERE seq = ?", (sequence,)).fetchone()
    return found[0] if found else None
