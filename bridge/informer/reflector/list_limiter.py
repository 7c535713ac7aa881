"""How many informers list at the same time, so that none of them asks for everything when an API server comes back."""

from __future__ import annotations

import asyncio


class ListLimiter:
    """Shared by all informers of a process; first come, first served. A list counts from its first request to its last
    page (of a WatchList, to the bookmark that ends the initial events), and for ``longest`` seconds at most: a slow one
    goes on, and the next begins beside it. A pause between two attempts does not count."""

    def __init__(self, most: int = 10, *, longest: float = 60.0) -> None:
        self._slots = asyncio.Semaphore(most)
        self._longest = longest

    def turn(self) -> Turn:
        """For one informer, for all of its lists."""
        return Turn(self._slots, self._longest)


class Turn:
    """Of one informer; it lists between ``begin`` and ``end``."""

    def __init__(self, slots: asyncio.Semaphore, longest: float) -> None:
        self._slots = slots
        self._longest = longest
        self._begun = False
        self._lapse: asyncio.TimerHandle | None = None

    @property
    def must_wait(self) -> bool:
        """``begin`` would not return at once."""
        return not self._begun and self._slots.locked()

    async def begin(self) -> None:
        """Return when there is a slot; at once where it has begun already, however long ago."""
        if self._begun:
            return
        await self._slots.acquire()
        self._begun = True
        self._lapse = asyncio.get_running_loop().call_later(self._longest, self._give_back)

    def end(self) -> None:
        """No error where it has ended already."""
        self._begun = False
        self._give_back()

    def _give_back(self) -> None:
        if self._lapse is not None:
            self._lapse.cancel()
            self._lapse = None
            self._slots.release()
