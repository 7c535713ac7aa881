"""What a frontier covers in the log of this replica, and whether the replica is exact (pure)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import partial

from bridge.model.versions.frontier import Frontier, ShardFrontier, SinkFrontier
from bridge.outbox.consumers.backfill import BackfillKind
from bridge.outbox.consumers.cursors import SinkCursor
from bridge.outbox.standby.settled import Settled, SettledByShards, SettledElsewhere
from bridge.outbox.waypoints.index import ALL, MOVED, Waypoints


def reached(waypoints: Waypoints, cursor: SinkCursor, found: Frontier, last: int, *, holds: bool) -> tuple[int, bool]:
    """The end of the log that the sink needs no more, at most ``last``; and whether its backfill has no record left.
    ``holds``: the sink has settled the difference of the selection that holds here (``SelectedSinks``)."""
    known = found.sinks.get(cursor.sink)
    # A sink that the leader does not know has got nothing: it will begin where the others are.
    point_of = found.informers.get if known is None else partial(found.of, cursor.sink)
    moved = {MOVED} if holds else set()
    through = waypoints.settled_through(cursor.settled, last, point_of, _retired(found) | moved)
    return _behind_backfill(cursor, through, known or SinkFrontier())


def _behind_backfill(cursor: SinkCursor, through: int, known: SinkFrontier) -> tuple[int, bool]:
    backfill = cursor.backfill
    if backfill is None:
        return max(cursor.settled, through), False
    stays = backfill.kind is BackfillKind.SNAPSHOT and known.backfill == BackfillKind.SNAPSHOT
    if through >= backfill.resumes_after and not stays:
        return max(cursor.settled, through), True
    return max(cursor.settled, min(through, backfill.needs_log_through)), False


def settled_elsewhere(waypoints: Waypoints, found: Frontier, last: int) -> SettledElsewhere:
    """What the sinks have got of the log up to ``last``, and of later batches."""
    rules = {sink: settled(waypoints, sink, found, last) for sink in found.sinks}
    if not found.parts:
        return SettledElsewhere(rules)

    def of(part: ShardFrontier) -> SettledElsewhere:
        return SettledElsewhere({sink: settled(waypoints, sink, found, last, part) for sink in found.sinks})

    return SettledByShards(rules, [(part.shard, of(part)) for part in found.parts])


def settled(
    waypoints: Waypoints, sink: str, found: Frontier, last: int, part: ShardFrontier | None = None
) -> Mapping[str, Settled]:
    """By informer, what the sink has got of the log up to ``last``, and of later batches. ``part``: of the objects of a
    former shard."""
    of = found if part is None else part
    point_of, retired, by_informer = partial(of.of, sink), _retired(found), {}
    for informer in waypoints.noted | of.informers.keys():
        before = waypoints.settled_before(informer, point_of, retired)
        by_informer[informer] = Settled(last + 1 if before == ALL else before, point_of(informer))
    return by_informer


def _retired(found: Frontier) -> set[str]:
    """The names under which the deletes of retired informers are noted, and those of their other batches."""
    return {*found.retired, *(each.partition("/")[0] for each in found.retired)}


def may_lack(waypoints: Waypoints, cursor: SinkCursor, found: Frontier, ended: Collection[str]) -> bool:
    """Whether the sink may have got an object from another replica that is gone, and whose delete is not in the log
    here. ``ended``: sinks whose backfill has no record left."""
    if cursor.sink not in found.sinks:
        return False
    # A compaction leaves out objects that this replica never delivered.
    compacted = cursor.backfill is not None and cursor.backfill.kind is BackfillKind.COMPACTED
    if compacted and cursor.sink not in ended:
        return True
    return not watches_the_same(waypoints, found) or not is_exact(waypoints, cursor, found)


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
    """See ``Standby.exact``. Informers that run on one side only do not count: see ``watches_the_same``."""
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
