"""The frontier behind which a shard goes on whose objects were those of other shards before. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial, reduce

import msgspec
from msgspec.structs import replace

from bridge.model.primitives.election import replica_of
from bridge.model.primitives.shard import Division, Shard
from bridge.model.versions.frontier import (
    MOST_KEPT,
    Frontier,
    Point,
    ShardFrontier,
    SinkFrontier,
    furthest,
    later,
)
from bridge.model.versions.held import MOST_HELD, KeptLetters, digests_in
from bridge.model.versions.selection_frontier import ALL_ENTRIES, SelectionFrontier


class Joined(msgspec.Struct, frozen=True):
    """The frontiers of former shards as one."""

    frontier: Frontier
    """With the earliest point of each sink and informer, and in ``parts`` what each shard has beyond that."""
    apart: Mapping[str, Sequence[Point]]
    """Informers whose points cannot be compared, since the shards are in different epochs: the frontier is without
    them, so that all of their records are delivered."""


def joined(former: Sequence[tuple[Shard | None, Frontier]], mine: Division) -> Joined:
    """The frontier of all these shards together, which have an object each once; that of a single one (None: all
    objects) stays as it is, but for the settings. At least one. Sinks and informers that some shard does not have are
    left out. ``mine``: the shard that follows."""
    frontiers = [frontier for _, frontier in former]
    if len(frontiers) == 1:
        return Joined(replace(frontiers[0], settings={}, address="", kept=_kept(former, mine), followed=()), {})
    newest = max(frontiers, key=lambda each: (each.term, each.renewal))
    sinks = [name for name in newest.sinks if all(name in each.sinks for each in frontiers)]
    informers = [key for key in sorted(newest.informers) if all(key in each.informers for each in frontiers)]
    points = {key: _points(frontiers, key) for key in informers}
    apart = {key: found for key, found in points.items() if len({each.epoch for each in found}) > 1}
    informers = [key for key in informers if key not in apart]
    least = {
        sink: {key: reduce(_earlier, [each.of(sink, key) for each in frontiers]) for key in informers} for sink in sinks
    }
    most = {key: furthest(of_sink[key] for of_sink in least.values()) for key in informers}
    frontier = replace(
        newest,
        sequence=max(each.sequence for each in frontiers),
        replays=max(each.replays for each in frontiers),
        settings={},
        address="",
        kept=_kept(former, mine),
        followed=(),
        informers=most,
        final=all(each.final for each in frontiers),
        bounds=_bounds(frontiers, informers),
        retired=tuple(name for name in newest.retired if all(name in each.retired for each in frontiers)),
        sinks={sink: _joined_sink([each.sinks[sink] for each in frontiers], least[sink], most) for sink in sinks},
        parts=tuple(part for shard, each in former for part in _parts(shard, each, informers)),
    )
    return Joined(replace(frontier, parts=parts_ahead(frontier)), apart)


def _kept(former: Sequence[tuple[Shard | None, Frontier]], mine: Division) -> Mapping[str, KeptLetters]:
    """Each heir gets those of its own objects; the first heir of a shard, those of no object."""
    found: dict[str, KeptLetters] = {}
    for shard, frontier in former:
        kept = dict(frontier.kept)
        if any(each.dead_letters for each in frontier.sinks.values()):
            kept[replica_of(frontier.by)] = KeptLetters(frontier.address)
        is_first = Division.of_shard(shard).heirs(mine.of)[0] == mine.index
        for name, each in kept.items():
            inherited = KeptLetters(
                each.address, former=True, since=max(each.through, each.since), notices=each.notices and is_first
            )
            found[name] = _of_both(found.get(name, inherited), inherited)
    return dict(list(found.items())[-MOST_KEPT:])


def _of_both(one: KeptLetters, other: KeptLetters) -> KeptLetters:
    """Of a replica whose dead letters two shards still need. Two replicas with one name cannot be distinguished."""
    if one.address != other.address:
        return KeptLetters(former=True)
    return replace(one, since=min(one.since, other.since), notices=one.notices or other.notices)


def parts_ahead(frontier: Frontier) -> tuple[ShardFrontier, ...]:
    """The parts of the frontier; none once it covers all of them."""

    def is_ahead(part: ShardFrontier) -> bool:
        for sink in part.behind.keys() & frontier.sinks.keys():
            for key in part.informers.keys() & frontier.informers.keys():
                point, covered = part.of(sink, key), frontier.of(sink, key)
                if point is not None and (covered is None or not covered.covers(point)):
                    return True
        return False

    return frontier.parts if any(map(is_ahead, frontier.parts)) else ()


def _bounds(frontiers: Sequence[Frontier], informers: Sequence[str]) -> Mapping[str, Point | None]:
    found: dict[str, Point | None] = {}
    for key in informers:
        bounds = [each.bounds[key] for each in frontiers if key in each.bounds]
        if bounds:
            epochs = {0 if each is None else each.epoch for each in bounds}
            found[key] = furthest(bounds) if len(epochs) == 1 else None
    return found


def _points(frontiers: Sequence[Frontier], key: str) -> Sequence[Point]:
    return [point for each in frontiers if (point := each.informers[key]) is not None]


def _parts(shard: Shard | None, frontier: Frontier, informers: Sequence[str]) -> Sequence[ShardFrontier]:
    """What a shard has of these informers; of one that was joined itself, and has not passed its parts, what they
    have."""
    if shard is None:
        raise ValueError("all objects are no part")
    if not frontier.parts:
        return [_part(shard, frontier, informers, frontier.of)]
    return [_part(each.shard, frontier, informers, partial(_later_of, frontier, each)) for each in frontier.parts]


def _later_of(frontier: Frontier, part: ShardFrontier, sink: str, informer: str) -> Point | None:
    return later(frontier.of(sink, informer), part.of(sink, informer))


def _part(
    shard: Shard, frontier: Frontier, informers: Sequence[str], of: Callable[[str, str], Point | None]
) -> ShardFrontier:
    points = {sink: {key: of(sink, key) for key in informers} for sink in frontier.sinks}
    most = {key: furthest(of_sink[key] for of_sink in points.values()) for key in informers}
    behind = {
        sink: {key: each for key, each in of_sink.items() if each != most[key]} for sink, of_sink in points.items()
    }
    return ShardFrontier(shard, most, behind)


def _earlier(one: Point | None, other: Point | None) -> Point | None:
    """The earlier of two points; None where they cannot be compared."""
    if one is None or other is None:
        return None
    if one.covers(other):
        return other
    return one if other.covers(one) else None


def _joined_sink(
    each: Sequence[SinkFrontier], least: Mapping[str, Point | None], most: Mapping[str, Point | None]
) -> SinkFrontier:
    under_way = next((one for one in each if one.backfill), SinkFrontier())
    parked = {digest for one in each for digest in digests_in(one.parked)}
    are_named = all(one.names_all_parked for one in each)
    return SinkFrontier(
        behind={key: point for key, point in least.items() if point != most[key]},
        backfill=under_way.backfill,
        scope=under_way.scope,
        paused=max(one.paused for one in each),
        dead_letters=sum(one.dead_letters for one in each),
        parked=b"".join(sorted(parked)) if are_named and len(parked) <= MOST_HELD else b"",
        objects=len(parked) if are_named else sum(one.objects for one in each),
        selection=_joined_selection([one.selection for one in each]),
    )


def _joined_selection(each: Sequence[SelectionFrontier]) -> SelectionFrontier:
    """Of shards with different entries: those of the first are on their way to those of another."""
    entries, number = each[0].entries, max(one.number for one in each)
    others = [one for one in each if one.changing or one.entries != entries]
    changing = next((one.changing or one.entries or ALL_ENTRIES for one in others), "")
    return SelectionFrontier(entries, changing, number)
