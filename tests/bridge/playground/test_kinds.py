"""Kinds that are discovered, and CustomResourceDefinitions, with which they come and go. The documents are compared in
``test_fidelity``."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from bridge.playground import manifests
from bridge.playground.http.discovery import AGGREGATED
from tests.bridge.playground.conftest import watching
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


async def test_a_definition_that_comes_again_begins_with_nothing(server: Playground, http: httpx.AsyncClient) -> None:
    before = server.version
    for _ in range(2):
        server.create(CRDS, manifests.definition())
        assert server.list("widgets.example.com") == []
        server.create("widgets.example.com", manifests.custom("w"))
        server.delete(CRDS, "widgets.example.com")
    server.create(CRDS, manifests.definition())
    async with watching(http, "/apis/example.com/v1/widgets", resourceVersion=before) as watch:
        assert (await watch.event())[1]["code"] == 410


async def test_an_object_is_served_in_all_versions_of_its_kind(server: Playground, http: httpx.AsyncClient) -> None:
    server.create(CRDS, manifests.definition(versions=("v1beta1", "v1", "v2alpha1")))
    assert (await http.get("/apis/example.com")).json()["preferredVersion"]["version"] == "v1"
    server.create("widgets.example.com", manifests.custom("w"))
    for version in ("v1", "v1beta1", "v2alpha1"):
        path = f"/apis/example.com/{version}/namespaces/default/widgets"
        assert (await http.get(f"{path}/w")).json()["apiVersion"] == f"example.com/{version}"
        async with watching(http, path, resourceVersion=0) as watch:
            assert (await watch.event())[1]["apiVersion"] == f"example.com/{version}"


async def test_a_version_added_to_a_definition_is_served(server: Playground, http: httpx.AsyncClient) -> None:
    server.create(CRDS, manifests.definition())
    server.create("widgets.example.com", manifests.custom("w"))
    assert (await http.get("/apis/example.com/v2/widgets")).status_code == 404
    changed = server.get(CRDS, "widgets.example.com")
    changed["spec"]["versions"].append({**changed["spec"]["versions"][0], "name": "v2", "storage": False})
    server.update(CRDS, changed)
    assert len((await http.get("/apis/example.com/v2/widgets")).json()["items"]) == 1


@pytest.mark.parametrize(
    ("spoil", "field"),
    [
        (lambda made: made["spec"].pop("group"), "spec.group"),
        (lambda made: made["spec"]["names"].pop("kind"), "spec.names.kind"),
        (lambda made: made["metadata"].update(name="other"), "metadata.name"),
    ],
)
async def test_a_definition_that_cannot_be_served_is_422(http: httpx.AsyncClient, spoil: Any, field: str) -> None:
    made = manifests.definition()
    spoil(made)
    answer = await http.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", json=made)
    assert answer.status_code == 422
    assert answer.json()["details"]["causes"][0]["field"] == field
