"""Faults of one broker of three, and of the leader beside it."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence

from benchmarks.faults.stage import Stage
from tests.cluster.servers import KafkaCluster, KafkaNode
from tests.kit.bridge_process import BridgeProcess


def coordinator(kafka: KafkaCluster, topic: str) -> KafkaNode:
    """Of the sink's transactions."""
    return kafka.coordinator()


def partition_leader(kafka: KafkaCluster, topic: str) -> KafkaNode:
    return kafka.leader(topic)


def controller(kafka: KafkaCluster, topic: str) -> KafkaNode:
    return kafka.controller()


TURNS: Sequence[tuple[Callable[[KafkaCluster, str], KafkaNode] | None, bool]] = (
    (coordinator, False),
    (None, True),
    (partition_leader, True),
    (controller, False),
    (None, True),
    (coordinator, True),
    (partition_leader, False),
    (None, True),
    (controller, True),
)
"""The broker that is killed, and whether the leading replica is, at the same moment."""


async def kill(stage: Stage, number: int, chance: random.Random) -> None:
    """All is delivered without the dead ones. They are started then."""
    kafka = stage.destinations.kafka
    assert isinstance(kafka, KafkaCluster), "see Fault.three_brokers"  # noqa: S101
    leader = await stage.ready()
    await asyncio.to_thread(kafka.until_whole)
    broker, leader_too = TURNS[number % len(TURNS)]
    dead: list[KafkaNode | BridgeProcess] = [leader] if leader_too else []
    if broker is not None:
        dead.append(await asyncio.to_thread(broker, kafka, f"{stage.destinations.name}-once"))
    await asyncio.sleep(chance.uniform(0, 4))
    async with stage.round():
        await asyncio.gather(*(asyncio.to_thread(each.kill9) for each in dead))
        if leader_too:
            await stage.replicas.leader(other_than=leader)
    await asyncio.gather(*(asyncio.to_thread(each.start) for each in dead))
