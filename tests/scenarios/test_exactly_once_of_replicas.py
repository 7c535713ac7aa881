"""Two replicas deliver in transactions; whoever leads is killed or frozen, under changes: a reader of committed records
sees every version once, in order."""

from __future__ import annotations

import asyncio
import os
import random
import signal
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from bridge.playground import Playground
from tests.cluster.fixtures import MakeTopic, fresh_name
from tests.cluster.servers import Kafka
from tests.kit.bridge_process import BridgeProcess
from tests.kit.replicas import Replicas
from tests.scenarios.test_exactly_once_through_kills import Churn, assert_once, config, until_seen
from tests.scenarios.test_two_replicas import SHORT

pytestmark = [pytest.mark.java, pytest.mark.long]


@pytest.mark.parametrize(
    "rounds",
    [
        pytest.param(2, id="2 takeovers"),
        pytest.param(100, id="100 takeovers", marks=[pytest.mark.soak, pytest.mark.timeout(3600)]),
    ],
)
async def test_replicas_store_every_version_once(
    kafka: Kafka, kafka_topic: MakeTopic, tmp_path: Path, rounds: int
) -> None:
    prefix, chance = fresh_name("replicas"), random.Random(7)
    for topic in (f"{prefix}.configmaps", f"{prefix}.notice"):
        kafka_topic(name=topic, partitions=2)
    kafka_topic(name=f"{prefix}.progress", cleanup_policy="compact")
    key = tmp_path / "redaction.key"
    key.write_text("k" * 64)
    async with Playground(bookmark_interval=0.2) as cluster, AsyncExitStack() as stack:
        churn = Churn(cluster, chance)
        both = []
        for name in ("pod-0", "pod-1"):
            election = {"enabled": True, "namespace": "default", "identity": name, "port": 0, **SHORT}
            settings = {**config(cluster, kafka, prefix), "election": election, "redaction": {"key_file": str(key)}}
            both.append(await stack.enter_async_context(BridgeProcess(tmp_path / name, settings).started()))
        run = Replicas(both)
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
        await until_seen(kafka, f"{prefix}.configmaps", churn.made[-1])
        assert not any(each.logged("kubedelta sinks resume") for each in both), "no operator is needed"
    await assert_once(kafka, f"{prefix}.configmaps", churn)
