"""Distributes the items of a log to all listeners, by reference, and never waits for a listener."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Generic, TypeVar

from bridge.processor.listener import Log, ProcessorListener

T = TypeVar("T")


class ListenerExists(Exception):
    """A listener of that name exists already."""


class SharedProcessor(Generic[T]):
    """Listeners by name; they come and go while it runs.

    ``targets`` returns the names of an item's listeners, or None for all listeners. ``size`` is an item's size in
    bytes.
    """

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
        self._notify_periods_changed()
        return listener

    def remove(self, name: str) -> None:
        """Closes a listener: its next ``take`` raises ListenerClosed. An unknown name has no effect."""
        if listener := self._listeners.pop(name, None):
            listener.close()
            self._notify_periods_changed()

    def distribute(self, items: Sequence[T], last: int) -> None:
        """Offers the newest items of the log, up to sequence number ``last``, to every listener. The items must be in
        the log already, and batches must be in the order of the log."""
        for listener in self._listeners.values():
            listener.offer(items, last)

    # ── Resync ───────────────────────────────────────────────────────────────

    def resync_periods(self) -> Mapping[str, float]:
        """Listener → seconds, for listeners with a period."""
        return {name: listener.resync for name, listener in self._listeners.items() if listener.resync > 0}

    async def wait_periods_changed(self) -> None:
        """Returns when the next listener comes or goes."""
        await self._periods_changed.wait()

    def _notify_periods_changed(self) -> None:
        changed, self._periods_changed = self._periods_changed, asyncio.Event()
        changed.set()
