"""The playground answers as kube-apiserver does: the same requests to both, byte by byte where that is possible.

Wanted differences, which no test here insists on:

- Objects are stored as they come: no defaults, no validation against a schema, no conversion of a CRD's versions.
- A namespace, and a definition with its objects, go as soon as they are deleted; the real server marks them before.
- A user without a right gets a 403 only for existing resources.
- Of the subresources, only ``status`` is served. Patches are merge patches. Field selectors know name and namespace.
- Messages about bodies that cannot be read are worded by another JSON parser.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

import pytest

from bridge.playground import manifests
from bridge.playground.objects.columns import TableForm
from tests.bridge.playground.pair import SINCE, Pair, Reply, Side, comparable, insist, pair_with
from tests.cluster.fixtures import DefineCustomResource, fresh_name
from tests.cluster.kube_client import KubeClient, manifest_of
from tests.cluster.recipes import is_default
from tests.cluster.servers import KubeApiServer
from tests.kit.deadlines import BUSY
from tests.kit.kinds import EXAMPLES, Example

pytestmark = pytest.mark.skipif(not is_default("KUBERNETES"), reason="the playground imitates the default version")

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
MERGE = "application/merge-patch+json"


MAPS = "/api/v1/namespaces/default/configmaps"
"""For requests that change neither: a namespace of one's own costs more than they do."""


@pytest.fixture
async def pair(kube_apiserver: KubeApiServer) -> AsyncIterator[Pair]:
    async with pair_with(kube_apiserver) as both:
        yield both


@pytest.fixture
async def namespace(namespace: str, pair: Pair) -> str:
    """A fresh one, on both, since when both are watched."""
    pair.server.create("namespaces", {"metadata": {"name": namespace}})
    for side in (pair.real, pair.playground):
        await side.ask("GET", f"/api/v1/namespaces/{namespace}")
        side.since = side.json()["metadata"]["resourceVersion"]
    return namespace


@pytest.fixture
def maps(namespace: str) -> str:
    return f"/api/v1/namespaces/{namespace}/configmaps"


# ── Discovery ────────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_discovery_documents_are_the_same(pair: Pair) -> None:
    await pair.same("GET", "/api")
    await pair.same("GET", "/api/v1")
    groups = json.loads((await pair.same("GET", "/apis")).text)["groups"]
    for group in groups:
        await pair.same("GET", f"/apis/{group['name']}")
        for version in group["versions"]:
            await pair.same("GET", f"/apis/{version['groupVersion']}")
    assert len(groups) >= 20


@pytest.mark.parametrize("path", ["/api", "/apis"])
async def test_aggregated_discovery_is_the_same(pair: Pair, path: str) -> None:
    await pair.same("GET", path, Accept=AGGREGATED)
    await pair.same("GET", path, Accept=f"{AGGREGATED},{AGGREGATED.replace('v=v2', 'v=v2beta1')},application/json")
    await pair.same("GET", path, Accept=f"application/json,{AGGREGATED}")


@pytest.mark.parametrize("path", ["/api", "/apis"])
async def test_aggregated_discovery_that_has_not_changed_is_304(pair: Pair, path: str) -> None:
    for side in (pair.real, pair.playground):
        await side.ask("GET", path, Accept=AGGREGATED)
        assert side.last is not None
        tag = side.last.headers["ETag"]
        assert len(tag.strip('"')) == 128
        again = await side.ask("GET", path, Accept=AGGREGATED, If_None_Match=tag)
        assert (again.status, again.text) == (304, "")
        assert side.last.headers["ETag"] == tag


async def test_a_custom_resource_is_discovered_the_same_way(pair: Pair, custom_resource: DefineCustomResource) -> None:
    widgets = await custom_resource()
    pair.server.create("customresourcedefinitions.apiextensions.k8s.io", _definition(widgets.group))
    await pair.same("GET", f"/apis/{widgets.group}")
    await pair.same("GET", f"/apis/{widgets.group}/v1")
    for side in (pair.real, pair.playground):
        await side.ask("GET", "/apis", Accept=AGGREGATED)
    ours, real = (
        [group for group in side.json()["items"] if group["metadata"]["name"] == widgets.group]
        for side in (pair.playground, pair.real)
    )
    assert ours == real


def _definition(group: str, **spec: Any) -> dict[str, Any]:
    """As the fixture defines it on the real server."""
    made = manifests.definition("widgets", group, "Widget")
    for version in made["spec"]["versions"]:
        version.pop("subresources")
    return made


