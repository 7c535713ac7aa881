"""Two replicas deliver in transactions to three brokers; brokers, the leading replica, and both at once are killed in
turns, under changes: a reader of committed records sees every version once, in order."""

from __future__ import annotations

import asyncio
import os
import random
import time
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.fixtures import fresh_name
from tests.cluster.kube_client import KubeClient
from tests.cluster.servers import KafkaCluster, KafkaNode, KafkaRecord
from tests.kit.breakable import Breakable
from tests.kit.bridge_process import BridgeProcess
from tests.kit.churn import KINDS, Churn, an_object, churning
from tests.kit.deadlines import BUSY
from tests.kit.etcd_history import Happened, history
from tests.kit.judge import judge
from tests.kit.received import Received, assert_each_once, from_kafka, received_lists
from tests.kit.replicas import Replicas
from tests.scenarios.test_two_replicas import SHORT

pytestmark = pytest.mark.long

PARTITIONS = 3
COORDINATOR, LEADER, CONTROLLER, REPLICA = "the coordinator", "a partition's leader", "the controller", "the replica"
TURNS: Sequence[tuple[str, ...]] = (
    (LEADER,),
    (REPLICA,),
    (CONTROLLER,),
    (COORDINATOR, REPLICA),
    (COORDINATOR,),
    (LEADER, REPLICA),
    (CONTROLLER, REPLICA),
)
"""Who is killed in each round."""


@dataclass(slots=True)
class Run:
    servers: Breakable
    kafka: KafkaCluster
    name: str
    """Of the namespace and the topic."""
    replicas: Replicas
    churn: Churn
    load: AsyncExitStack
    """Closing it ends the changes."""
    chance: random.Random
    since: int
    killed: Counter[str] = field(default_factory=Counter)

    async def round(self, roles: Sequence[str]) -> None:
        """Kills them at the same moment, any moment; waits until records are stored without them, and starts them."""
        await asyncio.to_thread(self.kafka.until_whole)
        leader = await self.replicas.until_live(*KINDS)
        nodes = [await asyncio.to_thread(self.node, role) for role in roles if role != REPLICA]
        await self.churn.until_made(self.chance.randrange(1, 40))
        await asyncio.sleep(self.chance.uniform(0, 0.3))
        dead: list[BridgeProcess | KafkaNode] = [*nodes, *([leader] if REPLICA in roles else [])]
        await asyncio.gather(*(asyncio.to_thread(each.kill9) for each in dead))
        began = time.monotonic()
        await self.until_stored(await self.replicas.leader(other_than=leader if REPLICA in roles else None))
        print(f"{' and '.join(roles)} killed: stored again after {time.monotonic() - began:.1f} s")
        await asyncio.gather(*(asyncio.to_thread(each.start) for each in dead))
        self.killed.update(roles)

    def node(self, role: str) -> KafkaNode:
        if role == COORDINATOR:
            return self.kafka.coordinator()
        if role == CONTROLLER:
            return self.kafka.controller()
        return self.kafka.leader(self.name, self.chance.randrange(PARTITIONS))

    async def until_stored(self, leader: BridgeProcess) -> None:
        """Records of changes that are made from now on."""
        now = await leader.metrics()
        enough = now.value("sink_delivered_records_total") + now.value("sink_backlog_records") + 5
        await leader.until("it delivers", lambda later: later.value("sink_delivered_records_total") > enough)

    async def until_received(self) -> None:
        """All that has happened."""
        root = f"/api/v1/namespaces/{self.name}"
        async with KubeClient(self.servers.api) as kube:
            made = [await kube.create(f"{root}/{kind}", an_object(kind, "last")) for kind in KINDS]
        missing = {each["metadata"]["uid"] for each in made}
        async with asyncio.timeout(90 * BUSY):
            while missing - {each.uid for each in _objects(await self.stored())}:  # noqa: ASYNC110
                await asyncio.sleep(0.2)

    async def stored(self, *, committed: bool = True) -> list[KafkaRecord]:
        return await asyncio.to_thread(self.kafka.read_all, self.name, committed=committed)

    async def happened(self) -> list[Happened]:
        through = await asyncio.to_thread(self.servers.etcd.revision)
        prefixes = [f"{kind}/{self.name}/" for kind in KINDS]
        return await history(self.servers.etcd, *prefixes, since=self.since, through=through)


