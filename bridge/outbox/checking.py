"""What ``kubedelta state check`` finds."""

from __future__ import annotations

import apsw

from bridge.model.upkeep import StateReport
from bridge.outbox import ledger_sql, rows
from bridge.outbox.bodies import Bodies
from bridge.outbox.database import Disk, page_bytes
from bridge.outbox.errors import Damaged
from bridge.outbox.sql import one, row

_MOST = 100
"""Problems told."""
_IS_LAST_STATE = "(SELECT o.seq FROM objects o WHERE o.kind = log.kind AND o.key = log.key) IS log.seq"
_IS_SUPERSEDED = "EXISTS (SELECT 1 FROM superseded s WHERE s.seq = log.seq)"


def report(database: apsw.Connection, disk: Disk, bodies: Bodies) -> StateReport:
    """Reads everything: SQLite's own check, every record, and whether the tables agree."""
    page = page_bytes(database)
    return StateReport(
        path=str(disk.path),
        sqlite=apsw.sqlite_lib_version(),
        format=int(database.pragma("user_version")),
        cluster=str(row(database, "SELECT cluster FROM meta")[0]),
        problems=_problems(database, bodies),
        records=one(database, "SELECT count(*) FROM log, meta WHERE log.seq > meta.trimmed"),
        objects=one(database, "SELECT count(*) FROM objects"),
        informers=one(database, "SELECT count(*) FROM informers"),
        sinks=one(database, "SELECT count(*) FROM cursors"),
        dead_letters=one(database, "SELECT count(*) FROM letters"),
        file_bytes=disk.file,
        wal_bytes=disk.wal,
        free_bytes=int(database.pragma("freelist_count")) * page,
    )


def _problems(database: apsw.Connection, bodies: Bodies) -> list[str]:
    found = [str(told[0]) for told in database.execute(f"PRAGMA integrity_check({_MOST})") if told[0] != "ok"]
    if found:
        return found
    codec = rows.Codec(ledger_sql.resources(database), bodies)
    for record in database.execute(f"SELECT {rows.COLUMNS} FROM log ORDER BY seq"):
        try:
            rows.record_of(record, codec)
        except Damaged as error:
            found.append(str(error))
    questions = {
        "objects whose last state is not in the log": (
            "SELECT count(*) FROM objects o WHERE NOT EXISTS (SELECT 1 FROM log WHERE seq = o.seq)"
        ),
        "objects of an informer that is not there": (
            "SELECT count(*) FROM objects o WHERE NOT EXISTS (SELECT 1 FROM informers WHERE id = o.informer)"
        ),
        "records missing in the log": (
            "SELECT meta.last - meta.trimmed - (SELECT count(*) FROM log WHERE seq > meta.trimmed) FROM meta"
        ),
        "records kept for nobody": (
            f"SELECT count(*) FROM log, meta WHERE log.seq <= posted AND NOT ({_IS_LAST_STATE} OR {_IS_SUPERSEDED})"
        ),
        "last states that are said to be superseded": (
            "SELECT count(*) FROM objects WHERE seq IN (SELECT seq FROM superseded)"
        ),
        "cursors that point at what is gone": (
            "SELECT count(*) FROM cursors, meta WHERE settled < trimmed AND (errand = '' OR settled < errand_after)"
        ),
    }
    for what, question in questions.items():
        if count := one(database, question):
            found.append(f"{what}: {count}")
    return found[:_MOST]
