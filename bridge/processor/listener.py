"""One listener's pending queue: a bounded window in memory over the log, the rest in the log itself. Hot.

client-go's processorListener keeps what is pending in a ring that grows until the process is killed. Here a listener
that falls behind notes only that there is more, and reads it from the log when it comes to it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Generic, Protocol, TypeVar

from bridge.model.primitives.ring import Slice

T = TypeVar("T")

MAX_BYTES = 32 << 20
"""Of bodies: in the window, and of what is handed out at once."""


class Log(Protocol[T]):
    """Where everything that was distributed can be read again, as long as it is kept."""

    @property
    def last(self) -> int:
        """Sequence number of the newest item; 0 before the first."""
        ...

    async def read(self, after: int, limit: int) -> Slice[T]:
        """See Ring.read."""
        ...


@dataclass(frozen=True, slots=True)
class Missed:
    """Items that left the log before the listener came to them."""

    first: int
    last: int

    @property
    def count(self) -> int:
        return self.last - self.first + 1


@dataclass(frozen=True, slots=True)
class Taken(Generic[T]):
    """What a listener gets to see next."""

    items: Sequence[T]
    through: int
    """With these the listener has seen everything up to this sequence number."""
    missed: Missed | None = None
    """What would have come before ``items``."""


class ListenerClosed(Exception):
    """The listener was removed. What was pending is not handed out any more."""


class ProcessorListener(Generic[T]):
    """Filled by SharedProcessor.distribute, which never waits; emptied by one taker.

    ``wanted`` tells which items are meant for this listener; the others count as seen. ``size`` is that of an item in
    bytes: the log may have dropped what the window still holds, and so the window has a bound of its own.
    """

    def __init__(
        self,
        name: str,
        log: Log[T],
        *,
        window: int,
        after: int,
        wanted: Callable[[T], bool],
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
        self._wanted = wanted
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
        """Sequence number through which items have been handed out."""

    @property
    def pending(self) -> int:
        """Items in the log that were not handed out yet."""
        return self._log.last - self.taken

    @property
    def in_memory(self) -> int:
        """Items in the window; at most its size."""
        return len(self._window)

    def offer(self, items: Sequence[T], last: int) -> None:
        """The newest items of the log, up to sequence number ``last``. Takes them by reference where there is room,
        else notes that there is more."""
        self._filled.set()
        if self._more:
            return
        # The log may have been read past these already: an item is in it before it is offered.
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
        """Whether ``initial`` has not been handed out yet."""
        return self._initial is not None

    @property
    def exhausted(self) -> bool:
        """Everything that was distributed has been handed out."""
        return not self._window and not self._more and self._initial is None

    def wake(self) -> None:
        """Let ``take`` return nothing now, where it waits, or the next time it would wait."""
        self._woken = True
        self._filled.set()

    def skip(self, through: int) -> None:
        """Hand out next what stands behind ``through``. Not while a ``take`` is under way."""
        self.taken = through
        self._window.clear()
        self._window_bytes = 0
        self._more = self._log.last > through

    def close(self) -> None:
        self._closed = True
        self._filled.set()

    async def take(self, limit: int) -> Taken[T]:
        """Wait for items; at most ``limit`` of them. May return none, where all were meant for others, ``initial`` has
        come to its end, or ``wake`` was called. Raises ListenerClosed once the listener was closed, whatever is
        pending."""
        while True:
            if self._closed:
                raise ListenerClosed(self.name)
            if self._initial is not None:
                items = list(islice(self._initial, limit))
                if len(items) < limit:
                    self._initial = None
                return Taken(items, self.taken)
            if self._window:
                return self._take_window(limit)
            if self._more:
                return await self._take_log(limit)
            if self._woken:
                self._woken = False
                return Taken((), self.taken)
            self._filled.clear()
            await self._filled.wait()

    def _take_window(self, limit: int) -> Taken[T]:
        window = self._window
        if len(window) <= limit:
            items: Sequence[T] = list(window)
            window.clear()
            self._window_bytes = 0
        else:
            items = [window.popleft() for _ in range(limit)]
            self._window_bytes -= sum(map(self._size, items))
        self.taken += len(items)
        return Taken([item for item in items if self._wanted(item)], self.taken)

    async def _take_log(self, limit: int) -> Taken[T]:
        found = await self._log.read(self.taken, limit)
        missed = Missed(self.taken + 1, found.first - 1) if found.first > self.taken + 1 else None
        items = self._fitting(found.items)
        self.taken = found.first + len(items) - 1
        # Between this line and the next offer nothing waits, so the window begins where the log ended.
        self._more = self._log.last > self.taken
        return Taken([item for item in items if self._wanted(item)], self.taken, missed)

    def _fitting(self, items: Sequence[T]) -> Sequence[T]:
        """As many as may be handed out at once, at least one."""
        total = 0
        for count, item in enumerate(items):
            total += self._size(item)
            if count and total > self._max_bytes:
                return items[:count]
        return items
