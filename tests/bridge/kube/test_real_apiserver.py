"""This room against the real kube-apiserver."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from bridge.kube import ApiError, Catalogue, ClusterAccess, KubeClient, connect, find_connection, resolve_name
from bridge.kube.auth.connection import RenewedConnection
from bridge.kube.transport import Api, http_client
from bridge.model.answers import (
    Announced,
    Bookmark,
    EventType,
    Expired,
    HungUp,
    ListRequest,
    Opened,
    Page,
    Refused,
    TooLarge,
    WatchAnswer,
    WatchRequest,
)
from bridge.model.resource import Resource, Scope
from tests.cluster.fixtures import DefineCustomResource
from tests.cluster.kube_client import KubeClient as Cluster
from tests.cluster.recipes import chosen
from tests.cluster.servers import KubeApiServer
from tests.kit.certificates import Authority

CONFIG_MAPS = Resource("", "v1", "configmaps", "ConfigMap", namespaced=True)
SECRETS = Resource("", "v1", "secrets", "Secret", namespaced=True)
SOON = 60.0


@pytest.fixture
async def client(kube_apiserver: KubeApiServer, tmp_path: Path) -> AsyncIterator[KubeClient]:
    """The administrator, through a kubeconfig with a token and an authority."""
    async with connect(ClusterAccess(kubeconfig=kube_apiserver.kubeconfig(tmp_path / "config"))) as connected:
        yield connected


async def make(kube: Cluster, namespace: str, *names: str, **data: str) -> None:
    for name in names:
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}
        await kube.create(f"/api/v1/namespaces/{namespace}/configmaps", body)


async def whole_list(client: KubeClient, scope: Scope, limit: int) -> list[Page]:
    lister_watcher = client.lister_watcher(CONFIG_MAPS, scope)
    pages = []
    request = ListRequest(version="", limit=limit)
    while True:
        page = await lister_watcher.list(request)
        assert isinstance(page, Page), page
        pages.append(page)
        if page.next_page is None:
            return pages
        request = ListRequest(version="", limit=limit, next_page=page.next_page)


@pytest.mark.parametrize("length", [600, 70_000])
async def test_a_role_with_a_long_name_costs_itself_alone(
    client: KubeClient, kube: Cluster, namespace: str, length: int
) -> None:
    """kube-apiserver bounds no name of RBAC's kinds, and writes it into the continue token of the page it ends."""
    roles = Resource("rbac.authorization.k8s.io", "v1", "roles", "Role", namespaced=True)
    for name in ("a", "m" * length, "z"):
        await kube.create(roles.path(namespace), {"metadata": {"name": name}, "rules": []})
    lister_watcher = client.lister_watcher(roles, Scope(namespace))
    names: list[str] = []
    request: ListRequest | None = ListRequest(version="", limit=2)
    while request is not None:
        answer = await lister_watcher.list(request)
        if isinstance(answer, Expired) and length == 70_000:
            names, request = [], ListRequest(version="", limit=0)  # As the Reflector goes on.
            continue
        assert isinstance(answer, Page), answer
        assert answer.unreadable == ()
        names += [thing.name for thing in answer.objects]
        request = None if answer.next_page is None else ListRequest(version="", limit=2, next_page=answer.next_page)
    assert names == ["a", "z"]
    await kube.delete(roles.path(namespace))


async def watch_until(
    client: KubeClient, scope: Scope, request: WatchRequest, enough: Callable[[list[WatchAnswer]], bool]
) -> list[WatchAnswer]:
    answers: list[WatchAnswer] = []
    async with asyncio.timeout(SOON), client.lister_watcher(CONFIG_MAPS, scope).watch(request) as stream:
        async for answer in stream:
            answers.append(answer)
            if enough(answers):
                break
    return answers


def message(answers: list[WatchAnswer]) -> list[tuple[EventType, str]]:
    return [(kind, thing.name) for each in answers if isinstance(each, Announced) for kind, thing in each.events]


