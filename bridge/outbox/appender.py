"""Turns batches of changes into durable records: ``Appender`` numbers them, and follows the progress of each informer
from batch to batch (``RunningInformer``). Selections are evaluated meanwhile, in ``Turns`` of the event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from time import gmtime, perf_counter, strftime, time_ns
from typing import TypeVar

from msgspec.structs import replace

from bridge.model.change import ChangeBatch, Evidence, ObjectVersion, Op
from bridge.model.formats.content import behind
from bridge.model.record import Delta, Record
from bridge.model.resource import Resource, Scope
from bridge.model.versions import newest_of
from bridge.outbox.log import statements
from bridge.outbox.log.retention import LogEnd, Retention
from bridge.outbox.log.statements import Append, Decide, InformerProgress, deciding, with_managers
from bridge.outbox.store import Store


@dataclass(slots=True)
class RunningInformer:
    """A running informer, as the outbox follows it."""

    progress: InformerProgress
    kind: int
    resource: Resource
    """The resource with the number ``progress.resource``."""
    rebuilding: bool
    """True until the first complete list after the database was lost. Objects of that list were exported before, and
    become ``sync``."""
    has_forms: bool = False
    """True if the ledger may hold objects of this resource in another version, kind or scope than the present."""
    removing: bool = False
    """True while the informer exports deletes of objects that may still exist in the cluster."""

    def advance(self, batch: ChangeBatch) -> bool:
        """Applies the position and epoch of a batch. Returns True if there is progress to save. A batch queued before a
        new epoch began belongs to its own epoch, and moves no later position."""
        known = self.progress
        if batch.epoch < known.epoch:
            return False
        began = batch.epoch > known.epoch
        if began:
            known = InformerProgress(known.informer, known.resource, None, None, batch.epoch)
        position = known.position
        if batch.position is not None:
            position = batch.position
            self.rebuilding = False
        elif not all(change.op.is_copy for change in batch.changes):
            position = None
        ignored = known.ignored
        if batch.ignored is not None:
            ignored = batch.ignored
        elif ignored is not None and batch.position is not None and batch.ignoring != ignored.paths:
            ignored = None  # A list has shown the states that other paths hid.
        # A delete inferred from a list carries the last known version, which may belong to an older epoch.
        versions = [each.object.resource_version for each in batch.changes if each.op.has_state]
        newest = newest_of((known.newest, *versions, batch.position))
        self.progress = InformerProgress(known.informer, known.resource, position, newest, known.epoch, ignored)
        return began or batch.position is not None


class Appender:
    """Numbers records and writes them. ``committed`` runs on the event loop with the records of each batch and the
    sequence number of the last, in the order of the sequence numbers, once they are durable."""

    def __init__(
        self,
        store: Store,
        end: LogEnd,
        retention: Retention,
        *,
        epoch: int,
        clock: Callable[[], str],
        committed: Callable[[Sequence[Record], int], None],
    ) -> None:
        self._store = store
        self._end = end
        self._assigned = end.last
        self._epoch = epoch
        self.keeps_before = retention.before
        """Records keep the state before the change."""
        self._keeps_managers = retention.managers
        self._clock = clock
        self._committed = committed
        self.informers: dict[tuple[str, Scope], RunningInformer] = {}
        """Running informers by resource name and scope. See ``begin``."""
        self.decide: Decide | None = None
        """Decides which sinks get each record; None if no sink has a selection."""
        self.turns = Turns()
        """In which selections are evaluated."""
        self._observe: Callable[[Sequence[Record], int], None] | None = None
        self._reached: dict[int, InformerProgress] = {}
        self.sampled = asyncio.Event()
        """Set when a kind has enough bodies for a dictionary."""

    async def append(self, batch: ChangeBatch) -> Sequence[Delta]:
        """Writes records, ledger and position in a transaction. Returns the records once they are durable; waits while
        the disk is full. A batch without changes has its position saved within half a second; a crash before that
        repeats a part of the watch, which exports no change twice. The first position of an epoch, and one behind a
        list, is durable on return: a list after a crash would not tell what happened meanwhile. A batch with changes
        and without a position clears the saved position: after a crash only a list can find the state; a resync keeps
        it. A new epoch clears that of the old epoch."""
        informer = self.informers[batch.resource.name, batch.scope]
        rebuilding, before = informer.rebuilding, informer.progress
        moved = informer.advance(batch)
        self._epoch = max(self._epoch, informer.progress.epoch)
        if not batch.changes:
            if moved:
                self._reached[informer.progress.informer] = informer.progress
                if before.position is None or before.epoch != informer.progress.epoch:
                    now = [self._reached.pop(informer.progress.informer)]
                    await self._store.write(lambda database: statements.reach(database, now))
            return ()
        if batch.resource != informer.resource:
            number = await self._store.number_of(batch.resource)
            informer.resource = batch.resource
            informer.progress = replace(informer.progress, resource=number)
            informer.has_forms = self._store.has_forms(batch.resource.name)
        self._reached.pop(informer.progress.informer, None)
        assigned = self._assigned
        deltas, resources, replaced = self._numbered(informer, batch, rebuilding)
        if self.decide is not None:
            steps = zip(batch.changes, deltas, strict=True)
            selected = await self.turns.map(deciding(self.decide, self._state), steps)
            if self._assigned != assigned:  # Others numbered theirs meanwhile.
                deltas, resources, replaced = self._numbered(informer, batch, rebuilding)
            deltas = [replace(delta, selected=each) for delta, each in zip(deltas, selected, strict=True)]
        self._assigned += len(deltas)
        if self._keeps_managers:
            deltas = with_managers(batch.changes, deltas, self._store.managers)
        ready = Append(
            informer.kind,
            resources,
            [each.op.has_state for each in batch.changes],
            replaced,
            informer.progress,
            informer.removing,
            [each.digest or None for each in batch.changes] if batch.ignoring else None,
        )
        await self.write(deltas, ready)
        return deltas

    def observe_by(self, observe: Callable[[Sequence[Record], int], None]) -> None:
        """Lets ``observe`` see all records from now on, before ``committed``, with their bytes on disk."""
        self._observe = observe

    def begin(self, name: str, informers: Mapping[Scope, RunningInformer]) -> None:
        """Registers the running informers of a resource, all of them."""
        for scope, informer in informers.items():
            self.informers[name, scope] = informer
            self._epoch = max(self._epoch, informer.progress.epoch)

    def counted(self) -> tuple[int, int]:
        """The newest assigned number, and the most epochs begun (``statements.raise_epoch``). Thread-safe."""
        return self._assigned, self._epoch + 1

    def number_next(self) -> int:
        """Assigns the next sequence number. The caller submits its records before the next await, in this order."""
        self._assigned += 1
        return self._assigned

    def unregister(self, name: str, scope: Scope) -> int | None:
        """Unregisters an informer. Returns its number in the database, which a later one may get; None without it."""
        informer = self.informers.pop((name, scope), None)
        if informer is None:
            return None
        self._reached.pop(informer.progress.informer, None)
        return informer.progress.informer

    def unregister_all(self, name: str) -> Sequence[InformerProgress]:
        """Unregisters all informers of a resource. Returns their unsaved progress."""
        numbers = [each.progress.informer for (resource, _), each in self.informers.items() if resource == name]
        self.informers = {key: each for key, each in self.informers.items() if key[0] != name}
        return [self._reached.pop(number) for number in numbers if number in self._reached]

    def discard_positions(self, parts: Collection[tuple[Resource, Scope]], *, restored: bool) -> Awaitable[None]:
        """Discards the positions of these informers: after a restart they list. If their server was ``restored`` from a
        backup, each begins a new epoch. Appends after the call see the effect; it is durable when awaited."""
        discarded = [each for resource, scope in parts if (each := self.informers.get((resource.name, scope)))]
        for informer in discarded:
            self._reached.pop(informer.progress.informer, None)
            if restored:
                epoch = informer.progress.epoch + 1
                informer.progress = replace(informer.progress, position=None, newest=None, epoch=epoch, ignored=None)
            else:
                informer.progress = replace(informer.progress, position=None)
        now = [each.progress for each in discarded]
        return self._store.write(lambda database: statements.reach(database, now))

    def take_reached(self) -> Collection[InformerProgress]:
        """Progress without a change. The caller saves it."""
        reached, self._reached = self._reached, {}
        return reached.values()

    def write(self, deltas: Sequence[Delta], ready: Append) -> Awaitable[int]:
        """Writes records with numbers of ``number_next``; durable when awaited."""
        bodies = self._store.codec.bodies
        compress = bodies.compress.get(ready.kind)
        if compress is None:
            compress = partial(bodies.pack, ready.kind)
            if bodies.sample(ready.kind, (behind(each.body, each.managers) for each in deltas)):
                self.sampled.set()
        return self._store.write(
            partial(statements.append, deltas=deltas, batch=ready, compress=compress, cipher=bodies.cipher),
            committed=partial(self.appended, deltas),
        )

    def appended(self, records: Sequence[Record], size: int) -> None:
        """The records are durable, with ``size`` bytes on disk: deltas, or a notice alone."""
        end, last = self._end, records[-1].sequence
        end.last = last
        end.bytes += size
        if end.unmarked_since is None:
            end.unmarked_since = end.now()
        elif end.bytes >= end.mark_at:
            end.mark()
        if self._observe is not None:
            self._observe(records, size)
        self._committed(records, last)

    def _numbered(
        self, informer: RunningInformer, batch: ChangeBatch, rebuilding: bool
    ) -> tuple[list[Delta], list[int], list[int | None]]:
        """The records of these changes with the next numbers, which the caller assigns, and two lists of
        ``statements.Append``: resources, replaced.
        Deletes and resyncs keep the resource that their object's last record names, even if the informer follows
        another version by now. An object that changes twice in a batch replaces its record of the same batch, which had
        no number when the informer made the change. KeyError is a bug: an informer stops after a batch that could not
        be appended."""
        time = self._clock()
        deltas: list[Delta] = []
        resources: list[int] = []
        replaced: list[int | None] = []
        here: dict[str, int] = {}
        for sequence, change in enumerate(batch.changes, self._assigned + 1):
            op, thing, before = change.op, change.object, change.before
            number, state = informer.progress.resource, None if before is None else before.state
            if informer.has_forms and not op.has_state and isinstance(state, int):
                number = self._store.resource_of(state)
            resources.append(number)
            if state is None or op.is_copy:
                replaced.append(None)
            else:
                replaced.append(state if isinstance(state, int) else here[thing.key])
            if not op.is_copy:
                here[thing.key] = sequence
            deltas.append(
                Delta(
                    sequence,
                    Op.SYNC if rebuilding and op is Op.ADDED and change.evidence is not Evidence.WATCHED else op,
                    change.evidence,
                    self._store.codec.resources[number],
                    thing.key,
                    thing.uid,
                    thing.resource_version,
                    time,
                    batch.epoch,
                    thing.body,
                    None if before is None or not self.keeps_before else self._state(before),
                    change.targets,
                )
            )
        return deltas, resources, replaced

    def _state(self, known: ObjectVersion) -> bytes:
        return known.state if isinstance(known.state, bytes) else self._store.body(known.state)


_newest_second = (-1, "")  # A second since the epoch, and its text. Replaced as a whole: any thread may ask.


def utc_now() -> str:
    """Now as RFC 3339 with microseconds, such as 2026-11-21T08:30:00.000001Z."""
    global _newest_second
    seconds, nanoseconds = divmod(time_ns(), 1_000_000_000)
    second, text = _newest_second
    if second != seconds:
        text = strftime("%Y-%m-%dT%H:%M:%S", gmtime(seconds))
        _newest_second = seconds, text
    return f"{text}.{nanoseconds // 1000:06}Z"


# ── Turns of the event loop, for work whose length others choose ─────────────

T = TypeVar("T")
R = TypeVar("R")

MOST_AT_ONCE = 0.01
"""Seconds."""


class Turns:
    """Divides the evaluations of selections into parts, so that they never hold up the rest of the bridge for long.

    Whoever may write objects decides how long an expression takes on each, up to the budget of one evaluation
    (``selection.language.cost``), and how many objects come at once. So in a round of the event loop, evaluations end
    with the item during which ``MOST_AT_ONCE`` passes, however many informers wait. These take turns: a short batch
    waits for no more than two parts of each long one. A batch for which there is time is done without a wait.
    """

    def __init__(self, clock: Callable[[], float] = perf_counter) -> None:
        self._clock = clock
        self._turn = asyncio.Lock()
        self._until: float | None = None
        """The end of this round's time; None before its first part."""

    async def map(self, step: Callable[[T], R], items: Iterable[T]) -> list[R]:
        """The values of ``step`` for the items, in their order."""
        found: list[R] = []
        left = iter(items)
        clock = self._clock
        while True:
            async with self._turn:
                while self._until is not None and clock() >= self._until:  # noqa: ASYNC110  # the end of a round
                    await asyncio.sleep(0)
                if (until := self._until) is None:
                    until = self._until = clock() + MOST_AT_ONCE
                    asyncio.get_running_loop().call_soon(self._end_round)
                while clock() < until:
                    try:
                        item = next(left)
                    except StopIteration:
                        return found
                    found.append(step(item))

    def _end_round(self) -> None:
        self._until = None
