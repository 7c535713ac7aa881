"""Keeps the informers that run in step with the resources that are configured and that the cluster has."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence

from bridge.app.plan import Wanted
from bridge.app.resolving import Desired, resolve_wanted
from bridge.facts import DiscoveryFailed, Report, ResourceUnknown
from bridge.informer import SharedInformer, SharedInformerFactory
from bridge.kube import ApiError, Catalogue, CredentialsError, KubeClient
from bridge.model.answers import ListRequest, Refused
from bridge.model.backoff import Backoff
from bridge.model.resource import Scope

NOT_FOUND = 404


class Subscriptions:
    """Starts an informer when a configured resource appears, and lets it go when its resource went.

    A resource is only let go where discovery has not listed it twice in a row, and a list of it answers 404: what
    discovery leaves out for a moment is no reason to tell the world that its objects were deleted.
    """

    def __init__(
        self,
        wanted: Sequence[Wanted],
        client: KubeClient,
        factory: SharedInformerFactory,
        *,
        every: float,
        report: Report,
    ) -> None:
        self._wanted = wanted
        self._client = client
        self._factory = factory
        self._every = every
        self._report = report
        self._missing: set[tuple[str, Scope]] = set()
        self._told: dict[str, str] = {}
        self.unresolved: dict[str, str] = {each.name: "not looked up yet" for each in wanted}
        """Configured names that mean nothing on this cluster at this moment → why."""
        self.empty: tuple[str, ...] = ()
        """Wildcards that cover nothing at this moment."""

    async def run(self) -> None:
        """Until cancelled."""
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
        found = self._resolve(catalogue)
        for (_, scope), resource in found.items():
            informer = self._factory.informer(resource, scope)
            if informer.refused and informer.resource != resource:
                self._factory.move(informer, resource)
        self._factory.start()
        gone = {
            (informer.resource.name, informer.scope): informer
            for informer in self._factory.informers
            if (informer.resource.name, informer.scope) not in found
        }
        for key in gone.keys() & self._missing:
            if await self._is_gone(gone[key]):
                await self._factory.retire(gone[key])
        self._missing = set(gone)

    def _resolve(self, catalogue: Catalogue) -> Desired:
        """What should run now."""
        found = resolve_wanted(self._wanted, catalogue)
        for name, reason in found.unresolved.items():
            if self._told.get(name) != reason:
                self._report(ResourceUnknown(name, reason))
        self._told = self.unresolved = found.unresolved
        self.empty = found.empty
        return found.desired

    async def _is_gone(self, informer: SharedInformer) -> bool:
        source = self._client.lister_watcher(informer.resource, informer.scope)
        answer = await source.list(ListRequest(version="0", limit=1))
        return isinstance(answer, Refused) and answer.status == NOT_FOUND
