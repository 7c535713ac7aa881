"""The examples that speak to other people's APIs, run against receivers: each request is what the API takes."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from bridge.playground import Playground
from tests.kit.bridge_process import BridgeProcess
from tests.kit.webhook_receiver import Posted, WebhookReceiver

EXAMPLES = Path(__file__).parents[2] / "config" / "examples"


class World:
    def __init__(self, cluster: Playground, bridge: BridgeProcess, receiver: WebhookReceiver) -> None:
        self.cluster = cluster
        self.bridge = bridge
        self.receiver = receiver

    async def posted(self, holds: Callable[[list[Posted]], bool]) -> list[Posted]:
        """All requests so far, once ``holds`` is true of them."""
        await self.bridge.until("the receiver has it", lambda _: holds(self.receiver.accepted))
        await self.bridge.until_delivered()
        return self.receiver.accepted


@asynccontextmanager
async def example(name: str, folder: Path, prepare: Callable[[Playground], object] = id) -> AsyncIterator[World]:
    """The bridge with an example's file. The environment sets addresses, and the files of credentials."""
    file = EXAMPLES / f"{name}.yaml"
    [(sink, options)] = yaml.safe_load(file.read_text())["sinks"].items()
    async with Playground() as cluster, WebhookReceiver(any_path=True) as receiver:
        prepare(cluster)
        here = receiver.url.removesuffix("/hook")
        path = options["url"].removeprefix("http://").partition("/")[2]
        prefix = f"KUBEDELTA__SINKS__{sink.upper()}__"
        environ = {"KUBEDELTA__CLUSTER__SERVER": cluster.url, f"{prefix}URL": f"{here}/{path}"}
        (folder / "credential").write_text("hunter2\n")
        environ |= {
            f"{prefix}{option}".upper(): str(folder / "credential")
            for option in ("bearer_token_file", "password_file")
            if option in options
        }
        async with BridgeProcess(folder / "bridge", file, environ=environ).started() as bridge:
            yield World(cluster, bridge, receiver)


def contents(posted: list[Posted]) -> list[Any]:
    return [event for each in posted for event in each.events]


def a_deployment(name: str, ready: int | None) -> dict[str, Any]:
    status = {} if ready is None else {"readyReplicas": ready}
    metadata = {"name": name, "namespace": "shop", "labels": {"app": name}}
    containers = [{"name": "web", "image": "web:1"}]
    spec = {"replicas": 2, "selector": {}, "template": {"spec": {"containers": containers}}}
    return {"metadata": metadata, "spec": spec, "status": status}


async def test_a_chat_room_hears_of_lost_and_found_replicas(tmp_path: Path) -> None:
    def prepare(cluster: Playground) -> None:
        cluster.create("deployments.apps", a_deployment("web", 2))
        cluster.create("deployments.apps", a_deployment("old", None))

    async with example("chat", tmp_path, prepare) as world:
        for ready in (1, None, 2):
            status = {"status": {"readyReplicas": ready}}
            world.cluster.patch("deployments.apps", "web", status, namespace="shop")
        posted = await world.posted(lambda posted: len(posted) >= 2)

    assert contents(posted) == [
        {"text": ":red_circle: shop/web has 0 ready replicas"},
        {"text": ":large_green_circle: shop/web has 2 ready replicas"},
    ]
    assert {(each.target, each.headers["content-type"]) for each in posted} == {("/services/room", "application/json")}


def a_node(ready: str) -> dict[str, Any]:
    return {"metadata": {"name": "node-1"}, "status": {"conditions": [{"type": "Ready", "status": ready}]}}