# ── Errors ───────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "path",
    [
        "/nope",
        "/api/v9",
        "/api/v1/nope",
        "/api/v1/namespaces/default/nope/x",
        "/apis/nope.example",
        "/apis/nope.example/v1",
        "/apis/nope.example/v1/things",
        "/apis/apps/v9",
        "/apis/apps/v9/deployments",
        "/apis/apps/v1/nope",
        "/api/v1/pods/x",
        "/api/v1/namespaces/default/nodes",
        "/api/v1/namespaces/default/pods/nope",
        "/api/v1/namespaces/default/pods/nope/status",
        "/api/v1/nodes/nope",
        "/apis/apps/v1/namespaces/default/deployments/nope",
        "/api/v1/namespaces/nope",
        "/healthz",
        "/readyz",
        "/livez",
    ],
)
async def test_what_is_not_there_is_missed_the_same_way(pair: Pair, path: str) -> None:
    await pair.same("GET", path)


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/api/v1/namespaces/default/configmaps/x"),
        ("PUT", "/api/v1/namespaces/default/configmaps"),
        ("PATCH", "/api/v1/namespaces/default/configmaps"),
        ("POST", "/api/v1/configmaps"),
        ("DELETE", "/api/v1/configmaps"),
        ("DELETE", "/api/v1/namespaces"),
        ("GET", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"),
        ("DELETE", "/api/v1/namespaces/default/pods/x/status"),
    ],
)
async def test_a_method_that_is_not_allowed_is_405(pair: Pair, method: str, path: str) -> None:
    await pair.same(method, path, {} if method in ("POST", "PUT", "PATCH") else None)


async def test_a_query_that_makes_no_sense_is_refused_the_same_way(pair: Pair) -> None:
    queries = (
        "resourceVersion=abc",
        "resourceVersion=-1",
        "limit=abc",
        "resourceVersionMatch=Exact",
        "resourceVersionMatch=Sometimes&resourceVersion=1",
        "resourceVersionMatch=Exact&resourceVersion=0",
        "resourceVersionMatch=NotOlderThan&resourceVersion=1&continue=abc",
        "sendInitialEvents=true",
        "sendInitialEvents=true&resourceVersionMatch=Exact",
        "fieldSelector=nonsense",
        "resourceVersion=99999999",
        "resourceVersion=99999999&resourceVersionMatch=Exact",
        "resourceVersion=99999999&resourceVersionMatch=NotOlderThan",
        "watch=1&resourceVersion=abc",
        "watch=1&sendInitialEvents=true",
        "watch=1&sendInitialEvents=false",
        "watch=1&sendInitialEvents=true&resourceVersionMatch=Exact",
        "watch=1&resourceVersionMatch=NotOlderThan",
        "watch=1&resourceVersionMatch=Exact",
        "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&continue=abc",
        "watch=1&limit=abc",
        "watch=1&timeoutSeconds=abc",
    )
    for sent in await asyncio.gather(*(pair.same("GET", f"{MAPS}?{query}") for query in queries)):
        assert sent.status >= 400


@pytest.mark.parametrize(
    "query",
    [
        "labelSelector=a%20b%20c",
        "labelSelector=a%20in%20b",
        "labelSelector=a,,b",
        "labelSelector==b",
        "fieldSelector=spec.nodeName=a",
        "continue=abc",
        "continue=e30",
    ],
)
async def test_a_query_that_cannot_be_read_is_refused_alike(pair: Pair, query: str) -> None:
    assert (await pair.alike("GET", f"{MAPS}?{query}"))["code"] == 400


async def test_an_unacceptable_media_type_is_406(pair: Pair) -> None:
    for path in (MAPS, "/api", "/apis/apps/v1"):
        assert (await pair.alike("GET", path, Accept="text/html"))["code"] == 406
    assert (await pair.alike("GET", "/api", Accept=AGGREGATED.replace("v=v2", "v=v3")))["code"] == 406


async def test_a_wrong_token_is_401(pair: Pair) -> None:
    sent = await pair.same("GET", MAPS, Authorization="Bearer nonsense")
    assert sent.status == 401
    await pair.same("GET", "/api", Authorization="Bearer nonsense")
    await pair.same("GET", f"{MAPS}?watch=1", Authorization="Bearer nonsense")


async def test_what_is_forbidden_is_403(kube_apiserver: KubeApiServer) -> None:
    async with pair_with(kube_apiserver, "restricted") as pair:
        pair.server.misbehave.forbid()
        inside = "/apis/apps/v1/namespaces/default/deployments"
        for path in ("/api/v1/pods", "/api/v1/pods?watch=1", "/api/v1/nodes/x", inside, f"{inside}/x"):
            assert (await pair.same("GET", path)).status == 403
        await pair.same("DELETE", f"{inside}/x")
        await pair.same("POST", MAPS, {"metadata": {"name": "a"}})


async def test_an_access_review_says_what_is_allowed(kube_apiserver: KubeApiServer) -> None:
    reviews = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    asked = {"spec": {"resourceAttributes": {"verb": "list", "resource": "pods"}}}
    async with pair_with(kube_apiserver) as pair:
        assert await _review(pair, reviews, asked) == {"allowed": True}
    async with pair_with(kube_apiserver, "restricted") as pair:
        pair.server.misbehave.forbid("pods")
        assert await _review(pair, reviews, asked) == {"allowed": False}


async def _review(pair: Pair, path: str, asked: dict[str, Any]) -> Any:
    answers = []
    for side in (pair.real, pair.playground):
        assert (await side.ask("POST", path, asked)).status == 201
        answer = side.json()
        answer["metadata"].pop("managedFields", None)
        answers.append(answer)
    assert answers[0] == answers[1]
    return answers[0]["status"]


