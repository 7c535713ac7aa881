"""Lists without spec and status, from the real kube-apiserver and from a server that cannot do so."""

from __future__ import annotations

from pathlib import Path

from bridge.kube import ClusterAccess, connect
from bridge.model.answers import ListRequest, Page
from bridge.model.resource import Resource, Scope
from bridge.playground import Playground
from tests.cluster.kube_client import KubeClient
from tests.cluster.servers import KubeApiServer

CONFIG_MAPS = Resource("", "v1", "configmaps", "ConfigMap", namespaced=True)


async def listed(access: ClusterAccess, resource: Resource, scope: Scope, *, metadata_only: bool) -> Page:
    async with connect(access) as client:
        lister = client.lister_watcher(resource, scope, metadata_only=metadata_only)
        page = await lister.list(ListRequest(version="", limit=500))
        assert isinstance(page, Page), page
        return page


def versions(page: Page) -> set[tuple[str, str, str]]:
    return {(each.key, each.uid, each.resource_version) for each in page.objects}


async def test_the_objects_are_the_same_and_their_content_is_left_out(
    kube: KubeClient, kube_apiserver: KubeApiServer, namespace: str, tmp_path: Path
) -> None:
    access = ClusterAccess(kubeconfig=kube_apiserver.kubeconfig(tmp_path / "config"))
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "large"}, "data": {"a": "x" * 50_000}}
    await kube.create(f"/api/v1/namespaces/{namespace}/configmaps", body)
    scope = Scope(namespace)

    slim = await listed(access, CONFIG_MAPS, scope, metadata_only=True)
    whole = await listed(access, CONFIG_MAPS, scope, metadata_only=False)

    assert f"{namespace}/large" in {each.key for each in slim.objects}
    assert versions(slim) == versions(whole)
    assert max(len(each.body) for each in slim.objects) < 5_000 < max(len(each.body) for each in whole.objects)


async def test_a_server_that_sends_whole_objects_is_understood() -> None:
    async with Playground() as server:
        server.create("configmaps", {"metadata": {"name": "one", "namespace": "shop"}, "data": {"a": "b"}})
        access = ClusterAccess(server=server.url)

        slim = await listed(access, CONFIG_MAPS, Scope("shop"), metadata_only=True)

        assert versions(slim) == versions(await listed(access, CONFIG_MAPS, Scope("shop"), metadata_only=False))
        assert len(slim.objects) == 1
