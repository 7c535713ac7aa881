"""Compaction: of everything that waits for one sink, the newest of each object, told as what it is to one who missed
the rest.

The life of an object lasts from its ``added`` to its ``deleted``. One that ended is told as deleted, or not at all
where the sink never heard of it; one that goes on is told with its newest state.

    added, updated, updated         added, with the newest state
    updated, updated, sync          updated, with the newest state
    sync, sync                      sync, the newest
    updated, deleted                deleted
    added, deleted                  nothing
    deleted, added                  both

A crash hides what the sink was told just before it, and that part of the backlog is told again. There an object's
``added`` may have arrived or not. So it is told as it was, with the same id; the newest state follows as an update of
its own; and a delete is told in any case.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from operator import attrgetter

import msgspec

from bridge.model.change import Op


class Step(msgspec.Struct, frozen=True, gc=False):
    """What compaction has to know of a record."""

    sequence: int
    key: Hashable
    """Of the object, among all objects of all resources."""
    uid: str
    op: Op
    before: int | None = None
    """As ``Kept.before`` has it, for what a compaction kept; None for a record as it stands in the log."""


class Kept(msgspec.Struct, frozen=True, gc=False):
    """A record that is told."""

    sequence: int
    op: Op
    """What it is told as."""
    before: int
    """Sequence number of the record whose ``before`` is told with it: the first of those that it stands for."""


def compact(steps: Iterable[Step], told_through: int) -> list[Kept]:
    """What is left of ``steps``, ascending by sequence. See Compaction."""
    compaction = Compaction(told_through)
    compaction.fold(steps)
    return compaction.kept()


class Compaction:
    """A fold over the steps of one sink's backlog, in the order of their sequence. It has memory for each object that
    lives, and for each delete that is told; a step takes about a microsecond.

    ``told_through``: steps up to this sequence number may have reached the sink already, in part or all; later ones
    certainly have not. What was kept can be compacted again, with what came behind it and the same ``told_through``.
    """

    def __init__(self, told_through: int) -> None:
        self._told_through = told_through
        self._lives: dict[Hashable, _Life] = {}
        self._ended: list[Kept] = []

    def fold(self, steps: Iterable[Step]) -> None:
        lives = self._lives
        for step in steps:
            key, op = step.key, step.op
            life = lives.get(key)
            if life is None:
                self._meet(step, named_anew=False)
            elif life.uid != step.uid:
                # A name went to another object and nobody said that the first is gone: whatever the steps tell of
                # both is told.
                del lives[key]
                self._ended += life.told()
                self._meet(step, named_anew=True)
            elif op is Op.DELETED:
                del lives[key]
                if not life.unheard_of:
                    self._ended.append(Kept(step.sequence, op, step.sequence))
            elif op is not Op.SYNC:
                life.change(step)
            elif life.op is op:
                life.newest = life.before = step.sequence

    def kept(self) -> list[Kept]:
        """What is told of all steps so far."""
        kept = self._ended.copy()
        for life in self._lives.values():
            kept += life.told()
        kept.sort(key=attrgetter("sequence"))
        return kept

    def _meet(self, step: Step, *, named_anew: bool) -> None:
        """The first step of a life, or the first that is in the backlog."""
        if step.op is Op.DELETED:
            self._ended.append(Kept(step.sequence, step.op, step.sequence))
            return
        unheard_of = step.op is Op.ADDED and step.sequence > self._told_through and not named_anew
        self._lives[step.key] = _Life(step.uid, step.op, step.sequence, step.before or step.sequence, unheard_of)


class _Life(msgspec.Struct, gc=False):
    """An object that is there after the last step."""

    uid: str
    op: Op
    """What it is told as."""
    newest: int
    before: int
    unheard_of: bool
    """It was added by a step that the sink certainly has not been told."""
    added: int = 0
    """A step that may have been told, and is told again before the newest; 0 for none."""
    added_before: int = 0

    def change(self, step: Step) -> None:
        if self.op is not Op.UPDATED and not self.unheard_of:
            if self.op is Op.ADDED:
                self.added, self.added_before = self.newest, self.before
            self.op, self.before = Op.UPDATED, step.before or step.sequence
        self.newest = step.sequence

    def told(self) -> list[Kept]:
        newest = Kept(self.newest, self.op, self.before)
        return [Kept(self.added, Op.ADDED, self.added_before), newest] if self.added else [newest]
