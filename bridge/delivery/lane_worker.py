"""Delivers to sinks that take record by record: several deliveries at once, never two of the same object.

A fetch is spread over lanes (``LaneEntries``), one for each object, or some lanes that all objects share. Lanes with
records wait in a WorkQueue, from which ``LaneWorker`` serves as many at once as the sink wants. A fetch is settled when
all of its records are stored or dead letters, and so are those of all earlier fetches (``UnsettledFetches``). Dead
letters that an operator retries go through the same lanes (``RetriesInLanes``).

An object that fails backs off alone. When many objects fail in a row, or the destination takes no record at all, the
circuit stops the whole sink.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterator, Sequence
from typing import TypeAlias

import msgspec
from msgspec.structs import replace

from bridge.delivery.attempts import WorkerSettings
from bridge.delivery.sink_worker import Parking, SinkWorker
from bridge.delivery.workqueue import WorkQueue
from bridge.model.primitives.ring import Fetch
from bridge.model.record import Delta, OrderingKey, Record, RetriedDeadLetter, split_at_notices
from bridge.outbox import DeadLetters
from sinks.base import ALL_STORED, Lanes, Receipt, RetryLater

MAX_RECORDS = 1000
MAX_BYTES = 16 << 20
"""Bounds on the unsettled records of a sink; bytes are those of the bodies."""

Lane: TypeAlias = OrderingKey | int
"""An object; or a number, where all objects share some lanes."""


class UnsettledFetch(msgspec.Struct, eq=False):
    """A fetch with records in the lanes."""

    fetch: Fetch[Record]
    left: int
    """Records that are neither stored nor dead letters."""
    records: int
    bytes: int
    """Of the bodies."""


class LaneEntry(msgspec.Struct, frozen=True, eq=False):
    """A record in a lane."""

    record: Record
    origin: UnsettledFetch | RetriedDeadLetter


class UnsettledFetches:
    """The unsettled fetches in their order. A fetch is settled only after all earlier fetches: behind an object that
    fails for long, records are stored but not settled."""

    def __init__(self, max_records: int, max_bytes: int) -> None:
        self._max_records = max_records
        self._max_bytes = max_bytes
        self._fetches: deque[UnsettledFetch] = deque()
        self._records = 0
        self._bytes = 0

    def __bool__(self) -> bool:
        return bool(self._fetches)

    @property
    def is_full(self) -> bool:
        """A further fetch has to wait. The last fetch may have exceeded the bounds."""
        return self.room <= 0 or self._bytes >= self._max_bytes

    @property
    def room(self) -> int:
        """Records that may be added."""
        return self._max_records - self._records

    def add(self, fetch: Fetch[Record], records: Sequence[Record]) -> list[LaneEntry]:
        """``records``: those of the fetch, behind a gap for its missed records."""
        size = sum(len(record.body) for record in records if isinstance(record, Delta))
        unsettled = UnsettledFetch(fetch, len(records), len(records), size)
        self._fetches.append(unsettled)
        self._records += unsettled.records
        self._bytes += size
        return [LaneEntry(record, unsettled) for record in records]

    def pop_settled(self) -> Iterator[Fetch[Record]]:
        """Removes and yields the first fetches, as far as they have no records left."""
        while self._fetches and not self._fetches[0].left:
            unsettled = self._fetches.popleft()
            self._records -= unsettled.records
            self._bytes -= unsettled.bytes
            yield unsettled.fetch


class LaneEntries(dict[Lane, deque[LaneEntry]]):
    """The entries of each lane; a lane without entries is removed. A lane with entries is in the work queue, delayed,
    or being served."""

    def __init__(self, queue: WorkQueue[Lane], shared_lanes: int | None) -> None:
        """``shared_lanes``: the number of lanes that all objects share; None for a lane per object."""
        super().__init__()
        self._queue = queue
        self._shared_lanes = shared_lanes

    def put(self, entries: Sequence[LaneEntry], *, in_front: bool) -> None:
        for entry in reversed(entries) if in_front else entries:
            key = entry.record.ordering_key
            lane = key if self._shared_lanes is None else hash(key) % self._shared_lanes
            waiting = self.get(lane)
            if waiting is None:
                # An existing lane comes to this entry by itself. Only a new lane has to be queued.
                waiting = self[lane] = deque()
                self._queue.add(lane)
            if in_front:
                waiting.appendleft(entry)
            else:
                waiting.append(entry)


class RetriesInLanes:
    """The dead letters that an operator retries, while they are in the lanes."""

    def __init__(self, dead_letters: DeadLetters, parking: Parking) -> None:
        self._dead_letters = dead_letters
        self._parking = parking
        self._rejected: set[OrderingKey] = set()
        self.count = 0

    async def take(self, limit: int) -> list[LaneEntry]:
        """Returns the next dead letters as entries. Call only while ``count`` is 0."""
        dead_letters = await self._dead_letters.next_retries(limit)
        self._rejected.clear()
        self.count = len(dead_letters)
        return [LaneEntry(each.record, each) for each in dead_letters]

    def is_behind_rejected(self, entry: LaneEntry) -> bool:
        """A dead letter of the same object was rejected again: later ones are not tried."""
        return entry.record.ordering_key in self._rejected

    async def stored(self, entries: Sequence[LaneEntry]) -> None:
        """Removes the dead letters among the entries."""
        if numbers := [entry.origin.number for entry in entries if isinstance(entry.origin, RetriedDeadLetter)]:
            await self._dead_letters.delivered(numbers)

    async def rejected_again(self, dead_letter: RetriedDeadLetter, reason: str, answer: str) -> None:
        if isinstance(dead_letter.record, Delta):
            self._rejected.add(dead_letter.record.ordering_key)
        await self._parking.rejected_again(dead_letter, reason, answer)


class LaneWorker(SinkWorker):
    """Makes up to ``lanes.concurrency`` deliveries at once, never two of the same lane.

    The worker takes no more records while ``max_records`` or ``max_bytes`` of records are unsettled (a single fetch may
    exceed the bounds). Then an object that fails for long blocks the whole sink.

    A notice waits until the lanes are empty, and no record follows before the notice is delivered. Dead letters that an
    operator retries go into the lanes of their objects, in front of the waiting records.
    """

    def __init__(
        self, settings: WorkerSettings, lanes: Lanes, *, max_records: int = MAX_RECORDS, max_bytes: int = MAX_BYTES
    ) -> None:
        """The circuit opens after ``retry.failures`` different lanes have failed in a row."""
        retry, shared = settings.retry, lanes.batch > 1
        # With a single lane there are no other lanes to protect: every failure counts for the circuit.
        self._counts_lanes = not shared or lanes.concurrency > 1
        if shared and self._counts_lanes:
            # There are only so many lanes that can fail.
            retry = replace(retry, failures=min(retry.failures, lanes.concurrency))
        super().__init__(replace(settings, retry=retry))
        self._concurrency = lanes.concurrency
        self._max_delivery = lanes.batch
        self._queue = WorkQueue[Lane](initial=retry.initial, maximum=retry.maximum, jitter=settings.jitter)
        self._lanes = LaneEntries(self._queue, lanes.concurrency if shared else None)
        self._unsettled = UnsettledFetches(max_records, max_bytes)
        self._in_lanes = 0
        """Entries in the lanes, and in flight."""
        self._retries = RetriesInLanes(settings.dead_letters, self._parking)
        self._taking = False
        """The worker waits for records, not for room."""

    @property
    def retry_at(self) -> float | None:
        if self._attempts.suspended is not None or not self._attempts.is_open:
            return super().retry_at
        circuit = self._attempts.circuit.ready_at
        if circuit > asyncio.get_running_loop().time():
            return circuit if circuit < float("inf") else None
        return self._queue.next_delayed

    def may_deliver_by(self, when: float) -> bool:
        """While a lane waits, other lanes may deliver; while the circuit is open, none may."""
        if super().may_deliver_by(when):
            return True
        if not self._attempts.is_open or self._attempts.ready_at > when:
            return False
        return self._queue.is_active or (self._taking and not self._pending.exhausted)

    def retry_now(self) -> bool:
        waiting = super().retry_now()
        self._queue.add_delayed_now()
        return waiting

    @property
    def _is_busy(self) -> bool:
        return bool(self._unsettled or self._in_lanes)

    async def _work(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            for _ in range(self._concurrency):
                tasks.create_task(self._serve_lanes())
            while True:
                await self._take()

    # ── Into the lanes ───────────────────────────────────────────────────────

    async def _take(self) -> None:
        if self._dead_letters.retrying and not self._retries.count:
            await self._fill(await self._retries.take(self._max_batch), in_front=True)
        while self._unsettled.is_full:
            await self._wait_for_progress()
        self._taking = True
        fetch = await self._pending.take(min(self._max_batch, self._unsettled.room))
        self._taking = False
        records = list(fetch.items)
        if fetch.missed is not None:
            records.insert(0, self._gap(fetch.missed))
        await self._fill(self._unsettled.add(fetch, records))
        self._settle()

    async def _fill(self, entries: Sequence[LaneEntry], *, in_front: bool = False) -> None:
        for where in split_at_notices([entry.record for entry in entries]):
            part = entries[where]
            is_notice = not isinstance(part[0].record, Delta)
            while is_notice and self._in_lanes:
                await self._wait_for_progress()
            self._in_lanes += len(part)
            self._lanes.put(part, in_front=in_front)
            while is_notice and self._in_lanes:
                await self._wait_for_progress()

    # ── Out of the lanes ─────────────────────────────────────────────────────

    async def _serve_lanes(self) -> None:
        while True:
            lane = await self._queue.get()
            try:
                await self._serve(lane)
            finally:
                self._queue.done(lane)

    async def _serve(self, lane: Lane) -> None:
        waiting = self._lanes[lane]
        batch, blocked = self._next(waiting)
        if blocked:
            await self._parking.park([entry.record for entry in blocked])
            if self._dead_letters.retrying:
                # Newly parked records may be marked for retry too: a waiting take must not delay them.
                self._pending.wake()
            self._finish(blocked)
        failure = await self._deliver(lane, batch) if batch else None
        if failure is None:
            self._queue.forget(lane)
        if waiting:
            self._queue_again(lane, failure)
        else:
            del self._lanes[lane]

    def _next(self, waiting: deque[LaneEntry]) -> tuple[list[LaneEntry], list[LaneEntry]]:
        """Removes entries from the lane: the next to deliver, and the blocked entries among them."""
        batch: list[LaneEntry] = []
        blocked: list[LaneEntry] = []
        stay: list[LaneEntry] = []
        while waiting and len(batch) < self._max_delivery:
            entry = waiting.popleft()
            if isinstance(entry.origin, RetriedDeadLetter):
                (stay if self._retries.is_behind_rejected(entry) else batch).append(entry)
            else:
                (blocked if self._parking.is_blocked(entry.record) else batch).append(entry)
        self._finish(stay)
        return batch, blocked

    async def _deliver(self, lane: Lane, batch: Sequence[LaneEntry]) -> RetryLater | None:
        """Makes one attempt, and returns its failure."""
        receipt, _ = await self._attempts.deliver(
            [entry.record for entry in batch], lane if self._counts_lanes else None
        )
        # By identity, because this is the hot path: a sink returns the same object when all is stored.
        if receipt is not ALL_STORED:
            return await self._handle(receipt, lane, batch)
        if self._retries.count:
            await self._retries.stored(batch)
        self._finish(batch)
        return None

    async def _handle(self, receipt: Receipt, lane: Lane, batch: Sequence[LaneEntry]) -> RetryLater | None:
        """Pending entries go back to the front of their lane."""
        left = receipt.rejected.keys() | set(receipt.pending)
        stored = [entry for index, entry in enumerate(batch) if index not in left]
        await self._retries.stored(stored)
        for index, reason in receipt.rejected.items():
            entry, answer = batch[index], receipt.answers.get(index, "")
            if isinstance(entry.origin, RetriedDeadLetter):
                await self._retries.rejected_again(entry.origin, reason, answer)
            else:
                await self._parking.add_dead_letters([(entry.record, reason, answer)])
        self._lanes[lane].extendleft(batch[index] for index in reversed(receipt.pending))
        self._finish([*stored, *(batch[index] for index in receipt.rejected)])
        return receipt.failure

    def _queue_again(self, lane: Lane, failure: RetryLater | None) -> None:
        if failure is None:
            self._queue.add(lane)
            return
        now = asyncio.get_running_loop().time()
        delay = max(0.0, self._attempts.circuit.ready_at - now)
        if failure.unavailable:
            # The circuit makes the lane wait. A back-off of the lane's own would make it wait for longer than others.
            self._queue.add(lane)
        else:
            delay = max(delay, self._queue.add_rate_limited(lane, failure.after))
        self._attempts.delayed(failure, delay, len(self._lanes[lane]))

    # ── Settled ──────────────────────────────────────────────────────────────

    def _finish(self, entries: Sequence[LaneEntry]) -> None:
        """These entries are stored, or dead letters."""
        self._in_lanes -= len(entries)
        for entry in entries:
            if isinstance(entry.origin, UnsettledFetch):
                entry.origin.left -= 1
            else:
                self._retries.count -= 1
                if not self._retries.count:
                    self._pending.wake()  # A waiting take must not delay further dead letters that are to be retried.
        self._settle()

    def _settle(self) -> None:
        for fetch in self._unsettled.pop_settled():
            self._pending.settle(fetch, self._attempts.memory)
            self._progress.set()
        # Only when the lanes are empty, not at every delivery: waiting tasks would wake up in vain each time.
        if not self._in_lanes:
            self._progress.set()
