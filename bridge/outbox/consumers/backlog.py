"""Bounds of a sink's backlog, and the records to drop above them (pure).

By default a backlog is compacted, at 4 GiB: ``block`` lets a single dead sink stop all, and ``drop`` loses states.
Consumers of state lose nothing by ``compact``; consumers of history should choose ``block``.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from bridge.model.policies import BacklogBounds
from bridge.outbox.log.sparse_index import SparseIndex

ROOM = 0.9
"""Part of a bound that a drop leaves filled. A drop to the full bound would have to follow every record."""


class BacklogSize(msgspec.Struct, frozen=True):
    """The present size of a backlog."""

    records: int
    bytes: int
    age: float
    """Age of the oldest record, in seconds."""


def why_full(bounds: BacklogBounds, size: BacklogSize, setting: str) -> str:
    """The bound that the backlog has reached, in words; empty below all bounds. An empty backlog is never full,
    whatever the bounds. ``setting``: the path of the bounds in the configuration."""
    if not size.records:
        return ""
    if bounds.records is not None and size.records >= bounds.records:
        return f"{size.records} records wait, and {setting}.records is {bounds.records}"
    if bounds.bytes is not None and size.bytes >= bounds.bytes:
        return f"{size.bytes} bytes wait, and {setting}.bytes is {bounds.bytes}"
    if bounds.age is not None and size.age >= bounds.age:
        return f"the oldest record has waited {size.age:.0f} s, and {setting}.age is {bounds.age:.0f} s"
    return ""


def drop_through(
    bounds: BacklogBounds,
    sparse_index: SparseIndex,
    settled: int,
    last: int,
    now: float,
    beside: int = 0,
    followed_by: Callable[[int], int] | None = None,
) -> int:
    """The sequence number behind which the backlog is within every bound, with room for more; ``settled`` if it is
    within them already. ``beside``: records that count and cannot be dropped. ``followed_by``: returns a sequence
    number behind which the sink has at most so many records; None if every record is for the sink."""
    through = settled
    if bounds.records is not None:
        room = max(0, int(bounds.records * ROOM) - beside)
        through = max(through, last - room if followed_by is None else followed_by(room))
    if bounds.bytes is not None:
        through = max(through, sparse_index.sequence_within_bytes(int(bounds.bytes * ROOM)))
    if bounds.age is not None:
        through = max(through, sparse_index.sequence_within_age(bounds.age * ROOM, now))
    return through
