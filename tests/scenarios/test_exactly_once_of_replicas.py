"""Two replicas deliver in transactions; whoever leads is killed or frozen, under changes: a reader of committed records
sees every version once, in order. So it does of a topic that refused some records, once they are retried."""

from __future__ import annotations

import asyncio
import os
import random
import signal
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import Any

import pytest

from bridge.app.admin.client import AdminClient
from bridge.playground import Playground
from tests.cluster.fixtures import MakeTopic, fresh_name
from tests.cluster.servers import Kafka
from tests.kit.bridge_process import BridgeProcess, Metrics
from tests.kit.replicas import Replicas
from tests.scenarios.test_exactly_once_through_kills import Churn, assert_once, config, until_seen
from tests.scenarios.test_two_replicas import SHORT

pytestmark = [pytest.mark.java, pytest.mark.long]

SINK = "topics"
REFUSED = 40_000
"""Bytes, of which no codec makes less than half."""


@asynccontextmanager
async def replicas(cluster: Playground, kafka: Kafka, prefix: str, folder: Path) -> AsyncIterator[Replicas]:
    (folder / "redaction.key").write_text("k" * 64)
    async with AsyncExitStack() as stack:
        both = []
        for name in ("pod-0", "pod-1"):
            settings = {
                **config(cluster, kafka, prefix),
                "election": {"enabled": True, "namespace": "default", "identity": name, "port": 0, **SHORT},
                "redaction": {"key_file": str(folder / "redaction.key")},
            }
            both.append(await stack.enter_async_context(BridgeProcess(folder / name, settings).started()))
        yield Replicas(both)


@pytest.fixture
def prefix(kafka_topic: MakeTopic) -> str:
    """Of topics, which are there but for the one of the objects."""
    name = fresh_name("replicas")
    kafka_topic(name=f"{name}.notice", partitions=2)
    kafka_topic(name=f"{name}.progress", cleanup_policy="compact")
    return name


@pytest.mark.parametrize(
    "rounds",
    [
        pytest.param(2, id="2 takeovers"),
        pytest.param(100, id="100 takeovers", marks=[pytest.mark.soak, pytest.mark.timeout(3600)]),
    ],
)
async def test_replicas_store_every_version_once(
    kafka: Kafka, kafka_topic: MakeTopic, prefix: str, tmp_path: Path, rounds: int
) -> None:
    topic = kafka_topic(name=f"{prefix}.configmaps", partitions=2)
    async with Playground(bookmark_interval=0.2) as cluster, replicas(cluster, kafka, prefix, tmp_path) as run:
        churn = Churn(cluster, random.Random(7))
        for number in range(rounds):
            leader = await run.leader()
            await run.until_in_sync(leader)
            await churn.burst()
            if number % 2:
                os.kill(leader.pid, signal.SIGSTOP)
                churn.change(20)
                await run.leader(other_than=leader)
                os.kill(leader.pid, signal.SIGCONT)
                await leader.until("it follows", lambda metrics: metrics.value("leader") == 0)
            else:
                await asyncio.to_thread(leader.kill9)
                churn.change(20)
                await run.leader(other_than=leader)
                await asyncio.to_thread(leader.start)
            await run.until_equal()
        await churn.burst()
        await until_seen(kafka, topic, churn.made[-1])
        assert not any(each.logged("kubedelta sinks resume") for each in run.both), "no operator is needed"
    await assert_once(kafka, topic, churn)


class Large:
    """Objects that begin with a record which the topic refuses; their later ones are small."""

    def __init__(self, cluster: Playground, churn: Churn) -> None:
        self._cluster = cluster
        self._churn = churn
        self._made = 0

    def create(self) -> None:
        self._made += 1
        self._cluster.create("configmaps", self._body({"pad": os.urandom(REFUSED // 2).hex()}))

    def update(self) -> None:
        self._cluster.update("configmaps", self._body({}))

    def _body(self, data: Mapping[str, str]) -> dict[str, Any]:
        self._churn.made.append(number := len(self._churn.made) + 1)
        return {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": f"large-{self._made}", "namespace": "default"},
            "data": {"number": str(number), **data},
        }


@pytest.mark.parametrize(
    "rounds",
    [
        pytest.param(5, id="5 takeovers"),
        pytest.param(100, id="100 takeovers", marks=[pytest.mark.soak, pytest.mark.timeout(3600)]),
    ],
)
async def test_a_retry_brings_each_version_once(
    kafka: Kafka, kafka_topic: MakeTopic, prefix: str, tmp_path: Path, rounds: int
) -> None:
    """Whoever leads is killed right behind a rejection."""
    topic = kafka_topic(name=f"{prefix}.configmaps", partitions=2, max_message_bytes="20000")
    async with Playground(bookmark_interval=0.2) as cluster, replicas(cluster, kafka, prefix, tmp_path) as run:
        churn = Churn(cluster, random.Random(3))
        large = Large(cluster, churn)
        for _ in range(rounds):
            leader = await run.leader()
            await run.until_in_sync(leader)
            churn.change(20)
            before = letters_in(await leader.metrics())
            large.create()
            churn.change(5)
            await leader.until("it is rejected", partial(has_more, than=before))
            await asyncio.to_thread(leader.kill9)
            large.update()
            churn.change(20)
            await run.leader(other_than=leader)
            await asyncio.to_thread(leader.start)
        await run.until_ready()
        await run.until_equal()
        await asyncio.to_thread(kafka.configure_topic, topic, max_message_bytes="1000000")
        leader = await run.leader()
        assert letters_in(await leader.metrics()) >= rounds, "whoever leads has those of all leaders before"
        async with AdminClient(leader.state) as admin:
            print(f"{await admin.retry(SINK, None)} dead letters are retried")
        await leader.until("all are delivered", lambda now: letters_in(now) == 0)
        await leader.until_delivered(SINK)
    await assert_once(kafka, topic, churn, stream_of=attrgetter("key"))


def letters_in(metrics: Metrics) -> float:
    return metrics.value("sink_dead_letters", sink=SINK)


def has_more(metrics: Metrics, than: float) -> bool:
    return letters_in(metrics) > than
