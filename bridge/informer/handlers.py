"""Runs the handlers of an informer that is used as a library: each has a pending queue and a task of its own."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import TypeAlias

from bridge.informer.indexer import Indexer
from bridge.model.change import Change, ChangeBatch, Evidence, Op
from bridge.model.primitives.ring import Ring, Slice
from bridge.processor.shared_processor import ListenerClosed, ProcessorListener, SharedProcessor
from bridge.telemetry.facts import Report
from bridge.telemetry.facts.delivery import ListenerOverrun

Handler: TypeAlias = Callable[[Sequence[Change]], Awaitable[None]]
"""Receives changes in order, at most BATCH per call. An error that it raises ends the informer."""

BATCH = 500
"""The most changes in a call of a handler."""

GRACE = 5.0
"""Seconds for handlers to process their pending changes after the informer ended."""


class _ChangeLog(Ring[Change]):
    """The ring as a Log. It is in memory, so reading never waits."""

    async def read(self, after: int, limit: int) -> Slice[Change]:  # type: ignore[override]
        return super().read(after, limit)


class Registration:
    """A handler of an informer."""

    def __init__(self, listener: ProcessorListener[Change], handler: Handler, report: Report) -> None:
        self.name = listener.name
        self._listener = listener
        self._handler = handler
        self._report = report
        self._handled = -1
        """The sequence number up to which the handler has processed all changes; -1 until it has processed the objects
        that were in the store."""
        self._ended = False
        self._synced_at: int | None = None
        self._synced = asyncio.Event()
        self._progress = asyncio.Event()

    @property
    def has_synced(self) -> bool:
        """The handler has processed all changes of the first list."""
        return self._synced.is_set()

    async def wait_synced(self) -> None:
        await self._synced.wait()

    def informer_synced(self, at: int) -> None:
        """The first list ends at this sequence number."""
        self._synced_at = at
        self._check()

    async def run(self) -> None:
        """Calls the handler until it is removed."""
        while True:
            try:
                fetch = await self._listener.take(BATCH)
            except ListenerClosed:
                return
            if fetch.missed is not None:
                first, last, count = fetch.missed.first, fetch.missed.last, fetch.missed.count
                self._report(ListenerOverrun(self.name, first, last, count))
            if fetch.items:
                await self._handler(fetch.items)
            if not self._listener.has_initial and fetch.through is not None:
                self._handled = fetch.through
                self._progress.set()
                self._check()

    async def wait_handled(self, through: int) -> None:
        """Returns when the handler has processed all changes up to this sequence number, or was removed."""
        while self._handled < through and not self._ended:
            self._progress.clear()
            await self._progress.wait()

    def end(self) -> None:
        """Releases all waiters of this handler."""
        self._ended = True
        self._progress.set()

    def _check(self) -> None:
        if self._synced_at is not None and self._handled >= self._synced_at:
            self._synced.set()


class Handlers:
    """All handlers of an informer. A handler that falls behind by more than ``log_items`` changes or ``log_bytes``
    bytes loses the oldest changes, which is reported (ListenerOverrun); the informer and the other handlers go on
    unaffected."""

    def __init__(self, indexer: Indexer, *, report: Report, log_items: int = 10_000, log_bytes: int = 64 << 20) -> None:
        self._indexer = indexer
        self._report = report
        self._log = _ChangeLog(log_items, log_bytes)
        self._processor = SharedProcessor[Change](targets=attrgetter("targets"))
        self._registrations: dict[str, Registration] = {}
        self._tasks: asyncio.TaskGroup | None = None
        self._running: dict[Registration, asyncio.Task[None]] = {}
        self._synced_at: int | None = None
        self._stopped = False

    def add(self, name: str, handler: Handler, *, resync: float = 0.0) -> Registration:
        """Adds a handler, which receives every object of the store as ``added`` and then every change.

        ``resync`` is the period in seconds after which it receives every object again as ``sync``; 0 for never. Raises
        ListenerExists, and RuntimeError if the informer has stopped."""
        if self._stopped:
            raise RuntimeError(f"handler {name!r} is too late: its informer has stopped")
        listener = self._processor.add(name, self._log, resync=resync, initial=self._in_store())
        registration = Registration(listener, handler, self._report)
        self._registrations[name] = registration
        if self._synced_at is not None:
            registration.informer_synced(self._synced_at)
        self._run(registration)
        return registration

    def remove(self, registration: Registration) -> None:
        """Ends the calls of a handler; a running call completes. Removing a handler twice has no effect."""
        if self._registrations.get(registration.name) is registration:
            del self._registrations[registration.name]
            self._processor.remove(registration.name)
            registration.end()

    async def deliver(self, batch: ChangeBatch) -> None:
        for change in batch.changes:
            self._log.append(change, len(change.object.body))
        self._processor.distribute(batch.changes, self._log.last)
        # Changes that every handler has received can leave the log.
        self._log.trim(min((each.taken for each in self._processor.listeners.values()), default=self._log.last))

    @property
    def kept(self) -> int:
        """Changes held in memory for slower handlers."""
        return len(self._log)

    def resync_periods(self) -> Mapping[str, float]:
        return self._processor.resync_periods()

    async def wait_periods_changed(self) -> None:
        await self._processor.wait_periods_changed()

    def start(self, tasks: asyncio.TaskGroup) -> None:
        """Runs every handler, and every later handler, in this group."""
        self._tasks = tasks
        for registration in self._registrations.values():
            self._run(registration)

    def informer_synced(self) -> None:
        self._synced_at = self._log.last
        for registration in self._registrations.values():
            registration.informer_synced(self._synced_at)

    async def stop(self, grace: float = GRACE) -> None:
        """Waits until every handler has processed all delivered changes, for ``grace`` seconds at most, then ends
        them."""
        self._tasks, self._stopped = None, True
        running = list(self._running.items())
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(grace):
                for registration, _ in running:
                    await registration.wait_handled(self._log.last)
        for registration, task in running:
            self.remove(registration)
            task.cancel()

    def _run(self, registration: Registration) -> None:
        if self._tasks is not None:
            task = self._tasks.create_task(registration.run(), name=f"handler {registration.name}")
            self._running[registration] = task
            task.add_done_callback(lambda _: self._running.pop(registration, None))

    def _in_store(self) -> Iterator[Change]:
        """The objects known at this moment; each body is unpacked when the handler reads it."""
        known_now = self._indexer.items()
        return (Change(Op.ADDED, Evidence.LISTED, self._indexer.with_body(key, known)) for key, known in known_now)