# ── Writes ───────────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_config_map_is_written_the_same_way(pair: Pair, maps: str) -> None:
    await pair.same("POST", maps, {"metadata": {"name": "a", "labels": {"x": "1"}}, "data": {"k": "<v>&\u2028\u0085é"}})
    await pair.same("GET", f"{maps}/a")
    await pair.same("POST", maps, {"metadata": {"name": "a"}})
    await pair.same("PUT", f"{maps}/a", {"metadata": {"name": "a", "labels": {"x": "2"}}, "data": {"k": "2"}})
    await pair.same("PATCH", f"{maps}/a", {"data": {"j": "1", "k": None}}, Content_Type=MERGE)
    await pair.same("PATCH", f"{maps}/a", {"metadata": {"resourceVersion": "1"}}, Content_Type=MERGE)
    await pair.same("PUT", f"{maps}/a", {"metadata": {"name": "a", "resourceVersion": "1"}})
    await pair.same("PUT", f"{maps}/a", {"metadata": {"name": "b"}})
    await pair.same("PUT", f"{maps}/b", {"metadata": {"name": "b"}})
    await pair.same("PATCH", f"{maps}/b", {"data": {}}, Content_Type=MERGE)
    await pair.same("DELETE", f"{maps}/a", {"preconditions": {"uid": "other"}})
    await pair.same("DELETE", f"{maps}/a", {"preconditions": {"resourceVersion": "1"}})
    await pair.same("DELETE", f"{maps}/a")
    await pair.same("DELETE", f"{maps}/a")
    await pair.same("POST", maps, {"metadata": {"name": "bare"}})


async def test_a_change_that_changes_nothing_makes_no_version(pair: Pair, maps: str) -> None:
    for side in (pair.real, pair.playground):
        await side.ask("POST", maps, {"metadata": {"name": "a"}, "data": {"k": "1"}})
        first = side.json()["metadata"]["resourceVersion"]
        await side.ask("PATCH", f"{maps}/a", {"data": {"k": "1"}}, Content_Type=MERGE)
        assert side.json()["metadata"]["resourceVersion"] == first


@pytest.mark.parametrize(
    "manifest",
    [
        {"metadata": {}},
        {"metadata": {"name": "A_b"}},
        {"metadata": {"name": "x", "namespace": "elsewhere"}},
    ],
)
async def test_an_object_that_is_wrong_is_refused_the_same_way(pair: Pair, manifest: Any) -> None:
    assert (await pair.same("POST", MAPS, manifest)).status >= 400


async def test_an_object_that_cannot_be_read_is_refused_alike(pair: Pair, maps: str) -> None:
    for body in (
        b"{nope",
        b"",
        b'{"metadata":[]}',
        b"[]",
        b"3",
        {"kind": "Pod", "metadata": {"name": "x"}},
        {"apiVersion": "v9", "kind": "ConfigMap"},
    ):
        assert (await pair.alike("POST", maps, body))["code"] == 400
    assert (await pair.alike("POST", maps, b"{}", Content_Type="text/plain"))["code"] == 415
    await pair.both("POST", maps, {"metadata": {"name": "x"}})
    assert (await pair.alike("PATCH", f"{maps}/x", {}, Content_Type="text/plain"))["code"] == 415
    await pair.same("POST", maps, b" " * (3 * 1024 * 1024 + 1))


async def test_a_namespace_that_is_not_there_takes_no_objects(pair: Pair) -> None:
    sent = await pair.same("POST", "/api/v1/namespaces/nope-nope/configmaps", {"metadata": {"name": "a"}})
    assert sent.status == 404


async def test_a_generated_name_has_five_signs(pair: Pair, maps: str) -> None:
    assert (await pair.same("POST", maps, {"metadata": {"generateName": "made-"}})).status == 201


async def test_finalizers_keep_an_object_until_they_are_gone(pair: Pair, maps: str) -> None:
    await pair.same("POST", maps, {"metadata": {"name": "a", "finalizers": ["example.com/x"]}, "data": {"k": "1"}})
    await pair.same("DELETE", f"{maps}/a")
    await pair.same("DELETE", f"{maps}/a")
    await pair.same("GET", f"{maps}/a")
    await pair.same("PATCH", f"{maps}/a", {"metadata": {"finalizers": None}}, Content_Type=MERGE)
    await pair.same("GET", f"{maps}/a")
    lines = (await pair.same_watch(f"{maps}?watch=1&{SINCE}&timeoutSeconds=1")).text.splitlines()
    assert [json.loads(line)["type"] for line in lines] == ["ADDED", "MODIFIED", "DELETED"]


