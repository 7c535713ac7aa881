"""A listener's pending queue: a bounded window in memory over the log, with all other items in the log itself. Hot.

client-go's processorListener keeps pending items in a ring that grows until the process is killed. Here a listener that
falls behind only notes that the log has more items, and reads them from there.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Generic, Protocol, TypeVar

from bridge.model.primitives.fetch import Fetch, Missed
from bridge.model.primitives.ring import Slice

T = TypeVar("T")

MAX_BYTES = 32 << 20
"""Bytes of bodies in the window, and in a single ``take``."""


class Log(Protocol[T]):
    """The distributed items, which can be read again as long as they are kept."""

    @property
    def last(self) -> int:
        """Sequence number of the newest item; 0 before the first."""
        ...

    async def read(self, after: int, limit: int) -> Slice[T]:
        """See Ring.read."""
        ...


class ListenerClosed(Exception):
    """The listener was removed, and its pending items with it."""


class ProcessorListener(Generic[T]):
    """Filled by SharedProcessor.distribute, which never waits; emptied by a single task.

    ``targets`` returns the names of an item's listeners (None for all); items for others count as seen. ``size`` is an
    item's size in bytes: the window may hold items that the log has dropped, so it has a bound of its own.
    """

    def __init__(
        self,
        name: str,
        log: Log[T],
        *,
        window: int,
        after: int,
        targets: Callable[[T], tuple[str, ...] | None],
        resync: float = 0.0,
        initial: Iterator[T] | None = None,
        size: Callable[[T], int] = lambda _: 0,
        max_bytes: int = MAX_BYTES,
    ) -> None:
        self.name = name
        self.resync = resync
        """Seconds between resyncs; 0 for never."""
        self._log = log
        self._window_size = window
        self._targets = targets
        self._window: deque[T] = deque()
        self._window_bytes = 0
        self._size = size
        self._max_bytes = max_bytes
        self._initial = initial
        self._more = log.last > after
        self._closed = False
        self._filled = asyncio.Event()
        self._filled.set()
        self._woken = False
        self.taken = after
        """The sequence number up to which items were taken."""

    @property
    def pending(self) -> int:
        """The number of items in the log that were not taken yet."""
        return self._log.last - self.taken

    @property
    def in_memory(self) -> int:
        """The number of items in the window; at most its size."""
        return len(self._window)

    def offer(self, items: Sequence[T], last: int) -> None:
        """Receives the newest items of the log, up to sequence number ``last``. The window keeps references to them if
        it has room, else it notes that the log has more."""
        self._filled.set()
        if self._more:  # The listener is behind, and will read these items from the log.
            return
        # An item is in the log before it is offered, so a read of the log may have returned it already.
        seen = self.taken + len(self._window)
        fresh = items[max(0, seen - (last - len(items))) :]
        more_bytes = self._window_bytes + sum(map(self._size, fresh))
        if len(self._window) + len(fresh) <= self._window_size and more_bytes <= self._max_bytes:
            self._window.extend(fresh)
            self._window_bytes = more_bytes
        else:
            self._more = True

    @property
    def has_initial(self) -> bool:
        """Whether items of ``initial`` are pending."""
        return self._initial is not None

    @property
    def exhausted(self) -> bool:
        """All distributed items were taken."""
        return not self._window and not self._more and self._initial is None

    def wake(self) -> None:
        """Makes a waiting ``take`` return without items, or else the next ``take`` that would wait."""
        self._woken = True
        self._filled.set()

    def skip(self, through: int) -> None:
        """Continues behind ``through``. Must not be called during a ``take``."""
        self.taken = through
        self._window.clear()
        self._window_bytes = 0
        self._more = self._log.last > through

    def close(self) -> None:
        self._closed = True
        self._filled.set()

    async def take(self, limit: int) -> Fetch[T]:
        """Waits for items, and returns at most ``limit``. Returns without items if all were for other listeners, at the
        end of ``initial``, and after ``wake``. Raises ListenerClosed after ``close``, with items pending or not."""
        while True:
            if self._closed:
                raise ListenerClosed(self.name)
            if self._initial is not None:
                items = list(islice(self._initial, limit))
                if len(items) < limit:
                    self._initial = None
                return Fetch(items, self.taken)
            if self._window:
                return self._take_window(limit)
            if self._more:
                return await self._take_log(limit)
            if self._woken:
                self._woken = False
                return Fetch((), self.taken)
            self._filled.clear()
            await self._filled.wait()

    def _take_window(self, limit: int) -> Fetch[T]:
        window = self._window
        if len(window) <= limit:
            items: Sequence[T] = list(window)
            window.clear()
            self._window_bytes = 0
        else:
            items = [window.popleft() for _ in range(limit)]
            self._window_bytes -= sum(map(self._size, items))
        self.taken += len(items)
        return Fetch(
            [item for item in items if (names := self._targets(item)) is None or self.name in names], self.taken
        )

    async def _take_log(self, limit: int) -> Fetch[T]:
        found = await self._log.read(self.taken, limit)
        missed = Missed(self.taken + 1, found.first - 1) if found.first > self.taken + 1 else None
        items = self._fitting(found.items)
        self.taken = found.first + len(items) - 1
        # No await lies between this line and the next offer, so the window continues where the read ended.
        self._more = self._log.last > self.taken
        return Fetch(
            [item for item in items if (names := self._targets(item)) is None or self.name in names], self.taken, missed
        )

    def _fitting(self, items: Sequence[T]) -> Sequence[T]:
        """The first items, at least one, with at most ``max_bytes`` bytes."""
        total = 0
        for count, item in enumerate(items):
            total += self._size(item)
            if count and total > self._max_bytes:
                return items[:count]
        return items
