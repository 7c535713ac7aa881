"""What a frontier covers in the log of this replica, and whether the replica is exact (pure)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import partial

from bridge.model.versions.frontier import Frontier, Point, ShardFrontier, SinkFrontier
from bridge.outbox.consumers.backfill import BackfillKind
from bridge.outbox.consumers.cursors import SinkCursor
from bridge.outbox.standby.selected import SelectedSinks
from bridge.outbox.standby.settled import Settled, SettledByShards, SettledElsewhere
from bridge.outbox.waypoints.index import ALL, MOVED, Batch, Waypoints

_MOST = 500_000
"""Settled records that are kept until the Lease has a frontier behind them: of half a minute at the highest rates."""
_INSTEAD_OF_THE_LOG = (BackfillKind.COMPACTED, BackfillKind.DROPPED, BackfillKind.SELECTED, BackfillKind.EARLIEST)
"""Backfills that make the log trimmable which they stand for, and whose settled items are gone."""


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


def passes_over(waypoints: Waypoints, sink: str, informer: str, listed: Point | None, theirs: Frontier) -> bool:
    """Whether a list that follows now may pass over the delete of an object that another replica has delivered, and
    that the log here never had. Not if that one had delivered all up to the list (``listed``; None: not known yet), and
    the deletes, too. Not where no point of the informer is known: it lists for the first time, which ``is_exact``
    judges, or goes on with a list. ``theirs``: what other replicas delivered."""
    mine, most = waypoints.reached.get(informer), theirs.of(sink, informer)
    if mine is None or (listed is not None and most is not None and most.covers(listed)):
        return False
    points = (most, *(part.of(sink, informer) for part in theirs.parts))
    return any(point is not None and _is_behind(mine, point) for point in points)


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


class Confirmed:
    """How far frontiers in the Lease cover the own log. A leader has settled more. If another one leads behind such a
    frontier, it delivers that once more, perhaps in part; this replica then goes back to where the frontiers end."""

    def __init__(self, log_start: int, batches: Sequence[Batch]) -> None:
        """``batches``: those that are saved, which leave the database once frontiers cover them."""
        self._trimmed = log_start - 1
        """The log may be gone up to here."""
        self._before = min(self._trimmed, batches[0].first - 1) if batches else self._trimmed
        self._through: dict[str, int] = {}
        self._published: dict[str, int] = {}

    def __getitem__(self, sink: str) -> int:
        """Frontiers cover the log up to here."""
        return self._through.get(sink, self._before)

    def through(self, cursors: Sequence[SinkCursor]) -> int:
        """The frontiers of all sinks cover the log up to here."""
        return min((self[each.sink] for each in cursors), default=self._before)

    def published(self, waypoints: Waypoints, cursors: Sequence[SinkCursor], frontier: Frontier) -> None:
        """This leader is about to renew the Lease with its ``frontier``."""
        self._published = {
            each.sink: waypoints.published_through(self[each.sink], each.settled, partial(frontier.of, each.sink))
            for each in cursors
        }

    def renewed(self) -> None:
        """The Lease has the frontier that was published last."""
        for sink, through in self._published.items():
            self._through[sink] = max(self[sink], through)

    def found(self, waypoints: Waypoints, cursor: SinkCursor, frontier: Frontier, last: int, *, holds: bool) -> None:
        """The Lease has this frontier. ``holds``: see ``covered.reached``."""
        sink = cursor.sink
        self._through[sink] = covered_through(waypoints, sink, self[sink], frontier, last, holds=holds)

    def holds(self, cursors: Sequence[SinkCursor]) -> list[int]:
        """The log can be trimmed up to these sequence numbers."""
        held = [self._holds(each) for each in cursors]
        self._trimmed = max(self._trimmed, min(held, default=0))
        return held

    def _holds(self, cursor: SinkCursor) -> int:
        if cursor.backfill is not None and cursor.backfill.kind in _INSTEAD_OF_THE_LOG:
            return cursor.holds
        return max(min(self[cursor.sink], cursor.holds), cursor.settled - _MOST)

    def go_back(
        self, waypoints: Waypoints, selected: SelectedSinks, cursors: Sequence[SinkCursor], known: Frontier, last: int
    ) -> Collection[str]:
        """Another replica may have led since this one did, and ``known`` is the newest frontier. Returns the sinks of
        which records are gone that may have to be delivered once more."""
        gone = []
        for cursor in cursors:
            if cursor.sink not in known.sinks:
                continue
            self.found(waypoints, cursor, known, last, holds=selected.holds(cursor.sink, known))
            through = self[cursor.sink]
            if cursor.backfill is not None and cursor.backfill.kind in _INSTEAD_OF_THE_LOG:
                if cursor.settled_item > 0:
                    gone.append(cursor.sink)
            elif through < cursor.settled:
                if through < self._trimmed:
                    gone.append(cursor.sink)
                cursor.settled = min(cursor.settled, max(through, self._trimmed))
        return gone
