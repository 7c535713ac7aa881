"""Compares queued deltas with the Indexer, and delivers the changes (client-go's controller and HandleDeltas).

A batch from the queue is applied delta by delta: ``changes_of`` says which changes a delta is, the Indexer gets the new
version, and the batch is delivered once, with the position that it reaches. Two kinds of deltas are no change to
export: deletes that were exported before (``Tombstones``), because a server may announce a delete again, long after it,
and updates that change only paths which the operator ignores (``IgnoredChanges``). Queue and delivery are given, so
this makes no I/O of its own. It is on the hot path.

Differs from client-go on purpose. An equal version is not a change. A new uid under an old name is a delete and an add.
A watched version older than the known version (announced again after a crash within a list) is not a change, whichever
object had the name then. A delete of an unknown object is a change, because only this event has its last state; a
delete that was exported before is not.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol, TypeAlias

import msgspec

from bridge.informer.deltas import DeltaType, FifoClosed, QueuedDelta
from bridge.informer.history.proof import Contradicted, is_other_state
from bridge.informer.indexer import Indexer
from bridge.model.change import Change, ChangeBatch, Evidence, IgnoredChange, ObjectVersion, Op
from bridge.model.object import ApiObject
from bridge.model.record import Delta
from bridge.model.resource import Resource, Scope
from bridge.model.selector import in_scope
from bridge.model.versions import Checkpoint, Deleted, is_older, is_reached

Transform: TypeAlias = Callable[[ApiObject], ApiObject]
"""Strips and redacts an object before its export. It must not raise, must make no I/O, and must keep key, uid and
version. It is applied to an object only once, because a digest of a digest would differ."""

DeliverBatch: TypeAlias = Callable[[ChangeBatch], Awaitable[Sequence[Delta] | None]]
"""Stores a batch, and tries until that succeeds. Returns the durable record of each change, in their order; None where
changes become no records. The next batch is processed after it returns."""

Contradict: TypeAlias = Callable[[Contradicted], None]
"""Called once when a list shows that the server has another history."""


class Queue(Protocol):
    """The DeltaFIFO's side of the consumer, without its event loop: this file decides."""

    epoch: int
    contradicted: bool

    async def drain(self, process: Callable[[Sequence[QueuedDelta], str | None], Awaitable[None]]) -> None: ...

    def contradict(self) -> None: ...

    @property
    def has_synced(self) -> bool: ...

    @property
    def is_processed(self) -> bool: ...


