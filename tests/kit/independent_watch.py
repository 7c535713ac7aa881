"""A watch that is not the bridge's: the witness of what happened."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import aclosing
from typing import Any, Self

from bridge.model.resource import Resource
from tests.cluster.kube_client import KubeClient, Manifest
from tests.kit.deadlines import BUSY
from tests.kit.received import Version

OPS = {"ADDED": "added", "MODIFIED": "updated", "DELETED": "deleted"}


class IndependentWatch:
    """Everything that happens to the resources of one namespace that it follows, until the `async with` ends."""

    def __init__(self, kube: KubeClient, namespace: str) -> None:
        self._kube = kube
        self._namespace = namespace
        self.happened: list[tuple[Version, Manifest]] = []
        """In order for each resource."""
        self._objects: dict[Resource, dict[str, Manifest]] = {}
        self._news = asyncio.Condition()
        self._group = asyncio.TaskGroup()
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def versions(self) -> list[Version]:
        return [version for version, _ in self.happened]

    async def follow(self, resource: Resource) -> None:
        """When this returns, nothing that happens is missed. There must be no objects yet."""
        path = resource.path(self._namespace)
        listed = await self._kube.get(path, limit=1)
        assert not listed["items"], f"{path} has objects already: their history is not known"
        self._objects[resource] = {}
        self.spawn(self._follow(resource, listed["metadata"]["resourceVersion"]))

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Run this beside; its error ends the `async with`."""
        self._tasks.append(self._group.create_task(work))

    async def until(self, resource: Resource, is_so: Callable[[list[Manifest]], bool]) -> None:
        """Wait until it is so of the objects there are. Raises TimeoutError."""
        objects = self._objects[resource]
        try:
            async with asyncio.timeout(60 * BUSY), self._news:
                await self._news.wait_for(lambda: is_so([*objects.values()]))
        except TimeoutError:
            raise TimeoutError(f"{resource}: not so after {60 * BUSY} s; {len(objects)} objects") from None

    async def __aenter__(self) -> Self:
        await self._group.__aenter__()
        return self

    async def __aexit__(self, *why: Any) -> None:
        for task in self._tasks:
            task.cancel()
        await self._group.__aexit__(*why)

    async def _follow(self, resource: Resource, version: str) -> None:
        """A watch that the server ends goes on from its last version; one that cannot go on is an error."""
        while True:
            async with aclosing(self._kube.watch(resource.path(self._namespace), resourceVersion=version)) as events:
                async for event in events:
                    version = event["object"]["metadata"]["resourceVersion"]
                    await self._take(resource, OPS[event["type"]], event["object"])

    async def _take(self, resource: Resource, op: str, thing: Manifest) -> None:
        metadata = thing["metadata"]
        async with self._news:
            self.happened.append((Version(metadata["uid"], metadata["resourceVersion"], op), thing))
            if op == "deleted":
                del self._objects[resource][metadata["name"]]
            else:
                self._objects[resource][metadata["name"]] = thing
            self._news.notify_all()