async def test_a_lease_is_written_the_same_way(pair: Pair, namespace: str) -> None:
    leases = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"
    spec = {"holderIdentity": "a", "leaseDurationSeconds": 15, "renewTime": "2026-01-01T00:00:00.000000Z"}
    await pair.same("POST", leases, {"metadata": {"name": "l"}, "spec": spec})
    await pair.same("PUT", f"{leases}/l", {"metadata": {"name": "l"}, "spec": spec})
    for side in (pair.real, pair.playground):
        await side.ask("GET", f"{leases}/l")
        held = side.json()
        held["spec"]["holderIdentity"] = "b"
        assert (await side.ask("PUT", f"{leases}/l", held)).status == 200
        assert (await side.ask("PUT", f"{leases}/l", held)).status == 409
    await pair.same("GET", f"{leases}/l")
    await pair.same("DELETE", f"{leases}/l")


async def test_a_secret_is_written_the_same_way(pair: Pair, namespace: str) -> None:
    made = {"metadata": {"name": "s"}, "data": {"b": "Yg==", "a": "YQ=="}, "type": "Opaque"}
    await pair.same("POST", f"/api/v1/namespaces/{namespace}/secrets", made)


async def test_a_pod_on_a_node_stays_until_it_is_deleted_without_grace(pair: Pair, namespace: str) -> None:
    pods = f"/api/v1/namespaces/{namespace}/pods"
    made = {"metadata": {"name": "p"}, "spec": {"nodeName": "n", "containers": [{"name": "c", "image": "i"}]}}
    sent = []
    for side in (pair.real, pair.playground):
        steps = [await side.ask("POST", pods, {**made, "status": {"phase": "Failed"}})]
        status = [side.json()["status"]["phase"]]
        await side.ask("PATCH", f"{pods}/p/status", {"status": {"phase": "Running"}}, Content_Type=MERGE)
        status.append(side.json()["status"]["phase"])
        await side.ask("PATCH", f"{pods}/p", {"status": {"phase": "Failed"}}, Content_Type=MERGE)
        status.append(side.json()["status"]["phase"])
        steps.append(await side.ask("DELETE", f"{pods}/p"))
        grace = [side.json()["metadata"].get("deletionGracePeriodSeconds")]
        steps.append(await side.ask("GET", f"{pods}/p"))
        steps.append(await side.ask("DELETE", f"{pods}/p?gracePeriodSeconds=0"))
        steps.append(await side.ask("GET", f"{pods}/p"))
        sent.append((status, grace, [(step.status, step.headers) for step in steps], steps[-1].text))
    insist(sent[1], sent[0], "pods")


async def test_a_custom_object_is_written_the_same_way(
    pair: Pair, namespace: str, custom_resource: DefineCustomResource
) -> None:
    widgets = await custom_resource()
    pair.server.create("customresourcedefinitions.apiextensions.k8s.io", _definition(widgets.group))
    path = widgets.path(namespace)
    made = manifest_of(widgets, "w", spec={"z": 1, "a": [{"q": "<"}], "m": {"n": {"o": True}}}, aaa=1)
    made["metadata"]["annotations"] = {"b": "2", "a": "1"}
    await pair.same("POST", path, made)
    await pair.same("POST", path, made)
    await pair.same("GET", path)
    await pair.same("GET", f"{path}/w")
    await pair.same("GET", f"{path}/nope")
    await pair.same("PUT", f"{path}/w", made)
    await pair.same("PATCH", f"{path}/w", {"spec": {"z": 2}}, Content_Type=MERGE)
    assert (await pair.alike("POST", path, {"metadata": {"name": "untyped"}}))["code"] == 400
    assert (await pair.alike("PATCH", f"{path}/w", {}, Content_Type="application/strategic-merge-patch+json"))[
        "code"
    ] == 415
    await pair.same_watch(f"{path}?watch=1&allowWatchBookmarks=1&timeoutSeconds=1")
    await pair.same("DELETE", f"{path}/w")


# ── Lists ────────────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_pages_are_the_same(pair: Pair, namespace: str, maps: str) -> None:
    for name in ("a", "b", "c", "d", "e"):
        await pair.both("POST", maps, {"metadata": {"name": name, "labels": {"odd": str(name in "ace")}}})
    for query in (
        "",
        "&labelSelector=odd%3DTrue",
        "&fieldSelector=metadata.name!%3Db",
        "&resourceVersionMatch=NotOlderThan&resourceVersion=1",
    ):
        await pair.same("GET", f"{maps}?limit=2{query}")
        await _next_page(pair, f"{maps}?limit=2{query.partition('&resourceVersion')[0]}")
    await pair.same("GET", f"{maps}?limit=5")
    await pair.same("GET", f"{maps}?limit=2&resourceVersion=0")
    await pair.same("GET", f"{maps}?limit=2&resourceVersion=0&resourceVersionMatch=NotOlderThan")
    await pair.same("GET", f"{maps}?limit=-1")


async def _next_page(pair: Pair, path: str) -> None:
    """Ask both with the token that each gave."""
    tokens = [side.json()["metadata"]["continue"] for side in (pair.real, pair.playground)]
    for query in ("", "&resourceVersion=1", "&resourceVersion=0"):
        real = await pair.real.ask("GET", f"{path}&continue={tokens[0]}{query}")
        insist(await pair.playground.ask("GET", f"{path}&continue={tokens[1]}{query}"), real, path + query)


