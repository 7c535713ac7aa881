"""Reads the state of a bridge from another process, whether the bridge runs or not: takes no lock, writes no file.

A running bridge answers over the admin socket with the path of its configuration: the same path is the operator's own
bridge, also after an edit. The comparison itself is made here, since the running bridge would check its own
configuration and not that of the file. If no bridge runs, the file is opened as one that does not change, because
SQLite would leave files of its own beside it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import apsw

from bridge.model.record import Record
from bridge.model.resource import Resource, Scope
from bridge.outbox import ledger
from bridge.outbox.consumers import selections
from bridge.outbox.encryption import Cipher, missing_keys
from bridge.outbox.errors import StateUnusable
from bridge.outbox.ledger import LedgerObject
from bridge.outbox.log import record_codec
from bridge.outbox.log.body_codec import BodyCodec, load_dictionaries
from bridge.outbox.storage import schema
from bridge.outbox.storage.database import one, row, usable
from bridge.outbox.storage.directory_lock import FILE, WAL
from bridge.outbox.store import log_behind

_SHARED = "outbox.db-shm"


class StateInspection:
    """One moment of the database. Every method may raise Damaged."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection
        self.cluster, self.last = row(connection, "SELECT cluster, last FROM meta")
        """uid of the namespace kube-system, empty if it was never read; and the newest sequence number."""

    def missing_keys(self, cipher: Cipher | None) -> list[str]:
        """The ids of keys that the state has content under, and the cipher has not. Reads the whole database where a
        registered key is missing."""
        return missing_keys(self._connection, cipher)

    def resources(self) -> list[Resource]:
        """The watched resources, in the version that was watched last."""
        return ledger.watched_resources(self._connection)

    def scopes(self, resource: Resource) -> list[Scope]:
        """The watched scopes of a resource."""
        kind = record_codec.kinds(self._connection).get(resource.name)
        return [] if kind is None else [each.scope for each in ledger.informers(self._connection, kind)]

    def objects(self, resource: Resource) -> Iterator[LedgerObject]:
        """Every object of a resource that was exported, and not exported as deleted."""
        kind = record_codec.kinds(self._connection).get(resource.name)
        return iter(()) if kind is None else ledger.present(self._connection, kind)

    def records(self, after: int, limit: int, cipher: Cipher | None) -> tuple[Sequence[Record], int]:
        """At most ``limit`` records of the log behind ``after``, and the sequence number at which they begin: a later
        one than ``after + 1`` where records were trimmed."""
        if after >= self.last:  # Whoever follows a log asks often, and each dictionary costs half a millisecond.
            return (), after + 1
        bodies = BodyCodec(load_dictionaries(self._connection, cipher), cipher)
        codec = record_codec.Codec(record_codec.resources(self._connection), bodies)
        return log_behind(self._connection, codec, after, limit)

    def count(self) -> int:
        """Number of all objects."""
        return int(row(self._connection, f"SELECT count(*) FROM {ledger.PRESENT}")[0])

    def backlogs(self) -> dict[str, int]:
        """For each sink with a cursor, the number of log records that the sink gets and has not settled."""
        found = list(self._connection.execute("SELECT sink, settled FROM cursors"))
        selecting = selections.load(self._connection)
        return {
            sink: self._own(sink, settled) if sink in selecting else max(0, self.last - settled)
            for sink, settled in found
        }

    def _own(self, sink: str, settled: int) -> int:
        _, seen = selections.seen_by(self._connection, sink)
        return one(self._connection, f"SELECT count(*) FROM log WHERE seq > ? AND {seen}", (settled,))


@contextmanager
def look_at(directory: Path) -> Iterator[StateInspection | None]:
    """Yields None if no bridge has run in the directory. Raises StateUnusable, UnknownFormat and Damaged, also for
    reads inside the context."""
    file = directory.resolve() / FILE
    if not file.exists():
        yield None
        return
    with usable(file):
        connection = _open(file, directory)
        try:
            if (found := schema.recognise(connection, new=False)) != schema.FORMAT:
                raise StateUnusable(schema.waits_for_migration(str(file), found))
            with connection:  # A single read transaction, so that all answers are of the same moment.
                yield StateInspection(connection)
        finally:
            connection.close()


def _open(file: Path, directory: Path) -> apsw.Connection:
    """Opens the database read-only. A write-ahead log can be read only with its shared index file. Without a running
    bridge, both files are absent, and SQLite would create them as files of the reading user; so the database is then
    opened as immutable."""
    if (directory / _SHARED).exists():
        return apsw.Connection(str(file), flags=apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_NOFOLLOW)
    log = directory / WAL
    if log.exists() and log.stat().st_size:
        raise StateUnusable(f"{log} has no shared index file, and only the next start of the bridge can read it")
    flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_NOFOLLOW | apsw.SQLITE_OPEN_URI
    return apsw.Connection(f"{file.as_uri()}?immutable=1", flags=flags)
