"""A bounded look at the items that are distributed: for people who watch."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Generic

from bridge.processor.log import ListenerClosed, T


class Tap(Generic[T]):
    """Gets the items that are distributed while it is open. Beyond its bounds it drops items and counts them: it reads
    no log, and delays no listener."""

    def __init__(self, *, most: int, most_bytes: int, size: Callable[[T], int]) -> None:
        """``most``: items that wait to be taken."""
        self._most = most
        self._most_bytes = most_bytes
        self._size = size
        self._items: deque[T] = deque()
        self._bytes = 0
        self._dropped = 0
        self._closed = False
        self._news = asyncio.Event()

    def offer(self, items: Sequence[T], _last: int) -> None:
        """See ProcessorListener.offer."""
        for index, item in enumerate(items):
            size = self._size(item)
            full = len(self._items) >= self._most or self._bytes + size > self._most_bytes
            if self._dropped or (full and self._items):
                # Whatever follows a dropped item is dropped too, until a ``take``: so the count has a place in between.
                self._dropped += len(items) - index
                break
            self._items.append(item)
            self._bytes += size
        self._news.set()

    async def take(self, limit: int, seconds: float) -> tuple[Sequence[T], int]:
        """Waits so long for items. Returns at most ``limit``, and how many were dropped behind them. Raises
        ListenerClosed after ``close``."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._news.wait()
        if self._closed:
            raise ListenerClosed("tap")
        taken = [self._items.popleft() for _ in range(min(limit, len(self._items)))]
        self._bytes -= sum(map(self._size, taken))
        if self._items:
            return taken, 0
        dropped, self._dropped = self._dropped, 0
        self._news.clear()
        return taken, dropped

    def close(self) -> None:
        self._closed = True
        self._news.set()
