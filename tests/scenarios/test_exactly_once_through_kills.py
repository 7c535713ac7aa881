"""A bridge that delivers in transactions is killed again and again, and so is its broker, under changes: a reader of
committed records sees every version once, in order."""

from __future__ import annotations

import asyncio
import random
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from bridge.playground import Playground
from tests.cluster.fixtures import MakeTopic, fresh_name
from tests.cluster.servers import Kafka, KafkaRecord
from tests.kit.bridge_process import BridgeProcess
from tests.kit.deadlines import BUSY

pytestmark = pytest.mark.long

NAMES = [f"object-{n}" for n in range(12)]
BURST = 500


def config(cluster: Playground, kafka: Kafka, prefix: str) -> dict[str, Any]:
    topics = {"topic": f"{prefix}.{{resource}}", "progress_topic": f"{prefix}.progress"}
    sink = {"type": "kafka", "bootstrap_servers": kafka.bootstrap, "exactly_once": True, **topics}
    soon = {"properties": {"reconnect.backoff.max.ms": 200}, "ack_timeout": "2s", "connect_timeout": "5s"}
    return {
        "cluster": {"name": prefix, "server": cluster.url},
        "resources": [{"resource": "configmaps", "namespaces": ["default"]}],
        "sinks": {"topics": {**sink, **soon}},
    }


class Churn:
    """Changes that have an order: each body has the number of its change."""

    def __init__(self, cluster: Playground, chance: random.Random) -> None:
        self._cluster = cluster
        self._chance = chance
        self._there: set[str] = set()
        self.made: list[int] = []

    def change(self, count: int) -> None:
        for _ in range(count):
            name, number = self._chance.choice(NAMES), len(self.made) + 1
            body = {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": name, "namespace": "default"},
                "data": {"number": str(number)},
            }
            if name in self._there:
                self._cluster.update("configmaps", body)
            else:
                self._cluster.create("configmaps", body)
            self._there.add(name)
            self.made.append(number)

    async def burst(self) -> None:
        """About half a second of changes: fewer than the playground remembers, however late the bridge reads them."""
        enough = len(self.made) + BURST
        while len(self.made) < enough:
            self.change(self._chance.randrange(1, 20))
            await asyncio.sleep(self._chance.uniform(0, 0.02))


def numbers(records: Sequence[KafkaRecord]) -> list[int]:
    found = []
    for record in records:
        data = msgspec.json.decode(record.value or b"{}").get("data") or {}
        if "number" in data:
            found.append(int(data["number"]))
    return found


@pytest.mark.java
@pytest.mark.parametrize(
    "rounds",
    [
        pytest.param(4, id="4 kills"),
        pytest.param(100, id="100 kills", marks=[pytest.mark.soak, pytest.mark.timeout(1800)]),
    ],
)
async def test_every_version_is_seen_once_through_kills(
    kafka: Kafka, kafka_topic: MakeTopic, tmp_path: Path, rounds: int
) -> None:
    prefix, chance = fresh_name("once"), random.Random(5)
    topics = f"{prefix}.configmaps", f"{prefix}.notice", f"{prefix}.progress"
    for topic in topics[:2]:
        kafka_topic(name=topic, partitions=2)
    kafka_topic(name=topics[2], cleanup_policy="compact")
    async with Playground() as cluster:
        churn = Churn(cluster, chance)
        bridge = BridgeProcess(tmp_path / "bridge", config(cluster, kafka, prefix))
        async with bridge.started(), asyncio.TaskGroup() as group:
            churn.change(1)
            # From now on a start resumes: a position is saved with a record.
            await bridge.until("a record is committed", lambda now: now.value("records_committed_total") == 1)
            for number in range(rounds):
                burst = group.create_task(churn.burst())
                await asyncio.sleep(chance.uniform(0, 0.4))  # Any moment.
                if number % 3 == 2:
                    await asyncio.to_thread(kafka.kill9)
                    await asyncio.sleep(chance.uniform(0, 0.3))
                    await asyncio.to_thread(kafka.start)
                else:
                    await asyncio.to_thread(bridge.kill9)
                    await asyncio.to_thread(bridge.start)
                await burst
            await bridge.until_live("configmaps")
            await bridge.until("the last change is read", lambda now: now.value("ready") == 1)
            await until_seen(kafka, topics[0], churn.made[-1])
            await bridge.until_delivered("topics")
    await assert_once(kafka, topics[0], churn)


def partition_of(record: KafkaRecord) -> object:
    return record.partition


async def assert_once(
    kafka: Kafka, topic: str, churn: Churn, stream_of: Callable[[KafkaRecord], object] = partition_of
) -> None:
    """``stream_of``: records of one are in order."""
    read = await asyncio.to_thread(kafka.read_all, topic)
    uncommitted = numbers(await asyncio.to_thread(kafka.read_all, topic, committed=False))
    streams: dict[object, list[int]] = defaultdict(list)
    for record in read:
        streams[stream_of(record)] += numbers([record])
    seen = [number for stream in streams.values() for number in stream]
    print(f"{len(churn.made)} versions, {len(seen)} seen, {len(uncommitted)} with aborted ones")
    assert sorted(seen) == churn.made, "every version once"
    for stream in streams.values():
        assert stream == sorted(stream), "in order"


async def until_seen(kafka: Kafka, topic: str, number: int) -> None:
    async with asyncio.timeout(90 * BUSY):
        while number not in numbers(await asyncio.to_thread(kafka.read_all, topic)):  # noqa: ASYNC110
            await asyncio.sleep(0.2)
