"""The versions at which a whole list may show objects that came and went. Pure."""

from __future__ import annotations

from bridge.informer.deltas import Span
from bridge.informer.recovery.walk import Moment, Walk
from bridge.model.object import ApiObject
from bridge.model.versions.version import number_of

FEW_OBJECTS = 100
"""Objects of an informer up to which a whole list is as cheap as a few lists of a single object."""
MOST_SAMPLES = 8


def sampled_versions(span: Span) -> list[int]:
    """Versions spread evenly over the span, newest first; none without both ends of the span."""
    since, until = number_of(span.since or ""), number_of(span.until or "")
    if since is None or until is None or until - since < 2:
        return []
    between = until - since - 1
    count = min(MOST_SAMPLES, between)
    return sorted({since + (until - since) * place // (count + 1) for place in range(1, count + 1)} - {since})[::-1]


def walk_of(thing: ApiObject, version: int, span: Span) -> Walk:
    """The walk of an object that came and went, seen at this version."""
    since, until = number_of(span.since or "") or 0, number_of(span.until or "") or version
    return Walk(thing.key, None, Moment(until, None), since=since, seen=Moment(version, thing))
