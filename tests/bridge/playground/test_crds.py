"""CustomResourceDefinitions: what they make the server serve, and what goes with them."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from bridge.playground.simulation import manifests
from tests.bridge.playground.conftest import watching
from tests.kit.playground import Playground

CRDS = "customresourcedefinitions.apiextensions.k8s.io"


async def test_a_definition_makes_its_resource_served_and_discovered(
    server: Playground, http: httpx.AsyncClient
) -> None:
    assert (await http.get("/apis/example.com/v1/widgets")).status_code == 404
    made = await http.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", json=manifests.definition())
    assert made.status_code == 201
    assert (await http.get("/apis/example.com/v1/widgets")).json()["kind"] == "WidgetList"
    assert "example.com" in {group["name"] for group in (await http.get("/apis")).json()["groups"]}
    conditions = {
        each["type"]: each["status"] for each in server.get(CRDS, "widgets.example.com")["status"]["conditions"]
    }
    assert conditions == {"NamesAccepted": "True", "Established": "True"}
    posted = await http.post(
        "/apis/example.com/v1/namespaces/default/widgets", json=manifests.custom("w", spec={"a": 1})
    )
    assert posted.status_code == 201
    assert server.get("widgets.example.com", "w")["spec"] == {"a": 1}


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


async def test_a_kind_in_two_groups_is_stored_once(server: Playground, http: httpx.AsyncClient) -> None:
    server.create("events", {"metadata": {"name": "e"}, "reason": "Started"})
    answer = (await http.get("/apis/events.k8s.io/v1/namespaces/default/events/e")).json()
    assert (answer["apiVersion"], answer["reason"]) == ("events.k8s.io/v1", "Started")
    assert (await http.get("/api/v1/namespaces/default/events/e")).json()["apiVersion"] == "v1"
