"""The process loop: compares queued deltas with the Indexer, and delivers the changes (client-go's controller). Hot."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias

import msgspec

from bridge.informer.delta_fifo import DeltaFIFO, FifoClosed
from bridge.informer.deltas import DeltaType, QueuedDelta
from bridge.informer.handle_deltas import changes_of, contradicts, is_exported_already, needs_last_state
from bridge.informer.indexer import Indexer
from bridge.informer.reflector.proof import is_other_state
from bridge.informer.tombstones import Tombstones
from bridge.model.change import Change, ObjectVersion, Op
from bridge.model.object import ApiObject

Transform: TypeAlias = Callable[[ApiObject], ApiObject]
"""Strips and redacts an object before its export. Pure. Must not raise, and must keep key, uid and version. Applied to
an object only once, because a digest of a digest would differ."""

Deliver: TypeAlias = Callable[[list[Change], str | None], Awaitable[int | None]]
"""Takes a batch and the position that the store has with it. Returns the sequence number of the first change's record,
or None if the changes have no records. The next batch is processed after it returns."""


Contradict: TypeAlias = Callable[[str, str], None]
"""Called once when a list shows that the server has another history, with the known state and the contradicting
state."""


class Controller:
    """The Indexer's only writer. A batch is compared and stored without an await in between, so a Replace never sees a
    store that lags behind the queue; then the batch is delivered, once. ``position`` is the version whose state the
    Indexer has at the start; None if there is no such version."""

    def __init__(
        self,
        fifo: DeltaFIFO,
        indexer: Indexer,
        deliver: Deliver,
        transform: Transform | None,
        position: str | None = None,
        contradict: Contradict = lambda _was, _now: None,
    ) -> None:
        self._fifo = fifo
        self._indexer = indexer
        self._deliver = deliver
        self._transform = transform
        self._tombstones = Tombstones(position)
        self._contradict = contradict

    async def run(self) -> None:
        """Runs until the queue is closed and empty."""
        while True:
            try:
                await self._fifo.drain(self._process)
            except FifoClosed:
                return

    async def _process(self, deltas: Sequence[QueuedDelta], position: str | None) -> None:
        changes = self.handle_deltas(deltas)
        position = None if self._fifo.contradicted else position
        self._tombstones.position = position
        first = await self._deliver(changes, position)
        if first is None:
            return
        # Of several changes of an object, the Indexer has the last: it did not change during the delivery.
        offload = self._indexer.offload
        for sequence, change in enumerate(changes, first):
            if change.op is not Op.SYNC and change.op is not Op.DELETED:
                offload(change.object.key, sequence)

    def handle_deltas(self, deltas: Sequence[QueuedDelta]) -> list[Change]:
        """Applies a batch to the Indexer, and returns the changes in order. Once a list contradicts the known history,
        its further deltas are dropped: the Reflector lists again, in a new epoch."""
        changes: list[Change] = []
        indexer, transform = self._indexer, self._transform
        for queued in deltas:
            delta = queued if queued.type is not DeltaType.RESTORED else self._comparable(queued)
            known = indexer.known(delta.key)
            if delta.type is DeltaType.REPLACED or delta.object is None:
                self._check_history(delta, known)
                if self._fifo.contradicted and delta.type is not DeltaType.SYNC:
                    continue
            if delta.type is DeltaType.DELETED and is_exported_already(delta, known, self._tombstones):
                continue
            last_state = indexer.with_body(delta.key, known) if known and needs_last_state(delta, known) else None
            for change in changes_of(delta, known, last_state):
                # Other objects come from the Indexer or a Restored delta, and are transformed already.
                if transform is not None and change.object is queued.object:
                    change = msgspec.structs.replace(change, object=transform(change.object))
                if change.op is Op.DELETED:
                    indexer.remove(delta.key)
                    self._tombstones.add(change.object)
                elif change.op is not Op.SYNC:
                    indexer.put(change.object)
                changes.append(change)
        return changes

    def _check_history(self, delta: QueuedDelta, known: ObjectVersion | None) -> None:
        if delta.object is None or self._fifo.contradicted:
            return
        if contradicts(delta, known) or self._is_other_state(delta, delta.object, known):
            self._fifo.contradict()
            was = f"{delta.key} at {known.resource_version}" if known else f"no {delta.key} at {delta.floor}"
            self._contradict(was, f"{delta.key} at {delta.object.resource_version}")

    def _is_other_state(self, delta: QueuedDelta, thing: ApiObject, known: ObjectVersion | None) -> bool:
        """In a suspected history, an equal version may be another state."""
        if delta.floor is None or known is None:
            return False
        if (known.uid, known.resource_version) != (thing.uid, thing.resource_version):
            return False
        found = thing if self._transform is None else self._transform(thing)
        exported = self._indexer.with_body(delta.key, known)
        return found.body != exported.body and is_other_state(found, exported)

    def _comparable(self, delta: QueuedDelta) -> QueuedDelta:
        """A Restored delta with its transformed object, whose body can be compared with the known transformed body."""
        if delta.object is None or self._transform is None:
            return delta
        return msgspec.structs.replace(delta, object=self._transform(delta.object))
