"""A state topic and a bucket beside their histories, with real brokers, under a bridge that is killed again and again:
at the end both are the objects of the cluster."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec
import nats
import pytest

from bridge.app.admin.client import AdminClient
from bridge.model.admin import ReplayRequest, SnapshotRequest
from bridge.playground import Playground
from bridge.playground.manifests import config_map
from tests.cluster.fixtures import MakeTopic, fresh_name
from tests.cluster.kube_client import Manifest
from tests.cluster.servers import Kafka, Nats
from tests.kit.bridge_process import BridgeProcess
from tests.kit.churn import comes_or_goes
from tests.kit.deadlines import BUSY

NAMES = [f"object-{number}" for number in range(12)]
WEB = [{"resource": "configmaps", "label_selector": "tier=web"}]


def config(cluster: Playground, kafka: Kafka, server: Nats, name: str) -> dict[str, Any]:
    topics = {"topic": f"{name}.h", "state_topic": f"{name}.state", "create_topics": {"partitions": 2}}
    stream = {"stream": name, "subject": f"{name}.{{resource}}.{{namespace}}.{{name}}", "state": name}
    return {
        "cluster": {"name": "testbed", "server": cluster.url},
        "resources": [{"resource": "configmaps", "namespaces": ["default"]}],
        "sinks": {
            "topics": {"type": "kafka", "bootstrap_servers": kafka.bootstrap, **topics},
            "web": {"type": "nats", "servers": [server.url], **stream, "create_stream": {}, "select": WEB},
        },
    }


def churn(cluster: Playground, chance: random.Random, steps: int) -> None:
    for _ in range(steps):
        data, labels = {"n": str(chance.randrange(10))}, {"tier": chance.choice(("web", "db"))}
        comes_or_goes(cluster, chance, "configmaps", config_map(chance.choice(NAMES), data, labels=labels))


def versions(things: Iterable[Manifest]) -> dict[str, str]:
    """Of our objects."""
    found = {each["metadata"]["name"]: each["metadata"]["resourceVersion"] for each in things}
    return {name: version for name, version in found.items() if name in NAMES}


async def state_topic(kafka: Kafka, topic: str) -> list[Manifest]:
    records = await asyncio.to_thread(kafka.read_all, topic)
    return _decoded({record.key: record.value for record in records})


async def bucket(server: Nats, name: str) -> list[Manifest]:
    return _decoded({each.subject: each.data for each in await server.read_all(f"KV_{name}")})


def _decoded(state: dict[Any, bytes | None]) -> list[Manifest]:
    return [msgspec.json.decode(value) for value in state.values() if value]


@pytest.mark.java
async def test_states_equal_the_cluster_after_kills(
    kafka: Kafka, kafka_topic: MakeTopic, nats_server: Nats, tmp_path: Path
) -> None:
    name, chance = fresh_name("beside"), random.Random(11)
    async with Playground() as cluster:
        churn(cluster, chance, 20)
        bridge = BridgeProcess(tmp_path / "bridge", config(cluster, kafka, nats_server, name))
        async with bridge.started():
            for _ in range(4):
                churn(cluster, chance, 40)
                await asyncio.sleep(chance.uniform(0, 0.1))  # Any moment.
                await asyncio.to_thread(bridge.kill9)
                churn(cluster, chance, 10)
                await asyncio.to_thread(bridge.start)
            churn(cluster, chance, 20)
            await bridge.until_live("configmaps")
            await bridge.until_delivered("topics", "web")
            await _expect(cluster, kafka, nats_server, name)
            async with AdminClient(bridge.state) as admin:
                for sink in ("topics", "web"):
                    await admin.replay(ReplayRequest(sink, "beginning"))
            await bridge.until_delivered("topics", "web")
            await _expect(cluster, kafka, nats_server, name)
            async with await nats.connect(nats_server.url) as operator:
                await operator.jetstream().purge_stream(f"KV_{name}")
            async with AdminClient(bridge.state) as admin:
                await admin.snapshot(SnapshotRequest("web"))
            await bridge.until_delivered("web")
            await _expect(cluster, kafka, nats_server, name)
    for topic in ("h", "state"):
        await asyncio.to_thread(kafka.delete_topic, f"{name}.{topic}")


async def _expect(cluster: Playground, kafka: Kafka, server: Nats, name: str) -> None:
    """The last changes may still be on their way: a state that is wrong stays so."""
    there = cluster.list("configmaps", namespace="default")
    web = [each for each in there if each["metadata"].get("labels", {}).get("tier") == "web"]
    wanted, found = (versions(there), versions(web)), None
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(30 * BUSY):
            while found != wanted:
                found = (
                    versions(await state_topic(kafka, f"{name}.state")),
                    versions(await bucket(server, name)),
                )
    assert found == wanted
