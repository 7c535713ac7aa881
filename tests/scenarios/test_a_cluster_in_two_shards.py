"""Two bridges with a shard each write into one topic: together they have every version, each once, through kills; and
each is compared with its shard alone."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator, Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from bridge.model.primitives.shard import Shard, ShardBy
from bridge.playground import Playground
from bridge.playground.manifests import config_map
from tests.cluster.fixtures import MakeTopic
from tests.cluster.servers import Kafka
from tests.kit.bridge_process import BridgeProcess
from tests.kit.churn import comes_or_goes
from tests.kit.deadlines import BUSY
from tests.kit.received import Received, Version, by_uid, from_kafka, received_lists, without_repeats

pytestmark = pytest.mark.long

NAMESPACES = [f"team-{number}" for number in range(8, 14)]
NAMES = [f"object-{number}" for number in range(5)]


def live(cluster: Playground, chance: random.Random, steps: int) -> Iterator[Version]:
    """Objects come, change and go."""
    for _ in range(steps):
        data, namespace = {"n": str(chance.random())}, chance.choice(NAMESPACES)
        thing = config_map(chance.choice(NAMES), data, namespace=namespace)
        yield comes_or_goes(cluster, chance, "configmaps", thing, goes=0.2)


def config(cluster: Playground, kafka: Kafka, topic: str, shard: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "cluster": {"name": "testbed", "server": cluster.url},
        "shard": dict(shard),
        "resources": ["configmaps"],
        "sinks": {"log": {"type": "kafka", "bootstrap_servers": kafka.bootstrap, "topic": topic}},
    }


@pytest.mark.java
@pytest.mark.parametrize("by", ShardBy)
async def test_two_shards_have_every_version_once(
    kafka: Kafka, kafka_topic: MakeTopic, tmp_path: Path, by: ShardBy
) -> None:
    topic, chance = kafka_topic(partitions=3), random.Random(5)
    happened: list[Version] = []
    async with Playground() as cluster, AsyncExitStack() as stack:
        bridges = []
        for index in range(2):
            # As in a StatefulSet, where every pod has the same configuration.
            written = config(cluster, kafka, topic, {"of": 2, "by": by.value})
            pod = {"POD_NAME": f"kubedelta-{index}"}
            bridges.append(BridgeProcess(tmp_path / f"bridge-{index}", written, environ=pod))
        for bridge in bridges:
            await stack.enter_async_context(bridge.started())
        happened += live(cluster, chance, 100)
        for bridge in bridges:
            await bridge.until_delivered()  # From now on a start resumes, and misses no object that came and went.
        for bridge in (*bridges, *bridges):
            happened += live(cluster, chance, 150)
            await asyncio.to_thread(bridge.kill9)
            happened += live(cluster, chance, 20)
            await asyncio.to_thread(bridge.start)
        happened += live(cluster, chance, 150)

        async with asyncio.timeout(60 * BUSY):
            while {*happened} - {each.version for each in await stored(kafka, topic)}:
                pass
        for index, bridge in enumerate(bridges):
            await bridge.until_delivered()
            assert f"shard {index} of 2 by {by}" in await bridge.readiness()
            assert (await bridge.metrics()).value("shard_info", index=str(index), of="2", by=by.value) == 1
            assert bridge.logged(f'"shard":"{index}-of-2"', "started")
            verified = await bridge.kubedelta("verify", "log", "--settle", "500ms")
            assert verified.code == 0, verified
        stream = await stored(kafka, topic)

    assert by_uid(each.version for each in without_repeats(stream)) == by_uid(happened)
    shards = [Shard(2, index, by) for index in range(2)]
    assert all({each.contains(one.uid, key_of(one)) for one in stream} == {True, False} for each in shards), (
        "both have some"
    )


async def stored(kafka: Kafka, topic: str) -> list[Received]:
    """Without the objects that each playground begins with."""
    received = received_lists(from_kafka(await asyncio.to_thread(kafka.read_all, topic)))
    return [each for each in received if each.subject.rpartition("/")[2] in NAMES]


def key_of(received: Received) -> str:
    parts = received.subject.split("/")
    return f"{parts[-3]}/{parts[-1]}"
