"""Faults of what a follower needs in order to be in sync: its connection to the leader, its disk, and the leader while
it copies and compacts."""

from __future__ import annotations

import asyncio
import random
import shutil

from benchmarks.faults.destinations import WEBHOOK
from benchmarks.faults.stage import Stage
from tests.kit.bridge_process import BridgeProcess, Metrics
from tests.kit.tcp_line import Line

_SLOW = 2_000
"""Bytes a second: less than the load makes."""
_SLOW_COPY = 32 * 1024
_BACKLOG = 100
"""Records. There are some 75 objects: it is compacted every other second."""


async def cut_from_each_other(stage: Stage, number: int, chance: random.Random) -> None:
    """The leader is killed before or behind its decision to go on without the follower. In the second case the follower
    knows that it lacks something, and the leader starts again."""
    leader = await stage.ready()
    link = stage.link_to(leader)
    async with stage.round() as leader_ends:
        _cut(link, number)
        await asyncio.sleep(chance.uniform(0, 3))
        leader_ends()
        await _kill(stage, leader)
        link.mend()
        link.cut()
    if not leader.running:
        await asyncio.to_thread(leader.start)


def _cut(link: Line, number: int) -> None:
    match number % 3:
        case 0:
            link.block()
        case 1:
            link.swallowing = True
        case _:
            link.rate_back = _SLOW


async def _kill(stage: Stage, leader: BridgeProcess) -> None:
    """Until one replica leads: the other one, if it has all that anybody can have, or else this one again."""
    other = stage.replicas.other(leader)
    await asyncio.to_thread(leader.kill9)
    await asyncio.sleep(1)  # The other one sees the last list of those in sync.
    if not _is_in_sync(await other.metrics()):
        await asyncio.to_thread(leader.start)
    await stage.replicas.leader()


async def within_a_base_copy(stage: Stage, number: int, chance: random.Random) -> None:
    leader = await stage.ready()
    link, other = stage.link_to(leader), stage.replicas.other(leader)
    await asyncio.to_thread(other.kill9)
    shutil.rmtree(other.state)
    other.state.mkdir()
    link.rate_back, before = _SLOW_COPY, link.returned
    await asyncio.to_thread(other.start)
    while link.returned < before + 2 * _SLOW_COPY:  # noqa: ASYNC110  # a line announces nothing
        await asyncio.sleep(0.05)
    async with stage.round():
        link.block()
        await asyncio.to_thread(leader.kill9)
        link.cut()
        link.mend()
        await asyncio.to_thread(leader.start)
        await stage.replicas.leader()


async def full_disk(stage: Stage, number: int, chance: random.Random) -> None:
    """Deliveries go on without the follower, and the same follower takes over later."""
    leader = await stage.ready()
    other = stage.replicas.other(leader)
    async with stage.round() as leader_ends:
        stage.disk_of(other).fill()
        await leader.until("nobody is in sync", lambda now: not _is_in_sync(now))
        await asyncio.sleep(chance.uniform(2, 6))
        stage.disk_of(other).make_room()
        await stage.ready()
        leader_ends()
        await asyncio.to_thread(leader.kill9)
        await stage.replicas.leader(other_than=leader)
    await asyncio.to_thread(leader.start)


async def within_a_compaction(stage: Stage, number: int, chance: random.Random) -> None:
    leader = await stage.ready()
    if not number:
        sinks = stage.destinations.section(stage.destinations.ports(stage.servers.api))
        sinks["hook"]["max_backlog"] = {"records": _BACKLOG}
        for each in stage.replicas.both:
            each.reconfigure(sinks=sinks)
            await asyncio.to_thread(each.restart)
        leader = await stage.ready()
    async with stage.round(WEBHOOK) as leader_ends:
        await stage.destinations.receiver.stop()
        await leader.until(
            "the backlog was compacted", lambda now: now.value("sink_compactions_total", sink="hook") > 0
        )
        await leader.until(
            "it is full again", lambda now: now.value("sink_backlog_records", sink="hook") >= _BACKLOG - 2
        )
        await asyncio.sleep(chance.uniform(0, 0.2))
        leader_ends()
        await asyncio.to_thread(leader.kill9)
        await stage.replicas.leader(other_than=leader)
        await asyncio.to_thread(leader.start)
        await stage.destinations.receiver.start()


def _is_in_sync(metrics: Metrics) -> bool:
    return metrics.value("replica_in_sync") == 1
