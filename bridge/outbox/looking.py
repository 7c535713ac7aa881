"""Reads the state of a bridge, running or not, beside it: nothing is held, nothing is written, no file appears."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import apsw

from bridge.model.resource import Resource, Scope
from bridge.outbox import ledger_sql, schema
from bridge.outbox.database import usable
from bridge.outbox.directory import FILE, WAL
from bridge.outbox.errors import StateUnusable
from bridge.outbox.sql import row

_SHARED = "outbox.db-shm"


@dataclass(frozen=True, slots=True)
class Held:
    """An object that was told and not told as deleted."""

    key: str
    uid: str
    version: str


class Look:
    """One moment of the database. Every method may raise Damaged."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection
        self.cluster, self.last = row(connection, "SELECT cluster, last FROM meta")
        """uid of the namespace kube-system, empty where it was never read; the newest sequence number."""

    def resources(self) -> list[Resource]:
        """That were watched, in the version in which they were last served."""
        return ledger_sql.remembered_resources(self._connection)

    def scopes(self, resource: Resource) -> list[Scope]:
        """The parts of it that were watched."""
        kind = ledger_sql.kinds(self._connection).get(resource.name)
        return [] if kind is None else [each.scope for each in ledger_sql.informers(self._connection, kind)]

    def objects(self, resource: Resource) -> Iterator[Held]:
        kind = ledger_sql.kinds(self._connection).get(resource.name)
        if kind is not None:
            for key, uid, version in ledger_sql.present(self._connection, kind):
                yield Held(key, uid, version)

    def count(self) -> int:
        """Of all objects."""
        return int(row(self._connection, f"SELECT count(*) FROM {ledger_sql.PRESENT}")[0])

    def backlogs(self) -> dict[str, int]:
        """Of each sink that is remembered, records of the log that it has not settled."""
        found = self._connection.execute("SELECT sink, settled FROM cursors")
        return {sink: max(0, self.last - settled) for sink, settled in found}


@contextmanager
def look_at(directory: Path) -> Iterator[Look | None]:
    """None where no bridge has run yet. Raises StateUnusable, UnknownFormat and Damaged, also for what is read
    inside."""
    file = directory.resolve() / FILE
    if not file.exists():
        yield None
        return
    with usable(file):
        connection = _open(file, directory)
        try:
            schema.recognise(connection, new=False)
            with connection:  # one read transaction, so that all of it is of one moment
                yield Look(connection)
        finally:
            connection.close()


def _open(file: Path, directory: Path) -> apsw.Connection:
    """A write-ahead log can be read only with the index beside it. Where no bridge runs that one is gone with the log,
    and SQLite would make both anew, as files of whoever looks; the database is all there is then, and does not
    change."""
    if (directory / _SHARED).exists():
        return apsw.Connection(str(file), flags=apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_NOFOLLOW)
    log = directory / WAL
    if log.exists() and log.stat().st_size:
        raise StateUnusable(f"{log} lies there without its index, and only a start reads it")
    flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_NOFOLLOW | apsw.SQLITE_OPEN_URI
    return apsw.Connection(f"{file.as_uri()}?immutable=1", flags=flags)
