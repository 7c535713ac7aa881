"""A watch that is not the bridge's: the witness of what happened, and the kubelet that the testbed lacks."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, Self

from tests.cluster.kube_client import CustomResource, KubeClient, KubeError, Manifest
from tests.kit.deadlines import BUSY
from tests.kit.received import Version

OPS = {"ADDED": "added", "MODIFIED": "updated", "DELETED": "deleted"}


@dataclass(frozen=True, slots=True)
class Collection:
    """One resource in one namespace."""

    resource: str
    """As kubectl names it."""
    path: str
    """Of all its objects, in any namespace."""
    kind: str
    namespace: str

    @property
    def inside(self) -> str:
        """The path of those in the namespace."""
        root, _, plural = self.path.rpartition("/")
        return f"{root}/namespaces/{self.namespace}/{plural}"

    @property
    def api_version(self) -> str:
        return self.path.removeprefix("/apis/").removeprefix("/api/").rpartition("/")[0]

    @classmethod
    def of(cls, custom: CustomResource, namespace: str) -> Self:
        return cls(custom.name, custom.path(), custom.kind, namespace)


class IndependentWatch:
    """Everything that happens to the collections it follows, until the `async with` ends."""

    def __init__(self, kube: KubeClient) -> None:
        self._kube = kube
        self.happened: list[tuple[Version, Manifest]] = []
        """In order for each collection."""
        self._objects: dict[Collection, dict[str, Manifest]] = {}
        self._news = asyncio.Condition()
        self._group = asyncio.TaskGroup()
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def versions(self) -> list[Version]:
        return [version for version, _ in self.happened]

    async def follow(self, collection: Collection) -> None:
        """When this returns, nothing that happens to the collection is missed. It must be empty."""
        listed = await self._kube.get(collection.inside, limit=1)
        assert not listed["items"], f"{collection.inside} has objects already: their history is not known"
        self._objects[collection] = {}
        self.spawn(self._follow(collection, listed["metadata"]["resourceVersion"]))

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Run this beside; its error ends the `async with`."""
        self._tasks.append(self._group.create_task(work))

    async def until(
        self, collection: Collection, is_so: Callable[[list[Manifest]], bool], timeout: float = 60
    ) -> list[Manifest]:
        """Wait until it is so of the objects in the collection, and return them. Raises TimeoutError."""
        objects = self._objects[collection]
        timeout *= BUSY
        try:
            async with asyncio.timeout(timeout), self._news:
                await self._news.wait_for(lambda: is_so([*objects.values()]))
        except TimeoutError:
            raise TimeoutError(f"{collection.resource}: not so after {timeout:.0f} s; {len(objects)} objects") from None
        return [*objects.values()]

    async def __aenter__(self) -> Self:
        await self._group.__aenter__()
        return self

    async def __aexit__(self, *why: Any) -> None:
        for task in self._tasks:
            task.cancel()
        await self._group.__aexit__(*why)

    async def _follow(self, collection: Collection, version: str) -> None:
        """A watch that the server ends goes on from its last version; one that cannot go on is an error."""
        while True:
            async with aclosing(self._kube.watch(collection.inside, resourceVersion=version)) as events:
                async for event in events:
                    version = event["object"]["metadata"]["resourceVersion"]
                    await self._take(collection, OPS[event["type"]], event["object"])

    async def _take(self, collection: Collection, op: str, thing: Manifest) -> None:
        metadata = thing["metadata"]
        async with self._news:
            self.happened.append((Version(metadata["uid"], metadata["resourceVersion"], op), thing))
            if op == "deleted":
                del self._objects[collection][metadata["name"]]
            else:
                self._objects[collection][metadata["name"]] = thing
            self._news.notify_all()


async def run_pods(kube: KubeClient, namespace: str) -> None:
    """Be the kubelet: report every pod of the namespace as running and ready as soon as it is there. Does not end."""
    pods = f"/api/v1/namespaces/{namespace}/pods"
    now = "2026-01-01T00:00:00Z"
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": now}
    running = {"status": {"phase": "Running", "startTime": now, "conditions": [ready]}}
    while True:
        async with aclosing(kube.watch(pods)) as events:
            async for event in events:
                if event["type"] == "ADDED":
                    await _unless_deleted(kube.patch(f"{pods}/{event['object']['metadata']['name']}/status", running))


async def _unless_deleted(asked: Coroutine[Any, Any, Any]) -> None:
    try:
        await asked
    except KubeError as error:
        if error.code != 404:
            raise
