"""Two replicas of a bridge, each with a state of its own, of which one leads."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from tests.kit.bridge_process import BridgeProcess
from tests.kit.copied_states import are_equal
from tests.kit.deadlines import BUSY


class Replicas:
    def __init__(self, both: Sequence[BridgeProcess]) -> None:
        self.both = both

    async def leader(self, *, other_than: BridgeProcess | None = None) -> BridgeProcess:
        """The replica that leads, once there is one. Raises TimeoutError."""
        async with asyncio.timeout(60 * BUSY):
            while True:
                for each in self.both:
                    if each is not other_than and await leads(each):
                        return each
                await asyncio.sleep(0.01)

    def other(self, replica: BridgeProcess) -> BridgeProcess:
        [other] = [each for each in self.both if each is not replica]
        return other

    async def until_live(self, *resources: str) -> BridgeProcess:
        """Wait until one replica leads and watches these resources, so that all that happens from now on are steps for
        whoever leads, and the other one is in sync. Returns the leader."""
        leader = await self.leader()
        for each in resources:
            await leader.until_live(each)
        await self.until_in_sync(leader)
        return leader

    async def until_in_sync(self, leader: BridgeProcess) -> None:
        """Wait until a takeover by the other replica would lack nothing."""
        term = (await leader.metrics()).value("leader_term")
        await self.other(leader).until(
            "it is in sync", lambda now: now.value("leader_term") >= term and now.value("replica_in_sync") == 1
        )

    async def until_equal(self) -> None:
        """Wait for a moment in which both states have the same commit, also under load, and compare all their rows."""
        async with asyncio.timeout(60 * BUSY):
            while not await asyncio.to_thread(are_equal, *(each.state for each in self.both)):  # noqa: ASYNC110  # a file announces nothing
                await asyncio.sleep(0.01)

    async def until_ready(self) -> None:
        """Of each that follows: it is in sync."""
        for each in self.both:
            await each.until("it is ready", lambda now: now.value("ready") == 1, timeout=120)


async def leads(replica: BridgeProcess) -> bool:
    """False where it does not answer."""
    try:
        return (await replica.metrics()).value("leader") == 1
    except (OSError, TimeoutError):
        return False
