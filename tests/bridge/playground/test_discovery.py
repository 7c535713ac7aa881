"""Discovery, where no real server is at hand to compare with."""

from __future__ import annotations

from typing import Any

import httpx

from bridge.playground.http.discovery import AGGREGATED
from bridge.playground.simulation import manifests
from tests.kit.playground import Playground

CRDS = "customresourcedefinitions.apiextensions.k8s.io"


async def _groups(http: httpx.AsyncClient) -> dict[str, Any]:
    answer = await http.get("/apis", headers={"Accept": AGGREGATED})
    assert answer.headers["Content-Type"] == AGGREGATED
    return {group["metadata"]["name"]: group["versions"] for group in answer.json()["items"]}


async def test_every_resource_that_is_discovered_can_be_listed(http: httpx.AsyncClient) -> None:
    groups = [group["versions"] for group in (await http.get("/apis")).json()["groups"]]
    paths = ["/api/v1", *(f"/apis/{version['groupVersion']}" for versions in groups for version in versions)]
    listed = 0
    for path in paths:
        for resource in (await http.get(path)).json()["resources"]:
            if "list" in resource["verbs"]:
                answer = await http.get(f"{path}/{resource['name']}")
                assert answer.json()["kind"] == f"{resource['kind']}List", answer.text
                listed += 1
    assert listed > 50


async def test_the_tag_of_aggregated_discovery_follows_the_catalogue(
    server: Playground, http: httpx.AsyncClient
) -> None:
    async def ask(tag: str) -> tuple[int, str]:
        answer = await http.get("/apis", headers={"Accept": AGGREGATED, "If-None-Match": tag})
        return answer.status_code, answer.headers["ETag"]

    status, tag = await ask("")
    assert status == 200
    assert await ask(tag) == (304, tag)
    server.create(CRDS, manifests.definition())
    status, other = await ask(tag)
    assert (status, other == tag) == (200, False)
    server.delete(CRDS, "widgets.example.com")
    assert await ask(tag) == (304, tag)


async def test_a_group_is_there_as_long_as_one_of_its_resources(server: Playground, http: httpx.AsyncClient) -> None:
    server.create(CRDS, manifests.definition("widgets"))
    server.create(CRDS, manifests.definition("gadgets", kind="Gadget", namespaced=False, short_names=("gt",)))
    (version,) = (await _groups(http))["example.com"]
    assert [(each["resource"], each["scope"], each.get("shortNames")) for each in version["resources"]] == [
        ("gadgets", "Cluster", ["gt"]),
        ("widgets", "Namespaced", None),
    ]
    for plural in ("widgets", "gadgets"):
        assert "example.com" in await _groups(http)
        server.delete(CRDS, f"{plural}.example.com")
    assert "example.com" not in await _groups(http)


async def test_a_client_that_reads_no_json_is_refused(http: httpx.AsyncClient) -> None:
    for path in ("/api", "/apis", "/apis/apps/v1", "/api/v1/pods"):
        assert (await http.get(path, headers={"Accept": "application/yaml"})).status_code == 406
    partial = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"
    assert (await http.get("/api/v1/pods", headers={"Accept": partial})).status_code == 406
    assert (await http.get("/api/v1/pods", headers={"Accept": f"{partial}, application/json"})).status_code == 200
