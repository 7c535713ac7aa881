"""Waypoints in memory: which records of an informer stand behind which of its versions (pure).

A waypoint is a batch of an informer in the log, with the point that the informer had reached before it. All records of
the informer in front of the batch are changes up to that point.
"""

from __future__ import annotations

import sys
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, KeysView, Mapping
from operator import attrgetter
from typing import TypeAlias

import msgspec

from bridge.model.versions.frontier import Point

UNKNOWN = ""
"""In place of an informer: records that may be of any."""
MOVED = "selections"
"""In place of an informer: the differences that a changed selection made. Every replica makes its own."""
ALL = sys.maxsize
"""Behind every record."""
_MOST = 1000
"""Waypoints of an informer in memory. Above, neighbours are joined, and answers are earlier points than necessary."""

PointOf: TypeAlias = Callable[[str], Point | None]
"""Informer → the point up to which another replica has settled its changes; None if unknown."""


class Waypoint(msgspec.Struct, frozen=True, gc=False):
    """What the writer notes about a batch."""

    informer: str
    """See ``frontier.informer_key`` and ``retired_key``; or UNKNOWN, or MOVED."""
    since: Point | None
    """The informer's point before the batch; None within a list."""
    reached: Point | None = None
    """The point with the batch; None within a list."""


class Batch(msgspec.Struct, frozen=True, gc=False):
    """Records of an informer: those from ``first`` through ``last`` that are of this informer."""

    first: int
    last: int
    informer: str
    since: Point | None
    reached: Point | None = None
    """See Waypoint; None also for batches from before this start."""


_last = attrgetter("last")


def _in_epoch(point: Point | None, before: int, epoch: int) -> Point | None:
    return point if point is None or point.epoch != before else point._replace(epoch=epoch)


