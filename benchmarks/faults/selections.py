"""A roll-out of another `select` of all sinks."""

from __future__ import annotations

import asyncio
import random

from benchmarks.faults.stage import Stage
from tests.cluster.kube_client import KubeClient

STAY = ("configmaps",)
TURNS = ("pods", "secrets")
"""Selected beside them, in turns."""
_SECONDS = 60


async def roll_out(stage: Stage, number: int, chance: random.Random) -> None:
    """The follower first, then the leader. The round ends when each sink has the objects of the kind that entered, and
    none of the kind that left."""
    leader = await stage.ready()
    enters, leaves = TURNS[number % 2], TURNS[(number + 1) % 2]
    sinks = stage.destinations.section(stage.destinations.ports(stage.servers.api))
    select = [{"resource": kind} for kind in (*STAY, enters)]
    async with stage.round():
        for each in (stage.replicas.other(leader), leader):
            await asyncio.to_thread(each.stop)
            each.reconfigure(sinks={name: {**options, "select": select} for name, options in sinks.items()})
            await asyncio.to_thread(each.start)
            await stage.ready()
        await asyncio.wait_for(_until_changed(stage, enters, leaves), _SECONDS)


async def _until_changed(stage: Stage, enters: str, leaves: str) -> None:
    async with KubeClient(stage.servers.api) as kube:
        listed = await kube.get(f"/api/v1/namespaces/{stage.namespace}/{enters}")
    there = {each["metadata"]["uid"] for each in listed["items"]}
    while not all(not each.held(leaves) and each.have_met(there) for each in stage.arrivals.values()):
        await asyncio.sleep(0.2)
        await asyncio.gather(*(each.read_on() for each in stage.arrivals.values()))
