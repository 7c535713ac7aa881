"""How far former leaders can have come beyond what they published (pure). See ``Frontier.bounds``.

A leader that ends in order says so with its last frontier. What one that was killed began to deliver behind its last
renewal nobody knows; but the API server had it before the next leader began.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from msgspec.structs import replace

from bridge.model.versions.frontier import Frontier, Point, later
from bridge.outbox.waypoints.index import Waypoints


def as_left(found: Frontier, running: Iterable[str], *, released: bool) -> Frontier:
    """``found``, with what is known of its leader, and of one behind it that published nothing. ``running``: informers
    here that know a point. ``released``: the last holder has left the Lease."""
    return found if released and found.final else replace(found, bounds=dict.fromkeys(running))


def bounded(found: Frontier, points: Mapping[str, Point]) -> Frontier:
    """``found``, with the points of the API server that were not known yet."""
    return replace(
        found, bounds={key: points.get(key) if point is None else point for key, point in found.bounds.items()}
    )


def bounds_ahead(found: Frontier, informers: Collection[str]) -> Mapping[str, Point | None]:
    """The bounds that some sink has not reached. ``informers``: all there are."""

    def has_reached(sink: str, informer: str, bound: Point) -> bool:
        point, has_order = found.of(sink, informer), bound.version.isdecimal()
        return not has_order or (point is not None and (point.epoch > bound.epoch or point.covers(bound)))

    return {
        key: bound
        for key, bound in found.bounds.items()
        if key in informers and (bound is None or not all(has_reached(sink, key, bound) for sink in found.sinks))
    }


def final(found: Frontier, waypoints: Waypoints) -> Frontier:
    """``found``, as its leader leaves it in order: whatever it began to deliver is in its log."""
    listing = waypoints.listing
    own = {key: None if key in listing else waypoints.reached.get(key) for key in waypoints.running}
    bounds = {key: _further(found.bounds, key, point) for key, point in own.items()}
    left = replace(found, final=True, bounds={**found.bounds, **bounds})
    return replace(left, bounds=bounds_ahead(left, waypoints.running))


def _further(bounds: Mapping[str, Point | None], informer: str, own: Point | None) -> Point | None:
    known = bounds.get(informer, own)
    return None if known is None or own is None else later(own, known)
