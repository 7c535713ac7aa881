"""The cursors of new sinks, and the plans of backfills with which these begin: a snapshot, or the earliest records of
the log."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from uuid import uuid4

import apsw

from bridge.model.policies import StartPolicy
from bridge.model.record import SnapshotEdge
from bridge.outbox.consumers import selections
from bridge.outbox.consumers.backfill import Backfill, BackfillItem, BackfillKind, insert, save
from bridge.outbox.consumers.judged import JudgedRecords
from bridge.outbox.log.ledger_sql import PRESENT
from bridge.outbox.storage.database import one, row


def configure(
    database: apsw.Connection,
    sinks: Mapping[str, StartPolicy | None],
    selecting: Collection[str],
    time: str,
) -> None:
    """Counts these sinks as present: a new sink gets its cursor, unless its StartPolicy is None, and a sink of
    ``selecting`` its bit. Raises StateError if no bit is left."""
    known = {sink for (sink,) in database.execute("SELECT sink FROM cursors")}
    for sink, start in sinks.items():
        if sink not in known and start is not None:
            register(database, sink, start, time, selects=sink in selecting)
        # Without the condition every start would write, and fail on a full disk where deliveries can go on.
        database.execute("UPDATE cursors SET absent_seconds = 0 WHERE sink = ? AND absent_seconds", (sink,))
    for sink in selecting:
        if sink not in selections.load(database):
            selections.begin(database, sink, None)


def register(
    database: apsw.Connection,
    sink: str,
    start: StartPolicy,
    time: str,
    *,
    selects: bool = False,
) -> None:
    """Creates the cursor of a new sink. An empty ledger makes no snapshot: its two notices would surround no objects.
    ``selects``: the sink has a selection, and its snapshot waits until the selection is in effect."""
    last, log_start = row(database, "SELECT last, log_start FROM meta")
    settled = log_start - 1 if start is StartPolicy.EARLIEST else last
    database.execute("INSERT INTO cursors (sink, settled, birth) VALUES (?,?,?)", (sink, settled, uuid4().hex))
    if selects:
        selections.begin(database, sink, start)
    elif start is StartPolicy.SNAPSHOT and one(database, f"SELECT EXISTS (SELECT 1 FROM {PRESENT})"):
        begin_snapshot(database, sink, time)


def begin_snapshot(database: apsw.Connection, sink: str, time: str) -> Backfill:
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
    return begin_snapshot(database, sink, time)
