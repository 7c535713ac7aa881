"""Plans of backfills with which a new sink begins: a snapshot, or the earliest records of the log."""

from __future__ import annotations

import apsw

from bridge.model.policies import StartPolicy
from bridge.model.record import SnapshotEdge
from bridge.outbox.consumers import selections
from bridge.outbox.consumers.backfill import Backfill, BackfillItem, BackfillKind, insert, save
from bridge.outbox.consumers.judged import JudgedRecords
from bridge.outbox.log.ledger_sql import PRESENT
from bridge.outbox.storage.database import one, row


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
