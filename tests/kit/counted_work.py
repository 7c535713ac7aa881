"""The silence of an event loop, in the work that keeps it busy: no busy machine makes it longer."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

from bridge.outbox.appender import Turns

T = TypeVar("T")


class CountedWork:
    """A clock that work alone moves, and the longest silence of an event loop on it."""

    def __init__(self) -> None:
        self.now = self.longest = 0.0
        self._turned = 0.0
        self.turns = Turns(lambda: self.now)

    def step(self, seconds: float) -> float:
        self.now += seconds
        return seconds

    async def beside(self, work: Awaitable[T]) -> T:
        """The result of the work, beside which something else wants each round of the loop."""
        async with asyncio.TaskGroup() as tasks:
            heart = tasks.create_task(self._beat())
            found = await work
            self._note()
            heart.cancel()
        return found

    async def _beat(self) -> None:
        while True:
            self._note()
            await asyncio.sleep(0)

    def _note(self) -> None:
        self.longest, self._turned = max(self.longest, self.now - self._turned), self.now
