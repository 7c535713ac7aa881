"""Handlers of an informer that is used as a library: each has a pending queue and a task of its own."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import TypeAlias

from bridge.facts import ListenerOverrun, Report
from bridge.informer.indexer import Indexer
from bridge.model.change import Change, ChangeBatch, Evidence, Op
from bridge.model.primitives.ring import Ring, Slice
from bridge.processor.listener import ListenerClosed, ProcessorListener
from bridge.processor.shared_processor import SharedProcessor

Handler: TypeAlias = Callable[[Sequence[Change]], Awaitable[None]]
"""Gets changes in order, some at a time. What it raises ends the informer: an error nobody handles is a bug."""

BATCH = 500
"""Most changes in one call of a handler."""

GRACE = 5.0
"""Seconds that handlers get at the end to come to what is pending."""


class _ChangeLog(Ring[Change]):
    """The ring as a Log: in memory, so that reading it never waits."""

    async def read(self, after: int, limit: int) -> Slice[Change]:  # type: ignore[override]
        return super().read(after, limit)


class Registration:
    """One handler on one informer."""

    def __init__(self, listener: ProcessorListener[Change], handler: Handler, report: Report) -> None:
        self.name = listener.name
        self._listener = listener
        self._handler = handler
        self._report = report
        self._handled = -1
        """The handler has returned from everything up to here; -1 until it has from what was in the store."""
        self._ended = False
        self._synced_at: int | None = None
        self._synced = asyncio.Event()
        self._progress = asyncio.Event()

    @property
    def has_synced(self) -> bool:
        """The handler has returned from everything that the first list made."""
        return self._synced.is_set()

    async def wait_synced(self) -> None:
        await self._synced.wait()

    def informer_synced(self, at: int) -> None:
        """The first list ends at this sequence number."""
        self._synced_at = at
        self._check()

    async def run(self) -> None:
        """Until the handler is removed."""
        while True:
            try:
                taken = await self._listener.take(BATCH)
            except ListenerClosed:
                return
            if taken.missed is not None:
                first, last, count = taken.missed.first, taken.missed.last, taken.missed.count
                self._report(ListenerOverrun(self.name, first, last, count))
            if taken.items:
                await self._handler(taken.items)
            if not self._listener.has_initial:
                self._handled = taken.through
                self._progress.set()
                self._check()

    async def wait_handled(self, through: int) -> None:
        """Return when the handler has returned from everything up to this sequence number, or was removed."""
        while self._handled < through and not self._ended:
            self._progress.clear()
            await self._progress.wait()

    def end(self) -> None:
        """Nobody waits for this handler from now on."""
        self._ended = True
        self._progress.set()

    def _check(self) -> None:
        if self._synced_at is not None and self._handled >= self._synced_at:
            self._synced.set()


class Handlers:
    """All handlers of one informer. A handler that falls behind by more than ``log_items`` changes loses the oldest,
    which is reported (ListenerOverrun); the informer and the other handlers do not notice."""

    def __init__(self, indexer: Indexer, *, report: Report, log_items: int = 10_000, log_bytes: int = 64 << 20) -> None:
        self._indexer = indexer
        self._report = report
        self._log = _ChangeLog(log_items, log_bytes)
        self._processor = SharedProcessor[Change](self._log, targets=lambda change: change.targets)
        self._registrations: dict[str, Registration] = {}
        self._tasks: asyncio.TaskGroup | None = None
        self._running: dict[Registration, asyncio.Task[None]] = {}
        self._synced_at: int | None = None
        self._stopped = False

    def add(self, name: str, handler: Handler, *, resync: float = 0.0) -> Registration:
        """From now on ``handler`` gets every change; first, as ``added``, everything that is in the store. ``resync``
        is the period in seconds after which everything is told again as ``sync``. Raises ListenerExists, and
        RuntimeError where the informer has stopped and would never call it."""
        if self._stopped:
            raise RuntimeError(f"handler {name!r} comes too late: its informer has stopped")
        listener = self._processor.add(name, resync=resync, initial=self._in_store())
        registration = Registration(listener, handler, self._report)
        self._registrations[name] = registration
        if self._synced_at is not None:
            registration.informer_synced(self._synced_at)
        self._run(registration)
        return registration

    def remove(self, registration: Registration) -> None:
        """A call that is under way goes on; no further one is made. Removing twice is no error."""
        if self._registrations.get(registration.name) is registration:
            del self._registrations[registration.name]
            self._processor.remove(registration.name)
            registration.end()

    async def deliver(self, batch: ChangeBatch) -> None:
        for change in batch.changes:
            self._log.append(change, len(change.object.body))
        self._processor.distribute(batch.changes, self._log.last)
        # What every handler has been given needs no place any more.
        self._log.trim(min((each.taken for each in self._processor.listeners.values()), default=self._log.last))

    @property
    def kept(self) -> int:
        """Changes that are in memory for handlers that have not come to them."""
        return len(self._log)

    def resync_periods(self) -> Mapping[str, float]:
        return self._processor.resync_periods()

    async def wait_periods_changed(self) -> None:
        await self._processor.wait_periods_changed()

    def start(self, tasks: asyncio.TaskGroup) -> None:
        """Run every handler, and each that comes later, in this group."""
        self._tasks = tasks
        for registration in self._registrations.values():
            self._run(registration)

    def informer_synced(self) -> None:
        self._synced_at = self._log.last
        for registration in self._registrations.values():
            registration.informer_synced(self._synced_at)

    async def stop(self, grace: float = GRACE) -> None:
        """Let every handler come to the end of what was delivered, for at most ``grace`` seconds, then end it."""
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
        """What is known at this moment; bodies are unpacked when their turn comes."""
        known_now = self._indexer.items()
        return (Change(Op.ADDED, Evidence.LISTED, self._indexer.with_body(key, known)) for key, known in known_now)
