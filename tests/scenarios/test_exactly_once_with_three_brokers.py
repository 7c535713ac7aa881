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

import pytest

from tests.cluster.servers import KafkaCluster, KafkaNode, KafkaRecord
from tests.kit.bridge_process import BridgeProcess
from tests.kit.churn import KINDS, Churn, churning
from tests.kit.deadlines import BUSY
from tests.kit.judge import judge
from tests.kit.received import Received, assert_each_once, from_kafka, received_lists
from tests.kit.replicas import Replicas
from tests.kit.scene import Scene
from tests.scenarios.test_two_replicas import SHORT, config_of

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
    scene: Scene
    kafka: KafkaCluster
    replicas: Replicas
    churn: Churn
    load: AsyncExitStack
    """Closing it ends the changes."""
    chance: random.Random
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
        return self.kafka.leader(topic_of(self.scene), self.chance.randrange(PARTITIONS))

    async def until_stored(self, leader: BridgeProcess) -> None:
        """Records of changes that are made from now on."""
        now = await leader.metrics()
        enough = now.value("sink_delivered_records_total") + now.value("sink_backlog_records") + 5
        await leader.until("it delivers", lambda later: later.value("sink_delivered_records_total") > enough)

    async def until_received(self) -> None:
        """All that has happened."""
        missing = {each["metadata"]["uid"] for each in await self.scene.mark()}
        async with asyncio.timeout(90 * BUSY):
            while missing - {each.uid for each in _objects(await self.stored())}:  # noqa: ASYNC110
                await asyncio.sleep(0.2)

    async def stored(self, *, committed: bool = True) -> list[KafkaRecord]:
        return await asyncio.to_thread(self.kafka.read_all, topic_of(self.scene), committed=committed)


def topic_of(scene: Scene) -> str:
    return f"{scene.namespace}-once"


@asynccontextmanager
async def running(scene: Scene, kafka: KafkaCluster, seed: int) -> AsyncIterator[Run]:
    """Both replicas and the writers."""
    topics = {"topic": topic_of(scene), "progress_topic": f"{topic_of(scene)}-progress"}
    await asyncio.to_thread(kafka.create_topic, topics["topic"], PARTITIONS)
    await asyncio.to_thread(kafka.create_topic, topics["progress_topic"], cleanup_policy="compact")
    sink = {"type": "kafka", "bootstrap_servers": kafka.bootstrap, "exactly_once": True, **topics}
    soon = {"properties": {"reconnect.backoff.max.ms": 200}, "ack_timeout": "2s", "connect_timeout": "5s"}
    async with AsyncExitStack() as stack:
        both = []
        for pod in ("pod-0", "pod-1"):
            config = config_of(scene, pod, SHORT, sinks={"topics": {**sink, **soon}})
            both.append(await stack.enter_async_context(BridgeProcess(scene.folder / pod, config).started()))
        run = Replicas(both)
        await run.until_live(*KINDS)
        load = await stack.enter_async_context(AsyncExitStack())
        churn = await load.enter_async_context(churning(scene.servers.api, scene.namespace, seed=seed, pause=0.2))
        yield Run(scene, kafka, run, churn, load, random.Random(seed))


@pytest.mark.parametrize(
    "rounds",
    [
        pytest.param(4, id="4 rounds"),
        pytest.param(105, id="105 rounds", marks=[pytest.mark.soak, pytest.mark.timeout(7200)]),
    ],
)
async def test_every_version_is_seen_once_through_kills_of_brokers(
    scene: Scene, three_brokers: KafkaCluster, rounds: int
) -> None:
    seed = int(os.environ.get("SEED", random.randrange(2**32)))
    print(f"SEED={seed} chooses the same moments")
    async with running(scene, three_brokers, seed) as run:
        for number in range(rounds):
            await run.round(TURNS[number % len(TURNS)])
        await run.load.aclose()
        await run.until_received()
        assert not any(each.logged("kubedelta sinks resume") for each in run.replicas.both), "no operator is needed"
    await assert_once(run)


async def assert_once(run: Run) -> None:
    happened, records = await run.scene.remember(), await run.stored()
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
