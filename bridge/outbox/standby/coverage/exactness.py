"""Whether a replica lacks something that another one has delivered (pure)."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from bridge.model.versions.frontier import Frontier, Point
from bridge.outbox.consumers.backfill import BackfillKind
from bridge.outbox.consumers.cursors import SinkCursor
from bridge.outbox.waypoints.index import Waypoints


def may_lack(waypoints: Waypoints, cursor: SinkCursor, found: Frontier, ended: Collection[str]) -> bool:
    """Whether the sink may have got an object from another replica that is gone, and whose delete is not in the log
    here. ``ended``: sinks whose backfill has no record left."""
    if cursor.sink not in found.sinks:
        return False
    if _is_compacted(cursor) and cursor.sink not in ended:
        return True
    return not watches_the_same(waypoints, found) or not _has_passed_lists(waypoints, cursor, found)


def _is_compacted(cursor: SinkCursor) -> bool:
    """A compaction leaves out objects that came and went, and that this replica never delivered."""
    return cursor.backfill is not None and cursor.backfill.kind is BackfillKind.COMPACTED


def lags(waypoints: Waypoints, sink: str, known: Iterable[Frontier | None], taken: int) -> bool:
    """Whether another replica has delivered changes that the log here does not have up to ``taken``. A snapshot of what
    is there would set objects back, and the next leader would trust the frontier. ``known``: what was delivered."""
    own = waypoints.settled(taken)
    for found in filter(None, known):
        for informer in waypoints.running & found.informers.keys():
            theirs, mine = found.of(sink, informer), own.get(informer)
            if theirs is not None and (mine is None or _is_behind(mine, theirs)):
                return True
    return False


def passes_over(
    waypoints: Waypoints, sink: str, informer: str, epoch: int, listed: str | None, theirs: Frontier
) -> bool:
    """Whether a list in this epoch that follows now may pass over the delete of an object that another replica has
    delivered, and that the log here never had. Not if that one had delivered all up to the list (``listed``; None: not
    known yet), and the deletes, too. Not where no point of the informer is known: it lists for the first time, which
    ``is_exact`` judges, or goes on with a list. ``theirs``: what other replicas delivered, also beyond what they
    published (``Frontier.bounds``)."""
    mine, most = waypoints.reached.get(informer), theirs.of(sink, informer)
    if mine is None or (listed is not None and most is not None and most.covers(Point(epoch, listed))):
        return False
    bound = theirs.bounds.get(informer, mine)
    points = (most, bound, *(part.of(sink, informer) for part in theirs.parts))
    return bound is None or any(point is not None and _is_behind(mine, point) for point in points)


def _is_behind(mine: Point, theirs: Point) -> bool:
    return theirs != mine and theirs.covers(mine)


def watches_the_same(waypoints: Waypoints, found: Frontier) -> bool:
    """Whether all informers of the leader run here, and no other replica has exported the objects of one that runs here
    as deleted. Otherwise the entries of ``resources`` differ: sinks have objects, or lack some, of which the log here
    says nothing."""
    if not found.informers.keys() <= waypoints.running:
        return False
    for name in found.retired:
        informer, _, epoch = name.partition("/")
        if informer in waypoints.running and informer not in found.informers:
            point = waypoints.reached.get(informer)
            if point is None or not epoch.isdecimal() or point.epoch <= int(epoch):
                return False
    return True


def is_exact(waypoints: Waypoints, cursor: SinkCursor, found: Frontier) -> bool:
    """See ``Standby.exact``."""
    return _has_passed_lists(waypoints, cursor, found) and not (cursor.sink in found.sinks and _is_compacted(cursor))


def _has_passed_lists(waypoints: Waypoints, cursor: SinkCursor, found: Frontier) -> bool:
    """Informers that run on one side only do not count: see ``watches_the_same``."""
    if not waypoints.running:
        return False
    if cursor.sink not in found.sinks:
        return True  # Nobody has delivered anything to it.
    if cursor.backfill is not None and cursor.backfill.kind is BackfillKind.DROPPED:
        return False
    for informer in waypoints.running & found.informers.keys():
        listed, point = waypoints.listed(informer), found.of(cursor.sink, informer)
        if listed is None or point is None or not point.covers(listed):
            return False
    return True
