"""Keeps the informers that run in step with the resources that are configured and that the cluster has."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Collection, Mapping, Sequence
from typing import TypeAlias

from bridge.facts import DiscoveryFailed, Report, ResourceUnknown, ScopeChanged
from bridge.informer import SharedInformer, SharedInformerFactory
from bridge.kube import ApiError, Catalogue, CredentialsError, KubeClient, store_of
from bridge.model.answers import ListRequest, Part, Refused
from bridge.model.primitives.backoff import Backoff
from bridge.model.resource import Resource, Scope
from bridge.outbox.objects.ledger import Ledger
from bridge.plan.plan import PlanRefused, Wanted
from bridge.resources.current_resources import CurrentResources
from bridge.resources.resolve import Desired, Resolution, may_be_short, resolve_wanted, wanted_scopes

NOT_FOUND = 404

Parts: TypeAlias = Mapping[Scope, Resource]
"""Of one resource: what is watched of it → how the server serves it now. Never empty."""


class WatchedResources:
    """Starts an informer when a configured resource appears, and lets it go when its resource went.

    A resource is only let go where discovery has not listed it twice in a row, and a list of it answers 404: what
    discovery leaves out for a moment is no reason to tell the world that its objects were deleted. For the same reason
    it takes two looks until a resource is divided anew: because its definition came back with another scope, or because
    another entry of the configuration means it now (a short name that appeared).
    """

    def __init__(
        self,
        wanted: Sequence[Wanted],
        client: KubeClient,
        factory: SharedInformerFactory,
        ledger: Ledger,
        *,
        every: float,
        report: Report,
        watched: CurrentResources | None = None,
    ) -> None:
        self._wanted = wanted
        self._client = client
        self._factory = factory
        self._ledger = ledger
        self._every = every
        self._report = report
        self._watched = watched or CurrentResources()
        self.catalogue = Catalogue()
        self._missing: set[str] = set()
        self._divided: dict[str, set[Scope]] = {}
        """Resources by name whose informers do not have the parts that were found at the last look → those parts."""
        self._took_up = False
        self._adopted: set[str] = set()
        """Names of resources whose informers the ledger knows."""
        self.unresolved: dict[str, str] = {each.name: "not looked up yet" for each in wanted}
        """Configured names that mean nothing on this cluster at this moment → why."""
        self.empty: dict[str, str] = {}
        """Wildcards that cover nothing at this moment → why. There is nothing to wait for."""

    async def run(self) -> None:
        """Until cancelled. Raises PlanRefused where two names mean the same resource at the start."""
        catalogue: Catalogue | None = None
        backoff = Backoff()
        while True:
            try:
                catalogue = await self._client.discover(catalogue)
            except (ApiError, CredentialsError) as error:
                delay = backoff.next(asyncio.get_running_loop().time(), random.random())
                self._report(DiscoveryFailed(str(error), delay))
                if catalogue is None:
                    self.unresolved = dict.fromkeys(self.unresolved, str(error))
                await asyncio.sleep(delay)
                continue
            await self._follow(catalogue)
            await asyncio.sleep(self._every)

    async def _follow(self, catalogue: Catalogue) -> None:
        self.catalogue = catalogue
        resolution = resolve_wanted(self._wanted, catalogue)
        self._tell(resolution)
        found = resolution.desired
        if not self._took_up:
            if resolution.twice:
                # Found at the start, it is the configuration's mistake; later it comes with a new definition.
                raise PlanRefused(
                    "\n".join(f"resources: {name}: {resolution.unresolved[name]}" for name in resolution.twice)
                )
            await self._take_up_what_is_absent(found, {resource.name for resource in catalogue.resources})
            self._took_up = True
        parts = _by_name(found)
        for each in parts.values():
            await self._adopt(each)
        await self._divide_anew(parts)
        served = set(catalogue.resources)
        for informer in self._factory.informers:
            resource = found.get((informer.resource.name, informer.scope))
            if resource is not None and informer.resource not in served:
                self._factory.move(informer, resource)
        self._factory.start()
        missing = {informer.resource.name for informer in self._factory.informers} - parts.keys()
        for name in sorted(missing & self._missing):
            if any(resource.name == name for resource in served):
                await self._leave(name)
            else:
                await self._let_go(self._informers_of(name))
        self._missing = missing
        self._watched.replace([informer.resource for informer in self._factory.informers])

    async def _take_up_what_is_absent(self, found: Desired, served: Collection[str]) -> None:
        """What was watched before this start, and is not to be found now. A resource that the configuration no longer
        names leaves with all its objects; one that it names may come back, and is looked for like any that went. So is
        one that is not served, where a configured name means nothing now: it may be a short name of it."""
        there = {name for name, _ in found}
        for resource in await self._ledger.resources():
            if resource.name in there:
                continue
            scopes: Sequence[Scope] = wanted_scopes(self._wanted, resource)
            if not scopes and resource.name not in served and may_be_short(self.unresolved):
                scopes = await self._ledger.scopes(resource.name)
            if scopes:
                await self._adopt(dict.fromkeys(scopes, resource))
                continue
            _, left = await self._ledger.adopt(resource, ())
            self._report(ScopeChanged(resource.name, left))

    async def _adopt(self, parts: Parts) -> None:
        """Make the informers of one resource, each with what the ledger remembers of its part."""
        resource = next(iter(parts.values()))
        if resource.name in self._adopted:
            return
        known, left = await self._ledger.adopt(resource, list(parts))
        if left:
            self._report(ScopeChanged(resource.name, left))
        self._adopted.add(resource.name)
        for scope, served in parts.items():
            store = store_of(served, self.catalogue)
            self._factory.informer(served, scope, known[scope], store=store)

    async def _divide_anew(self, parts: Mapping[str, Parts]) -> None:
        """Informers that have other parts of their resource than were found, now and at the last look, end; those of
        the new parts begin with what the ledger remembers, as after a restart with another configuration."""
        found = {name: set(scopes) for name, scopes in parts.items()}
        differs = {name: each for name, each in found.items() if each != self._scopes_of(name)}
        for name in [name for name, each in differs.items() if self._divided.get(name) == each]:
            await self._release(name)
            await self._adopt(parts[name])
            del differs[name]
        self._divided = differs

    async def _leave(self, name: str) -> None:
        """No entry of the configuration means this resource any more, though it is served: all its objects leave, as
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
        """All parts of one resource, if it is gone; else none. It may come back while they are told, and is adopted
        anew then: what was told of the one that went stays told as deleted."""
        if not all([await self._is_gone(informer) for informer in informers]):
            return
        for informer in informers:
            async with self._ledger.retiring(informer.resource, informer.scope):
                await self._factory.retire(informer)
            self._adopted.discard(informer.resource.name)

    def _tell(self, resolution: Resolution) -> None:
        known = self.unresolved | self.empty
        for name, reason in (resolution.unresolved | resolution.empty).items():
            if known.get(name) != reason:
                self._report(ResourceUnknown(name, reason))
        self.unresolved = resolution.unresolved
        self.empty = resolution.empty

    async def _is_gone(self, informer: SharedInformer) -> bool:
        source = self._client.lister_watcher(informer.resource, informer.scope)
        answer = await source.list(ListRequest(version="0", limit=1), _passed_over)
        return isinstance(answer, Refused) and answer.status == NOT_FOUND


def _by_name(found: Desired) -> dict[str, dict[Scope, Resource]]:
    parts: dict[str, dict[Scope, Resource]] = {}
    for (name, scope), resource in found.items():
        parts.setdefault(name, {})[scope] = resource
    return parts


async def _passed_over(part: Part) -> None:
    """Some servers send all that their cache has, whatever the limit."""
