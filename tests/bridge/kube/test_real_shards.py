"""Shards against the real kube-apiserver, with the feature gate of KEP-5866 and without."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from bridge.kube import ClusterAccess, connect
from bridge.kube.lister_watcher import shard_selector
from bridge.model.answers import Announced, ListerWatcher, ListRequest, Page, WatchRequest
from bridge.model.primitives.shard import Shard
from bridge.model.resource import Resource, Scope
from bridge.telemetry.facts import Fact
from bridge.telemetry.facts.cluster import ShardSelected
from tests.cluster.fixtures import StartKubeApiServer, fresh_name
from tests.cluster.kube_client import KubeClient as Cluster
from tests.cluster.recipes import is_default
from tests.cluster.servers import Etcd, KubeApiServer
from tests.kit.deadlines import BUSY

CONFIG_MAPS = Resource("", "v1", "configmaps", "ConfigMap", namespaced=True)
MADE = 24
"""Objects, each time."""


class Objects:
    """Keys and uids of the objects of this test, in namespaces of their own."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._namespaces = [fresh_name("team") for _ in range(4)]

    async def __aenter__(self) -> Objects:
        for each in self._namespaces:
            await self._cluster.create_namespace(each)
        return self

    async def __aexit__(self, *_: object) -> None:
        for each in self._namespaces:
            await self._cluster.delete_namespace(each)

    async def make(self, prefix: str) -> None:
        for number in range(MADE):
            body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": f"{prefix}-{number}"}}
            await self._cluster.create(f"/api/v1/namespaces/{self._namespaces[number % 4]}/configmaps", body)

    def are(self, key: str, prefix: str = "") -> bool:
        """Whether it is an object of these, and not the server's or another test's."""
        namespace, _, name = key.partition("/")
        return namespace in self._namespaces and name.startswith(prefix) and not name.startswith("kube-")


async def listed(lister: ListerWatcher, objects: Objects, selector: str = "") -> dict[str, str]:
    """Key → uid, of a list in pages."""
    found: dict[str, str] = {}
    request = ListRequest(version="", limit=10, shard_selector=selector)
    while True:
        answer = await lister.list(request)
        assert isinstance(answer, Page), answer
        found |= {each.key: each.uid for each in answer.objects if objects.are(each.key)}
        if answer.next_page is None:
            return found
        request = ListRequest(version="", limit=10, next_page=answer.next_page, shard_selector=selector)


async def watched(lister: ListerWatcher, version: str, objects: Objects, expected: Sequence[str]) -> list[str]:
    """The keys of changes after ``version``, as many as are expected."""
    found: list[str] = []
    request = WatchRequest(version=version, timeout=300)
    async with asyncio.timeout(60 * BUSY), lister.watch(request) as answers:
        async for answer in answers:
            if isinstance(answer, Announced):
                found += [thing.key for _, thing in answer.events if objects.are(thing.key, "second")]
            if len(found) >= len(expected):
                break
    return found


async def check(server: KubeApiServer, folder: Path, *, selects: bool) -> None:
    facts: list[Fact] = []
    shards = [Shard(4, index) for index in range(4)]
    access = ClusterAccess(kubeconfig=server.kubeconfig(folder / "config"))
    async with Cluster(server) as cluster, connect(access, report=facts.append) as client, Objects(cluster) as objects:
        await objects.make("first")
        whole = client.lister_watcher(CONFIG_MAPS, Scope())
        everything = await listed(whole, objects)
        assert len(everything) == MADE
        for shard in shards:
            own = {key: uid for key, uid in everything.items() if shard.contains(uid, key)}
            selected = await listed(whole, objects, shard_selector(shard))
            assert selected == (own if selects else everything), "the server's hash is ours"
            assert await listed(client.lister_watcher(CONFIG_MAPS, Scope(), shard=shard), objects) == own
        assert {fact.by_server for fact in facts if isinstance(fact, ShardSelected)} == {selects}

        page = await whole.list(ListRequest(version="", limit=1))
        assert isinstance(page, Page)
        await objects.make("second")
        later = {key: uid for key, uid in (await listed(whole, objects)).items() if objects.are(key, "second")}
        for shard in shards:
            own_keys = [key for key, uid in later.items() if shard.contains(uid, key)]
            lister = client.lister_watcher(CONFIG_MAPS, Scope(), shard=shard)
            if own_keys:
                assert sorted(await watched(lister, page.version, objects, own_keys)) == sorted(own_keys)


@pytest.mark.go
async def test_a_server_without_the_feature_sends_everything(kube_apiserver: KubeApiServer, tmp_path: Path) -> None:
    await check(kube_apiserver, tmp_path, selects=False)


@pytest.mark.go
@pytest.mark.skipif(not is_default("KUBERNETES"), reason="the feature is new in the default version")
async def test_a_server_with_the_feature_selects(
    start_etcd: Callable[[], Etcd], start_kube_apiserver: StartKubeApiServer, tmp_path: Path
) -> None:
    server = start_kube_apiserver(start_etcd(), "--feature-gates=ShardedListAndWatch=true")
    await check(server, tmp_path, selects=True)
