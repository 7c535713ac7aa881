"""Plans of replays and of snapshots on demand: records of the log, and last states of objects, once more.

A snapshot on demand is as old as the last record that its sink has taken. The newest states behind the backlog would
make it wait for the backlog, and in front of the backlog would be newer than the steps that follow. The ledger keeps
the records that another one replaced until every sink has settled that, so older states cost nothing. Its objects are
``sync``, with ids of their own: readers who leave out known ids would miss the objects that they have seen, and take
them for gone.

All of its records have the number of the snapshot, as Debezium's have the log position of theirs. With the number of
the object's last change, a record behind a changed selection would be older than the ``deleted`` by which the object
had left, and a table that had lost the ``added`` would stay without it. A number for each record would say the same,
and the log would skip these numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple, TypeAlias

import apsw

from bridge.model.admin import Replayed
from bridge.model.change import Op
from bridge.model.record import SnapshotEdge
from bridge.outbox.consumers import selections
from bridge.outbox.consumers.backfill import (
    OBJECTS_LEFT,
    Backfill,
    BackfillItem,
    BackfillKind,
    insert,
    objects_left,
    save,
)
from bridge.outbox.consumers.backfill_plans import quoted, with_in_flight
from bridge.outbox.consumers.judged import JudgedRecords
from bridge.outbox.storage.database import one, row

Condition: TypeAlias = tuple[str, tuple[int | str, ...]]
"""SQL about a record of the log, with its parameters."""


def condition(start: int | str, kind: int | None, namespace: str | None) -> Condition:
    """Records from ``start`` (a sequence number, or an RFC 3339 time), of a kind or namespace if given."""
    # Times are RFC 3339 in UTC with microseconds: texts of one length, whose order is the order of time.
    wheres, values = ["seq >= ?" if isinstance(start, int) else "time >= ?"], [start]
    if kind is not None:
        wheres.append("kind = ?")
        values.append(kind)
    if namespace is not None:
        wheres.append("substr(key, 1, length(?) + 1) = ? || '/'")
        values += [namespace, namespace]
    return " AND ".join(wheres), tuple(values)


def begin_replay(
    database: apsw.Connection,
    sink: str,
    *,
    which: Condition,
    settled: int,
    taken: int,
    judged: JudgedRecords | None,
) -> tuple[Backfill | None, Replayed]:
    """Plans these records of the log, through ``taken``, once more; for a sink with a selection those of ``judged``.
    Returns the backfill (None for no records), and the range of its records. The replay's number becomes durable with
    the items: a replay that goes on after a crash keeps its number, and no other replay of this database gets the
    same."""
    log_start = one(database, "SELECT log_start FROM meta")
    if judged is not None:
        insert(database, sink, enumerate(judged.items(log_start), 1))
    else:
        op, seen = selections.seen_by(database, sink)
        where, values = which
        database.execute(
            f"INSERT INTO backfill_items (sink, item, seq, op) SELECT ?, row_number() OVER (ORDER BY seq), seq, {op}"
            f" FROM log WHERE seq >= ? AND seq <= ? AND {seen} AND {where}",
            (sink, log_start, taken, quoted(sink), *values),
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
    return save(database, sink, with_in_flight(database, sink, backfill, settled)), planned


# ── Snapshots on demand ──────────────────────────────────────────────────────


class SnapshotRow(NamedTuple):
    """The newest snapshot on demand of a sink."""

    sink: str
    number: int
    through: int
    """The sequence number as of which it has the objects' states."""
    objects: int
    scope: str
    """A SnapshotScope as JSON; empty for every object of the sink."""
    began: str
    ended: str
    """Empty while it is delivered."""
    left_out: int | None
    """Objects that the sink does not get, because an operator cancelled it; None if none did."""


def states_as_of(
    database: apsw.Connection, sink: str, through: int, kind: int | None, namespace: str | None
) -> list[int]:
    """The numbers of the records with the states that the objects of the sink's selection had as of ``through``,
    ascending; of a kind and namespace if given. The sink has not settled a later record: so the log cleaner has kept
    those states."""
    of_kind = "" if kind is None else "kind = ?2 AND "
    in_namespace = "" if namespace is None else " AND substr(key, 1, length(?3) + 1) = ?3 || '/'"
    found = database.execute(
        f"SELECT seq FROM ledger WHERE {of_kind}informer IS NOT NULL AND seq <= ?1"
        " AND seq NOT IN (SELECT seq FROM pinned)"
        f" AND seq NOT IN (SELECT replaces FROM ledger WHERE {of_kind}replaces IS NOT NULL AND seq <= ?1)"
        f" AND {selections.contains(database, sink)}{in_namespace} ORDER BY seq",
        (through, kind, namespace)[: 3 if namespace is not None else 2 if kind is not None else 1],
    )
    return [sequence for (sequence,) in found]


