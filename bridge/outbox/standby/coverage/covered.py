"""What a frontier covers in the log of this replica (pure)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from bridge.model.versions.frontier import Frontier, ShardFrontier, SinkFrontier
from bridge.outbox.consumers.backfill import BackfillKind
from bridge.outbox.consumers.cursors import SinkCursor
from bridge.outbox.standby.coverage.settled import Settled, SettledByShards, SettledElsewhere
from bridge.outbox.waypoints.index import ALL, MOVED, Waypoints


def reached(waypoints: Waypoints, cursor: SinkCursor, found: Frontier, last: int, *, holds: bool) -> tuple[int, bool]:
    """The end of the log that the sink needs no more, at most ``last``; and whether its backfill has no record left.
    ``holds``: the sink has settled the difference of the selection that holds here (``SelectedSinks``)."""
    through = covered_through(waypoints, cursor.sink, cursor.settled, found, last, holds=holds)
    return _behind_backfill(cursor, through, found.sinks.get(cursor.sink, SinkFrontier()))


def covered_through(waypoints: Waypoints, sink: str, after: int, found: Frontier, last: int, *, holds: bool) -> int:
    """The same of the log alone, of which everything up to ``after`` is covered."""
    # A sink that the leader does not know has got nothing: it will begin where the others are.
    point_of = partial(found.of, sink) if sink in found.sinks else found.informers.get
    moved = {MOVED} if holds else set()
    return waypoints.settled_through(after, last, point_of, _retired(found) | moved)


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