@asynccontextmanager
async def running(servers: Breakable, kafka: KafkaCluster, folder: Path, seed: int) -> AsyncIterator[Run]:
    """Both replicas and the writers."""
    name = fresh_name("three")
    since = await asyncio.to_thread(servers.etcd.revision)
    await asyncio.to_thread(kafka.create_topic, name, PARTITIONS)
    await asyncio.to_thread(kafka.create_topic, f"{name}-progress", cleanup_policy="compact")
    async with KubeClient(servers.api) as kube:
        await kube.create_namespace(name)
    async with AsyncExitStack() as stack:
        both = [
            await stack.enter_async_context(
                BridgeProcess(folder / pod, config(servers, kafka, folder, name, pod)).started()
            )
            for pod in ("pod-0", "pod-1")
        ]
        run = Replicas(both)
        await run.until_live(*KINDS)
        load = await stack.enter_async_context(AsyncExitStack())
        churn = await load.enter_async_context(churning(servers.api, name, seed=seed, pause=0.2))
        yield Run(servers, kafka, name, run, churn, load, random.Random(seed), since)


def config(servers: Breakable, kafka: KafkaCluster, folder: Path, name: str, pod: str) -> dict[str, Any]:
    key = folder / "redaction.key"
    key.write_text("k" * 64)
    topics = {"topic": name, "progress_topic": f"{name}-progress"}
    sink = {"type": "kafka", "bootstrap_servers": kafka.bootstrap, "exactly_once": True, **topics}
    soon = {"properties": {"reconnect.backoff.max.ms": 200}, "ack_timeout": "2s", "connect_timeout": "5s"}
    return {
        "cluster": {"name": name, "kubeconfig": str(servers.api.kubeconfig(folder / "kubeconfig"))},
        "resources": [{"resource": kind, "namespaces": [name]} for kind in KINDS],
        "sinks": {"topics": {**sink, **soon}},
        "redaction": {"key_file": str(key)},
        "election": {"enabled": True, "namespace": name, "identity": pod, "port": 0, **SHORT},
    }


@pytest.mark.parametrize(
    "rounds",
    [
        pytest.param(4, id="4 rounds"),
        pytest.param(105, id="105 rounds", marks=[pytest.mark.soak, pytest.mark.timeout(7200)]),
    ],
)
async def test_every_version_is_seen_once_through_kills_of_brokers(
    breakable: Breakable, three_brokers: KafkaCluster, tmp_path: Path, rounds: int
) -> None:
    seed = int(os.environ.get("SEED", random.randrange(2**32)))
    print(f"SEED={seed} chooses the same moments")
    async with running(breakable, three_brokers, tmp_path, seed) as run:
        for number in range(rounds):
            await run.round(TURNS[number % len(TURNS)])
        await run.load.aclose()
        await run.until_received()
        assert not any(each.logged("kubedelta sinks resume") for each in run.replicas.both), "no operator is needed"
    await assert_once(run)


async def assert_once(run: Run) -> None:
    happened, records = await run.happened(), await run.stored()
    verdict = judge(_objects(records), happened, "topic")
    assert_each_once(_objects(records), [each.version for each in happened], "topic")
    for partition in range(PARTITIONS):
        terms = [each.term for each in _objects([each for each in records if each.partition == partition])]
        assert terms == sorted(terms), "nothing of a former leader stands behind its successor"
    with_aborted = _objects(await run.stored(committed=False))
    print(f"{verdict}; {len(with_aborted)} with aborted ones")
    print("killed:", ", ".join(f"{role} {count} times" for role, count in run.killed.items()))


def _objects(records: Sequence[KafkaRecord]) -> list[Received]:
    return received_lists(from_kafka(records))
