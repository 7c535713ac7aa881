"""The frontier that a replica publishes: its own progress, or the frontier that it found, if that is more (pure)."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TypeAlias

import msgspec
from msgspec.structs import replace

from bridge.model.policies import StartPolicy
from bridge.model.record import SnapshotScope
from bridge.model.status import PauseCause
from bridge.model.versions.frontier import (
    MOST_RETIRED,
    MOST_SCOPE,
    Frontier,
    Point,
    SinkFrontier,
    furthest,
    later,
    retired_key,
)
from bridge.model.versions.held import MOST_HELD, HeldObjects
from bridge.model.versions.joining import parts_ahead
from bridge.model.versions.selection_frontier import SelectionFrontier
from bridge.outbox.consumers.backfill import Backfill, BackfillKind
from bridge.outbox.consumers.cursors import SinkCursor
from bridge.outbox.consumers.notice_items import scope_of, scope_text
from bridge.outbox.errors import Damaged
from bridge.outbox.standby.coverage.bounds import bounds_ahead
from bridge.outbox.waypoints.index import Waypoints

Points: TypeAlias = Mapping[str, Point | None]

_UNDER_WAY = (BackfillKind.SNAPSHOT, BackfillKind.REPLAY)
_EVERYTHING = "{}"
"""The scope of a snapshot on demand of all objects."""


class Replica(msgspec.Struct, frozen=True):
    """A replica, as the others see it."""

    cluster: str
    """The configured name."""
    identity: str
    version: str
    """Of kubedelta."""


class Configured(msgspec.Struct):
    """What the configuration of this replica says about the election."""

    settings: Mapping[str, str] = {}
    """See ``Frontier.settings``."""
    address: str = ""
    """See ``Frontier.address``."""
    starts: Mapping[str, StartPolicy] = {}
    """The starts of sinks without a selection."""
    passing: Collection[str] = ()
    """Sinks whose later records do not wait behind a dead letter (``on_rejected: pass``)."""
    transactional: Collection[str] = ()
    """Sinks whose destination stores their progress."""


class Owing(msgspec.Struct, frozen=True):
    """What a sink waits for, beside the log: its dead letters, and a snapshot."""

    number: int = 0
    objects: int = 0
    """Whose later records wait."""
    digests: bytes = b""
    """See ``HeldObjects.packed``."""
    snapshot: str | None = None
    """Of a snapshot that this replica owes the sink: see ``OwedSnapshot.text``."""
    selection: SelectionFrontier = SelectionFrontier()


def owing(number: int, held: HeldObjects, snapshot: str | None, selection: SelectionFrontier, *, parks: bool) -> Owing:
    """``number``: of dead letters. ``parks``: later records of their objects wait behind them."""
    return Owing(number, *((held.count, held.packed) if parks else (0, b"")), snapshot, selection)


class OwedSnapshot(msgspec.Struct, frozen=True):
    """A snapshot that a sink is to get from this leader: another leader did not end it, or this replica was not
    exact."""

    scope: SnapshotScope | None
    after: int = 0
    """It begins when the sink has taken the log up to this number."""

    @property
    def text(self) -> str:
        return scope_text(published_scope(self.scope)) or _EVERYTHING


def published_scope(scope: SnapshotScope | None) -> SnapshotScope | None:
    """Without an expression, which may be secret: the next leader begins with more objects then."""
    return None if scope is None else replace(scope, where=None)


def blank(replica: Replica, term: int) -> Frontier:
    """A frontier of no progress."""
    return Frontier(1, replica.cluster, term, replica.identity, replica.version, 0)


def advanced(
    found: Frontier,
    waypoints: Waypoints,
    cursors: Sequence[SinkCursor],
    held: Mapping[str, Owing],
    epochs: Mapping[str, int],
) -> Frontier:
    """``found`` with the progress of these cursors. It never goes back within an epoch. It says nothing of an epoch
    before that in which the informer is here (``epochs``): that may be another history's."""
    informers = {*waypoints.running, *(found.informers.keys() - waypoints.ended - _left(found))}
    reached: dict[str, Points] = {}
    for cursor in cursors:
        own = waypoints.settled(cursor.settled)
        points = {each: later(own.get(each), found.of(cursor.sink, each), epochs.get(each, 0)) for each in informers}
        reached[cursor.sink] = {each: _in_epoch(point, epochs.get(each, 0)) for each, point in points.items()}
    most = {each: furthest(of_sink[each] for of_sink in reached.values()) for each in sorted(informers)}
    named = with_room(held)
    progress = replace(
        found,
        replays=max([found.replays, *(each.backfill.replay for each in cursors if each.backfill is not None)]),
        informers=most,
        retired=_retired(found, waypoints, cursors),
        followed=() if _loses_names(found, reached) else found.followed,
        sinks={
            cursor.sink: _of_sink(cursor, reached[cursor.sink], most, named.get(cursor.sink, Owing()))
            for cursor in cursors
        },
    )
    if progress.bounds:
        progress = replace(progress, bounds=bounds_ahead(progress, informers))
    return replace(progress, parts=parts_ahead(progress)) if progress.parts else progress