class Controller:
    """The Indexer's only writer. A batch is compared and stored without an await in between, so a Replace never sees a
    store that lags behind the queue; then the batch is delivered, once. ``position`` is the version whose state the
    Indexer has at the start; None if there is no such version. ``deleted`` is the newest watched delete of before the
    start, with its epoch. ``synced`` is called once the queue has synced, and the batch with which its first list ended
    is delivered."""

    def __init__(
        self,
        resource: Resource,
        scope: Scope,
        fifo: Queue,
        indexer: Indexer,
        deliver: DeliverBatch,
        transform: Transform | None,
        position: str | None = None,
        tombstones: Tombstones | None = None,
        deleted: tuple[int, Deleted] | None = None,
        contradict: Contradict | None = None,
        synced: Callable[[], None] | None = None,
        ignored: IgnoredChanges | None = None,
    ) -> None:
        self._resource = resource
        self._scope = scope
        self._fifo = fifo
        self._indexer = indexer
        self._deliver = deliver
        self._transform = transform
        self._position = position
        self._tombstones = tombstones or Tombstones()
        self._contradict = contradict
        self._synced = synced
        self._ignored = ignored
        self.deleted = deleted
        """The newest watched delete with its epoch, if it is the last change of its batch."""

    async def run(self) -> None:
        """Runs until the queue is closed and empty."""
        has_synced = False
        while True:
            if not has_synced and self._fifo.has_synced and (self._position is not None or self._fifo.is_processed):
                has_synced = True
                if self._synced is not None:
                    self._synced()
            try:
                await self._fifo.drain(self._process)
            except FifoClosed:
                return

    def move(self, resource: Resource) -> None:
        """Delivers the same objects as a resource of another API version, from the next batch on."""
        self._resource = resource

    async def _process(self, deltas: Sequence[QueuedDelta], position: str | None) -> None:
        """In this order: the store has the changes, the outbox has them durably, and only then the bodies leave the
        store."""
        changes = self.handle_deltas(deltas)
        position = None if self._fifo.contradicted else position
        self._position = position
        ignored = self._ignored
        batch = ChangeBatch(
            self._resource,
            self._scope,
            changes,
            position,
            self._fifo.epoch,
            "" if ignored is None else ignored.paths,
            None if ignored is None else ignored.take(),
        )
        if changes and changes[-1].op is Op.DELETED and changes[-1].evidence is Evidence.WATCHED:
            gone = changes[-1].object
            self.deleted = batch.epoch, Deleted(gone.key, gone.uid, gone.resource_version)
        records = await self._deliver(batch)
        if not records:
            return
        # Of several changes of an object, the Indexer has the last: it did not change during the delivery.
        offload = self._indexer.offload
        for change, record in zip(changes, records, strict=True):
            if change.op.has_state:
                offload(record.key, record.sequence, 0 if record.selected is None else record.selected.members)

    def handle_deltas(self, deltas: Sequence[QueuedDelta]) -> list[Change]:
        """Applies a batch to the Indexer, and returns the changes in order. Once a list contradicts the known history,
        its further deltas are dropped: the Reflector lists again, in a new epoch."""
        changes: list[Change] = []
        indexer, transform, ignored = self._indexer, self._transform, self._ignored
        for queued in deltas:
            delta = queued if queued.type is not DeltaType.RESTORED else self._comparable(queued)
            known = indexer.known(delta.key)
            if delta.type is DeltaType.REPLACED or delta.object is None:
                self._check_history(delta, known)
                if self._fifo.contradicted and delta.type is not DeltaType.SYNC:
                    continue
            if delta.type is DeltaType.DELETED and self._is_exported_already(delta, known):
                continue
            last_state = indexer.with_body(delta.key, known) if known and needs_last_state(delta, known) else None
            is_inferred = delta.type is DeltaType.DELETED and delta.object is None
            if is_inferred and last_state is not None and not in_scope(self._scope, last_state):
                # Only another scope than the present one can have brought the object here.
                delta = msgspec.structs.replace(delta, evidence=Evidence.UNWATCHED)
            for change in changes_of(delta, known, last_state):
                # Other objects come from the Indexer or a Restored delta, and are transformed already.
                if transform is not None and change.object is queued.object:
                    change = msgspec.structs.replace(change, object=transform(change.object))
                if ignored is not None:
                    if (exported := ignored.judged(delta, change)) is None:
                        continue
                    change = exported
                if change.op is Op.DELETED:
                    indexer.remove(delta.key)
                    self._tombstones.add(change.object)
                elif change.op.has_state:
                    indexer.put(change.object, change.digest)
                changes.append(change)
        return changes

    def _is_exported_already(self, delta: QueuedDelta, known: ObjectVersion | None) -> bool:
        """Whether the delete was exported before. Another object may have the name by now."""
        thing = delta.object
        if thing is None or (known is not None and known.uid == thing.uid):
            return False
        return self._tombstones.cover(thing, self._position)

    def _check_history(self, delta: QueuedDelta, known: ObjectVersion | None) -> None:
        if delta.object is None or self._fifo.contradicted:
            return
        if contradicts(delta, known) or self._shows_other_state(delta, delta.object, known):
            self._fifo.contradict()
            was = f"{delta.key} at {known.resource_version}" if known else f"no {delta.key} at {delta.floor}"
            if self._contradict is not None:
                self._contradict(Contradicted(was, f"{delta.key} at {delta.object.resource_version}"))

    def _shows_other_state(self, delta: QueuedDelta, thing: ApiObject, known: ObjectVersion | None) -> bool:
        """In a suspected history, an equal version may be another state."""
        if delta.floor is None or known is None:
            return False
        if (known.uid, known.resource_version) != (thing.uid, thing.resource_version):
            return False
        found = thing if self._transform is None else self._transform(thing)
        exported = self._indexer.with_body(delta.key, known)
        if self._ignored is not None:
            found, exported = (self._ignored.comparable(each, known.resource_version) for each in (found, exported))
        return found.body != exported.body and is_other_state(found, exported)

    def _comparable(self, delta: QueuedDelta) -> QueuedDelta:
        """A Restored delta with its transformed object, whose body can be compared with the known transformed body."""
        if delta.object is None or self._transform is None:
            return delta
        return msgspec.structs.replace(delta, object=self._transform(delta.object))


