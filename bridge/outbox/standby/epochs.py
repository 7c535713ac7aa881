"""The epochs in which a replica goes on: those of whoever has delivered before, so that ids stay the same."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from bridge.model.versions.frontier import Frontier, Point
from bridge.outbox.appender import Appender
from bridge.outbox.consumers.cursors import SinkCursor
from bridge.outbox.log import informer_sql
from bridge.outbox.log.statements import RunningInformer
from bridge.outbox.store import Store
from bridge.outbox.waypoints import sql
from bridge.outbox.waypoints.index import Waypoints

_SKIPPED = 10
"""Epochs left out behind a restore: those that a leader may have begun after its last publication."""


def present(appender: Appender) -> Mapping[str, int]:
    """Running informer → the epoch in which it is, also while it lists."""
    return {each.key: each.epoch for each in appender.informers.values()}


def take_epochs(appender: Appender, waypoints: Waypoints, store: Store, found: Frontier) -> None:
    """Goes on in the leader's epoch where the leader began more of them, and has passed the informer here. Where it
    has not, its history may be another, which the informer will notice itself."""
    for informer in appender.informers.values():
        theirs, own = found.informers.get(informer.key), informer.point
        if theirs is None or own is None or theirs.epoch <= own.epoch:
            continue
        if theirs.covers(own._replace(epoch=theirs.epoch)):
            _go_on_in(theirs.epoch, informer, own.epoch, waypoints, store)


def begin_epoch(
    appender: Appender, waypoints: Waypoints, store: Store, cursors: Sequence[SinkCursor], newest: int
) -> None:
    """All informers go on in a new epoch, behind their own and ``newest``, with the records that some sink has not
    settled; durable with the next write. In the epochs before, versions may have been delivered that a restore undid,
    and the restored store uses their numbers again."""
    settled = min((cursor.settled for cursor in cursors), default=0)
    before = {each.id: (each.kind, each.epoch) for each in appender.informers.values()}
    epoch = max([newest, *(number for _, number in before.values())]) + 1 + _SKIPPED
    for informer in appender.informers.values():
        _go_on_in(epoch, informer, informer.epoch, waypoints, store)
    store.write(partial(informer_sql.begin_epoch, epoch=epoch, before=before, settled=settled), shrinks=True)


def passed(appender: Appender, waypoints: Waypoints, store: Store, apart: Mapping[str, Sequence[Point]]) -> bool:
    """Whether the former shards have all passed the newest lists of these informers here, in whatever epochs: so that
    each delete behind them is in the log. Such an informer goes on in the newest epoch."""
    for key in apart.keys() & waypoints.running:
        listed = waypoints.listed(key)
        if listed is None or not all(point.covers(listed._replace(epoch=point.epoch)) for point in apart[key]):
            return False
    for informer in appender.informers.values():
        newest = max((point.epoch for point in apart.get(informer.key, ())), default=0)
        if informer.point is not None and informer.point.epoch < newest:
            _go_on_in(newest, informer, informer.point.epoch, waypoints, store)
    return True


def _go_on_in(epoch: int, informer: RunningInformer, before: int, waypoints: Waypoints, store: Store) -> None:
    """Waiting batches go along: they stand in front of the informer's point."""
    key = informer.key
    informer.go_on_in(epoch)
    waypoints.go_on_in(epoch, key, before)
    # Once more when the batches are known that are on their way to the log.
    store.write(
        partial(sql.go_on_in, epoch=epoch, informer=key, before=before),
        committed=lambda _: waypoints.go_on_in(epoch, key, before),
        shrinks=True,
    )
