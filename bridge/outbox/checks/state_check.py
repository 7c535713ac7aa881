"""The report of ``kubedelta state check``."""

from __future__ import annotations

import apsw

from bridge.model.admin import StateReport
from bridge.outbox.checks import integrity
from bridge.outbox.encryption.cipher import Cipher
from bridge.outbox.encryption.key_registry import bytes_by_key
from bridge.outbox.log.ledger_sql import PRESENT
from bridge.outbox.storage import schema
from bridge.outbox.storage.database import one, page_bytes, row
from bridge.outbox.storage.shard_file import found_in
from bridge.outbox.storage.state_directory import Disk


def report(database: apsw.Connection, disk: Disk, cipher: Cipher | None) -> StateReport:
    """Reads the whole database: SQLite's own check, every record, and whether the tables agree."""
    page = page_bytes(database)
    found = integrity.problems(database, cipher)
    shard = found_in(disk.path.parent)
    if shard is not None:
        objects = database.execute(f"SELECT uid, key FROM {PRESENT}")
        if others := sum(not shard.contains(uid, key) for uid, key in objects):
            found = [*found, f"{others} objects are not of {shard}, whose objects the state has"]
    return StateReport(
        path=str(disk.path),
        sqlite=apsw.sqlite_lib_version(),
        format=int(database.pragma("user_version")),
        cluster=str(row(database, "SELECT cluster FROM meta")[0]),
        problems=found,
        records=one(database, "SELECT count(*) FROM log, meta WHERE log.seq >= meta.log_start"),
        objects=one(database, f"SELECT count(*) FROM {PRESENT}"),
        informers=one(database, "SELECT count(*) FROM informers"),
        sinks=one(database, "SELECT count(*) FROM cursors"),
        dead_letters=one(database, "SELECT count(*) FROM dead_letters"),
        file_bytes=disk.file,
        wal_bytes=disk.wal,
        free_bytes=int(database.pragma("freelist_count")) * page,
        bytes_by_key={} if found else dict(bytes_by_key(database)),
        shard=str(shard or ""),
    )


def report_without_database(disk: Disk, reason: str) -> StateReport:
    """The report without a database; ``reason`` says why there is none."""
    return StateReport(
        path=str(disk.path),
        sqlite=apsw.sqlite_lib_version(),
        format=schema.FORMAT,
        cluster="",
        problems=[reason],
        records=0,
        objects=0,
        informers=0,
        sinks=0,
        dead_letters=0,
        file_bytes=disk.file,
        wal_bytes=disk.wal,
        free_bytes=0,
    )
