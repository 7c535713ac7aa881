"""Faults of connections, of servers and of a replica's disk, and a roll-out."""

from __future__ import annotations

import asyncio
import random
import shutil
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from benchmarks.faults.destinations import KAFKA, NATS, ONCE, WEBHOOK
from benchmarks.faults.ends import follows
from benchmarks.faults.stage import Stage, resource
from tests.cluster.servers import Server
from tests.kit.bridge_process import BridgeProcess
from tests.kit.churn import KINDS
from tests.kit.tcp_line import Line
from tests.kit.webhook_receiver import WebhookReceiver

CUT_SECONDS = 30
"""Longer than a Lease."""
SHORT_CUT_SECONDS = 20
DOWN_SECONDS = (5, 20)
"""Shorter and longer than the renew deadline, in turns."""
MORE_RESOURCES = ("services", "serviceaccounts", "limitranges", "resourcequotas", "persistentvolumeclaims")

# ── Connections ──────────────────────────────────────────────────────────────


async def cut_from_api(stage: Stage, number: int, chance: random.Random) -> None:
    leader = await stage.ready()
    await _cut_off(stage, leader, number, [stage.lines_of(leader).api])


async def cut_from_all(stage: Stage, number: int, chance: random.Random) -> None:
    leader = await stage.ready()
    lines = stage.lines_of(leader)
    await _cut_off(stage, leader, number, [lines.api, *lines.sinks])


async def cut_from_sink(stage: Stage, number: int, chance: random.Random) -> None:
    """From another server each time. The leader leads on."""
    leader = await stage.ready()
    sinks = stage.lines_of(leader).sinks
    async with stage.round(), _cut(number, [sinks[number % len(sinks)]]):
        await asyncio.sleep(SHORT_CUT_SECONDS)


async def _cut_off(stage: Stage, leader: BridgeProcess, number: int, lines: Sequence[Line]) -> None:
    async with stage.round():
        async with _cut(number, lines), asyncio.TaskGroup() as group:
            group.create_task(asyncio.sleep(CUT_SECONDS))
            group.create_task(stage.replicas.leader(other_than=leader))
        await leader.until("it follows", follows)


@asynccontextmanager
async def _cut(number: int, lines: Sequence[Line]) -> AsyncIterator[None]:
    """In turns: nothing passes, and neither end learns of it; or connections are reset, and new ones refused."""
    for line in lines:
        if number % 2 == 0:
            line.block()
        else:
            line.refusing = True
            line.cut()
    yield
    for line in lines:
        line.mend()


# ── Servers ──────────────────────────────────────────────────────────────────


async def kill_api(stage: Stage, number: int, chance: random.Random) -> None:
    await stage.ready()
    async with stage.round():
        await asyncio.to_thread(stage.servers.api.kill9)
        await asyncio.sleep(DOWN_SECONDS[number % len(DOWN_SECONDS)])
        await asyncio.to_thread(stage.servers.api.start)
        await stage.replicas.leader()


async def dead_sink(stage: Stage, number: int, chance: random.Random) -> None:
    """Another server each time. The leader is killed, the next one too; then the server comes back."""
    await stage.ready()
    sinks = (
        (stage.servers.kafka, (KAFKA, ONCE)),
        (stage.servers.nats, (NATS,)),
        (stage.destinations.receiver, (WEBHOOK,)),
    )
    server, gone = sinks[number % len(sinks)]
    async with stage.round(*gone) as leader_ends, _dead(server):
        for _ in range(2):
            leader = await stage.replicas.leader()
            await stage.replicas.until_in_sync(leader)
            await asyncio.sleep(chance.uniform(2, 6))
            leader_ends()
            await asyncio.to_thread(leader.kill9)
            await stage.replicas.leader(other_than=leader)
            await asyncio.to_thread(leader.start)


@asynccontextmanager
async def _dead(server: Server | WebhookReceiver) -> AsyncIterator[None]:
    if isinstance(server, Server):
        await asyncio.to_thread(server.kill9)
        yield
        await asyncio.to_thread(server.start)
    else:
        await server.stop()
        yield
        await server.start()


# ── Replicas ─────────────────────────────────────────────────────────────────


async def roll_out(stage: Stage, number: int, chance: random.Random) -> None:
    """With one more resource each time: the follower first, then the leader."""
    leader = await stage.ready()
    watched = [*KINDS, *MORE_RESOURCES[: number + 1]]
    async with stage.round():
        for each in (stage.replicas.other(leader), leader):
            await asyncio.to_thread(each.stop)
            each.reconfigure(resources=[resource(kind, stage.namespace) for kind in watched])
            await asyncio.to_thread(each.start)
            await stage.ready()


async def empty_disk(stage: Stage, number: int, chance: random.Random) -> None:
    """When it is in sync, the leader is killed."""
    leader = await stage.ready()
    other = stage.replicas.other(leader)
    await asyncio.to_thread(other.kill9)
    shutil.rmtree(other.state)
    other.state.mkdir()
    await asyncio.to_thread(other.start)
    await stage.ready()
    async with stage.round():
        await asyncio.to_thread(leader.kill9)
        await stage.replicas.leader(other_than=leader)
    await asyncio.to_thread(leader.start)
