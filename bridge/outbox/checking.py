"""What ``kubedelta state check`` finds."""

from __future__ import annotations

import apsw

from bridge.model.upkeep import StateReport
from bridge.outbox import ledger_sql, rows
from bridge.outbox.bodies import Bodies
from bridge.outbox.database import page_bytes
from bridge.outbox.directory import Disk
from bridge.outbox.errors import Damaged
from bridge.outbox.ledger_sql import PRESENT
from bridge.outbox.schema import FORMAT
from bridge.outbox.sql import one, row

_MOST = 100
"""Problems told."""
_REPLACED_LATER = "SELECT replaces FROM ledger, meta WHERE replaces IS NOT NULL AND ledger.seq > meta.cleared"


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
        objects=one(database, f"SELECT count(*) FROM {PRESENT}"),
        informers=one(database, "SELECT count(*) FROM informers"),
        sinks=one(database, "SELECT count(*) FROM cursors"),
        dead_letters=one(database, "SELECT count(*) FROM letters"),
        file_bytes=disk.file,
        wal_bytes=disk.wal,
        free_bytes=int(database.pragma("freelist_count")) * page,
    )


def nothing_left(disk: Disk, gone: str) -> StateReport:
    """``gone``: why there is no database to be read."""
    return StateReport(
        path=str(disk.path),
        sqlite=apsw.sqlite_lib_version(),
        format=FORMAT,
        cluster="",
        problems=[gone],
        records=0,
        objects=0,
        informers=0,
        sinks=0,
        dead_letters=0,
        file_bytes=disk.file,
        wal_bytes=disk.wal,
        free_bytes=0,
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
        "records without a row in the ledger, or rows without a record": (
            "SELECT (SELECT count(*) FROM log WHERE (kind, seq) NOT IN (SELECT kind, seq FROM ledger))"
            " + (SELECT count(*) FROM ledger WHERE seq NOT IN (SELECT seq FROM log))"
        ),
        "objects of an informer that is not there": (
            f"SELECT count(*) FROM {PRESENT} AND informer NOT IN (SELECT id FROM informers)"
        ),
        "objects with more than one last state": (
            f"SELECT count(*) FROM (SELECT 1 FROM {PRESENT} GROUP BY kind, key HAVING count(*) > 1)"
        ),
        "last states replaced by those of another object": (
            "SELECT count(*) FROM ledger n JOIN ledger o ON o.kind = n.kind AND o.seq = n.replaces WHERE o.key <> n.key"
        ),
        "records missing in the log": (
            "SELECT meta.last - meta.trimmed - (SELECT count(*) FROM log WHERE seq > meta.trimmed) FROM meta"
        ),
        "records kept for nobody": (
            f"SELECT count(*) FROM log, meta WHERE seq <= cleared AND seq NOT IN (SELECT seq FROM {PRESENT})"
            f" AND seq NOT IN (SELECT seq FROM awaited) AND seq NOT IN ({_REPLACED_LATER})"
        ),
        "cursors that point at what is gone": (
            "SELECT count(*) FROM cursors, meta WHERE settled < trimmed AND (errand = '' OR settled < errand_after)"
        ),
    }
    for what, question in questions.items():
        if count := one(database, question):
            found.append(f"{what}: {count}")
    return found[:_MOST]
