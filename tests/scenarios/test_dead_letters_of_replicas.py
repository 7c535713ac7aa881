"""Two replicas deliver in transactions to a topic that refuses large records, and whoever leads is killed right behind
a rejection. When the topic takes them, one retry brings each version once, those of an object in order."""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import Mapping
from contextlib import AsyncExitStack
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
from tests.scenarios.test_exactly_once_through_kills import Churn, assert_once, config
from tests.scenarios.test_two_replicas import SHORT

pytestmark = [pytest.mark.java, pytest.mark.long]

REFUSED = 40_000
"""Bytes, of which no codec makes less than half."""
SINK = "topics"


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
    kafka: Kafka, kafka_topic: MakeTopic, tmp_path: Path, rounds: int
) -> None:
    prefix, chance = fresh_name("letters"), random.Random(3)
    topic = kafka_topic(name=f"{prefix}.configmaps", partitions=2, max_message_bytes="20000")
    kafka_topic(name=f"{prefix}.notice")
    kafka_topic(name=f"{prefix}.progress", cleanup_policy="compact")
    (tmp_path / "redaction.key").write_text("k" * 64)
    async with Playground(bookmark_interval=0.2) as cluster, AsyncExitStack() as stack:
        both = [
            await stack.enter_async_context(a_replica(tmp_path, name, config(cluster, kafka, prefix)).started())
            for name in ("pod-0", "pod-1")
        ]
        run, churn = Replicas(both), Churn(cluster, chance)
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


def a_replica(folder: Path, name: str, settings: dict[str, Any]) -> BridgeProcess:
    election = {"enabled": True, "namespace": "default", "identity": name, "port": 0, **SHORT}
    settings["sinks"][SINK]["compression"] = "none"
    redaction = {"key_file": str(folder / "redaction.key")}
    return BridgeProcess(folder / name, {**settings, "election": election, "redaction": redaction})


def letters_in(metrics: Metrics) -> float:
    return metrics.value("sink_dead_letters", sink=SINK)


def has_more(metrics: Metrics, than: float) -> bool:
    return letters_in(metrics) > than