async def test_an_incident_begins_and_ends_with_its_node(tmp_path: Path) -> None:
    nodes: list[Any] = []
    async with example(
        "incidents", tmp_path, lambda cluster: nodes.append(cluster.create("nodes", a_node("True")))
    ) as world:
        for ready in ("False", "True", "Unknown"):
            world.cluster.patch("nodes", "node-1", a_node(ready), namespace="")
        world.cluster.delete("nodes", "node-1", namespace="")
        posted = await world.posted(lambda posted: len(posted) >= 4)

    found = contents(posted)
    key = f"prod-eu1/{nodes[0]['metadata']['uid']}"
    assert [(each["status"], each["deduplication_key"]) for each in found] == [
        ("firing", key),
        ("resolved", key),
        ("firing", key),
        ("resolved", key),
    ]
    assert found[0]["title"] == "Node node-1 of prod-eu1 is not ready"
    assert found[0]["metadata"]["conditions"] == ["Ready=False"]
    assert {each.headers["authorization"] for each in posted} == {"Bearer hunter2"}


async def test_a_log_store_gets_lines_in_bulk(tmp_path: Path) -> None:
    def prepare(cluster: Playground) -> None:
        for number in range(250):
            metadata = {"name": f"web.{number:04}", "namespace": "shop"}
            about = {"kind": "Pod", "name": "web"}
            event = {"reason": "BackOff", "message": f"restart\n{number}", "type": "Warning", "involvedObject": about}
            cluster.create("events", {"metadata": metadata, **event})

    async with example("logs", tmp_path, prepare) as world:
        await world.posted(lambda posted: len(contents(posted)) >= 250)
        world.cluster.delete("events", "web.0000", namespace="shop")
        world.cluster.patch(
            "events", "web.0001", {"count": 7, "lastTimestamp": "2026-11-21T09:00:00Z"}, namespace="shop"
        )
        posted = await world.posted(lambda posted: len(contents(posted)) >= 251)

    lines = contents(posted)
    assert sorted(each["_msg"] for each in lines[:250]) == sorted(f"restart\n{number}" for number in range(250))
    assert (lines[250]["count"], lines[250]["_time"]) == (7, "2026-11-21T09:00:00Z")
    assert all(each.keys() >= {"_time", "_msg", "cluster", "namespace", "reason", "kind", "uid"} for each in lines)
    assert len(posted) < 20, "a request has many lines"
    first = posted[0]
    assert first.target == "/insert/jsonline?_stream_fields=cluster,namespace,reason"
    assert (first.headers["content-type"], first.headers["content-encoding"]) == ("application/stream+json", "gzip")


async def test_a_search_index_has_the_newest_state_by_uid(tmp_path: Path) -> None:
    made: list[Any] = []

    def prepare(cluster: Playground) -> None:
        made.append(cluster.create("deployments.apps", a_deployment("web", 1)))
        pod = {
            "metadata": {"name": "web-1", "namespace": "shop"},
            "spec": {"containers": [{"name": "a", "image": "x:1"}]},
        }
        made.append(cluster.create("pods", pod))

    async with example("search", tmp_path, prepare) as world:
        world.cluster.patch("pods", "web-1", {"spec": {"nodeName": "node-1"}}, namespace="shop")
        world.cluster.delete("deployments.apps", "web", namespace="shop")
        posted = await world.posted(lambda posted: any(each["deleted"] for each in contents(posted)))

    index = {each.target: document for each in posted for document in each.events}
    deployment, pod = (
        index[f"/k8s-{path}"]
        for path in (f"deployments-apps/_doc/{made[0]['metadata']['uid']}", f"pods/_doc/{made[1]['metadata']['uid']}")
    )
    assert deployment.items() >= {"name": "web", "deleted": True, "images": ["web:1"], "labels": {"app": "web"}}.items()
    assert pod.items() >= {"name": "web-1", "node": "node-1", "images": ["x:1"], "deleted": False}.items()
    assert "phase" not in deployment
    basic = base64.b64encode(b"kubedelta:hunter2").decode()
    assert {each.headers["authorization"] for each in posted} == {f"Basic {basic}"}


@pytest.mark.parametrize("name", ["chat", "incidents", "logs", "search"])
def test_an_example_names_the_extra_that_it_needs(name: str) -> None:
    assert "kubedelta[cel]" in (EXAMPLES / f"{name}.yaml").read_text()
