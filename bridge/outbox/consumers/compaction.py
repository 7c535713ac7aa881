"""Compaction reduces a sink's backlog to the newest record of each object. Each kept record gets the op that is correct
for a sink that never received the dropped ones.

An object lives from its ``added`` to its ``deleted``. A life that ended becomes its ``deleted``, or no record if the
sink certainly never received the object; a life that goes on becomes its newest state.

    added, updated, updated         added, with the newest state
    updated, updated, sync          updated, with the newest state
    sync, sync                      sync, the newest
    updated, deleted                deleted
    added, deleted                  no record
    deleted, added                  both

After a crash, the last records may or may not have reached the sink. An ``added`` among them keeps its id, the newest
state follows as ``updated``, and deletes are always kept.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from operator import attrgetter

import msgspec

from bridge.model.change import Op


class Step(msgspec.Struct, frozen=True, gc=False):
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


def compact(steps: Iterable[Step], uncertain_through: int) -> list[Kept]:
    """The records that remain of ``steps``, ascending by sequence number. See Compaction."""
    compaction = Compaction(uncertain_through)
    compaction.fold(steps)
    return compaction.kept()


class Compaction:
    """Folds the steps of a sink's backlog in the order of their sequence numbers. Memory grows with the number of
    living objects and of kept deletes; a step takes about 1 µs.

    ``uncertain_through``: steps up to this sequence number may have reached the sink; later steps certainly have not.
    Kept records can be compacted again, with newer steps behind them and the same ``uncertain_through``.
    """

    def __init__(self, uncertain_through: int) -> None:
        self._uncertain_through = uncertain_through
        self._lives: dict[Hashable, _Life] = {}
        self._ended: list[Kept] = []

    def fold(self, steps: Iterable[Step]) -> None:
        """Adds steps that follow the earlier ones."""
        lives = self._lives
        for step in steps:
            key, op = step.key, step.op
            life = lives.get(key)
            if life is None:
                self._meet(step, named_anew=False)
            elif life.uid != step.uid:
                # Another object took the name, and the delete of the first is unknown: both objects' records are kept.
                del lives[key]
                self._ended += life.kept()
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
        """The records that remain of all steps so far, ascending by sequence number."""
        kept = self._ended.copy()
        for life in self._lives.values():
            kept += life.kept()
        kept.sort(key=attrgetter("sequence"))
        return kept

    def _meet(self, step: Step, *, named_anew: bool) -> None:
        """Begins a life with its first step, or with its first step in the backlog."""
        if step.op is Op.DELETED:
            self._ended.append(Kept(step.sequence, step.op, step.sequence))
            return
        unheard_of = step.op is Op.ADDED and step.sequence > self._uncertain_through and not named_anew
        self._lives[step.key] = _Life(step.uid, step.op, step.sequence, step.before or step.sequence, unheard_of)


class _Life(msgspec.Struct, gc=False):
    """An object that exists after the last step."""

    uid: str
    op: Op
    """The op that the sink gets."""
    newest: int
    before: int
    unheard_of: bool
    """True if the object was added by a step that the sink certainly has not received."""
    added: int = 0
    """Sequence number of an ``added`` that may have reached the sink, and goes out again before the newest state; 0 for
    none."""
    added_before: int = 0

    def change(self, step: Step) -> None:
        if self.op is not Op.UPDATED and not self.unheard_of:
            if self.op is Op.ADDED:
                self.added, self.added_before = self.newest, self.before
            self.op, self.before = Op.UPDATED, step.before or step.sequence
        self.newest = step.sequence

    def kept(self) -> list[Kept]:
        newest = Kept(self.newest, self.op, self.before)
        return [Kept(self.added, Op.ADDED, self.added_before), newest] if self.added else [newest]
