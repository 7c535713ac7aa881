"""What the playground does beside the protocol: objects in the process, requests on record, tokens."""

from __future__ import annotations

from datetime import UTC, datetime

import httpx
import pytest

from bridge.playground import manifests
from tests.bridge.playground.conftest import client_of, watching
from tests.kit.deadlines import until
from tests.kit.playground import Playground

MAPS = "/api/v1/namespaces/default/configmaps"


async def test_it_has_the_namespaces_of_a_fresh_cluster(server: Playground) -> None:
    found = {each["metadata"]["name"]: each["metadata"]["uid"] for each in server.list("namespaces")}
    assert set(found) == {"default", "kube-node-lease", "kube-public", "kube-system"}
    assert all(found.values())


def test_the_same_seed_makes_the_same_cluster() -> None:
    at = datetime(2026, 1, 1, tzinfo=UTC)
    made = [
        Playground(seed=7, now=lambda: at).create("pods", {"metadata": {"generateName": "web-"}, "spec": {}})
        for _ in range(2)
    ]
    assert made[0] == made[1]
    assert made[0]["metadata"]["creationTimestamp"] == "2026-01-01T00:00:00Z"


async def test_one_counter_numbers_the_changes_of_all_resources(server: Playground) -> None:
    versions = [
        int(server.create(resource, {"metadata": {"name": "a"}})["metadata"]["resourceVersion"])
        for resource in ("configmaps", "deployments.apps", "leases.coordination.k8s.io", "nodes")
    ]
    assert versions == list(range(versions[0], versions[0] + 4))
    assert server.version == str(versions[-1])


async def test_objects_changed_in_the_process_are_seen_over_http(server: Playground, http: httpx.AsyncClient) -> None:
    made = server.create("configmaps", manifests.config_map("a", {"k": "1"}))
    assert (await http.get(f"{MAPS}/a")).json() == made
    changed = server.patch("configmaps", "a", {"data": {"k": "2"}})
    assert (await http.get(f"{MAPS}/a")).json() == changed
    changed["data"] = {"k": "3"}
    replaced = server.update("configmaps", changed)
    assert server.get("configmaps", "a") == replaced
    assert (await http.get(f"{MAPS}/a")).json() == replaced
    server.delete("configmaps", "a")
    assert (await http.get(f"{MAPS}/a")).status_code == 404


async def test_a_missing_namespace_is_made_locally_refused_over_http(
    server: Playground, http: httpx.AsyncClient
) -> None:
    server.create("configmaps", manifests.config_map("a", namespace="shop"))
    assert server.get("namespaces", "shop")["status"] == {"phase": "Active"}
    refused = await http.post("/api/v1/namespaces/nowhere/configmaps", json=manifests.config_map("a", namespace=""))
    assert refused.status_code == 404


def test_a_resource_that_is_not_served_is_named_in_the_error() -> None:
    with pytest.raises(LookupError, match=r"serves no widgets\.example\.com"):
        Playground().create("widgets.example.com", {"metadata": {"name": "a"}})


async def test_deleting_a_namespace_takes_what_is_in_it(server: Playground, http: httpx.AsyncClient) -> None:
    server.create("configmaps", manifests.config_map("a", namespace="shop"))
    server.create("configmaps", manifests.config_map("b", namespace="default"))
    async with watching(http, "/api/v1/configmaps", resourceVersion=server.version) as watch:
        assert (await http.delete("/api/v1/namespaces/shop")).status_code == 200
        assert await watch.sent() == ("DELETED", "a")
    assert [each["metadata"]["name"] for each in server.list("configmaps")] == ["b"]


async def test_objects_carry_managed_fields(server: Playground) -> None:
    pod = server.create("pods", manifests.pod("a", node="n1"), manager="kubelet")
    managed = {each["manager"]: each for each in pod["metadata"]["managedFields"]}
    assert 'k:{"name":"app"}' in managed["kubelet"]["fieldsV1"]["f:spec"]["f:containers"]


@pytest.mark.parametrize("size", [0, 1, 5000, 100_000])
async def test_a_pod_is_as_large_as_asked(server: Playground, http: httpx.AsyncClient, size: int) -> None:
    server.create("pods", manifests.pod("small"))
    server.create("pods", manifests.pod("large", size=size))
    path = "/api/v1/namespaces/default/pods"
    small, large = [len((await http.get(f"{path}/{name}")).content) for name in ("small", "large")]
    # Each kilobyte brings a variable with a name of its own, and that is in managedFields too.
    assert size <= large - small <= size * 1.3 + 200


# ── Requests ─────────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_requests_are_recorded_without_credentials() -> None:
    async with Playground(tokens={"secret": "me"}) as server, client_of(server, "secret") as http:
        await http.get("/api/v1/pods?limit=5")
        await http.get("/apis/apps/v1/namespaces/shop/deployments/web")
        await http.get("/nope")
    seen = [(each.method, each.path, each.verb, each.resource, each.namespace, each.name) for each in server.requests]
    assert seen == [
        ("GET", "/api/v1/pods", "list", "pods", "", ""),
        ("GET", "/apis/apps/v1/namespaces/shop/deployments/web", "get", "deployments.apps", "shop", "web"),
        ("GET", "/nope", "", "", "", ""),
    ]
    assert server.seen("list", "pods")[0].query == {"limit": "5"}
    assert "secret" not in repr(server.requests)


async def test_open_watches_are_counted(server: Playground, http: httpx.AsyncClient) -> None:
    assert server.open_watches("pods") == 0
    async with watching(http, "/api/v1/pods"):
        await server.until_watched("pods")
        assert server.open_watches("pods") == server.open_watches() == 1
        assert server.open_watches("nodes") == 0
    await until(lambda: server.open_watches() == 0)


async def test_tokens_are_demanded_once_there_are_any_but_for_health_and_version() -> None:
    async with Playground(tokens={"one": "ann", "two": "b"}) as server:
        for token, status in (("one", 200), ("two", 200), ("three", 401), ("", 401)):
            async with client_of(server, token) as http:
                for path in ("/api/v1/pods", "/api", "/apis"):
                    assert (await http.get(path)).status_code == status
                async with http.stream("GET", "/api/v1/pods?watch=1") as watch:
                    assert watch.status_code == status
                assert [(await http.get(path)).text for path in ("/healthz", "/readyz", "/livez")] == ["ok"] * 3
                assert (await http.get("/version")).json()["minor"] == "36"
        server.misbehave.forbid("pods")
        async with client_of(server, "one") as http:
            assert 'User "ann" cannot list' in (await http.get("/api/v1/pods")).json()["message"]


async def test_an_object_of_3_megabytes_is_accepted_and_larger_refused(http: httpx.AsyncClient) -> None:
    for size, status in ((2_900_000, 201), (3_200_000, 413)):
        made = manifests.config_map(f"size-{size}", {"k": "x" * size})
        answer = await http.post("/api/v1/namespaces/default/configmaps", json=made)
        assert answer.status_code == status
    assert answer.json()["reason"] == "RequestEntityTooLarge"