async def test_pages_show_one_version_whatever_changes_meanwhile(pair: Pair, maps: str) -> None:
    for name in ("a", "b", "c"):
        await pair.both("POST", maps, {"metadata": {"name": name}})
    await pair.same("GET", f"{maps}?limit=1")
    tokens = [side.json()["metadata"]["continue"] for side in (pair.real, pair.playground)]
    await pair.both("DELETE", f"{maps}/b")
    await pair.both("POST", maps, {"metadata": {"name": "bb"}})
    sent = [
        await side.ask("GET", f"{maps}?continue={token}")
        for side, token in zip((pair.real, pair.playground), tokens, strict=True)
    ]
    insist(sent[1], sent[0], "the second page")
    assert [each["metadata"]["name"] for each in pair.real.json()["items"]] == ["b", "c"]


async def test_an_exact_list_shows_what_was(pair: Pair, maps: str) -> None:
    versions = []
    for side in (pair.real, pair.playground):
        await side.ask("POST", maps, {"metadata": {"name": "a"}})
        versions.append(side.json()["metadata"]["resourceVersion"])
        await side.ask("POST", maps, {"metadata": {"name": "b"}})
        await side.ask("DELETE", f"{maps}/a")
    for query in ("resourceVersionMatch=Exact", "limit=10", "resourceVersionMatch=NotOlderThan", "x=y"):
        sent = [
            await side.ask("GET", f"{maps}?{query}&resourceVersion={version}")
            for side, version in zip((pair.real, pair.playground), versions, strict=True)
        ]
        insist(sent[1], sent[0], query)


async def test_selectors_choose_the_same_objects(pair: Pair, maps: str) -> None:
    for name, labels in (("a", {"x": "1", "y": "2"}), ("b", {"x": "2"}), ("c", {}), ("d", {"x": "", "z": "9"})):
        await pair.both("POST", maps, {"metadata": {"name": name, "labels": labels}})
    selectors = ("x=1", "x==2", "x!=1", "x", "!x", "x in (1,2)", "x notin (1, 2),y", "x=", "x=1,y=2", "z>8", "z<9", "")
    for selector in selectors:
        answer = await pair.same("GET", f"{maps}?labelSelector={selector.replace('=', '%3D').replace(' ', '%20')}")
        assert answer.status == 200
    for selector in (
        "metadata.name=a",
        "metadata.name!=a",
        "metadata.namespace=nope",
        "metadata.name==a,metadata.name=b",
    ):
        await pair.same("GET", f"{maps}?fieldSelector={selector.replace('=', '%3D')}")


# ── Watches ──────────────────────────────────────────────────────────────────────────────────────────────────────────


WATCH_LIST = "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"


async def test_a_watch_begins_the_same_way(pair: Pair, maps: str) -> None:
    for name in ("b", "a"):
        await pair.both("POST", maps, {"metadata": {"name": name, "labels": {"x": name}}, "data": {"k": "1"}})
    await pair.both("PATCH", f"{maps}/a", {"data": {"k": "2"}, "metadata": {"labels": {"x": None}}}, Content_Type=MERGE)
    await pair.both("DELETE", f"{maps}/b")
    queries = (
        "watch=1",
        "watch=true&resourceVersion=0",
        f"watch=1&{SINCE}",
        "watch=1&allowWatchBookmarks=true",
        "watch=1&allowWatchBookmarks=true&resourceVersion=0",
        f"watch=1&allowWatchBookmarks=true&{SINCE}",
        "watch=1&resourceVersion=99999999&allowWatchBookmarks=true",
        WATCH_LIST,
        f"{WATCH_LIST}&resourceVersion=0",
        f"{WATCH_LIST}&resourceVersion=1",
        f"{WATCH_LIST}&resourceVersion=99999999",
        f"{WATCH_LIST}&labelSelector=x",
        "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan",
        "watch=1&sendInitialEvents=false&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true",
        f"watch=1&sendInitialEvents=false&resourceVersionMatch=NotOlderThan&{SINCE}",
        "watch=1&fieldSelector=metadata.name%3Db",
        "watch=1&limit=1",
        "watch=0",
        "watch",
        "watch=False",
    )
    await asyncio.gather(*(pair.same_watch(f"{maps}?{query}&timeoutSeconds=1") for query in queries))


async def test_leaving_a_selector_is_deleted_and_entering_is_added(pair: Pair, maps: str) -> None:
    await pair.both("POST", maps, {"metadata": {"name": "a", "labels": {"x": "1"}}})
    for label in ("2", "1", "1"):
        patch = {"metadata": {"labels": {"x": label}}, "data": {"at": label}}
        await pair.both("PATCH", f"{maps}/a", patch, Content_Type=MERGE)
    await pair.both("PATCH", f"{maps}/a", {"data": {"more": "1"}}, Content_Type=MERGE)
    await pair.both("DELETE", f"{maps}/a")
    sent = await pair.same_watch(f"{maps}?watch=1&{SINCE}&labelSelector=x%3D1&timeoutSeconds=1")
    events = [json.loads(line) for line in sent.text.splitlines()]
    assert [event["type"] for event in events] == ["ADDED", "DELETED", "ADDED", "MODIFIED", "DELETED"]
    assert events[1]["object"]["metadata"]["labels"] == {"x": "1"}