class Waypoints:
    """The informers of a replica. Batches come in the order of the log, once they are durable."""

    def __init__(self, batches: Iterable[Batch] = ()) -> None:
        self._batches: dict[str, list[Batch]] = {}
        self._reached: dict[str, Point] = {}
        self._listed: dict[str, Point | None] = {}
        """Running informers → the point of the last list; None while a list is under way."""
        self._of_resource: dict[str, Collection[str]] = {}
        self.ended: set[str] = set()
        """Informers that left the configuration in this run."""
        self.observe: Callable[[Batch], None] | None = None
        """Called with each further batch."""
        for batch in batches:
            self._add(batch)

    # ── Informers ────────────────────────────────────────────────────────────

    @property
    def running(self) -> KeysView[str]:
        return self._listed.keys()

    @property
    def noted(self) -> KeysView[str]:
        """Informers that have batches, and what stands in place of some."""
        return self._batches.keys()

    def begin(self, resource: str, informers: Mapping[str, tuple[Point | None, Point | None]]) -> None:
        """These informers of a resource run, and no others, each with the point up to which the outbox has its changes
        (None: it will list), and the point of its newest list."""
        for informer in self._of_resource.get(resource, ()):
            if informer not in informers:
                self.end(informer)
        self._of_resource[resource] = informers.keys()
        for informer, (point, listed) in informers.items():
            self.ended.discard(informer)
            self._listed[informer] = listed
            if point is not None:
                self._reached[informer] = point

    def end(self, informer: str) -> None:
        """An informer left the configuration."""
        self.ended.add(informer)
        self._listed.pop(informer, None)
        self._reached.pop(informer, None)

    def reach(self, informer: str, point: Point | None) -> None:
        """The outbox has all changes of the informer up to ``point``. None: a list is under way, or follows; its
        records before the last belong to no point."""
        if point is None:
            self._listed[informer] = None
            return
        self._reached[informer] = point
        if self._listed.get(informer) is None:
            self._listed[informer] = point
            if batches := self._batches.get(informer):  # The end of a list may have no records of its own.
                batches[-1] = msgspec.structs.replace(batches[-1], reached=point)

    def go_on_in(self, epoch: int, informer: str, before: int) -> None:
        """The informer's points of the epoch ``before`` belong to this one."""
        if (reached := _in_epoch(self._reached.get(informer), before, epoch)) is not None:
            self._reached[informer] = reached
        if informer in self._listed:
            self._listed[informer] = _in_epoch(self._listed[informer], before, epoch)
        batches = self._batches.get(informer, [])
        batches[:] = [
            msgspec.structs.replace(
                each, since=_in_epoch(each.since, before, epoch), reached=_in_epoch(each.reached, before, epoch)
            )
            for each in batches
        ]

    @property
    def reached(self) -> Mapping[str, Point]:
        """Running informer → the newest point; a list under way leaves it."""
        return self._reached

    @property
    def listing(self) -> Collection[str]:  # Or about to list.
        return [informer for informer, listed in self._listed.items() if listed is None]

    def listed(self, informer: str) -> Point | None:
        """The point of the newest list; None while a list is under way."""
        return self._listed.get(informer)

    # ── Batches ──────────────────────────────────────────────────────────────

    def passed(self, first: int, last: int, waypoint: Waypoint) -> None:
        """A batch is durable."""
        batch = Batch(first, last, waypoint.informer, waypoint.since, waypoint.reached)
        self._add(batch)
        if waypoint.informer in self._listed:
            self.reach(waypoint.informer, waypoint.reached)
        if self.observe is not None:
            self.observe(batch)

    def _add(self, batch: Batch) -> None:
        batches = self._batches.setdefault(batch.informer, [])
        batches.append(batch)
        if len(batches) > _MOST:
            pairs = zip(batches[:-1:2], batches[1::2], strict=False)
            joined = [msgspec.structs.replace(one, last=other.last, reached=other.reached) for one, other in pairs]
            batches[: 2 * len(joined)] = joined

    def recall(self, batches: Iterable[Batch]) -> None:
        """A sink begins in front of what was trimmed: forgotten batches come back. ``batches``: all that this sink has
        not settled and that are durable, in the order of the log."""
        trimmed: dict[str, list[Batch]] = {}
        for batch in batches:
            kept = self._batches.get(batch.informer)
            if not kept or batch.last < kept[0].first:
                trimmed.setdefault(batch.informer, []).append(batch)
        for informer, earlier in trimmed.items():
            kept = self._batches.pop(informer, [])
            for batch in (*earlier, *kept):
                self._add(batch)

    def trim(self, through: int) -> None:
        """Forgets batches that end by ``through``."""
        for informer, batches in list(self._batches.items()):
            del batches[: bisect_right(batches, through, key=_last)]
            if not batches:
                del self._batches[informer]

    # ── The leader's questions ───────────────────────────────────────────────

    def settled(self, through: int) -> Mapping[str, Point]:
        """Running informer → the point of which a sink has everything that has settled the log up to ``through``."""
        if self._waits(UNKNOWN, through) is not None:
            return {}
        points = {}
        for informer in self._listed:
            waiting = self._waits(informer, through)
            point = self._reached.get(informer) if waiting is None else waiting.since
            if point is not None:
                points[informer] = point
        return points

    def retired(self, through: int) -> Collection[str]:
        """Informers that left (``retired_key``), and whose deletes are settled up to ``through``. Asked before these
        are trimmed."""
        return [each for each in self._batches if "/" in each and self._waits(each, through) is None]

    def published_through(self, after: int, settled: int, point_of: PointOf) -> int:
        """The log up to the result, which is between ``after`` and ``settled``, is covered by the points that this
        replica publishes. Batches of no running informer have none: they count as published once they are settled."""
        through = settled
        for informer in self._batches:
            before = self.settled_before(informer, point_of, ()) if informer in self._listed else settled + 1
            waiting = self._waits(informer, max(after, before - 1))
            if waiting is not None:
                through = min(through, waiting.first - 1)
        return max(after, through)

    def _waits(self, informer: str, through: int) -> Batch | None:
        batches = self._batches.get(informer, ())
        at = bisect_right(batches, through, key=_last)
        return batches[at] if at < len(batches) else None

    # ── A follower's questions ───────────────────────────────────────────────

    def settled_before(self, informer: str, point_of: PointOf, retired: Collection[str]) -> int:
        """Records of the informer with smaller numbers are changes up to its point, which another replica has settled.
        ``ALL`` for all records so far. ``retired``: see ``Frontier.retired``, with the names of the informers."""
        if informer == UNKNOWN and self._listed:
            return min(self.settled_before(each, point_of, retired) for each in self._listed)
        if informer not in self._listed and informer in retired:
            return ALL
        point = point_of(informer)
        if point is None:
            return 0
        if self._listed.get(informer) is not None and point.covers(self._reached[informer]):
            return ALL
        for each in reversed(self._batches.get(informer, ())):
            if each.reached is not None and point.covers(each.reached):
                return each.last + 1
            if each.since is not None and point.covers(each.since):
                return each.first
        return 0

    def settled_through(self, settled: int, last: int, point_of: PointOf, retired: Collection[str]) -> int:
        """A sink that has settled the log up to ``settled`` needs no record up to the result, which is at most
        ``last``."""
        through = last
        for informer in self._batches:
            before = self.settled_before(informer, point_of, retired)
            waiting = self._waits(informer, max(settled, before - 1))
            if waiting is not None:
                through = min(through, waiting.first - 1)
        return max(settled, through)