def begin_snapshot(
    database: apsw.Connection,
    sink: str,
    *,
    settled: int,
    taken: int,
    states: Sequence[int],
    scope: str,
    time: str,
    scheduled: bool,
) -> Backfill:
    """Plans these ``states`` as of ``taken``, between two notices. The log behind ``taken`` follows: so each change of
    an object comes behind its state here. The number becomes durable with the items, as that of a replay.
    ``scheduled``: the time counts for the sink's schedule."""
    number = one(database, "UPDATE meta SET replays = replays + 1 RETURNING replays")
    count = len(states)
    edge = BackfillItem(taken, SnapshotEdge.BEGAN, records=count, time=time, concerns=scope)
    insert(database, sink, [(1, edge), (count + 2, edge._replace(op=SnapshotEdge.ENDED))])
    database.executemany(
        "INSERT INTO backfill_items (sink, item, seq, op) VALUES (?,?,?,?)",
        ((sink, item, sequence, Op.SYNC.value) for item, sequence in enumerate(states, 2)),
    )
    database.execute("INSERT OR IGNORE INTO snapshots (sink) VALUES (?)", (sink,))
    if not scope:
        database.execute("UPDATE cursors SET owes_snapshot = 0 WHERE sink = ?", (sink,))
    database.execute(
        "UPDATE snapshots SET number = ?1, through = ?2, objects = ?3, scope = ?4, began = ?5, ended = '',"
        " left_out = NULL, scheduled = CASE WHEN ?6 THEN ?5 ELSE scheduled END WHERE sink = ?7",
        (number, taken, count, scope, time, scheduled, sink),
    )
    backfill = Backfill(
        BackfillKind.SNAPSHOT, taken, taken, 0, count + 2, number, through=taken, objects=count, scope=scope
    )
    return save(database, sink, with_in_flight(database, sink, backfill, settled))


def cancel_snapshot(database: apsw.Connection, sink: str, backfill: Backfill, time: str) -> tuple[Backfill, int]:
    """Removes the objects of a snapshot on demand that the sink has not taken, and announces that at its end; both
    edges leave if the sink certainly has not received the first. Items that stand for later records stay. Returns the
    number of objects that the sink does not get, too."""
    left = objects_left(database, sink, backfill, backfill.read_through)
    database.execute(f"DELETE {OBJECTS_LEFT}", (sink, backfill.read_through, Op.SYNC.value, backfill.through))
    if backfill.settled_through is not None and backfill.read_through <= 0:  # Planned by this process, and untouched.
        database.execute("DELETE FROM backfill_items WHERE sink = ? AND op IN ('began', 'ended')", (sink,))
    else:
        database.execute(
            "UPDATE backfill_items SET op = ?, records = records - ?, time = ?"
            " WHERE sink = ? AND item > ? AND op = 'ended'",
            (SnapshotEdge.CANCELLED.value, left, time, sink, backfill.read_through),
        )
    database.execute("UPDATE snapshots SET ended = ?, left_out = ? WHERE sink = ?", (time, left, sink))
    last = one(database, "SELECT coalesce(max(item), 0) FROM backfill_items WHERE sink = ?", (sink,))
    return replace(backfill, last_item=max(last, backfill.read_through), cancelled=True), left


def end_snapshot(database: apsw.Connection, sink: str, time: str) -> None:
    """The sink's snapshot on demand, if any, was delivered or cancelled."""
    database.execute("UPDATE snapshots SET ended = ? WHERE sink = ? AND number > 0 AND ended = ''", (time, sink))


def newest_snapshots(database: apsw.Connection) -> dict[str, SnapshotRow]:
    """The newest snapshot on demand of each sink that had one."""
    query = "SELECT sink, number, through, objects, scope, began, ended, left_out FROM snapshots WHERE number > 0"
    return {found[0]: SnapshotRow(*found) for found in database.execute(query)}


def begin_schedules(database: apsw.Connection, sinks: Sequence[str], time: str) -> dict[str, str]:
    """The times from which the schedules of these sinks count: that of the last snapshot by the schedule, or ``time``
    for a new schedule."""
    database.executemany("INSERT OR IGNORE INTO snapshots (sink) VALUES (?)", [(sink,) for sink in sinks])
    database.executemany(
        "UPDATE snapshots SET scheduled = ? WHERE sink = ? AND scheduled = ''", [(time, sink) for sink in sinks]
    )
    found = dict(database.execute("SELECT sink, scheduled FROM snapshots"))
    return {sink: found[sink] for sink in sinks}