# ── The changes of a delta ────────────────────────────────────────────────────

_LISTED = (DeltaType.REPLACED, DeltaType.RESTORED)


def changes_of(delta: QueuedDelta, known: ObjectVersion | None, last_state: ApiObject | None) -> list[Change]:
    """The changes of a delta in order, at most two. ``last_state`` is the known object with its body, if
    ``needs_last_state``. The object of a Restored delta must be transformed already, so that its body can be compared
    with the known body."""
    thing = delta.object
    if thing is None:
        return _from_store(delta, known, last_state)
    if known is None:
        op = Op.DELETED if delta.type is DeltaType.DELETED else Op.ADDED
        return [Change(op, delta.evidence, thing)]
    if delta.type not in _LISTED and is_older(thing.resource_version, known.resource_version):
        return []
    if last_state is not None and known.uid != thing.uid:
        # A new object has the name, so the delete of the known object was missed.
        replaced = Change(Op.DELETED, Evidence.RELISTED, last_state, known)
        return [replaced, *changes_of(delta, None, None)]
    if delta.type is DeltaType.DELETED:
        return [Change(Op.DELETED, delta.evidence, thing, known)]
    if thing.resource_version == known.resource_version and not _has_another_body(delta, thing, last_state):
        return []
    return [Change(Op.UPDATED, delta.evidence, thing, known)]


def _has_another_body(delta: QueuedDelta, thing: ApiObject, last_state: ApiObject | None) -> bool:
    """Compares bodies: after a restore, the new history may give an object a version that another state had before."""
    return delta.type is DeltaType.RESTORED and last_state is not None and thing.body != last_state.body


def _from_store(delta: QueuedDelta, known: ObjectVersion | None, last_state: ApiObject | None) -> list[Change]:
    if known is None or last_state is None:
        return []
    op = Op.SYNC if delta.type is DeltaType.SYNC else Op.DELETED
    return [Change(op, delta.evidence, last_state, known, delta.targets)]


def needs_last_state(delta: QueuedDelta, known: ObjectVersion | None) -> bool:
    """Whether ``changes_of`` needs the known object's body, which must be unpacked or read for it."""
    if known is None:
        return False
    return delta.object is None or delta.object.uid != known.uid or delta.type is DeltaType.RESTORED


def contradicts(delta: QueuedDelta, known: ObjectVersion | None) -> bool:
    """Whether a listed object shows that the list and the known objects belong to different histories.

    Within a history, a list is never older than the known state. So a listed object that is older than the known object
    of its name shows a store restored from a backup; so does an unknown object that is not newer than a version at
    which all objects were known (``floor``)."""
    thing = delta.object
    if thing is None or delta.type is not DeltaType.REPLACED:
        return False
    if known is None:
        return delta.floor is not None and is_reached(thing.resource_version, delta.floor)
    return is_older(thing.resource_version, known.resource_version)


# ── Exported deletes ──────────────────────────────────────────────────────────


