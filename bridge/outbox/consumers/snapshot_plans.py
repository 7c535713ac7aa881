"""Snapshots on demand: the objects of the ledger once more, for a sink.

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

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import apsw

from bridge.model.admin import UnknownTarget
from bridge.model.change import Op
from bridge.model.record import SnapshotEdge, SnapshotScope, snapshot_id
from bridge.model.status import SnapshotState, SnapshotStatus
from bridge.outbox.consumers import selections
from bridge.outbox.consumers.backfill import (
    OBJECTS_LEFT,
    Backfill,
    BackfillItem,
    BackfillKind,
    insert,
    objects_left,
    save,
    scope_of,
    scope_text,
)
from bridge.outbox.consumers.backfill_plans import Received, with_in_flight
from bridge.outbox.consumers.cursors import SinkCursor
from bridge.outbox.consumers.sink_cursors import SinkCursors
from bridge.outbox.storage.database import columns, one, rows_of
from bridge.outbox.store import Store
from bridge.telemetry.facts import Report
from bridge.telemetry.facts.outbox import SnapshotBegan, SnapshotCancelled


class Snapshots:
    """Plans, cancels and describes the snapshots of all sinks. A snapshot is a backfill: it survives a crash, with the
    same ids, and changes after it come behind it."""

    def __init__(self, store: Store, sinks: SinkCursors, clock: Callable[[], str], report: Report) -> None:
        self._store = store
        self._sinks = sinks
        self._clock = clock
        self._report = report

    # ── Planning: no ``take`` of the sink runs, and it has no backfill ───────

    async def states_as_of(self, sink: str, taken: int, kind: int | None, namespace: str | None) -> Sequence[int]:
        """See ``states_as_of``. The states stay readable until the sink takes records behind ``taken``."""
        question = partial(states_as_of, sink=sink, through=taken, kind=kind, namespace=namespace)
        return await self._store.ask(question)

    async def begin(
        self, sink: str, taken: int, states: Sequence[int], scope: SnapshotScope | None, *, scheduled: bool
    ) -> SnapshotStatus:
        """Plans a snapshot of these states as of ``taken``, also of none. Durable on return. Raises UnknownTarget while
        the sink has a backfill."""
        received = self._sinks.without_backfill(sink).received(taken)
        begin = partial(
            begin_snapshot,
            received=received,
            states=states,
            scope=scope_text(scope),
            time=self._clock(),
            scheduled=scheduled,
        )
        # The cursor is looked up again: a reload may have replaced it.
        await self._store.write(begin, committed=lambda begun: self._begun(self._sinks[sink], begun, scope), asked=True)
        self._report(SnapshotBegan(sink, len(states)))
        return await self.status(sink)

    @staticmethod
    def _begun(cursor: SinkCursor, begun: Backfill, scope: SnapshotScope | None) -> None:
        cursor.follow(begun)
        if scope is None:
            cursor.owes_snapshot = 0

    # ── Under way ────────────────────────────────────────────────────────────

    async def cancel(self, sink: str) -> SnapshotStatus:
        """Ends the sink's snapshot behind the records that it has taken. No ``take`` of the sink runs. Durable on
        return. Raises UnknownTarget if it has no snapshot on demand."""
        backfill = self._sinks[sink].backfill
        if backfill is None or not backfill.replay or backfill.snapshot_op is None or backfill.cancelled:
            raise UnknownTarget(f"sink {sink} has no snapshot on demand under way")
        cancel = partial(cancel_snapshot, sink=sink, backfill=backfill, time=self._clock())
        follow = lambda changed: self._sinks[sink].follow(changed[0], compacts=False)  # noqa: E731
        _, left = await self._store.write(cancel, committed=follow, asked=True)
        self._report(SnapshotCancelled(sink, left))
        return await self.status(sink)

    async def status(self, sink: str) -> SnapshotStatus:
        """The sink's newest snapshot on demand. Raises UnknownTarget."""
        _ = self._sinks[sink]
        found = [each for each in await self.statuses() if each.sink == sink]
        if not found:
            raise UnknownTarget(f"sink {sink} has had no snapshot on demand")
        return found[0]

    async def statuses(self) -> Sequence[SnapshotStatus]:
        """The newest snapshot on demand of each sink that had one, by the sinks' names."""
        rows = await self._store.ask(newest_snapshots)
        return [await self._status(row) for _, row in sorted(rows.items())]

    async def _status(self, row: SnapshotRow) -> SnapshotStatus:
        left, state = row.left_out or 0, SnapshotState.DELIVERED
        if row.left_out is not None:
            state = SnapshotState.CANCELLED
        cursor = self._sinks[row.sink]
        if not row.ended and cursor.backfill is not None:
            state = SnapshotState.DELIVERING
            left = await self._store.ask(
                partial(objects_left, sink=row.sink, backfill=cursor.backfill, behind=cursor.settled_item)
            )
        scope = scope_of(row.scope)
        return SnapshotStatus(
            row.sink,
            row.number,
            snapshot_id(row.sink, row.through, row.number, self._sinks.shard),
            state,
            row.objects,
            left,
            row.began,
            row.ended,
            *(() if scope is None else (scope.resource, scope.namespace, scope.where)),
        )

    # ── Schedules ────────────────────────────────────────────────────────────

    async def begin_schedules(self, sinks: Sequence[str]) -> Mapping[str, str]:
        """See ``begin_schedules``. Durable on return."""
        return await self._store.write(partial(begin_schedules, sinks=sinks, time=self._clock()), shrinks=True)


# ── In the database ──────────────────────────────────────────────────────────


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
    received: Received,
    states: Sequence[int],
    scope: str,
    time: str,
    scheduled: bool,
) -> Backfill:
    """Plans these ``states`` as of ``taken``, between two notices. The log behind ``taken`` follows: so each change of
    an object comes behind its state here. The number becomes durable with the items, as that of a replay.
    ``scheduled``: the time counts for the sink's schedule."""
    sink, taken = received.sink, received.taken
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
    return save(database, sink, with_in_flight(database, backfill, received))


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


def newest_snapshots(database: apsw.Connection) -> dict[str, SnapshotRow]:
    """The newest snapshot on demand of each sink that had one."""
    query = f"SELECT {columns(SnapshotRow)} FROM snapshots WHERE number > 0"
    return {each.sink: each for each in rows_of(database, SnapshotRow, query)}


def begin_schedules(database: apsw.Connection, sinks: Sequence[str], time: str) -> dict[str, str]:
    """The times from which the schedules of these sinks count: that of the last snapshot by the schedule, or ``time``
    for a new schedule."""
    database.executemany("INSERT OR IGNORE INTO snapshots (sink) VALUES (?)", [(sink,) for sink in sinks])
    database.executemany(
        "UPDATE snapshots SET scheduled = ? WHERE sink = ? AND scheduled = ''", [(time, sink) for sink in sinks]
    )
    found = dict(database.execute("SELECT sink, scheduled FROM snapshots"))
    return {sink: found[sink] for sink in sinks}
