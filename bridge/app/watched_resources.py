"""Starts and stops informers as configured resources appear on the cluster, change, and vanish.

A definition that comes back with another scope, or a short name that appears beside a wildcard, changes the watched
parts of a resource. Its informers then end and begin as at a restart, and the ledger assigns their objects to those of
the new parts; to move single informers would need a second way to assign objects. Where the parts stay the same, an
informer goes on with the version that is served now: an object's key shows whether it has a namespace, and its record
shows the version and kind under which it was exported.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import TypeAlias

from bridge.informer import SharedInformer, SharedInformerFactory
from bridge.kube import ApiError, Catalogue, CredentialsError, KubeClient, store_of
from bridge.model.answers import ListRequest, Part, Refused
from bridge.model.primitives.backoff import Backoff
from bridge.model.resource import Resource, Scope
from bridge.outbox import Ledger
from bridge.plan.entries import Desired, Resolution, ResourceChange, absent_scopes, foresee, mistakes_of, resolve_wanted
from bridge.plan.plan import CurrentResources, PlanRefused, Wanted
from bridge.telemetry.facts import Report
from bridge.telemetry.facts.cluster import DiscoveryFailed, ResourceUnknown, ScopeChanged

NOT_FOUND = 404

Parts: TypeAlias = Mapping[Scope, Resource]
"""Scopes of a resource that are watched → the resource in its served version. Never empty."""


class WatchedResources:
    """Starts an informer when a configured resource appears, and stops it when the resource is gone.

    A resource counts as gone when two discoveries in a row are without it, and a list of it answers 404: otherwise a
    short failure of discovery would export all its objects as deleted. A group whose server does not answer keeps its
    resources. For the same reason, new scopes of a resource take effect after two discoveries: when its definition came
    back with another scope, or when another entry of the configuration means it now (a short name that appeared).
    """

    def __init__(
        self,
        current: CurrentResources,
        client: KubeClient,
        factory: SharedInformerFactory,
        ledger: Ledger,
        *,
        every: float,
        prepare: Callable[[Catalogue, Resolution], Awaitable[None]],
        report: Report,
    ) -> None:
        """``current`` has the entries, and is kept up to date. ``every``: seconds between two discoveries. ``prepare``
        is awaited after the first discovery, and in ``changing``, before informers begin."""
        self._current = current
        self._client = client
        self._factory = factory
        self._ledger = ledger
        self._every = every
        self._report = report
        self._prepare = prepare
        self._missing: set[str] = set()
        self._divided: dict[str, set[Scope]] = {}
        """Resource's name → its scopes at the last discovery, if its informers have other scopes."""
        self._started = asyncio.Event()
        self._following = asyncio.Lock()
        """Held while informers begin and end."""
        self._adopted: set[str] = set()
        """Names of resources whose informers the ledger has."""
        self.unresolved: dict[str, str] = not_looked_up(current.wanted)
        """Configured names without a resource on this cluster at this moment → the reason."""
        self.empty: dict[str, str] = {}
        """Wildcards without a resource at this moment → the reason. They count as synced."""

    async def run(self) -> None:
        """Follows discovery until cancelled. Raises PlanRefused if two names mean the same objects at the start."""
        catalogue: Catalogue | None = None
        backoff = Backoff()
        while True:
            try:
                catalogue = await self._client.discover(catalogue)
            except (ApiError, CredentialsError) as error:
                # The informers keep running: failed discovery says nothing about their resources.
                delay = backoff.next(asyncio.get_running_loop().time(), random.random())
                self._report(DiscoveryFailed(str(error), delay))
                if catalogue is None:
                    self.held_up(str(error))
                await asyncio.sleep(delay)
                continue
            async with self._following:
                # The same answer again changes nothing, unless a change waits for it.
                if catalogue is not self._current.catalogue or self._missing or self._divided:
                    await self._follow(catalogue)
            await asyncio.sleep(self._every)

    def held_up(self, reason: str) -> None:
        """The first discovery has to wait."""
        self.unresolved = dict.fromkeys(self.unresolved, reason)

    async def wait_started(self) -> None:
        """Returns when the informers of the first discovery run."""
        await self._started.wait()

    async def foresee(self, wanted: Sequence[Wanted]) -> ResourceChange:
        """The effect of other entries, by the last discovery."""
        return await foresee(self._current.wanted, wanted, self._current.catalogue, self._ledger)

    @asynccontextmanager
    async def changing(self, change: ResourceChange, *, released: Collection[str]) -> AsyncIterator[None]:
        """Puts the entries of ``change`` into effect, after the start. Informers of the resources ``released``, which
        include those of ``change``, end before the context. Behind it, informers begin as at a start."""
        async with self._following:
            for informer in self._factory.informers:
                if informer.resource.name in released:
                    informer.stop()  # All before the first wait: they end side by side.
            for name in released:
                await self._release(name)
            self._current.wanted = change.wanted
            yield
            # The next two discoveries decide about resources that went since, as always.
            self._missing, self._divided = set(), {}
            self._started.clear()
            await self._follow(self._current.catalogue)

    @property
    def watched(self) -> frozenset[str]:
        """The names of all resources that have informers."""
        return frozenset(informer.resource.name for informer in self._factory.informers)

    async def _follow(self, catalogue: Catalogue) -> None:
        self._current.catalogue = catalogue
        resolution = resolve_wanted(self._current.wanted, catalogue)
        self._report_unresolved(resolution)
        found = resolution.desired
        if not self._started.is_set():
            await self._begin(catalogue, resolution)
        parts = _by_name(found)
        for each in parts.values():
            await self._adopt(each)
        await self._divide_anew(parts)
        served = set(catalogue.resources)
        for informer in self._factory.informers:
            resource = found.get((informer.resource.name, informer.scope))
            # The resource is served in another version, or as another kind: the informer goes on with it.
            if resource is not None and informer.resource not in served:
                self._factory.move(informer, resource)
        self._factory.start()
        missing = {informer.resource.name for informer in self._factory.informers} - parts.keys()
        # Missing at two discoveries in a row.
        for name in sorted(missing & self._missing):
            if any(resource.name == name for resource in served):
                await self._leave(name)
            else:
                await self._let_go(self._informers_of(name))
        self._missing = missing
        self._current.replace([informer.resource for informer in self._factory.informers])
        self._started.set()

    async def _begin(self, catalogue: Catalogue, resolution: Resolution) -> None:
        """Handles the entries at the start, and after a change of them. The objects of a resource that no entry means
        are exported as deleted. A resource that discovery does not have now gets its informers, which find out whether
        it is gone."""
        if resolution.twice:
            # Here, this is a mistake in the configuration; later, a new definition causes it.
            raise PlanRefused("\n".join(mistakes_of(resolution)))
        await self._prepare(catalogue, resolution)
        there = {name for name, _ in resolution.desired}
        for resource in await self._ledger.resources():
            if resource.name in there:
                continue
            known = await self._ledger.scopes(resource.name)
            if scopes := absent_scopes(self._current.wanted, resolution, resource, catalogue, known):
                await self._adopt(dict.fromkeys(scopes, resource))
                continue
            _, left = await self._ledger.adopt(resource, ())
            self._report(ScopeChanged(resource.name, left))

    async def _adopt(self, parts: Parts) -> None:
        """Creates the informers of a resource, each with its checkpoint of the ledger."""
        resource = next(iter(parts.values()))
        if resource.name in self._adopted:
            return
        known, left = await self._ledger.adopt(resource, list(parts))
        if left:
            self._report(ScopeChanged(resource.name, left))
        self._adopted.add(resource.name)
        for scope, served in parts.items():
            store = store_of(served, self._current.catalogue)
            self._factory.informer(served, scope, known[scope], store=store)

    async def _divide_anew(self, parts: Mapping[str, Parts]) -> None:
        """Replaces informers whose scopes differ from the resolved scopes, now and at the last discovery. The new
        informers begin with the ledger's checkpoint, as after a restart with another configuration."""
        found = {name: set(scopes) for name, scopes in parts.items()}
        differs = {name: each for name, each in found.items() if each != self._scopes_of(name)}
        for name in [name for name, each in differs.items() if self._divided.get(name) == each]:
            await self._release(name)
            await self._adopt(parts[name])
            del differs[name]
        self._divided = differs

    async def _leave(self, name: str) -> None:
        """Stops the informers of a served resource that no entry means any more, and exports its objects as deleted, as
        after a restart with another configuration."""
        resource = self._informers_of(name)[0].resource
        await self._release(name)
        _, left = await self._ledger.adopt(resource, ())
        self._report(ScopeChanged(name, left))

    async def _release(self, name: str) -> None:
        for informer in self._informers_of(name):
            await self._factory.release(informer)
        self._adopted.discard(name)

    def _informers_of(self, name: str) -> list[SharedInformer]:
        return [informer for informer in self._factory.informers if informer.resource.name == name]

    def _scopes_of(self, name: str) -> set[Scope]:
        return {informer.scope for informer in self._informers_of(name)}

    async def _let_go(self, informers: Sequence[SharedInformer]) -> None:
        """Removes all informers of a resource if it is gone, and exports its objects as deleted. A resource that comes
        back meanwhile is adopted anew; its old objects stay deleted."""
        # A list in brackets: all() takes no asynchronous generator.
        if not all([await self._is_gone(informer) for informer in informers]):
            return
        for informer in informers:
            async with self._ledger.removing(informer.resource, informer.scope):
                await self._factory.remove(informer)
            self._adopted.discard(informer.resource.name)

    def _report_unresolved(self, resolution: Resolution) -> None:
        known = self.unresolved | self.empty
        for name, reason in (resolution.unresolved | resolution.empty).items():
            if known.get(name) != reason:
                self._report(ResourceUnknown(name, reason))
        self.unresolved = resolution.unresolved
        self.empty = resolution.empty

    async def _is_gone(self, informer: SharedInformer) -> bool:
        source = self._client.lister_watcher(informer.resource, informer.scope)
        # Version 0 is answered from the API server's cache: only the status of the answer counts.
        answer = await source.list(ListRequest(version="0", limit=1), _ignore)
        return isinstance(answer, Refused) and answer.status == NOT_FOUND


def not_looked_up(wanted: Sequence[Wanted]) -> dict[str, str]:
    """The names that no resource is known for before the first discovery → the reason."""
    return {each.name: "not looked up yet" for each in wanted}


def _by_name(found: Desired) -> dict[str, dict[Scope, Resource]]:
    parts: dict[str, dict[Scope, Resource]] = {}
    for (name, scope), resource in found.items():
        parts.setdefault(name, {})[scope] = resource
    return parts


async def _ignore(part: Part) -> None:
    """Ignores objects: some servers send their whole cache, whatever the limit."""
