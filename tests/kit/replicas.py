"""Two replicas of a bridge, each with a state of its own, of which one leads."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from tests.kit.bridge_process import BridgeProcess
from tests.kit.deadlines import BUSY


class Replicas:
    def __init__(self, both: Sequence[BridgeProcess]) -> None:
        self.both = both

    async def leader(self, *, other_than: BridgeProcess | None = None, timeout: float = 60) -> BridgeProcess:
        """The replica that leads, once there is one. Raises TimeoutError (seconds)."""
        async with asyncio.timeout(timeout * BUSY):
            while True:
                for each in self.both:
                    if each is not other_than and await leads(each):
                        return each
                await asyncio.sleep(0.01)

    def other(self, replica: BridgeProcess) -> BridgeProcess:
        [other] = [each for each in self.both if each is not replica]
        return other

    async def until_in_sync(self, leader: BridgeProcess) -> None:
        """Wait until a takeover by the other replica would lack nothing."""
        term = (await leader.metrics()).value("leader_term")
        await self.other(leader).until(
            "it is in sync", lambda now: now.value("leader_term") >= term and now.value("replica_in_sync") == 1
        )

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
