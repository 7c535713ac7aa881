"""From a batch of changes to durable records."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from bridge.model.change import Change, ChangeBatch, Evidence, Known, Op
from bridge.model.record import Delta
from bridge.model.resource import Resource, Scope
from bridge.model.version import newest_of
from bridge.outbox import work
from bridge.outbox.store import Store


@dataclass(slots=True)
class Informer:
    """An informer as the ledger knows it."""

    id: int
    kind: int
    resource: Resource
    resource_number: int
    position: str | None
    newest: str | None
    epoch: int
    rebuilding: bool
    """What its first list finds was told before the database was lost: it is told as ``sync``."""
    has_forms: bool = False
    """Some of its objects may have been told of the resource in another version or scope than it has now."""
    retiring: bool = False
    """What it tells as deleted may be there all the same."""

    def advance(self, batch: ChangeBatch) -> bool:
        """Take in how far a batch has come; whether there is something to save. What was queued before a new epoch
        began comes in its own, and has come nowhere in this one."""
        if batch.epoch < self.epoch:
            return False
        began = batch.epoch > self.epoch
        if began:
            self.epoch, self.position, self.newest = batch.epoch, None, None
        if batch.position is not None:
            self.position, self.rebuilding = batch.position, False
        elif any(change.op is not Op.SYNC for change in batch.changes):
            self.position = None
        self.newest = _newest(self.newest, batch)
        return began or batch.position is not None


class Intake:
    """Numbers records and has them written. ``committed`` is called on the event loop with each batch's records and the
    bytes that they take, in the order of their sequence, once they are durable."""

    def __init__(
        self,
        store: Store,
        last: int,
        *,
        epoch: int,
        before: bool,
        clock: Callable[[], str],
        committed: Callable[[Sequence[Delta], int], None],
    ) -> None:
        self._store = store
        self._assigned = last
        self._epoch = epoch
        self._before = before
        self._clock = clock
        self._committed = committed
        self.informers: dict[tuple[str, Scope], Informer] = {}
        """Those that run: resource by name, and scope. See ``begin``."""
        self._reached: dict[int, work.Reached] = {}

    async def append(self, batch: ChangeBatch) -> Sequence[Delta]:
        """Records, ledger and position in one transaction, all or nothing. Returns when they are durable, and waits for
        as long as there is no room. A batch without changes has its position saved a little later. One with changes and
        without a position clears the saved one, since after a crash only a list can tell; but a resync changes nothing.
        A new epoch clears what the old one reached."""
        informer = self.informers[batch.resource.name, batch.scope]
        rebuilding = informer.rebuilding
        moved = informer.advance(batch)
        self._epoch = max(self._epoch, informer.epoch)
        if not batch.changes:
            if moved:
                self._reached[informer.id] = work.Reached(informer.position, informer.newest, informer.epoch)
            return ()
        if batch.resource != informer.resource:
            informer.resource, informer.resource_number = batch.resource, await self._store.number_of(batch.resource)
            informer.has_forms = self._store.has_forms(batch.resource.name)
        self._reached.pop(informer.id, None)
        time = self._clock()
        resources = self._resources_of(informer, batch.changes)
        deltas = [
            self._delta(batch, change, resource, time, rebuilding)
            for change, resource in zip(batch.changes, resources, strict=True)
        ]
        await self._write(
            work.Append(
                informer.id,
                informer.kind,
                informer.resource_number,
                deltas,
                resources,
                [change.op not in (Op.DELETED, Op.SYNC) for change in batch.changes],
                _replaced(batch.changes, deltas[0].sequence),
                informer.position,
                informer.newest,
                informer.epoch,
                informer.retiring,
            )
        )
        return deltas

    async def tell_deleted(
        self, kind: int, gone: Sequence[Delta], resources: Sequence[int], replaced: Sequence[int]
    ) -> None:
        """Deletes of objects that no informer has any more, the resources that they were told of, and the records that
        had their last states. Their sequence numbers come from ``number_next``."""
        no_states = [False] * len(gone)
        await self._write(work.Append(None, kind, None, gone, resources, no_states, replaced, None, None, 1, True))

    def begin(self, name: str, scope: Scope, informer: Informer) -> None:
        """It runs from now on."""
        self.informers[name, scope] = informer
        self._epoch = max(self._epoch, informer.epoch)

    def counted(self) -> tuple[int, int]:
        """The newest sequence number that was given, and the newest epoch that may have begun: a part that leaves lets
        its kind begin one later (``ledger_sql.leave_behind``). From any thread."""
        return self._assigned, self._epoch + 1

    def number_next(self) -> int:
        """Take the next sequence number. Whoever takes numbers has them written before it waits for anything."""
        self._assigned += 1
        return self._assigned

    @property
    def has_reached(self) -> bool:
        """There are positions to be saved."""
        return bool(self._reached)

    def forget(self, name: str, scope: Scope) -> int | None:
        """It does not run any more. Returns its number, which another one may get."""
        informer = self.informers.pop((name, scope), None)
        if informer is None:
            return None
        self._reached.pop(informer.id, None)
        return informer.id

    def stand_still(self, name: str) -> Mapping[int, work.Reached]:
        """No part of this resource runs any more. Returns what they reached and nobody saved."""
        numbers = [each.id for (resource, _), each in self.informers.items() if resource == name]
        self.informers = {key: each for key, each in self.informers.items() if key[0] != name}
        return {number: self._reached.pop(number) for number in numbers if number in self._reached}

    def forsake(self, parts: Collection[tuple[Resource, Scope]], *, restored: bool) -> Awaitable[None]:
        """None of these goes on from what it has reached, whenever this process ends; where their server was
        ``restored``, each is in a new epoch. Takes effect for what is appended after the call; durable when awaited."""
        forsaken = [each for resource, scope in parts if (each := self.informers.get((resource.name, scope)))]
        for informer in forsaken:
            self._reached.pop(informer.id, None)
            informer.position = None
            if restored:
                informer.epoch, informer.newest = informer.epoch + 1, None
        now = {each.id: work.Reached(None, each.newest, each.epoch) for each in forsaken}
        return self._store.write(lambda database: work.reach(database, now))

    def take_reached(self) -> Mapping[int, work.Reached]:
        """Positions that were reached without a change, to be saved now."""
        reached, self._reached = self._reached, {}
        return reached

    def _write(self, ready: work.Append) -> Awaitable[int]:
        return self._store.write(
            lambda database: work.append(database, ready, self._store.codec.bodies),
            committed=lambda size: self._committed(ready.deltas, size),
            weight=len(ready.deltas),
        )

    def _resources_of(self, informer: Informer, changes: Sequence[Change]) -> list[int]:
        """Of each of these changes the resource that it is told of: that of its informer, but what a record says of an
        object, a delete says as well, and so does a resync, whatever became of the resource since."""
        resources = [informer.resource_number] * len(changes)
        if informer.has_forms:
            for index, change in enumerate(changes):
                if change.op in (Op.DELETED, Op.SYNC) and change.before and isinstance(change.before.state, int):
                    resources[index] = self._store.resource_of(change.before.state)
        return resources

    def _delta(self, batch: ChangeBatch, change: Change, resource: int, time: str, rebuilding: bool) -> Delta:
        thing = change.object
        told_before = rebuilding and change.op is Op.ADDED and change.evidence is not Evidence.WATCHED
        before = change.before if self._before else None
        return Delta(
            self.number_next(),
            Op.SYNC if told_before else change.op,
            change.evidence,
            self._store.codec.resources[resource],
            thing.key,
            thing.uid,
            thing.resource_version,
            time,
            batch.epoch,
            thing.body,
            None if before is None else self._state(before),
            change.audience,
        )

    def _state(self, known: Known) -> bytes:
        return known.state if isinstance(known.state, bytes) else self._store.body(known.state)


def _replaced(changes: Sequence[Change], first: int) -> list[int | None]:
    """Of each of a batch's changes the record that had the last state until now. Where an object changes again within
    the batch, that is a record of the batch: what its informer knew of it then had no number yet. KeyError is a bug,
    since an informer whose batch was not appended does not go on."""
    replaced: list[int | None] = []
    here: dict[str, int] = {}
    for sequence, change in enumerate(changes, first):
        before, op = change.before, change.op
        if before is None or op is Op.SYNC:
            replaced.append(None)
        elif isinstance(before.state, int):
            replaced.append(before.state)
        else:
            replaced.append(here[change.object.key])
        if op is not Op.SYNC:
            here[change.object.key] = sequence
    return replaced


def _newest(newest: str | None, batch: ChangeBatch) -> str | None:
    """What comparison told carries the version that was known, which may be of an older epoch."""
    told = (each.object.resource_version for each in batch.changes if each.op not in (Op.DELETED, Op.SYNC))
    return newest_of((newest, *told, batch.position))