async def test_bookmarks_have_the_members_that_go_never_leaves_out(pair: Pair, namespace: str) -> None:
    """The members differ by kind."""
    kinds = ("api/v1", "pods"), ("apis/apps/v1", "deployments"), ("apis/batch/v1", "cronjobs")
    paths = [
        f"/{version}/namespaces/{namespace}/{plural}?{WATCH_LIST}&timeoutSeconds=1"
        for version, plural in (*kinds, ("apis/autoscaling/v1", "horizontalpodautoscalers"))
    ]
    for sent in await asyncio.gather(*map(pair.same_watch, paths)):
        assert '"type":"BOOKMARK"' in sent.text


async def test_a_watch_from_before_a_definition_is_410_in_the_stream(
    pair: Pair, custom_resource: DefineCustomResource
) -> None:
    widgets = await custom_resource()
    pair.server.create("customresourcedefinitions.apiextensions.k8s.io", _definition(widgets.group))
    for query in ("", "&allowWatchBookmarks=true"):
        sent = await pair.same_watch(f"{widgets.path()}?watch=1&resourceVersion=1&timeoutSeconds=5{query}")
        assert sent.status == 200
        assert json.loads(sent.text)["object"]["code"] == 410


async def test_a_removed_definition_deletes_objects_and_ends_watches(
    pair: Pair, namespace: str, custom_resource: DefineCustomResource
) -> None:
    widgets = await custom_resource()
    pair.server.create("customresourcedefinitions.apiextensions.k8s.io", _definition(widgets.group))
    path = widgets.path(namespace)
    for name in ("a", "b"):
        await pair.both("POST", path, manifest_of(widgets, name))
    definition = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{widgets.name}"
    sent = [await _deleted_while_watched(side, path, definition) for side in (pair.real, pair.playground)]
    assert sent[1] == sent[0]
    assert sent[0] == [("ADDED", "a"), ("ADDED", "b"), ("DELETED", "a"), ("DELETED", "b")]
    # The real server takes a moment more.
    await pair.real.until(path, 404)
    await pair.same("GET", path)
    await pair.same("GET", f"/apis/{widgets.group}")


async def _deleted_while_watched(side: Side, path: str, definition: str) -> list[tuple[str, str]]:
    """The lines of a watch of the collection until its end. It ends soon, regardless of its timeout."""
    begun = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        watching = group.create_task(side.watch(f"{path}?watch=1&timeoutSeconds=60", 1000, 30, begun))
        await begun.wait()
        assert (await side.ask("DELETE", definition)).status == 200
    events = [json.loads(line) for line in watching.result().text.splitlines()]
    return [(event["type"], event["object"]["metadata"]["name"]) for event in events]


async def test_what_is_forgotten_is_410(forgetful_apiserver: KubeApiServer) -> None:
    """Without its watch cache the real server forgets as soon as etcd does; a watch gets another text then."""
    namespace = fresh_name("forgotten")
    maps = f"/api/v1/namespaces/{namespace}/configmaps"
    async with KubeClient(forgetful_apiserver) as kube, pair_with(forgetful_apiserver) as pair:
        await pair.both("POST", "/api/v1/namespaces", {"metadata": {"name": namespace}})
        for name in ("a", "b", "c"):
            await pair.both("POST", maps, {"metadata": {"name": name}})
        await pair.both("GET", f"{maps}?limit=1")
        listed = [side.json()["metadata"] for side in (pair.real, pair.playground)]
        await pair.both("DELETE", f"{maps}/b")
        await pair.both("POST", maps, {"metadata": {"name": "d"}})
        await pair.both("DELETE", f"{maps}/d")
        # A watch begins behind its version, so that the next one must be forgotten, too.
        forgotten = int(listed[0]["resourceVersion"]) + 2
        await asyncio.to_thread(forgetful_apiserver.etcd.compact)
        await pair.real.until(f"{maps}?resourceVersionMatch=Exact&resourceVersion={forgotten}", 410)
        await pair.both("POST", maps, {"metadata": {"name": "bb"}})
        pair.server.misbehave.expire_history()
        for query in ("resourceVersionMatch=Exact", "limit=2", "watch=1&timeoutSeconds=2"):
            sent = [
                await side.ask("GET", f"{maps}?{query}&resourceVersion={of['resourceVersion']}")
                for side, of in zip((pair.real, pair.playground), listed, strict=True)
            ]
            if "watch" in query:
                sent = [_without_message(each) for each in sent]
            insist(sent[1], sent[0], query)
            assert '"code":410' in sent[0].text
        sent = [
            await side.ask("GET", f"{maps}?limit=1&continue={of['continue']}")
            for side, of in zip((pair.real, pair.playground), listed, strict=True)
        ]
        insist(sent[1], sent[0], "the second page")
        assert sent[0].status == 410
        rest = [await side.ask("GET", f"{maps}?continue={_next(side)}") for side in (pair.real, pair.playground)]
        insist(rest[1], rest[0], "the inconsistent rest")
        assert [each["metadata"]["name"] for each in pair.real.json()["items"]] == ["bb", "c"]
        await kube.delete_namespace(namespace)