class Tombstones:
    """The exported deletes of an informer. All deletes up to its position are exported. If it has no position (within a
    list, in doubt), or if versions have no order, the last ``most`` deletes are remembered by uid."""

    def __init__(self, *, most: int = 500) -> None:
        self._most = most
        self._versions: OrderedDict[str, str] = OrderedDict()

    def __contains__(self, uid: str) -> bool:
        """Whether the object was exported as deleted lately."""
        return uid in self._versions

    def add(self, thing: ApiObject) -> None:
        """Remembers an exported delete, with its version."""
        self._versions[thing.uid] = thing.resource_version
        if len(self._versions) > self._most:
            self._versions.popitem(last=False)

    def cover(self, thing: ApiObject, position: str | None) -> bool:
        """Whether this delete of an unknown object was exported before. ``position``: the version whose state the store
        has; None while there is no such version."""
        version, exported = thing.resource_version, self._versions.get(thing.uid)
        if exported is not None and (version == exported or is_reached(version, exported)):
            # A newer version would be another delete: with a label selector, an object may come back under its uid.
            return True
        return position is not None and is_reached(version, position)


# ── Ignored changes ───────────────────────────────────────────────────────────


class Ignoring(Protocol):
    """The ignored paths of the objects of a resource, in their exported form."""

    name: str
    """Other paths have another name."""

    def digest(self, body: bytes) -> bytes:
        """16 bytes, which differ where states differ beside the ignored paths and the resourceVersion."""
        ...

    def remaining(self, body: bytes) -> bytes:
        """The state without the ignored paths and the resourceVersion."""
        ...


class IgnoredChanges:
    """The ignored changes of an informer. ``report`` is called with the number of those of a batch; ``known`` is the
    newest of before this start."""

    def __init__(
        self, ignoring: Ignoring, indexer: Indexer, report: Callable[[int], None], known: IgnoredChange | None = None
    ) -> None:
        self._ignoring = ignoring
        self._indexer = indexer
        self._report = report
        self._count = 0
        self._newest: IgnoredChange | None = None
        self.paths = ignoring.name
        if known is not None:
            self._resume(known)

    def _resume(self, newest: IgnoredChange) -> None:
        """Gives an object of a checkpoint its newest version, unless it was exported since."""
        known = self._indexer.known(newest.key)
        if known is None or known.uid != newest.uid:
            return
        if is_older(known.resource_version, newest.resource_version):
            self._indexer.pass_over(newest.key, newest.resource_version)

    def judged(self, delta: QueuedDelta, change: Change) -> Change | None:
        """The change with its digest; None if it is ignored: then the Indexer has the new version with the exported
        state. In another history each new version is exported, for the ledger must keep none of the former history."""
        if not change.op.has_state:
            return change
        thing, known, digest = change.object, change.before, self._ignoring.digest(change.object.body)
        if known is None or known.digest != digest or delta.type is DeltaType.RESTORED:
            return msgspec.structs.replace(change, digest=digest)
        self._indexer.pass_over(thing.key, thing.resource_version)
        self._count += 1
        self._newest = IgnoredChange(thing.key, thing.uid, thing.resource_version, self.paths)
        return None

    def take(self) -> IgnoredChange | None:
        """The newest ignored change since the last call. Reports their number."""
        newest, self._newest = self._newest, None
        if self._count:
            self._report(self._count)
            self._count = 0
        return newest

    def comparable(self, thing: ApiObject, version: str) -> ApiObject:
        """An exported state without the paths in which the server's state at this version of the object may differ."""
        return ApiObject(thing.key, thing.uid, version, self._ignoring.remaining(thing.body))


def usable(checkpoint: Checkpoint | None, ignoring: Ignoring | None) -> Checkpoint | None:
    """The checkpoint without its position if other paths were ignored: only a list shows the states of objects whose
    ignored changes are none any more."""
    if checkpoint is None or checkpoint.ignored is None:
        return checkpoint
    if ignoring is not None and ignoring.name == checkpoint.ignored.paths:
        return checkpoint
    return msgspec.structs.replace(checkpoint, position=None, ignored=None)
