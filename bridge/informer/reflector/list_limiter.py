"""Bounds the number of informers that list at the same time, to spare an API server that comes back after a failure.

Every informer of a bridge lists when its API server comes back. A bound on single requests would let hundreds of slow
lists run side by side until their continue tokens expire; a bound on lists without a limit of time would let ten stuck
lists block all others. So lists count, each for at most a minute.
"""

from __future__ import annotations

import asyncio


class ListLimiter:
    """Shared by all informers of a process; first come, first served.

    A list holds its slot from its first request to its last page (a WatchList, to the bookmark that ends the initial
    events), and for ``longest`` seconds at most: a slow list goes on without a slot. A pause between two attempts holds
    no slot."""

    def __init__(self, most: int = 10, *, longest: float = 60.0) -> None:
        self._slots = asyncio.Semaphore(most)
        self._longest = longest

    def turn(self) -> Turn:
        """A turn for all lists of an informer."""
        return Turn(self._slots, self._longest)


class Turn:
    """The lists of an informer, each between ``begin`` and ``end``."""

    def __init__(self, slots: asyncio.Semaphore, longest: float) -> None:
        self._slots = slots
        self._longest = longest
        self._begun = False
        self._lapse: asyncio.TimerHandle | None = None

    @property
    def must_wait(self) -> bool:
        """Whether ``begin`` would wait."""
        return not self._begun and self._slots.locked()

    async def begin(self) -> None:
        """Waits for a slot. Returns at once if the list has begun already."""
        if self._begun:
            return
        await self._slots.acquire()
        self._begun = True
        self._lapse = asyncio.get_running_loop().call_later(self._longest, self._give_back)

    def end(self) -> None:
        """Frees the slot. A second call has no effect."""
        self._begun = False
        self._give_back()

    def _give_back(self) -> None:
        if self._lapse is not None:
            self._lapse.cancel()
            self._lapse = None
            self._slots.release()
