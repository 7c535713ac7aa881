"""SQL of the waypoints: a row for each batch, written in the batch's transaction, and removed when the log is
trimmed."""

from __future__ import annotations

from collections.abc import Iterator

import apsw

from bridge.model.versions.frontier import Point
from bridge.outbox.storage.database import row
from bridge.outbox.waypoints.index import UNKNOWN, Batch, Waypoint

_INSERT = "INSERT INTO waypoints (last, first, informer, epoch, since) VALUES (?,?,?,?,?)"


def enter(database: apsw.Connection, first: int, last: int, waypoint: Waypoint) -> None:
    """Notes the batch with these records."""
    epoch, since = waypoint.since or (None, None)
    database.execute(_INSERT, (last, first, waypoint.informer, epoch, since))


def load(database: apsw.Connection) -> list[Batch]:
    """All batches, in the order of the log."""
    return list(_batches(database, "ORDER BY last", ()))


def between(database: apsw.Connection, after: int, through: int) -> list[Batch]:
    """The batches behind a record, up to another."""
    return list(_batches(database, "WHERE last > ? AND last <= ? ORDER BY last", (after, through)))


def _batches(database: apsw.Connection, where: str, values: tuple[int, ...]) -> Iterator[Batch]:
    found = database.execute(f"SELECT first, last, informer, epoch, since FROM waypoints {where}", values)
    for first, last, informer, epoch, since in found:
        yield Batch(first, last, informer, None if since is None else Point(epoch, since))


def go_on_in(database: apsw.Connection, epoch: int, informer: str, before: int) -> None:
    """See Waypoints.go_on_in."""
    database.execute("UPDATE waypoints SET epoch = ? WHERE informer = ? AND epoch = ?", (epoch, informer, before))


def complete(database: apsw.Connection) -> None:
    """Notes the records of a run without waypoints as those of unknown informers."""
    last, log_start = row(database, "SELECT last, log_start FROM meta")
    [noted] = row(database, "SELECT max(last) FROM waypoints")
    first = log_start if noted is None else max(log_start, noted + 1)
    if first <= last:
        enter(database, first, last, Waypoint(UNKNOWN, None))