async def test_it_is_there_and_serves_what_kubectl_names(client: KubeClient) -> None:
    assert (await client.version()).startswith("v1.")
    catalogue = await client.discover()
    for name, full in [
        ("po", "pods"),
        ("deploy", "deployments.apps"),
        ("apiservices", "apiservices.apiregistration.k8s.io"),
    ]:
        [resource] = resolve_name(name, catalogue)
        assert resource.name == full
    everything = [resource.name for resource in resolve_name("*", catalogue)]
    assert len(everything) == len(set(everything)) > 40
    assert await client.discover(catalogue) is catalogue


async def test_a_list_comes_in_pages_and_the_objects_say_their_kind(
    client: KubeClient, kube: Cluster, namespace: str
) -> None:
    await make(kube, namespace, "a", "b", "c", text="one\x85two\u2028three")
    pages = await whole_list(client, Scope(namespace), limit=2)
    assert [len(page.objects) for page in pages] == [2, 1]
    assert len({page.version for page in pages}) == 1
    for page in pages:
        for thing in page.objects:
            assert thing.key == f"{namespace}/{thing.name}"
            real = await kube.get(f"/api/v1/namespaces/{namespace}/configmaps/{thing.name}")
            assert thing.manifest() == real
            assert (thing.uid, thing.resource_version) == (real["metadata"]["uid"], real["metadata"]["resourceVersion"])


async def test_a_watch_sends_every_change_after_a_version(client: KubeClient, kube: Cluster, namespace: str) -> None:
    scope = Scope(namespace)
    [empty] = await whole_list(client, scope, limit=500)
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    await make(kube, namespace, "a", text="one\x85two\u2028three" + "x" * 900_000)
    await kube.patch(f"{path}/a", {"data": {"more": "1"}})
    last = await kube.get(f"{path}/a")
    await kube.delete(f"{path}/a")

    request = WatchRequest(version=empty.version, timeout=60)
    answers = await watch_until(client, scope, request, lambda found: len(message(found)) == 3)
    assert answers[0] == Opened()
    assert message(answers) == [(EventType.ADDED, "a"), (EventType.MODIFIED, "a"), (EventType.DELETED, "a")]
    things = [thing for each in answers if isinstance(each, Announced) for _, thing in each.events]
    assert things[1].manifest() == last
    versions = [int(thing.resource_version) for thing in things]
    assert versions == sorted(set(versions))


async def test_selectors_choose_on_the_servers_side(client: KubeClient, kube: Cluster, namespace: str) -> None:
    for name, tier in (("a", "web"), ("b", "db")):
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": {"tier": tier}}}
        await kube.create(f"/api/v1/namespaces/{namespace}/configmaps", body)
    for scope in (
        Scope(namespace, label_selector="tier in (web, api),tier!=db"),
        Scope(namespace, field_selector="metadata.name=a"),
    ):
        [page] = await whole_list(client, scope, limit=500)
        assert [thing.name for thing in page.objects] == ["a"]


@pytest.mark.skipif(chosen("KUBERNETES").endswith("1.33"), reason="1.33 is delivered with the feature switched off")
async def test_a_watch_list_delivers_objects_and_marks_their_end(
    client: KubeClient, kube: Cluster, namespace: str
) -> None:
    await make(kube, namespace, "a", "b")
    request = WatchRequest(version="", timeout=60, initial_events=True)
    answers = await watch_until(client, Scope(namespace), request, lambda found: isinstance(found[-1], Bookmark))
    assert sorted(message(answers)) == [(EventType.ADDED, "a"), (EventType.ADDED, "b")]
    last = answers[-1]
    assert isinstance(last, Bookmark)
    assert last.initial_events_end


async def test_a_watch_ends_at_its_timeout_without_an_error(client: KubeClient, namespace: str) -> None:
    [empty] = await whole_list(client, Scope(namespace), limit=500)
    request = WatchRequest(version=empty.version, timeout=1)
    answers = await watch_until(client, Scope(namespace), request, lambda _: False)
    assert (answers[0], answers[-1]) == (Opened(), HungUp("the stream ended"))


async def test_a_version_that_was_never_reached_is_too_large(client: KubeClient, namespace: str) -> None:
    answer = await client.lister_watcher(CONFIG_MAPS, Scope(namespace)).list(ListRequest(version="999999999", limit=5))
    assert isinstance(answer, TooLarge)


