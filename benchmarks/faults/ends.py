"""Faults of the leader's process."""

from __future__ import annotations

import asyncio
import os
import random
import signal

from benchmarks.faults.stage import Stage
from tests.kit.bridge_process import BridgeProcess, Metrics

FROZEN_SECONDS = 30


async def kill(stage: Stage, number: int, chance: random.Random) -> None:
    """At any moment between two renewals. The replica is started again when the other one has caught up."""
    leader = await _at_any_moment(stage, chance)
    async with stage.round():
        await asyncio.to_thread(leader.kill9)
        await stage.replicas.leader(other_than=leader)
    await asyncio.to_thread(leader.start)


async def terminate(stage: Stage, number: int, chance: random.Random) -> None:
    leader = await _at_any_moment(stage, chance)
    async with stage.round():
        os.kill(leader.pid, signal.SIGTERM)
        await stage.replicas.leader(other_than=leader)
    await asyncio.to_thread(leader.wait)
    await asyncio.to_thread(leader.start)


async def freeze(stage: Stage, number: int, chance: random.Random) -> None:
    """The other replica takes over meanwhile."""
    leader = await _at_any_moment(stage, chance)
    async with stage.round():
        async with asyncio.TaskGroup() as group:
            await asyncio.to_thread(leader.pause)
            group.create_task(asyncio.sleep(FROZEN_SECONDS))
            group.create_task(stage.replicas.leader(other_than=leader))
        leader.resume()
        await leader.until("it follows", follows)


def follows(metrics: Metrics) -> bool:
    return metrics.value("leader") == 0


async def _at_any_moment(stage: Stage, chance: random.Random) -> BridgeProcess:
    leader = await stage.ready()
    await asyncio.sleep(chance.uniform(0, 4))
    return leader