def _next(side: Side) -> str:
    token: str = side.json()["metadata"]["continue"]
    return token


def _without_message(sent: Reply) -> Reply:
    return replace(sent, text=re.sub(r'"message":"[^"]*"', '"message":""', sent.text))


# ── Tables ───────────────────────────────────────────────────────────────────────────────────────────────────────────


TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"


OTHERS = {"endpoints", "replicationcontrollers", "resourcequotas", "controllerrevisions", "ingressclasses"}
OTHERS |= {"priorityclasses", "horizontalpodautoscalers", "poddisruptionbudgets", "endpointslices", "storageclasses"}
OTHERS |= {"rolebindings", "clusterrolebindings"}
"""Kinds that show their name and age alone."""
SHOWN = [each for each in EXAMPLES if each.resource.plural not in OTHERS]


@pytest.mark.parametrize("example", SHOWN, ids=lambda each: f"{each.kind}-{each.name}")
async def test_kubectl_sees_the_columns_of_a_kind(
    kube_apiserver: KubeApiServer, namespace: str, example: Example
) -> None:
    """The real server's object is given to both."""
    name = fresh_name(example.name)
    version = example.resource.version
    async with KubeClient(kube_apiserver) as kube, pair_with(kube_apiserver) as pair:
        await kube.create(example.path("default"), example.manifest(name))
        path = f"{example.path('default')}/{name}"
        try:
            if example.status:
                await kube.patch(f"{path}/status", {"status": example.status})
            await pair.real.ask("GET", f"{path}?includeObject=Object", Accept=TABLE)
            real = pair.real.json()
        finally:
            await kube.delete(path)
        kind = pair.server.catalogue.named(example.resource.name)
        form = TableForm.asked("meta.k8s.io/v1", kind, version, {"includeObject": "Object"}, lambda: datetime.now(UTC))
        (row,) = real["rows"]
        ours = form.of_one(json.dumps(row["object"]).encode())
        insist(_without_ages(json.loads(ours)), _without_ages(real), example.kind)


def _without_ages(table: Any) -> Any:
    """Ages grow between the answers, and descriptions are not written."""
    for column in table["columnDefinitions"] or ():
        column["description"] = ""
    for row in table["rows"]:
        row["cells"] = [
            re.sub(r"^[0-9][0-9dhms]*$", "<age>", re.sub(r"\(.* ago\)", "(<age>)", each))
            if isinstance(each, str)
            else each
            for each in row["cells"]
        ]
    return table


async def test_tables_are_the_same(pair: Pair, maps: str) -> None:
    for name in ("a", "b", "c"):
        await pair.both("POST", maps, {"metadata": {"name": name, "labels": {"x": name}}, "data": {"k": "1"}})
    for path in (
        maps,
        f"{maps}?limit=2",
        f"{maps}?includeObject=None",
        f"{maps}?includeObject=Object",
        f"{maps}/a",
        f"{maps}/nope",
    ):
        await _same_table(pair, path, TABLE)
    both = f"{TABLE},{TABLE.replace('v=v1', 'v=v1beta1')},application/json"
    await _same_table(pair, maps, both)
    await _same_table(pair, maps, TABLE.replace("v=v1", "v=v1beta1"))
    await _same_table(pair, maps, f"application/json,{TABLE}")
    await _same_table(pair, f"{maps}?includeObject=Nothing", TABLE)
    for accepted in (TABLE.replace("v=v1", "v=v2"), TABLE.replace("meta.k8s.io", "example.com")):
        assert (await pair.alike("GET", maps, Accept=accepted))["code"] == 406


async def _same_table(pair: Pair, path: str, accept: str) -> None:
    sent = [await side.ask("GET", path, Accept=accept) for side in (pair.playground, pair.real)]
    ours, real = ((each.status, each.headers, _comparable_table(json.loads(each.text))) for each in sent)
    insist(ours, real, path)


def _comparable_table(answer: Any) -> Any:
    if answer["kind"] != "Table":
        return answer
    for row in answer["rows"]:
        # The playground knows the managers of fields in a coarser way.
        if row["object"]:
            row["object"]["metadata"].pop("managedFields", None)
    return _without_ages(answer)


