"""Lists and watches a resource in a scope once, for any number of users.

A SharedInformer makes the parts of the room for its resource, joins them, and runs them as tasks: Reflector and
Controller with the queue between them, the handlers of a library's informer, and periodic resyncs, which queue every
known object again for the listeners that want that. Its status is read by readiness, by the page and by tests.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Protocol

from bridge.informer.controller import Controller, DeliverBatch, IgnoredChanges, Ignoring, Tombstones, Transform
from bridge.informer.delta_fifo import DeltaFIFO
from bridge.informer.handlers import Handlers
from bridge.informer.history.history import History
from bridge.informer.history.proof import OtherHistory
from bridge.informer.indexer import Indexer, IndexFunc, Lister, Stored
from bridge.informer.recovery.exact_lists import RecoverySlots
from bridge.informer.recovery.recovery import Recovery
from bridge.informer.reflector.list_watch import begin
from bridge.informer.reflector.pacing import Timing
from bridge.informer.reflector.reflector import ListLimiter, Reflector
from bridge.model.answers import ListerWatcher
from bridge.model.change import ObjectVersion
from bridge.model.object import ApiObject
from bridge.model.resource import Resource, Scope
from bridge.model.versions import Checkpoint, Deleted, VersionTable
from bridge.telemetry.facts import Report
from bridge.telemetry.facts.informer import ChangesIgnored, InformerStarted, InformerStopped, InformerSynced


class SharedInformer:
    """Delivers, eventually, every change of its resource's objects, in order per object, and knows their newest state.
    ``has_synced`` never turns back to false; ``live`` is true while a watch is open.

    An informer runs once, in ``run``. ``remove`` ends it when the resource is gone, ``stop`` when the process ends.

    A ``checkpoint`` continues an earlier informer. With a position, the informer watches from there without a list, and
    has synced at once. Without a position, it lists and compares the list with the checkpoint. A checkpoint with only
    an epoch starts like a new informer. With ``stored``, bodies are offloaded to the records that
    ``deliver`` returns. Updates of the paths of ``ignoring`` alone are not delivered. With
    ``recovery``, steps that no watch announced are looked for in the API server's history."""

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
        ignoring: Ignoring | None = None,
        recovery: RecoverySlots | None = None,
    ) -> None:
        if stored is not None and deliver is None:
            raise ValueError("stored needs deliver, which makes the records that bodies are offloaded to")
        self.resource = resource
        self.scope = scope
        self.source = source
        self._transform = transform
        self._history = history or History()
        self.indexer = Indexer(indexers, stored=stored)
        self.lister = Lister(self.indexer)
        self._handlers = Handlers(self.indexer, report=report) if deliver is None else None
        self._report = report
        self._resync = resync or self._handlers
        known = checkpoint or Checkpoint(VersionTable(), None, None)
        resumed = not known.is_blank
        self.indexer.load(known.objects)
        tombstones = Tombstones()
        self._recovery = Recovery(self, self.indexer, recovery, report, tombstones)
        self._fifo = DeltaFIFO(
            self.indexer,
            resumed=resumed,
            position=known.position,
            epoch=known.epoch,
            prepare=self._recovery.prepare,
        )
        if resumed and known.epoch > 1 and known.position is None:
            # The process may have ended in the middle of the list that began the epoch: equal versions prove nothing.
            self._fifo.restored()
        self._reflector = Reflector(
            resource,
            scope,
            source,
            self._fifo,
            report=report,
            timing=timing,
            start=begin(checkpoint, watch_list=watch_list),
            resumed=resumed,
            lists=lists,
            history=self._history,
            member=self,
        )
        self._history.join(self, resumed=resumed)
        self._ignored: IgnoredChanges | None = None
        if ignoring is not None:
            self._ignored = IgnoredChanges(ignoring, self.indexer, self._report_ignored, known.ignored)
        self._controller = Controller(
            resource,
            scope,
            self._fifo,
            self.indexer,
            deliver or self.handlers.deliver,
            transform,
            known.position,
            tombstones,
            None if known.deleted is None else (known.epoch, known.deleted),
            self._reflector.learn,
            self._notice_synced,
            self._ignored,
        )
        self._synced = asyncio.Event()
        self._stopping = asyncio.Event()
        self._removing = False

    @property
    def handlers(self) -> Handlers:
        """Adds and removes handlers. Raises RuntimeError if the informer has ``deliver`` instead."""
        if self._handlers is None:
            raise RuntimeError(f"the informer of {self.resource} has deliver, and takes no handlers")
        return self._handlers

    async def wait_synced(self) -> None:
        await self._synced.wait()

    # ── Status ───────────────────────────────────────────────────────────────

    @property
    def has_synced(self) -> bool:
        """The first list was read, compared and delivered, before this start or since."""
        return self._synced.is_set()

    @property
    def live(self) -> bool:
        return self.has_synced and self._reflector.live

    @property
    def last_contact(self) -> float:
        """The time of the server's last data, on the event loop's clock (seconds)."""
        return self._reflector.last_contact

    @property
    def last_answer(self) -> float:
        """The time of the last outcome of a request, failures included, on the event loop's clock (seconds)."""
        return self._reflector.last_answer

    @property
    def last_error(self) -> str | None:
        return self._reflector.last_error

    @property
    def refused(self) -> bool:
        return self._reflector.refused

    @property
    def queued(self) -> int:
        """Deltas in the queue."""
        return len(self._fifo)

    @property
    def caught_up(self) -> bool:
        """All changes that were read are delivered."""
        return self._fifo.is_processed

    # ── The part of history.Member ───────────────────────────────────────────

    @property
    def reached(self) -> str | None:
        return self._reflector.reached

    @property
    def is_witness(self) -> bool:
        return self._reflector.is_witness

    def newest(self, most: int) -> list[tuple[str, ObjectVersion]]:
        return self.indexer.newest(most, self._reflector.vouches_for)

    @property
    def deleted(self) -> Deleted | None:
        found = self._controller.deleted
        if found is None or found[0] != self._reflector.epoch or self._reflector.vouches_for is not None:
            return None
        return found[1]

    def known(self, key: str) -> ObjectVersion | None:
        return self.indexer.known(key)

    def exported(self, key: str, known: ObjectVersion) -> ApiObject:
        thing = self.indexer.with_body(key, known)
        return thing if self._ignored is None else self._ignored.comparable(thing, known.resource_version)

    def as_exported(self, thing: ApiObject) -> ApiObject:
        found = thing if self._transform is None else self._transform(thing)
        return found if self._ignored is None else self._ignored.comparable(found, found.resource_version)

    def disproved(self, other: OtherHistory) -> None:
        self._reflector.learn(other)

    async def wait_recovered(self) -> None:
        await self._recovery.wait_idle()

    async def wait_known(self) -> None:
        await self._fifo.wait_drained()

    async def wait_processed(self) -> None:
        """Returns when all deltas that were queued are in the Indexer."""
        await self._fifo.wait_processed()

    # ── Lifecycle ────────────────────────────────────────────────────────────

    async def run(self) -> None:
        """Runs until ``stop`` or ``remove``: then reading ends, and the changes that were read are delivered."""
        self._report(InformerStarted(self.resource, self.scope))
        async with asyncio.TaskGroup() as tasks:
            if self._handlers is not None:
                self._handlers.start(tasks)
            controller = tasks.create_task(self._controller.run())
            readers = [tasks.create_task(self._reflector.run())]
            if self._resync is not None:
                readers.append(tasks.create_task(resync_when_due(self._fifo, self._resync, self._synced)))
            await self._stopping.wait()
            self._recovery.stop(finish=self._removing)
            for reader in readers:
                reader.cancel()
            await asyncio.wait(readers)
            if self._removing:
                await self._fifo.abandon()
            self._fifo.close()
            await controller  # It empties the queue before it ends.
            if self._handlers is not None:
                await self._handlers.stop()
        self._history.leave(self)
        self._report(InformerStopped(self.resource, self.scope))

    def stop(self) -> None:
        self._stopping.set()

    def remove(self) -> None:
        """Ends the informer of a resource that the server removed, with a delete for every known object."""
        self._removing = True
        self._stopping.set()

    def move(self, resource: Resource, source: ListerWatcher) -> None:
        """Follows the same objects in another version of their API, because the current version is no longer served."""
        self.resource = resource
        self.source = source
        self._controller.move(resource)
        self._reflector.move(resource, source)

    def _report_ignored(self, count: int) -> None:
        self._report(ChangesIgnored(self.resource, self.scope, count))

    def _notice_synced(self) -> None:
        self._synced.set()
        if self._handlers is not None:
            self._handlers.informer_synced()
        self._report(InformerSynced(self.resource, self.scope, len(self.indexer)))


# ── Periodic resyncs ──────────────────────────────────────────────────────────


class ResyncPeriods(Protocol):
    """The listeners that want periodic resyncs. Listeners come and go."""

    def resync_periods(self) -> Mapping[str, float]:
        """Listener → seconds; listeners without a period are left out."""
        ...

    async def wait_periods_changed(self) -> None:
        """Returns when a listener with a period came or went."""
        ...


async def resync_when_due(fifo: DeltaFIFO, wanted: ResyncPeriods, synced: asyncio.Event) -> None:
    """Queues a Sync of every object for each listener whose period is over, until cancelled. Periods begin at
    ``synced``."""
    await synced.wait()
    now = asyncio.get_running_loop().time
    due_at: dict[tuple[str, float], float] = {}
    while True:
        listeners = wanted.resync_periods().items()
        due_at = {each: due_at.get(each, now() + each[1]) for each in listeners}
        if due := [each for each, at in due_at.items() if at <= now()]:
            await fifo.resync(tuple(name for name, _ in due))
            due_at.update({each: now() + each[1] for each in due})
            continue
        try:
            async with asyncio.timeout_at(min(due_at.values(), default=None)):
                await wanted.wait_periods_changed()
        except TimeoutError:
            continue
