"""Queues deltas between Reflector and Controller (client-go's tools/cache/delta_fifo.go). It is on the hot path.

As in client-go: ``items`` by key and ``queue`` of keys hold the same keys in the same order; two Deleted in a row are
merged; Replace infers missing deletes; Resync skips keys with pending deltas. Different: ``drain`` takes all deltas in
arrival order, so that a batch is a transaction with the position that it reaches; the queue is bounded; a list may
arrive in pages; HasSynced becomes true when the first list is processed, not when it is popped.

client-go collects a whole list and replaces the store at once: 100,000 pods are then in memory twice. Here pages are
compared as they arrive, and the deletes follow the last page. The price: between the first and the last page the store
mixes two moments. Handlers that need a single moment wait for HasSynced; exported deltas carry their own versions.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from operator import attrgetter
from typing import Protocol, TypeAlias

from bridge.informer.deltas import (
    TYPE_OF_EVENT,
    Compared,
    Deltas,
    DeltaType,
    FifoClosed,
    QueuedDelta,
    Span,
    Suspicion,
    is_repeated_delete,
    keep_last_state,
    wider,
)
from bridge.model.answers import EventType
from bridge.model.change import Evidence
from bridge.model.object import ApiObject

_arrival = attrgetter("arrival")

Prepare: TypeAlias = Callable[[Sequence[QueuedDelta], str | None, Span], Awaitable[Sequence[QueuedDelta]]]
"""The deltas and the position of a batch, and the span of its list → the deltas with the steps behind the list's
differences."""


class ObjectVersions(Protocol):
    """The part of the Indexer that Replace and Resync read."""

    def keys(self) -> Collection[str]:
        """All known keys; the queue copies them before it waits."""
        ...


class DeltaFIFO:
    """A single producer and a single consumer, in the same event loop.

    ``max_deltas`` and ``max_bytes`` (of object bodies) bound the queue: the producer calls ``wait_room`` between
    additions, which stops its reading from the API server; methods that add many deltas wait for room themselves. A
    single addition may exceed the bound. ``resumed`` means that the known objects come from before a restart, so the
    first list is a comparison. ``position`` is the version whose state they are, so there is no first list to wait for;
    ``epoch`` is the epoch that they continue. ``prepare`` changes what ``drain`` passes on.

    In the library's own path, the Reflector adds by ``happened`` and ``replaced``, and the Controller takes by
    ``drain``. client-go's ``add``, ``update``, ``delete`` and ``pop`` are for other producers and consumers.
    """

    def __init__(
        self,
        known: ObjectVersions,
        *,
        max_deltas: int = 2000,
        max_bytes: int = 16 * 1024 * 1024,
        resumed: bool = False,
        position: str | None = None,
        epoch: int = 1,
        prepare: Prepare | None = None,
    ) -> None:
        self._known = known
        self._prepare = prepare
        self._max_deltas = max_deltas
        self._max_bytes = max_bytes
        self.items: dict[str, Deltas] = {}
        self.queue: deque[str] = deque()
        self._count = 0
        self._bytes = 0
        self.arrivals = 0
        """The number of deltas that were ever added."""
        self.drained_through = 0
        """The number of these deltas that ``drain`` has passed on."""
        self._position = position
        """The version whose state the store will have once all queued deltas are processed; None without one."""
        self._reached = position
        """The newest position in this history. It stays while the Indexer is at no position."""
        self._due = False
        """A batch is due, with or without deltas: a position was reached, or a list ended."""
        self._listed: set[str] | None = None
        self._list_type = DeltaType.REPLACED
        self._list_evidence = Evidence.RELISTED if resumed else Evidence.LISTED
        self._compared: Compared = None
        """How the present or the last list is compared. A suspicion lasts until a complete list has ended."""
        self._has_spans = False
        """The next batch has deltas with a span, or the end of their list."""
        self._preparing = False
        self.epoch = epoch
        """The epoch of the queued deltas."""
        self.contradicted = False
        """The list and the known objects belong to different histories; no version is reached until ``restored``."""
        self._in_flight = False
        """A batch is being processed."""
        self._initial_through: int | None = None
        """The newest arrival of the first list."""
        self._synced = position is not None
        self._closed = False
        self._filled = asyncio.Event()
        self._emptied = asyncio.Event()
        self._emptied.set()

    # ── The producer's side ──────────────────────────────────────────────────

    def happened(self, events: Iterable[tuple[EventType, ApiObject]], position: str | None = None) -> None:
        """Queues watch events in their order. With them, the store reaches the version ``position``; None if earlier
        events may be missing. Raises FifoClosed."""
        for kind, thing in events:
            if kind is EventType.DELETED and self._listed is not None:
                self._listed.discard(thing.key)
            self._add(TYPE_OF_EVENT[kind], thing.key, thing)
        if position is not None:
            self._position = None if self.contradicted else position
            self._due = True
            self._filled.set()

    def add(self, thing: ApiObject) -> None:
        """Queues an Added. Raises FifoClosed."""
        self._add(DeltaType.ADDED, thing.key, thing)

    def update(self, thing: ApiObject) -> None:
        """Queues an Updated. Raises FifoClosed."""
        self._add(DeltaType.UPDATED, thing.key, thing)

    def delete(self, thing: ApiObject) -> None:
        """Queues a Deleted with the object's last state. Raises FifoClosed."""
        self._add(DeltaType.DELETED, thing.key, thing)

    def begin_epoch(self, *, passed_over: int = 0) -> None:
        """The server has another history, in which a new epoch begins; ``passed_over`` others ended before it. All
        deltas of the old epoch must be processed."""
        self.restored()
        self.epoch += 1 + passed_over

    def restored(self) -> None:
        """The server has another history. Until a complete list has ended, equal versions do not prove equal states;
        the reached version is dropped."""
        self._list_type = DeltaType.RESTORED
        self._position = self._reached = self._compared = None
        self.contradicted = False

    def suspected(self) -> None:
        """The server may have another history. Until a complete list has ended, all listed objects up to the reached
        version must be known objects, or the list is of another history."""
        self._compared = Suspicion(self._reached or "")
        self._position = None

    def contradict(self) -> None:
        """The current list has shown that the server has another history."""
        self.contradicted = True
        self._position = None

    def begin_replace(self) -> None:
        """A list begins. An earlier list that did not end is dropped; its deltas stay queued."""
        before = self._compared
        if not isinstance(before, Suspicion):
            known_at = self._position if self._listed is None or before is None else before.since
            compares = self._list_type is DeltaType.REPLACED and self._list_evidence is Evidence.RELISTED
            self._compared = Span(known_at) if compares else None
        self._listed = set()

    def replaced(self, objects: Iterable[ApiObject]) -> None:
        """Queues a part of the list. Raises RuntimeError outside of begin_replace and end_replace, and FifoClosed."""
        if self._listed is None:
            raise RuntimeError("replaced() outside of a list: call begin_replace() first")
        for thing in objects:
            self._listed.add(thing.key)
            self._add(self._list_type, thing.key, thing, self._list_evidence, compared=self._compared)
        self._note_span()

    async def end_replace(
        self, position: str | None, *, complete: bool = True, evidence: Evidence = Evidence.RELISTED
    ) -> int:
        """Ends the list, and returns its number of objects. Known and queued objects that the list lacks are deleted
        with this evidence, and ``position`` is reached. An incomplete list infers no deletes, and so does not reach
        ``position``. Raises RuntimeError outside of a list, and FifoClosed."""
        if self._listed is None:
            raise RuntimeError("end_replace() outside of a list: call begin_replace() first")
        listed = self._listed
        while self._preparing:
            # The deltas of that batch are neither queued nor in the Indexer.
            self._emptied.clear()
            await self._emptied.wait()
        if complete and isinstance(self._compared, Span):
            self._compared.until = position
        for key in self._absent(listed) if complete else ():
            await self.wait_room()
            self._add(DeltaType.DELETED, key, None, evidence, compared=self._compared)
            self._note_span()
        self._listed = None
        self._note_span()
        self.reached(position if complete else self._position)
        if complete:
            self._list_type = DeltaType.REPLACED
            self._compared = None if isinstance(self._compared, Suspicion) else self._compared
        self._list_evidence = Evidence.RELISTED
        if self._initial_through is None:
            self._initial_through = self.arrivals
            if not self._synced:
                self._check_synced()
        return len(listed)

    async def replace(self, objects: Iterable[ApiObject], position: str | None) -> None:
        """Queues a whole list. Raises FifoClosed."""
        self.begin_replace()
        self.replaced(objects)
        await self.end_replace(position)

    async def abandon(self) -> None:
        """Queues a delete of every known object, none of which is watched any more. Raises FifoClosed."""
        self.restored()  # Lifts a contradiction, in which deletes would be ignored.
        self.begin_replace()
        await self.end_replace(None, evidence=Evidence.UNWATCHED)

    async def resync(self, targets: tuple[str, ...] | None = None) -> None:
        """Queues a Sync for each known object without pending deltas (pending deltas are newer than the store). A
        pending Sync gets the union of both ``targets``. Raises FifoClosed."""
        for key in list(self._known.keys()):
            await self.wait_room()
            pending = self.items.get(key)
            if pending is None:
                self._add(DeltaType.SYNC, key, None, targets=targets)
            elif pending[-1].type is DeltaType.SYNC:
                pending[-1].targets = wider(pending[-1].targets, targets)

    def reached(self, position: str | None) -> None:
        """Makes a batch due, with which the store reaches this version: all events up to it are queued. None if no
        version is reached."""
        self._position = None if self.contradicted else position
        self._reached = self._position or self._reached
        self._due = True
        self._filled.set()

    async def wait_room(self) -> None:
        """Returns when the queue has room. Raises FifoClosed."""
        while self._count >= self._max_deltas or self._bytes >= self._max_bytes:
            if self._closed:
                raise FifoClosed
            self._emptied.clear()
            await self._emptied.wait()
        if self._closed:
            raise FifoClosed

    @property
    def is_restoring(self) -> bool:
        """No complete list has ended since ``restored``."""
        return self._list_type is DeltaType.RESTORED

    @property
    def is_listing(self) -> bool:
        """A list has begun and not ended."""
        return self._listed is not None

    @property
    def is_processed(self) -> bool:
        """All added deltas are processed."""
        return not (self._count or self._due or self._in_flight)

    async def wait_drained(self) -> None:
        """Returns when all deltas that were added until now were passed to ``process``."""
        through = self.arrivals
        while self.drained_through < through:
            self._emptied.clear()
            await self._emptied.wait()

    async def wait_processed(self) -> None:
        """Returns when all added deltas are processed."""
        while not self.is_processed:
            self._emptied.clear()
            await self._emptied.wait()

    def close(self) -> None:
        """Ends additions. Queued deltas can still be taken; after that, waiters get FifoClosed."""
        self._closed = True
        self._filled.set()
        self._emptied.set()

    # ── The consumer's side ──────────────────────────────────────────────────

    async def pop(self, process: Callable[[Deltas], Awaitable[None]]) -> None:
        """Waits for the oldest key, and passes all its deltas to ``process``. If ``process`` raises, they return to the
        queue before newer deltas of the key, and the caller gets the error. Raises FifoClosed."""
        while not self.queue:
            if self._closed:
                raise FifoClosed
            self._filled.clear()
            await self._filled.wait()
        key = self.queue.popleft()
        deltas = self.items.pop(key)
        with self._processing({key: deltas}, deltas):
            await process(deltas)

    async def drain(self, process: Callable[[Sequence[QueuedDelta], str | None], Awaitable[None]]) -> None:
        """Waits for deltas or a position, and passes all deltas to ``process`` in arrival order, with the position: the
        server's version whose state the store has after these deltas, or None (within a list, in doubt). Syncs keep the
        position. Deltas of a list that is compared pass ``prepare`` before. If either raises, all deltas return to the
        queue, as in ``pop``. Raises FifoClosed."""
        while not (self.queue or self._due):
            if self._closed:
                raise FifoClosed
            self._filled.clear()
            await self._filled.wait()
        items, self.items = self.items, {}
        self.queue.clear()
        position, through = self._position, self.arrivals
        compared, has_spans = self._compared, self._has_spans
        self._due = self._has_spans = False
        # Usually a delta per key: then the order of insertion is the order of arrival, and no sort is needed.
        deltas = [deltas[0] for deltas in items.values()]
        if len(deltas) != self._count:
            deltas = sorted(chain.from_iterable(items.values()), key=_arrival)
        try:
            with self._processing(items, deltas):
                prepared: Sequence[QueuedDelta] = deltas
                if has_spans and isinstance(compared, Span) and self._prepare is not None:
                    prepared = await self._prepared(self._prepare(deltas, position, compared))
                self.drained_through = through
                await process(prepared, position)
        except BaseException:
            self._due = True
            self._has_spans = has_spans or self._has_spans
            raise

    @property
    def has_synced(self) -> bool:
        """True once all deltas of the first list are processed."""
        return self._synced

    def __len__(self) -> int:
        """Queued deltas, over all keys."""
        return self._count

    # ── Inside ───────────────────────────────────────────────────────────────

    def _add(
        self,
        kind: DeltaType,
        key: str,
        thing: ApiObject | None,
        evidence: Evidence = Evidence.WATCHED,
        targets: tuple[str, ...] | None = None,
        compared: Compared = None,
    ) -> None:
        if self._closed:
            raise FifoClosed
        if kind is not DeltaType.SYNC:
            # With this delta, the store is past the former position and not yet at the next.
            self._position = None
        self.arrivals += 1
        delta = QueuedDelta(kind, key, thing, evidence, self.arrivals, targets, compared)
        pending = self.items.get(key)
        if pending is None:
            self.items[key] = [delta]
            self.queue.append(key)
        elif is_repeated_delete(pending[-1], delta):
            self._bytes += keep_last_state(pending[-1], delta)
            return
        else:
            pending.append(delta)
        self._count += 1
        if thing is not None:
            self._bytes += len(thing.body)
        self._filled.set()

    def _note_span(self) -> None:
        self._has_spans = self._has_spans or isinstance(self._compared, Span)

    def _absent(self, listed: set[str]) -> list[str]:
        """Keys, queued keys first, of existing objects that the list lacks."""
        queued = [
            key for key, deltas in self.items.items() if key not in listed and deltas[-1].type is not DeltaType.DELETED
        ]
        known = self._known.keys()
        return queued + [key for key in known if key not in listed and key not in self.items]

    @contextmanager
    def _processing(self, items: dict[str, Deltas], deltas: Sequence[QueuedDelta]) -> Iterator[None]:
        """Counts ``deltas`` as taken from ``items``; if the block raises, they return to the queue."""
        self._in_flight = True
        self._count -= len(deltas)
        self._bytes -= sum(len(delta.object.body) for delta in deltas if delta.object is not None)
        self._emptied.set()
        try:
            yield
        except BaseException:
            self._put_back(items)
            raise
        finally:
            self._in_flight = False
            if not self._synced:
                self._check_synced()
            self._emptied.set()

    async def _prepared(self, preparation: Awaitable[Sequence[QueuedDelta]]) -> Sequence[QueuedDelta]:
        self._preparing = True
        try:
            return await preparation
        finally:
            self._preparing = False
            self._emptied.set()

    def _check_synced(self) -> None:
        """The oldest delta is first in the queue: if it is newer than the first list, that list is processed."""
        if self._initial_through is None or self._in_flight:
            return
        self._synced = not self.queue or self.items[self.queue[0]][0].arrival > self._initial_through

    def _put_back(self, items: dict[str, Deltas]) -> None:
        newer, self.items = self.items, items
        for key, deltas in newer.items():
            older = items.setdefault(key, [])
            if older and is_repeated_delete(older[-1], deltas[0]):
                keep_last_state(older[-1], deltas.pop(0))
            older += deltas
        self.queue = deque(items)
        self._count = sum(map(len, items.values()))
        queued = chain.from_iterable(items.values())
        self._bytes = sum(len(delta.object.body) for delta in queued if delta.object is not None)
        self._filled.set()
