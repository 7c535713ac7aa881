"""Reduces a sink's backlog: to the newest record of each object, or to the bounds above which records are dropped.

Compaction keeps the newest record of each object. Each kept record gets the op that is correct for a sink that never
received the dropped ones. An object lives from its ``added`` to its ``deleted``. A life that ended becomes its
``deleted``, or no record if the sink certainly never received the object; a life that goes on becomes its newest state.

    added, updated, updated         added, with the newest state
    updated, updated, sync          updated, with the newest state
    sync, sync                      sync, the newest
    updated, deleted                deleted
    added, deleted                  no record
    deleted, added                  both

After a crash, the last records may or may not have reached the sink. An ``added`` among them keeps its id, the newest
state follows as ``updated``, and deletes are always kept.

``why_full`` compares a backlog with its bounds, and ``drop_through`` finds the records to drop. By default a backlog is
compacted, at 4 GiB: ``block`` lets a single dead sink stop all, and ``drop`` loses states. Consumers of state lose
nothing by ``compact``; consumers of history should choose ``block``.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from operator import attrgetter

import msgspec

from bridge.model.change import Op
from bridge.model.policies import BacklogBounds
from bridge.outbox.log.retention import SparseIndex


class BacklogRecord(msgspec.Struct, frozen=True, gc=False):
    """A record of the backlog, as far as compaction reads it."""

    sequence: int
    key: Hashable
    """Identifies the object among all objects of all resources."""
    uid: str
    op: Op
    before: int | None = None
    """``Kept.before`` of an earlier compaction; None for a record of the log."""


class Kept(msgspec.Struct, frozen=True, gc=False):
    """A record that the sink gets."""

    sequence: int
    op: Op
    """The op that the sink gets; the log may have another."""
    before: int
    """Sequence number of the record whose ``before`` the sink gets: the first of the records that this record stands
    for."""


def compact(records: Iterable[BacklogRecord], uncertain_through: int) -> list[Kept]:
    """The records that remain of a sink's backlog, ascending by sequence number. Memory grows with the number of living
    objects and of kept deletes; a record takes about 1 µs.

    ``records``: ascending, too. ``uncertain_through``: records up to this sequence number may have reached the sink;
    later records certainly have not. Kept records can be compacted again, with newer records behind them and the same
    ``uncertain_through``.
    """
    lives: dict[Hashable, _Life] = {}
    kept: list[Kept] = []
    for record in records:
        key, op = record.key, record.op
        life = lives.get(key)
        if life is not None and life.uid == record.uid:
            if op is Op.DELETED:
                del lives[key]
                if not life.certainly_new:
                    kept.append(Kept(record.sequence, op, record.sequence))
            elif not op.is_copy:
                life.change(record)
            elif life.op is op:
                life.newest = life.before = record.sequence
            continue
        if life is not None:
            # Another object took the name, and the delete of the first is unknown: both objects' records are kept.
            del lives[key]
            kept += life.kept()
        if op is Op.DELETED:
            kept.append(Kept(record.sequence, op, record.sequence))
        else:
            certainly_new = op is Op.ADDED and record.sequence > uncertain_through and life is None
            lives[key] = _Life(record.uid, op, record.sequence, record.before or record.sequence, certainly_new)
    for life in lives.values():
        kept += life.kept()
    kept.sort(key=attrgetter("sequence"))
    return kept


class _Life(msgspec.Struct, gc=False):
    """An object that exists after the last record."""

    uid: str
    op: Op
    """The op that the sink gets."""
    newest: int
    before: int
    certainly_new: bool
    """True if the object was added by a record that the sink certainly has not received."""
    added: int = 0
    """Sequence number of an ``added`` that may have reached the sink, and goes out again before the newest state; 0 for
    none."""
    added_before: int = 0

    def change(self, record: BacklogRecord) -> None:
        if self.op is not Op.UPDATED and not self.certainly_new:
            if self.op is Op.ADDED:
                self.added, self.added_before = self.newest, self.before
            self.op, self.before = Op.UPDATED, record.before or record.sequence
        self.newest = record.sequence

    def kept(self) -> list[Kept]:
        newest = Kept(self.newest, self.op, self.before)
        return [Kept(self.added, Op.ADDED, self.added_before), newest] if self.added else [newest]


# ── Bounds of a backlog ──────────────────────────────────────────────────────


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