async def test_a_forbidden_list_is_refused_with_the_servers_words(
    kube_apiserver: KubeApiServer, client: KubeClient, tmp_path: Path
) -> None:
    kubeconfig = kube_apiserver.kubeconfig(tmp_path / "restricted", user="restricted")
    async with connect(ClusterAccess(kubeconfig=kubeconfig)) as restricted:
        lister_watcher = restricted.lister_watcher(SECRETS, Scope())
        answers: list[Any] = [await lister_watcher.list(ListRequest(version="0", limit=5))]
        async with lister_watcher.watch(WatchRequest(version="1", timeout=5)) as stream:
            answers += [answer async for answer in stream]
        assert len(answers) == 2
        for answer in answers:
            assert isinstance(answer, Refused)
            assert answer.status == 403
            assert 'User "restricted" cannot' in answer.reason
        assert not await restricted.can_i("list", group="", resource="secrets")
    assert await client.can_i("list", group="", resource="secrets")
    assert await client.can_i("watch", group="", resource="secrets", namespace="default")


async def test_http_to_its_port_is_recognised(kube_apiserver: KubeApiServer) -> None:
    async with connect(ClusterAccess(server=kube_apiserver.url.replace("https:", "http:"))) as client:
        with pytest.raises(ApiError, match="the server speaks HTTPS on this port: write https:// in its address"):
            await client.version()


async def test_a_token_that_nobody_gave_out_is_refused(kube_apiserver: KubeApiServer, tmp_path: Path) -> None:
    token_file = tmp_path / "token"
    token_file.write_text("nobody")
    access = ClusterAccess(server=kube_apiserver.url, ca_file=kube_apiserver.ca_file, token_file=token_file)
    async with connect(access) as stranger:
        answer = await stranger.lister_watcher(SECRETS, Scope()).list(ListRequest(version="0", limit=5))
    assert answer == Refused(401, "401 Unauthorized: Unauthorized")


async def test_a_definition_that_appears_and_goes_is_discovered(
    client: KubeClient, kube: Cluster, custom_resource: DefineCustomResource
) -> None:
    before = await client.discover()
    widgets = await custom_resource()

    async def until(wanted: bool, known: Catalogue) -> Catalogue:
        async with asyncio.timeout(SOON):
            while (widgets.name in {each.name for each in known.resources}) != wanted:
                await asyncio.sleep(0.1)
                known = await client.discover(known)
        return known

    with_it = await until(True, before)
    [resource] = [each for each in with_it.resources if each.name == widgets.name]
    assert resource not in before.resources
    assert (resource.kind, resource.version, resource.namespaced) == ("Widget", widgets.version, widgets.namespaced)
    assert resolve_name(f"widgets.{widgets.version}.{widgets.group}", with_it) == (resource,)
    assert isinstance(await client.lister_watcher(resource, Scope()).list(ListRequest(version="0", limit=5)), Page)
    await kube.delete(f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{widgets.name}")
    assert resource not in (await until(False, with_it)).resources


async def test_a_client_certificate_and_a_plugins_token_say_who_we_are(
    forgetful_apiserver: KubeApiServer, client_authority: Authority, tmp_path: Path
) -> None:
    api, alice = forgetful_apiserver, client_authority.issue("alice")
    credential = {
        "kind": "ExecCredential",
        "apiVersion": "client.authentication.k8s.io/v1",
        "status": {"token": api.token("restricted")},
    }
    (tmp_path / "credential").write_text(json.dumps(credential))
    users: dict[str, dict[str, Any]] = {
        "alice": {"client-certificate": str(alice.certificate), "client-key": str(alice.key)},
        "restricted": {
            "exec": {"command": "cat", "args": [str(tmp_path / "credential")], "apiVersion": credential["apiVersion"]}
        },
    }
    for name, user in users.items():
        config = json.loads(api.kubeconfig(tmp_path / "config").read_text())
        config["users"][0]["user"] = user
        (tmp_path / "config").write_text(json.dumps(config))
        async with http_client(
            RenewedConnection(lambda: find_connection(ClusterAccess(kubeconfig=tmp_path / "config")))
        ) as http:
            review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
            answer = await Api(http).ask("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", json=review)
            assert json.loads(answer.body)["status"]["userInfo"]["username"] == name
