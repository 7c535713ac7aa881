"""Objects of which a destination has more than a frontier says: the newest version of each, in numbers that all
replicas share.

A frontier moves from batch to batch of an informer, and not within a list. A transaction may end in between.
"""

from __future__ import annotations

from base64 import urlsafe_b64encode
from collections.abc import Iterator, Mapping
from hashlib import blake2s
from typing import Annotated, TypeAlias

import msgspec
from msgspec import Meta

from bridge.model.change import Evidence, Op
from bridge.model.record import Delta
from bridge.model.versions.frontier import Point
from bridge.model.versions.version import is_reached

_GONE = "!"
"""Behind the version of an object that is deleted."""
_GONE_LATER = "!+"
"""Behind the version of an object that is deleted, and was there at that version: a list under way showed it."""

_Text = Annotated[str, Meta(max_length=300)]


class Beyond(msgspec.Struct, frozen=True):
    """Objects of an informer, in an epoch."""

    epoch: int
    objects: Annotated[dict[_Text, _Text], Meta(max_length=20_000)]
    """``name_of`` → the newest version that was delivered; with ``!`` behind it if the object was deleted by then, with
    ``!+`` if it was deleted later."""


ObjectsBeyond: TypeAlias = Mapping[str, Beyond]
"""Informers (``group_of``) → their objects."""


def name_of(delta: Delta) -> str:
    """A short name of the object, the same on every replica: 72 bits of a hash."""
    identity = f"{delta.resource.name}/{delta.uid}".encode()
    return urlsafe_b64encode(blake2s(identity, digest_size=9).digest()).decode()


def counts(delta: Delta) -> bool:
    """Whether the record is a step of its object, which each replica has in its own log. Not so for a copy (snapshot,
    replay, resync), and for a change of a selection, which each replica makes by itself."""
    return not (delta.replay or delta.snapshot is not None or delta.selection or delta.op is Op.SYNC)


def is_dated(delta: Delta) -> bool:
    """Whether the record has the version of its step. A delete that only a list shows has the last known version of its
    object; where the API server's history has the delete, its version was found."""
    return delta.op is not Op.DELETED or delta.evidence in (Evidence.WATCHED, Evidence.RECOVERED)


def entry_of(delta: Delta, reached: Point | None, *, lists: bool = False) -> str:
    """The entry of a delivered record. ``reached``: the present point of its informer. ``lists``: a list is under way.
    The version of a delete that is not dated is unknown: it is that point at most, or during a list a later one."""
    version = delta.resource_version
    if delta.op is not Op.DELETED:
        return version
    if is_dated(delta):
        return version + _GONE
    if reached is not None and is_reached(version, reached.version):
        version = reached.version
    return version + (_GONE_LATER if lists else _GONE)


def version_in(entry: str) -> str:
    return entry.partition(_GONE)[0]


def newer(one: str | None, other: str) -> str:
    """The newer of two entries of an object; ``other`` where versions have no order."""
    return one if one is not None and one != other and is_reached(version_in(other), version_in(one)) else other


def has(known: Beyond, delta: Delta) -> bool:
    """Whether the destination has the record, or a newer one of its object."""
    if delta.epoch != known.epoch or not counts(delta):
        return False
    entry = known.objects.get(name_of(delta))
    if entry is None:
        return False
    if entry.endswith(_GONE_LATER) and delta.op is not Op.ADDED:
        return True
    version, newest = delta.resource_version, version_in(entry)
    if version != newest and not is_reached(version, newest):
        return False
    if delta.op is not Op.DELETED or entry.endswith(_GONE):
        return True
    return is_dated(delta) and version != newest


def covers(point: Point | None, epoch: int, entry: str) -> bool:
    """Whether a frontier says as much as the entry. The next point behind a list covers what the list showed."""
    version = version_in(entry)
    if point is None or not point.covers(Point(epoch, version)):
        return False
    return point.version != version or not entry.endswith(_GONE_LATER)


def merged(parts: Iterator[ObjectsBeyond]) -> dict[str, Beyond]:
    """The parts together; of an informer only what belongs to its newest epoch."""
    found: dict[str, Beyond] = {}
    for part in parts:
        for group, beyond in part.items():
            known = found.get(group)
            if known is None or known.epoch < beyond.epoch:
                found[group] = Beyond(beyond.epoch, dict(beyond.objects))
            elif known.epoch == beyond.epoch:
                for name, entry in beyond.objects.items():
                    known.objects[name] = newer(known.objects.get(name), entry)
    return found
