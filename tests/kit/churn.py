"""Changes of clusters: one of an object of the playground; and writers that change a real cluster without a rest, and
wait out whatever happens to it."""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx

from bridge.playground import Playground
from tests.cluster.kube_client import KubeClient, KubeError, Manifest
from tests.cluster.servers import KubeApiServer
from tests.kit.deadlines import BUSY
from tests.kit.received import Version

KINDS = ("configmaps", "secrets", "pods")
SECRET_VALUE = "correct horse battery staple"


class Churn:
    """Objects of one namespace are created, changed, deleted and created again; each has one writer.

    What was made of it, nobody has to know: the store does (see etcd_history).
    """

    def __init__(self, kube: KubeClient, namespace: str, seed: int, pause: float) -> None:
        self._kube = kube
        self._root = f"/api/v1/namespaces/{namespace}"
        self._seed = seed
        self._pause = pause
        self.made = 0
        """Changes that the API server said it has made."""
        self._news = asyncio.Condition()
        self._stopping = False

    def stop(self) -> None:
        """Every writer ends after its present change. A writer that is cancelled while it connects would leave its
        socket to the garbage collector."""
        self._stopping = True

    async def write(self, writer: int, objects: int) -> None:
        """Be one writer, with so many objects of each kind, until ``stop``."""
        chance = random.Random(f"{self._seed}/{writer}")
        mine = [f"{self._root}/{kind}/w{writer}-{number}" for kind in KINDS for number in range(objects)]
        there: dict[str, bool] = dict.fromkeys(mine, False)
        for step in itertools.count():
            if self._stopping:
                return
            path = chance.choice(mine)
            try:
                if path not in there:  # The answer to its last change was lost.
                    there[path] = await self._exists(path)
                there[path] = await self._change(path, there[path], step, chance)
            except (httpx.TransportError, KubeError):
                there.pop(path, None)
                await asyncio.sleep(0.1)
                continue
            async with self._news:
                self.made += 1
                self._news.notify_all()
            await asyncio.sleep(self._pause)

    async def until_made(self, more: int) -> None:
        """Wait for so many more changes. Raises TimeoutError."""
        enough = self.made + more
        try:
            async with asyncio.timeout(60 * BUSY), self._news:
                await self._news.wait_for(lambda: self.made >= enough)
        except TimeoutError:
            raise TimeoutError(f"{enough - self.made} of {more} changes were not made in {60 * BUSY} s") from None

    async def _exists(self, path: str) -> bool:
        try:
            await self._kube.get(path)
        except KubeError as error:
            if error.code != httpx.codes.NOT_FOUND:
                raise
            return False
        return True

    async def _change(self, path: str, there: bool, step: int, chance: random.Random) -> bool:
        collection, name = path.rsplit("/", 1)
        if not there:
            await self._kube.create(collection, an_object(collection.rsplit("/", 1)[1], name))
        elif chance.random() < 0.1:
            await self._kube.delete(path)
            return False
        else:
            await self._kube.patch(path, {"metadata": {"labels": {"step": str(step)}}})
        return True


def an_object(kind: str, name: str) -> Manifest:
    """The least of this kind, one of KINDS."""
    content: dict[str, Manifest] = {
        "configmaps": {"data": {"text": "a b"}},
        "secrets": {"stringData": {"password": SECRET_VALUE}},
        "pods": {"spec": {"containers": [{"name": "web", "image": "web"}]}},
    }
    return {"metadata": {"name": name}, **content[kind]}


@asynccontextmanager
async def churning(
    api: KubeApiServer, namespace: str, *, seed: int = 0, pause: float = 0.25, writers: int = 6, objects: int = 2
) -> AsyncIterator[Churn]:
    """Until the `async with` ends. ``pause`` is the seconds of rest of a writer after each change: most of what a story
    costs is proportional to its changes, and there are changes as long as it waits. Each writer has so many ``objects``
    of each kind, few enough to be changed, deleted and made again soon."""
    async with KubeClient(api) as kube, asyncio.TaskGroup() as group:
        churn = Churn(kube, namespace, seed, pause)
        for number in range(writers):
            group.create_task(churn.write(number, objects))
        yield churn
        churn.stop()


def comes_or_goes(
    cluster: Playground, chance: random.Random, resource: str, manifest: Manifest, *, goes: float = 0.3
) -> Version:
    """The object of this manifest comes. If it is there, it goes with this probability, and else becomes so. Returns
    what happened."""
    name, namespace = manifest["metadata"]["name"], manifest["metadata"]["namespace"]
    if name not in {each["metadata"]["name"] for each in cluster.list(resource, namespace=namespace)}:
        op, thing = "added", cluster.create(resource, manifest)
    elif chance.random() < goes:
        op, thing = "deleted", cluster.delete(resource, name, namespace=namespace)
    else:
        op, thing = "updated", cluster.update(resource, manifest)
    version = cluster.version if op == "deleted" else thing["metadata"]["resourceVersion"]
    return Version(thing["metadata"]["uid"], version, op)
