"""A limit of requests in time: a token bucket."""

from __future__ import annotations

import asyncio


class RateLimit:
    """Holds up to ``burst`` tokens and gains ``rate`` tokens a second; a request takes a token, or waits for its own.
    Requests begin in the order of ``wait``, and in any span of n seconds at most ``burst + n * rate`` of them.

    A caller that is cancelled while it waits loses its token, so that no later request begins too early."""

    def __init__(self, rate: float, burst: int = 1) -> None:
        self._interval = 1 / rate
        self._burst = burst
        self._next = float("-inf")
        """When a bucket that is empty now has its next token."""
        self._now = asyncio.get_running_loop().time

    def bound(self, rate: float) -> None:
        """Lowers the rate to this one; a higher rate has no effect."""
        self._interval = max(self._interval, 1 / rate)

    async def wait(self) -> None:
        """Returns when the next request may begin."""
        now = self._now()
        begin = max(self._next, now - (self._burst - 1) * self._interval)
        self._next = begin + self._interval
        if begin > now:
            await asyncio.sleep(begin - now)
