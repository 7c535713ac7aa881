"""Shares an informer per resource and scope among all its users."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from functools import partial
from types import TracebackType
from typing import Self, TypeAlias

from bridge.informer.controller import DeliverBatch, Ignoring, Transform, usable
from bridge.informer.history.history import DiscardPositions, History, no_positions
from bridge.informer.indexer import NAMESPACE, IndexFunc, Stored, by_namespace
from bridge.informer.recovery.exact_lists import RecoverySlots
from bridge.informer.reflector.pacing import Timing
from bridge.informer.reflector.reflector import ListLimiter
from bridge.informer.shared_informer import ResyncPeriods, SharedInformer
from bridge.model.answers import ListerWatcher
from bridge.model.resource import Resource, Scope
from bridge.model.versions import Checkpoint
from bridge.telemetry.facts import Report, discard

Source: TypeAlias = Callable[[Resource, Scope], ListerWatcher]


class NotSyncedInTime(TimeoutError):
    """The message names every informer that has not synced, with its last failure."""


class SharedInformerFactory:
    """Makes informers, runs them, and ends with them.

        async with SharedInformerFactory(client.lister_watcher) as factory:
            pods = factory.informer(resource)
            await factory.start().wait_synced(timeout=30)
            pods.lister.by_index("namespace", "shop")

    With ``deliver``, every batch goes there, as in the bridge; otherwise informers take handlers. With ``stored`` as
    well, informers hold no bodies: they read bodies from the records that ``deliver`` made.
    ``discard_positions`` is called when the API server turns out to have another history, so that no later start
    resumes from a durable position. ``ignoring`` returns the paths of a resource in a scope whose changes are not
    delivered. ``lists`` bounds the informers that list at the same time; the default is ten. With ``recovery``, steps
    that no watch announced are looked for in the API server's history, and delivered in their order.
    An error in an informer or a handler ends the ``async with`` with that error.
    """

    def __init__(
        self,
        source: Source,
        *,
        deliver: DeliverBatch | None = None,
        stored: Stored | None = None,
        resync: ResyncPeriods | None = None,
        transform: Callable[[Resource, Scope], Transform | None] | None = None,
        indexers: Mapping[str, IndexFunc] | None = None,
        report: Report = discard,
        timing: Timing | None = None,
        watch_list: bool = True,
        lists: ListLimiter | None = None,
        discard_positions: DiscardPositions = no_positions,
        ignoring: Callable[[Resource, Scope], Ignoring | None] | None = None,
        recovery: RecoverySlots | None = None,
    ) -> None:
        self._source = source
        self._make = partial(
            SharedInformer,
            deliver=deliver,
            report=report,
            timing=timing or Timing(),
            watch_list=watch_list,
            indexers={NAMESPACE: by_namespace} if indexers is None else indexers,
            resync=resync,
            stored=stored,
            lists=lists or ListLimiter(),
            recovery=recovery,
        )
        self._transform = transform
        self._report = report
        self._discard_positions = discard_positions
        self._ignoring = ignoring
        self._histories: dict[str, History] = {}
        self._informers: dict[tuple[str, Scope], SharedInformer] = {}
        self._running: dict[tuple[str, Scope], asyncio.Task[None]] = {}
        self._tasks = asyncio.TaskGroup()

    @property
    def informers(self) -> tuple[SharedInformer, ...]:
        return tuple(self._informers.values())

    def informer(
        self,
        resource: Resource,
        scope: Scope | None = None,
        checkpoint: Checkpoint | None = None,
        *,
        store: str = "",
    ) -> SharedInformer:
        """The informer of a resource in a scope, shared by all versions of the resource. It runs after the next
        ``start``.

        A new informer starts from ``checkpoint``. An existing informer ignores it: its own state is newer. Informers of
        the same ``store`` behind the API server prove its history together (see ``kube.store_of``)."""
        key = (resource.name, scope or Scope())
        if key not in self._informers:
            ignoring = self._ignoring(resource, key[1]) if self._ignoring else None
            self._informers[key] = self._make(
                resource,
                key[1],
                self._source(resource, key[1]),
                transform=self._transform(resource, key[1]) if self._transform else None,
                checkpoint=usable(checkpoint, ignoring),
                history=self._history(store),
                ignoring=ignoring,
            )
        return self._informers[key]

    def _history(self, store: str) -> History:
        if store not in self._histories:
            self._histories[store] = History(store, discard_positions=self._discard_positions, report=self._report)
        return self._histories[store]

    def start(self) -> Self:
        """Runs every informer that does not run yet. Call it again after later calls of ``informer``."""
        for key, informer in self._informers.items():
            if key not in self._running:
                self._running[key] = self._tasks.create_task(informer.run(), name=f"informer {key[0]}")
        return self

    async def wait_synced(self, timeout: float | None = None) -> None:
        """Returns when every informer that runs now has synced, or was removed. Raises NotSyncedInTime after
        ``timeout`` seconds."""
        running = [self._informers[key] for key in self._running]
        try:
            async with asyncio.timeout(timeout):
                for informer in running:
                    await informer.wait_synced()
        except TimeoutError:
            missing = [informer for informer in running if not informer.has_synced]
            named = "; ".join(
                f"{each.resource}, {each.scope} ({each.last_error or 'no answer yet'})" for each in missing
            )
            raise NotSyncedInTime(f"not synced after {timeout} s: {named}") from None

    def move(self, informer: SharedInformer, resource: Resource) -> None:
        """Makes the informer follow another version of its resource, because the server stopped serving the current
        version."""
        informer.move(resource, self._source(resource, informer.scope))

    async def release(self, informer: SharedInformer) -> None:
        """Ends an informer without deletes for its objects. Returns when all changes that it read are delivered."""
        informer.stop()
        await self._forget(informer)

    async def remove(self, informer: SharedInformer) -> None:
        """Ends an informer whose resource the server removed: delivers a delete for every known object, and returns
        after that."""
        informer.remove()
        await self._forget(informer)

    async def stop(self) -> None:
        """Stops reading. Returns when all changes that were read are delivered."""
        for informer in self.informers:
            informer.stop()
        for informer in self.informers:
            await self._forget(informer)

    def abandon(self) -> None:
        """Ends all informers at once. Changes that were read and not delivered are dropped; a later informer reads them
        again."""
        for task in self._running.values():
            task.cancel()

    async def _forget(self, informer: SharedInformer) -> None:
        key = (informer.resource.name, informer.scope)
        self._informers.pop(key, None)
        if task := self._running.get(key):
            await asyncio.shield(task)  # A cancelled caller must not cancel the delivery of the last changes.
            self._running.pop(key, None)

    async def __aenter__(self) -> Self:
        await self._tasks.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for informer in self.informers:
            informer.stop()
        await self._tasks.__aexit__(kind, error, traceback)
