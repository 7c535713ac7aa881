"""Distributes what is in the log to every listener, by reference, without ever waiting for one of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Generic, TypeVar

from bridge.processor.listener import Log, ProcessorListener

T = TypeVar("T")


class ListenerExists(Exception):
    """A listener of that name is there already."""


class SharedProcessor(Generic[T]):
    """Listeners by name; they come and go while it runs.

    ``audience`` tells for whom an item is: names of listeners, or None for all of them. ``size`` is that of an item in
    bytes.
    """

    def __init__(
        self,
        log: Log[T],
        *,
        targets: Callable[[T], tuple[str, ...] | None],
        window: int = 1000,
        size: Callable[[T], int] = lambda _: 0,
    ) -> None:
        self._log = log
        self._size = size
        self._audience = targets
        self._window = window
        self._listeners: dict[str, ProcessorListener[T]] = {}
        self._periods_changed = asyncio.Event()

    @property
    def listeners(self) -> Mapping[str, ProcessorListener[T]]:
        return self._listeners

    def add(
        self,
        name: str,
        *,
        after: int | None = None,
        resync: float = 0.0,
        window: int | None = None,
        initial: Iterator[T] | None = None,
    ) -> ProcessorListener[T]:
        """A listener that gets ``initial`` first, then what stands in the log behind ``after`` (by default: what is
        distributed from now on). ``resync`` is its period in seconds; ``window`` its pending items in memory. Raises
        ListenerExists."""
        if name in self._listeners:
            raise ListenerExists(f"there is a listener {name!r} already")

        def wanted(item: T) -> bool:
            targets = self._audience(item)
            return targets is None or name in targets

        listener = ProcessorListener(
            name,
            self._log,
            window=window or self._window,
            after=self._log.last if after is None else after,
            wanted=wanted,
            resync=resync,
            initial=initial,
            size=self._size,
        )
        self._listeners[name] = listener
        self._tell_periods()
        return listener

    def remove(self, name: str) -> None:
        """Its taker gets ListenerClosed at the next take. Unknown names are no error."""
        if listener := self._listeners.pop(name, None):
            listener.close()
            self._tell_periods()

    def distribute(self, items: Sequence[T], last: int) -> None:
        """Tell every listener the newest items of the log, in order, up to sequence number ``last``. The items must be
        in the log already, and batches come in the order of the log."""
        for listener in self._listeners.values():
            listener.offer(items, last)

    # ── Resync ───────────────────────────────────────────────────────────────

    def resync_periods(self) -> Mapping[str, float]:
        """Listener → seconds, for those that have a period."""
        return {name: listener.resync for name, listener in self._listeners.items() if listener.resync > 0}

    async def wait_periods_changed(self) -> None:
        """Return when the next listener comes or goes."""
        await self._periods_changed.wait()

    def _tell_periods(self) -> None:
        changed, self._periods_changed = self._periods_changed, asyncio.Event()
        changed.set()
