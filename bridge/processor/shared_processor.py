"""Distributes the items of a log to many listeners, each at its own pace, and never waits for one of them.

An item is in the log before it is distributed. ``SharedProcessor.distribute`` offers a batch, by reference, to every
``Receiver``. A ``ProcessorListener`` keeps it in a bounded window in memory; where the window has no room, it notes
that the log has more items, and reads them there. Its sink empties it with ``take``. A ``Tap`` serves people who watch:
it has no log to read again, so beyond its bounds it drops items, and counts them.

client-go's processorListener keeps pending items in a ring that grows until the process is killed; the log is what
makes a bound possible here. A listener that was away for longer than the log keeps its items gets a ``Missed`` in its
``Fetch``. ``distribute`` is part of the hot path: it runs on the event loop for every commit, so ``offer`` compares
sizes and copies references alone.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from typing import Generic, Protocol, TypeVar

from bridge.model.primitives.ring import Fetch, Missed, Slice

T = TypeVar("T")
T_contra = TypeVar("T_contra", contravariant=True)


class Receiver(Protocol[T_contra]):
    """Gets the items that are distributed. Must not wait."""

    def offer(self, items: Sequence[T_contra], last: int, /) -> None:
        """See ProcessorListener.offer."""
        ...


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


class ListenerExists(Exception):
    """A listener of that name exists already."""


MAX_BYTES = 16 << 20
"""Bytes of bodies in the window, and in a single ``take``. What a sink makes of them may be as large again, twice."""


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
        self._woken = False
        self._waiter: asyncio.Future[None] | None = None  # Of a ``take`` that waits.
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
        """Receives the newest items of the log, up to sequence number ``last``: into the window if it has room."""
        if self._waiter is not None:
            self._end_wait()
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
        self._end_wait()

    def skip(self, through: int) -> None:
        """Continues behind ``through``. Must not be called during a ``take``."""
        self.taken = through
        self._window.clear()
        self._window_bytes = 0
        self._more = self._log.last > through

    def close(self) -> None:
        self._closed = True
        self._end_wait()

    def _end_wait(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

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
            self._waiter = asyncio.get_running_loop().create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None

    def _take_window(self, limit: int) -> Fetch[T]:
        targets, window = self._targets, self._window
        items: Collection[T] = window
        if len(window) <= limit:
            self._window = deque()
            self._window_bytes = 0
        else:
            items = [window.popleft() for _ in range(limit)]
            self._window_bytes -= sum(map(self._size, items))
        self.taken += len(items)
        return Fetch([item for item in items if (names := targets(item)) is None or self.name in names], self.taken)

    async def _take_log(self, limit: int) -> Fetch[T]:
        found = await self._log.read(self.taken, limit)
        missed = Missed(self.taken + 1, found.first - 1) if found.first > self.taken + 1 else None
        items = self._fitting(found.items)
        self.taken = found.first + len(items) - 1
        # No await lies between this line and the next offer, so the window continues where the read ended.
        self._more = self._log.last > self.taken
        own = [item for item in items if (names := self._targets(item)) is None or self.name in names]
        return Fetch(own, self.taken, missed)

    def _fitting(self, items: Sequence[T]) -> Sequence[T]:
        """The first items, at least one, with at most ``max_bytes`` bytes."""
        total = 0
        for count, item in enumerate(items):
            total += self._size(item)
            if count and total > self._max_bytes:
                return items[:count]
        return items


class SharedProcessor(Generic[T]):
    """Listeners by name; they come and go while it runs. ``targets`` and ``size``: see ProcessorListener."""

    def __init__(
        self,
        *,
        targets: Callable[[T], tuple[str, ...] | None],
        window: int = 1000,
        size: Callable[[T], int] = lambda _: 0,
    ) -> None:
        self._size = size
        self._targets = targets
        self._window = window
        self._listeners: dict[str, ProcessorListener[T]] = {}
        self.receivers: list[Receiver[T]] = []
        """The listeners; and taps, which come and go here."""
        self._periods_changed = asyncio.Event()

    @property
    def listeners(self) -> Mapping[str, ProcessorListener[T]]:
        return self._listeners

    def add(
        self,
        name: str,
        log: Log[T],
        *,
        after: int | None = None,
        resync: float = 0.0,
        window: int | None = None,
        initial: Iterator[T] | None = None,
    ) -> ProcessorListener[T]:
        """Adds a listener, which receives ``initial`` first, then the items of ``log`` behind ``after`` (by default,
        all later items). ``log`` holds the items that ``distribute`` gets. ``resync`` is its period in seconds;
        ``window`` bounds its items in memory. Raises ListenerExists."""
        if name in self._listeners:
            raise ListenerExists(f"a listener named {name!r} exists already")
        listener = ProcessorListener(
            name,
            log,
            window=window or self._window,
            after=log.last if after is None else after,
            targets=self._targets,
            resync=resync,
            initial=initial,
            size=self._size,
        )
        self._listeners[name] = listener
        self.receivers.append(listener)
        self._notify_periods_changed()
        return listener

    def remove(self, name: str) -> None:
        """Closes a listener: its next ``take`` raises ListenerClosed. An unknown name has no effect."""
        if listener := self._listeners.pop(name, None):
            listener.close()
            self.receivers.remove(listener)
            self._notify_periods_changed()

    def distribute(self, items: Sequence[T], last: int) -> None:
        """Offers the newest items of the log, up to sequence number ``last``, to every listener. The items must be in
        the log already, and batches must be in the order of the log."""
        for receiver in self.receivers:
            receiver.offer(items, last)

    def resync_periods(self) -> Mapping[str, float]:
        """Listener → seconds, for listeners with a period."""
        return {name: listener.resync for name, listener in self._listeners.items() if listener.resync > 0}

    async def wait_periods_changed(self) -> None:
        """Returns when the next listener comes or goes."""
        await self._periods_changed.wait()

    def _notify_periods_changed(self) -> None:
        changed, self._periods_changed = self._periods_changed, asyncio.Event()
        changed.set()


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
