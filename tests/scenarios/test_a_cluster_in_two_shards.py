"""Two bridges with a shard each write into one topic: together they have every version, each once, through kills; and a
shard is compared, and its state recognised, by its range."""

from __future__ import annotations

import asyncio
import random
from collections import defaultdict
from collections.abc import Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from bridge.model.primitives.shard import Shard, ShardBy
from bridge.playground import Playground
from tests.cluster.fixtures import MakeTopic
from tests.cluster.servers import Kafka
from tests.kit.bridge_process import BridgeProcess
from tests.kit.commands import in_a_process
from tests.kit.deadlines import BUSY
from tests.kit.received import Received, from_kafka, received_lists, without_repeats

pytestmark = pytest.mark.long

NAMESPACES = [f"team-{number}" for number in range(8, 14)]
NAMES = [f"object-{number}" for number in range(5)]


class Cluster:
    """Objects that come, change and go, and all that happened to each."""

    def __init__(self, server: Playground, chance: random.Random) -> None:
        self._server = server
        self._chance = chance
        self.happened: dict[str, list[str]] = defaultdict(list)
        """uid → versions, and last ``deleted``."""
        self._there: dict[tuple[str, str], str] = {}

    def live(self, steps: int) -> None:
        for _ in range(steps):
            namespace, name = key = self._chance.choice(NAMESPACES), self._chance.choice(NAMES)
            if key not in self._there:
                made = self._server.create("configmaps", {"metadata": {"name": name, "namespace": namespace}})
                self._there[key] = made["metadata"]["uid"]
            elif self._chance.random() < 0.2:
                self._server.delete("configmaps", name, namespace=namespace)
                self.happened[self._there.pop(key)].append("deleted")
                continue
            else:
                data = {"data": {"n": str(self._chance.random())}}
                made = self._server.patch("configmaps", name, data, namespace=namespace)
            self.happened[made["metadata"]["uid"]].append(made["metadata"]["resourceVersion"])


def config(cluster: Playground, kafka: Kafka, topic: str, shard: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "cluster": {"name": "testbed", "server": cluster.url},
        "shard": dict(shard),
        "resources": ["configmaps"],
        "sinks": {"log": {"type": "kafka", "bootstrap_servers": kafka.bootstrap, "topic": topic}},
    }


def by_uid(stream: list[Received]) -> dict[str, list[str]]:
    found = defaultdict(list)
    for each in stream:
        found[each.uid].append("deleted" if each.op == "deleted" else each.resource_version)
    return found


@pytest.mark.java
@pytest.mark.parametrize("by", ShardBy)
async def test_two_shards_have_every_version_once(
    kafka: Kafka, kafka_topic: MakeTopic, tmp_path: Path, by: ShardBy
) -> None:
    topic, chance = kafka_topic(partitions=3), random.Random(5)
    async with Playground() as server, AsyncExitStack() as stack:
        cluster = Cluster(server, chance)
        bridges = []
        for index in range(2):
            # As in a StatefulSet, where every pod has the same configuration.
            written = config(server, kafka, topic, {"of": 2, "by": by.value})
            pod = {"POD_NAME": f"kubedelta-{index}"}
            bridges.append(BridgeProcess(tmp_path / f"bridge-{index}", written, environ=pod))
        for bridge in bridges:
            await stack.enter_async_context(bridge.started())
        cluster.live(100)
        for bridge in bridges:
            await bridge.until_delivered()  # From now on a start resumes, and misses no object that came and went.
        for bridge in (*bridges, *bridges):
            cluster.live(150)
            await asyncio.to_thread(bridge.kill9)
            cluster.live(20)
            await asyncio.to_thread(bridge.start)
        cluster.live(150)
        expected = {uid: steps[-1] for uid, steps in cluster.happened.items()}

        async def latest() -> dict[str, str]:
            records = await asyncio.to_thread(kafka.read_all, topic)
            return {uid: steps[-1] for uid, steps in by_uid(ours(received_lists(from_kafka(records)))).items()}

        found: dict[str, str] = {}
        async with asyncio.timeout(60 * BUSY):
            while found != expected:
                found = await latest()
        for index, bridge in enumerate(bridges):
            await bridge.until_delivered()
            assert f"shard {index} of 2 by {by}" in await bridge.readiness()
            assert (await bridge.metrics()).value("shard_info", index=str(index), of="2", by=by.value) == 1
            assert bridge.logged(f'"shard":"{index}-of-2"', "started")
            assert await verified(bridge) == 0
        records = await asyncio.to_thread(kafka.read_all, topic)

    stream = ours(received_lists(from_kafka(records)))
    assert by_uid(without_repeats(stream)) == cluster.happened
    shards = [Shard(2, index, by) for index in range(2)]
    assert all({each.contains(one.uid, key_of(one)) for one in stream} == {True, False} for each in shards), (
        "both have some"
    )


def ours(stream: list[Received]) -> list[Received]:
    """Without the objects that each playground begins with."""
    return [each for each in stream if each.subject.rpartition("/")[2] in NAMES]


def key_of(received: Received) -> str:
    parts = received.subject.split("/")
    return f"{parts[-3]}/{parts[-1]}"


async def verified(bridge: BridgeProcess) -> int:
    """The exit code of ``kubedelta verify``."""
    words = ("verify", "log", "-c", str(bridge.config), "--settle", "500ms")
    done = await asyncio.to_thread(in_a_process, *words, environ=bridge.environ())
    print(done.out, done.err)
    return done.code


def to_a_file(server: Playground, folder: Path) -> dict[str, Any]:
    return {
        "cluster": {"name": "testbed", "server": server.url},
        "shard": {"of": 2},
        "resources": ["configmaps"],
        "sinks": {"log": {"type": "file", "path": str(folder / "log")}},
    }


async def test_a_bridge_without_an_index_does_not_start(tmp_path: Path) -> None:
    async with Playground() as server:
        pod = {"POD_NAME": "kubedelta-7d9f6b5c4-x2k9p"}
        bridge = BridgeProcess(tmp_path / "bridge", to_a_file(server, tmp_path), environ=pod)

        assert await asyncio.to_thread(bridge.ended) == 78
        assert bridge.logged("shard.index", "KUBEDELTA__SHARD__INDEX")


async def test_a_state_of_another_shard_ends_the_start(tmp_path: Path) -> None:
    async with Playground() as server:
        written = to_a_file(server, tmp_path)
        first = BridgeProcess(tmp_path / "bridge", written, environ={"POD_NAME": "kubedelta-0"})
        async with first.started():
            pass
        second = BridgeProcess(tmp_path / "bridge", written, environ={"POD_NAME": "kubedelta-1"})

        assert await asyncio.to_thread(second.ended) == 78
        assert second.logged("state.directory", "objects of shard 0 of 2 by uid", "is for shard 1 of 2 by uid")
        words = ("state", "check", "-c", str(second.config))
        checked = await asyncio.to_thread(in_a_process, *words, environ=second.environ())
        assert "shard 0 of 2 by uid" in checked.out
