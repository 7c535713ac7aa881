"""Plans of replays: records of the log, once more."""

from __future__ import annotations

from typing import TypeAlias

import apsw

from bridge.model.admin import Replayed
from bridge.outbox.consumers import selections
from bridge.outbox.consumers.backfill import Backfill, BackfillKind, insert, save
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