def _loses_names(found: Frontier, sinks: Collection[str]) -> bool:
    """Whether a sink leaves the frontier, with the objects of its dead letters."""
    return any(each.dead_letters for sink, each in found.sinks.items() if sink not in sinks)


def _in_epoch(point: Point | None, epoch: int) -> Point | None:
    return None if point is None or point.epoch < epoch else point


def with_points(found: Frontier, sink: str, points: Points) -> Frontier:
    """``found``, if the sink has settled this, too."""
    if sink not in found.sinks:
        return found
    mine = {each: later(found.of(sink, each), point) for each, point in points.items()}
    most = {**found.informers, **{each: later(found.informers.get(each), point) for each, point in mine.items()}}
    reached = {name: {each: found.of(name, each) for each in most} for name in found.sinks}
    reached[sink] |= mine
    behind = {name: {each: point for each, point in of.items() if point != most[each]} for name, of in reached.items()}
    sinks = {name: replace(each, behind=behind[name]) for name, each in found.sinks.items()}
    return replace(found, informers=most, sinks=sinks)


def _left(found: Frontier) -> set[str]:
    """Informers that left in an earlier run, and whose deletes are settled."""
    points = ((informer, point) for informer, point in found.informers.items() if point is not None)
    return {informer for informer, point in points if retired_key(informer, point.epoch) in found.retired}


def _retired(found: Frontier, waypoints: Waypoints, cursors: Sequence[SinkCursor]) -> tuple[str, ...]:
    now = waypoints.retired(min((cursor.settled for cursor in cursors), default=0))
    known = [each for each in found.retired if each not in now]
    return (*known, *now)[-MOST_RETIRED:]


def with_room(held: Mapping[str, Owing]) -> Mapping[str, Owing]:
    """Without the digests of the sinks for which there is no room, those with the most objects."""
    room, found = MOST_HELD, {}
    for sink, each in sorted(held.items(), key=lambda item: item[1].objects):
        room -= each.objects
        found[sink] = each if room >= 0 else replace(each, digests=b"")
    return found


def _of_sink(cursor: SinkCursor, points: Points, most: Points, owing: Owing) -> SinkFrontier:
    kind, scope = _under_way(cursor.backfill) if owing.snapshot is None else (BackfillKind.SNAPSHOT, owing.snapshot)
    return SinkFrontier(
        behind={each: point for each, point in points.items() if point != most[each]},
        backfill=kind,
        scope=scope if len(scope) <= MOST_SCOPE else _EVERYTHING,
        # A fence concerns the term that it ended.
        paused=0 if cursor.paused is PauseCause.FENCED else cursor.paused.value,
        dead_letters=owing.number,
        parked=owing.digests,
        objects=owing.objects,
        selection=owing.selection,
    )


def _under_way(backfill: Backfill | None) -> tuple[str, str]:
    """``SinkFrontier.backfill`` and ``scope``."""
    if backfill is None or backfill.kind not in _UNDER_WAY or backfill.cancelled:
        return "", ""
    if backfill.kind is not BackfillKind.SNAPSHOT or not backfill.replay:
        return backfill.kind.value, ""
    return backfill.kind.value, scope_text(published_scope(known_scope(backfill.scope))) or _EVERYTHING


def known_scope(text: str | None) -> SnapshotScope | None:
    """The objects of a snapshot; None for every object of the sink, and where the text cannot be read."""
    try:
        return scope_of(text)
    except Damaged:
        return None
