"""One resource in one scope, listed and watched once, however many want to know of it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Protocol, TypeAlias

from bridge.facts import InformerStarted, InformerStopped, InformerSynced, Report
from bridge.informer.controller import Controller, Transform
from bridge.informer.delta_fifo import DeltaFIFO, FifoClosed
from bridge.informer.handlers import Handlers
from bridge.informer.indexer import Indexer, IndexFunc, Stored
from bridge.informer.lister import Lister
from bridge.informer.reflector import list_watch
from bridge.informer.reflector.history import History
from bridge.informer.reflector.list_limiter import ListLimiter
from bridge.informer.reflector.pacing import Timing
from bridge.informer.reflector.reflector import Reflector
from bridge.informer.reflector.states import Contradicted, OtherHistory, Proof
from bridge.model.answers import ListerWatcher
from bridge.model.change import Change, ChangeBatch, Evidence, ObjectVersion, Op
from bridge.model.object import ApiObject
from bridge.model.resource import Resource, Scope
from bridge.model.versions.version_table import Checkpoint, Deleted

DeliverBatch: TypeAlias = Callable[[ChangeBatch], Awaitable[int | None]]
"""Returns when the batch is stored where it must be; it tries until it is. Returns the sequence number of the first
change's record: the changes of a batch are numbered one after the other. None where nothing was numbered."""


class ResyncPeriods(Protocol):
    """Who wants everything told again, and how often. Listeners come and go."""

    def resync_periods(self) -> Mapping[str, float]:
        """Listener → seconds; listeners without a period are left out."""
        ...

    async def wait_periods_changed(self) -> None:
        """Return when a listener with a period came or went."""
        ...


class _Membership:
    """A Histories (see ``watcher``) for one member."""

    def __init__(self, history: History, member: SharedInformer) -> None:
        self._history = history
        self._member = member

    async def prove(self, since: float) -> Proof:
        await self._member.wait_processed()  # What is queued is known as well.
        return await self._history.prove(since)

    async def disprove(self, other: OtherHistory) -> None:
        await self._history.disprove(self._member, other)