async def test_an_event_is_told_and_selected_alike_in_both_groups(pair: Pair, namespace: str) -> None:
    core, grouped = f"/api/v1/namespaces/{namespace}/events", f"/apis/events.k8s.io/v1/namespaces/{namespace}/events"
    made = {
        "metadata": {"name": "e"},
        "involvedObject": {"kind": "Pod", "name": "a", "namespace": namespace, "uid": "u"},
        "reason": "Started",
        "message": "it began",
        "type": "Normal",
        "source": {"component": "kubelet", "host": "node"},
        "firstTimestamp": "2026-01-05T10:00:00Z",
        "lastTimestamp": "2026-01-05T11:00:00Z",
        "count": 3,
    }
    await pair.both("POST", core, made)
    for path in (core, grouped):
        told = []
        for side in (pair.playground, pair.real):
            event = json.loads((await side.ask("GET", f"{path}/e")).text)
            event["metadata"].pop("managedFields", None)
            told.append({name: value for name, value in event.items() if value})
        assert told[0] == told[1]
        await _same_table(pair, path, TABLE)
        await _same_table(pair, path, f"{TABLE},application/json")
    selectors = {core: "involvedObject.name=a,type!=Warning", grouped: "regarding.uid=u,reason=Started"}
    for path, selector in selectors.items():
        for asked, count in ((selector, 1), (f"{selector},metadata.name!=e", 0)):
            for side in (pair.playground, pair.real):
                found = json.loads((await side.ask("GET", f"{path}?fieldSelector={quote(asked)}")).text)
                assert len(found["items"]) == count
        await pair.alike("GET", f"{path}?fieldSelector=spec.nodeName%3Da")


async def test_a_watch_of_tables_has_the_columns_once(pair: Pair, maps: str) -> None:
    for name in ("a", "b"):
        await pair.both("POST", maps, {"metadata": {"name": name}, "data": {"k": "1"}})
    await pair.both("DELETE", f"{maps}/b")
    for query in (f"watch=1&{SINCE}", WATCH_LIST):
        sent = []
        for side in (pair.playground, pair.real):
            await side.ask("GET", f"{maps}?{query}&timeoutSeconds=1", Accept=TABLE)
            assert side.last is not None
            events = [json.loads(line) for line in comparable(side.last.text).splitlines()]
            sent.append([(each["type"], _comparable_table(each["object"])) for each in events])
        insist(sent[0], sent[1], query)


async def test_the_columns_of_a_definition_are_shown(
    pair: Pair, namespace: str, custom_resource: DefineCustomResource
) -> None:
    widgets = await custom_resource()
    pair.server.create("customresourcedefinitions.apiextensions.k8s.io", _definition(widgets.group))
    columns = [
        {"name": "Size", "type": "integer", "jsonPath": ".spec.size"},
        {"name": "Share", "type": "number", "jsonPath": ".spec.share", "priority": 1},
        {"name": "On", "type": "boolean", "jsonPath": ".spec.on"},
        {"name": "Ready", "type": "string", "jsonPath": '.status.conditions[?(@.type=="Ready")].status'},
        {"name": "Not ready", "type": "string", "jsonPath": ".status.conditions[?(@.type!='Ready')].type"},
        {"name": "First", "type": "string", "jsonPath": ".spec.list[0]"},
        {"name": "Last", "type": "string", "jsonPath": ".spec.list[-1]"},
        {"name": "Names", "type": "string", "jsonPath": ".spec.items[*].name"},
        {"name": "Label", "type": "string", "jsonPath": ".metadata.labels.example\\.com/team"},
        {"name": "Quoted", "type": "string", "jsonPath": ".metadata.labels['example\\.com/team']"},
        {"name": "Map", "type": "string", "jsonPath": ".spec.map"},
        {"name": "Number", "type": "string", "jsonPath": ".spec.size"},
        {"name": "Seen", "type": "date", "jsonPath": ".spec.seen"},
        {"name": "No date", "type": "date", "jsonPath": ".spec.map.b"},
        {"name": "Wrong", "type": "integer", "jsonPath": ".spec.seen"},
        {"name": "Missing", "type": "string", "jsonPath": ".spec.nothing.here"},
        {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
    ]
    spec = {
        "size": 3,
        "share": 0.5,
        "on": True,
        "list": ["x", "y"],
        "items": [{"name": "p"}, {"name": "q"}],
        "map": {"b": "no time", "a": [1, {"c": "<"}]},
        "seen": "2026-01-05T10:00:00Z",
    }
    status = {"conditions": [{"type": "Live", "status": "False"}, {"type": "Ready", "status": "True"}]}
    definition = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{widgets.name}"
    made = manifest_of(widgets, "w", spec=spec, status=status)
    made["metadata"]["labels"] = {"example.com/team": "ops"}
    await pair.both("POST", widgets.path(namespace), made)
    await _same_table(pair, widgets.path(namespace), TABLE)
    for side in (pair.real, pair.playground):
        await side.ask("GET", definition)
        changed = side.json()
        changed["spec"]["versions"][0]["additionalPrinterColumns"] = columns
        assert (await side.ask("PUT", definition, changed)).status == 200
    async with asyncio.timeout(30 * BUSY):
        while True:  # The real server serves a changed definition a moment later.
            await pair.real.ask("GET", widgets.path(namespace), Accept=TABLE)
            if len(pair.real.json().get("columnDefinitions", ())) == len(columns) + 1:
                break
            await asyncio.sleep(0.05)
    await _same_table(pair, widgets.path(namespace), TABLE)
    await _same_table(pair, f"{widgets.path(namespace)}/w", TABLE)