class SharedInformer:
    """Eventually tells everything that happens to the objects of its resource, in order per object, and knows their
    newest state. ``has_synced`` stays true once it is; ``live`` says whether a watch is open at this moment.

    It runs once, in ``run``; ``retire`` is for a resource that went away, ``stop`` for a process that ends.

    With ``remembered`` it goes on where an earlier one ended: from its position with a watch and no list, and it has
    synced as soon as it runs; without a position, with a list that is compared with what is remembered; where nothing
    is remembered but the epoch, like one that begins. With
    ``stored``, bodies rest at the sequence numbers that ``deliver`` returns, and are read from there.
    """

    def __init__(
        self,
        resource: Resource,
        scope: Scope,
        source: ListerWatcher,
        deliver: DeliverBatch | None,
        *,
        report: Report,
        timing: Timing,
        watch_list: bool = True,
        transform: Transform | None = None,
        indexers: Mapping[str, IndexFunc] | None = None,
        resync: ResyncPeriods | None = None,
        stored: Stored | None = None,
        checkpoint: Checkpoint | None = None,
        lists: ListLimiter | None = None,
        history: History | None = None,
    ) -> None:
        if stored is not None and deliver is None:
            raise ValueError("bodies can only rest where changes are delivered to: stored needs deliver")
        self.resource = resource
        self.scope = scope
        self.source = source
        self._transform = transform
        self._deleted: tuple[int, Deleted] | None = None
        """The newest watched delete, if nothing newer was watched in the same batch, and its epoch."""
        self._history = history or History()
        self.indexer = Indexer(indexers, stored=stored)
        self.lister = Lister(self.indexer)
        self._handlers = Handlers(self.indexer, report=report) if deliver is None else None
        self._deliver = deliver or self.handlers.deliver
        self._report = report
        self._resync = resync or self._handlers
        resumed, position, epoch = False, None, 1
        if checkpoint is not None:
            self.indexer.load(checkpoint.objects)
            if checkpoint.deleted is not None:
                self._deleted = checkpoint.epoch, checkpoint.deleted
            resumed, position, epoch = not checkpoint.is_blank, checkpoint.position, checkpoint.epoch
        self._fifo = DeltaFIFO(self.indexer, resumed=resumed, position=position)
        comparing = resumed and epoch > 1 and position is None
        if comparing:
            self._fifo.restored()  # It may have ended in the middle of the list with which the epoch began.
        self._watcher = Reflector(
            resource,
            scope,
            source,
            self._fifo,
            report=report,
            timing=timing,
            start=list_watch.begin(checkpoint, watch_list=watch_list),
            resumed=resumed,
            epoch=epoch,
            lists=lists,
            histories=_Membership(self._history, self),
            comparing=comparing,
        )
        self._history.join(self, resumed=resumed)
        self._controller = Controller(
            self._fifo, self.indexer, self._deliver_changes, transform, position, self._contradict
        )
        self._synced = asyncio.Event()
        self._stopping = asyncio.Event()
        self._retiring = False

    @property
    def handlers(self) -> Handlers:
        """Add and remove handlers here. Raises RuntimeError where the informer was made to deliver elsewhere."""
        if self._handlers is None:
            raise RuntimeError(f"the informer of {self.resource} delivers to one place, and takes no handlers")
        return self._handlers

    # ── What it knows ────────────────────────────────────────────────────────

    @property
    def has_synced(self) -> bool:
        """The first list has been taken in, compared and delivered, before this start or since."""
        return self._synced.is_set()

    @property
    def live(self) -> bool:
        return self.has_synced and self._watcher.live

    @property
    def last_contact(self) -> float:
        """When the server last told anything, on the event loop's clock."""
        return self._watcher.last_contact

    @property
    def last_answer(self) -> float:
        """When a request last had an answer of any kind, also one such as that nobody listens."""
        return self._watcher.last_answer

    @property
    def trouble(self) -> str | None:
        return self._watcher.trouble

    @property
    def refused(self) -> bool:
        return self._watcher.refused

    @property
    def queued(self) -> int:
        """Deltas that were heard and not processed yet."""
        return len(self._fifo)

    @property
    def caught_up(self) -> bool:
        """Whatever was heard has been delivered."""
        return self._fifo.is_processed

    async def wait_synced(self) -> None:
        await self._synced.wait()

    # ── As its server's history sees it: see history.Member ──────────────────

    @property
    def reached(self) -> str | None:
        return self._watcher.reached

    @property
    def is_witness(self) -> bool:
        return self._watcher.is_witness

    def newest(self, most: int) -> list[tuple[str, ObjectVersion]]:
        return self.indexer.newest(most)

    @property
    def deleted(self) -> Deleted | None:
        return None if self._deleted is None or self._deleted[0] != self._watcher.epoch else self._deleted[1]

    def known(self, key: str) -> ObjectVersion | None:
        return self.indexer.known(key)

    def exported(self, key: str, known: ObjectVersion) -> ApiObject:
        return self.indexer.with_body(key, known)

    def as_exported(self, thing: ApiObject) -> ApiObject:
        return thing if self._transform is None else self._transform(thing)

    def disproved(self, other: OtherHistory) -> None:
        self._watcher.learn(other)

    async def wait_processed(self) -> None:
        """Return when everything that was heard is known."""
        await self._fifo.wait_processed()

    def _contradict(self, was: str, now: str) -> None:
        self._watcher.learn(Contradicted(was, now))

    # ── Its life ─────────────────────────────────────────────────────────────

    async def run(self) -> None:
        """Until ``stop`` or ``retire``: then nothing more is read, and what was read is delivered."""
        self._report(InformerStarted(self.resource, self.scope))
        self._notice_synced()
        async with asyncio.TaskGroup() as tasks:
            if self._handlers is not None:
                self._handlers.start(tasks)
            controller = tasks.create_task(self._controller.run())
            readers = [tasks.create_task(self._watch())]
            if self._resync is not None:
                readers.append(tasks.create_task(self._resync_when_due(self._resync)))
            await self._stopping.wait()
            for reader in readers:
                reader.cancel()
            await asyncio.wait(readers)
            if self._retiring:
                self._fifo.restored()  # Whatever a list has contradicted, all of it goes.
                await self._fifo.replace((), None)
            self._fifo.close()
            await controller
            if self._handlers is not None:
                await self._handlers.stop()
        self._history.leave(self)
        self._report(InformerStopped(self.resource, self.scope))

    def stop(self) -> None:
        self._stopping.set()

    def retire(self) -> None:
        """The resource is gone from the server: tell the delete of every object that is still known, and end."""
        self._retiring = True
        self._stopping.set()

    def move(self, resource: Resource, source: ListerWatcher) -> None:
        """Follow the same objects in another version of their API; the one until now is not served any more."""
        self.resource, self.source = resource, source
        self._watcher.move(resource, source)

    async def _watch(self) -> None:
        try:
            await self._watcher.run()
        except FifoClosed:
            return

    async def _deliver_changes(self, changes: list[Change], position: str | None) -> int | None:
        batch = ChangeBatch(self.resource, self.scope, changes, position, self._watcher.epoch)
        if changes and changes[-1].op is Op.DELETED and changes[-1].evidence is Evidence.WATCHED:
            gone = changes[-1].object
            self._deleted = batch.epoch, Deleted(gone.key, gone.uid, gone.resource_version)
        first = await self._deliver(batch)
        # The queue counts this batch as processed when we return, so the flag flips one step later.
        asyncio.get_running_loop().call_soon(self._notice_synced)
        return first

    def _notice_synced(self) -> None:
        if self._fifo.has_synced and not self._synced.is_set():
            self._synced.set()
            if self._handlers is not None:
                self._handlers.informer_synced()
            self._report(InformerSynced(self.resource, self.scope, len(self.indexer)))

    async def _resync_when_due(self, wanted: ResyncPeriods) -> None:
        now = asyncio.get_running_loop().time
        due_at: dict[tuple[str, float], float] = {}
        await self._synced.wait()
        while True:
            listeners = wanted.resync_periods().items()
            due_at = {each: due_at.get(each, now() + each[1]) for each in listeners}
            if due := [each for each, at in due_at.items() if at <= now()]:
                await self._fifo.resync(tuple(name for name, _ in due))
                due_at.update({each: now() + each[1] for each in due})
                continue
            try:
                async with asyncio.timeout_at(min(due_at.values(), default=None)):
                    await wanted.wait_periods_changed()
            except TimeoutError:
                continue
