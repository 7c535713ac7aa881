"""The worker of a sink that delivers record by record: one lane for each object, several deliveries at once.

Records that were taken wait in the lanes, and lanes with records wait in a WorkQueue. An object that fails backs off
alone; when many fail in a row, or the destination takes nothing at all, the circuit stops the whole sink.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from bridge.delivery.circuit import Retry
from bridge.delivery.ports import DeadLetters, OrderingKey, RecordSource, RetriedDeadLetter
from bridge.delivery.sink_worker import SinkWorker, passages
from bridge.delivery.workqueue import WorkQueue
from bridge.facts import Report
from bridge.model.fetch import Fetch
from bridge.model.policies import OnRejected
from bridge.model.record import Delta, Record
from sinks.base import ALL_STORED, Lanes, Receipt, RetryLater, Sink

MAX_RECORDS = 1000
MAX_BYTES = 16 << 20
"""Of bodies."""

Lane: TypeAlias = OrderingKey | int


@dataclass(slots=True, eq=False)
class _Unsettled:
    """A fetch whose records are in the lanes."""

    fetch: Fetch[Record]
    left: int
    """Records that are neither stored nor buried."""
    records: int
    bytes: int


@dataclass(frozen=True, slots=True, eq=False)
class _Entry:
    """A record in a lane."""

    record: Record
    home: _Unsettled | RetriedDeadLetter


class LaneWorker(SinkWorker):
    """Up to ``lanes.concurrency`` deliveries at once, never two of one lane.

    A fetch is settled when all its records are, and those of all fetches before: behind an object that fails for
    long, records are delivered but not settled. Taking stops when ``max_records`` or ``max_bytes`` of records are
    taken and not settled (one fetch may go beyond); then an object that fails holds up the whole sink.

    A notice waits until the lanes are empty, and they are not filled before it is delivered. Dead letters that an
    operator asked for go into the lanes of their objects, in front of what waits there.
    """

    def __init__(
        self,
        name: str,
        make_sink: Callable[[], Sink],
        pending: RecordSource,
        dead_letters: DeadLetters,
        *,
        report: Report,
        now: Callable[[], str],
        max_batch: int,
        lanes: Lanes,
        max_records: int = MAX_RECORDS,
        max_bytes: int = MAX_BYTES,
        on_rejected: OnRejected = OnRejected.PARK,
        retry: Retry | None = None,
        chance: Callable[[], float] = random.random,
    ) -> None:
        """``max_batch`` is taken at once. ``retry`` holds for each lane, and for the circuit, which opens after so many
        different lanes have failed in a row."""
        retry = retry or Retry()
        self._shared = lanes.batch > 1
        self._tells_apart = not self._shared or lanes.concurrency > 1
        if self._shared and self._tells_apart:
            # More lanes than there are can never fail.
            retry = replace(retry, failures=min(retry.failures, lanes.concurrency))
        super().__init__(
            name,
            make_sink,
            pending,
            dead_letters,
            report=report,
            now=now,
            max_batch=max_batch,
            on_rejected=on_rejected,
            retry=retry,
            chance=chance,
        )
        self._wanted = lanes
        self._max_records = max_records
        self._max_bytes = max_bytes
        self._queue = WorkQueue[Lane](initial=retry.initial, maximum=retry.maximum, jitter=self._chance)
        self._lanes: dict[Lane, deque[_Entry]] = {}
        self._unsettled: deque[_Unsettled] = deque()
        self._records = 0
        """Taken and not settled."""
        self._bytes = 0
        self._in_lanes = 0
        """Entries in the lanes, and under way."""
        self._letters_in_lanes = 0
        self._taking = False
        """It waits for what there is to take, not for room."""
        self._stuck: set[OrderingKey] = set()
        """Objects one of whose letters was rejected again: the later ones stay where they are."""

    @property
    def retry_at(self) -> float | None:
        if self._attempts.suspended or not self._attempts.is_open:
            return super().retry_at
        circuit = self._attempts.circuit.ready_at
        if circuit > asyncio.get_running_loop().time():
            return circuit if circuit < float("inf") else None
        return self._queue.next_delayed

    def may_deliver_by(self, when: float) -> bool:
        """One lane that waits leaves the others free, an open circuit none."""
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
            for _ in range(self._wanted.concurrency):
                tasks.create_task(self._serve_lanes())
            while True:
                await self._take()

    # ── Into the lanes ───────────────────────────────────────────────────────

    async def _take(self) -> None:
        if self._letters.retrying and not self._letters_in_lanes:
            await self._fill_in_letters()
        while self._records >= self._max_records or self._bytes >= self._max_bytes:
            await self._wait_for_progress()
        self._taking = True
        fetch = await self._pending.take(min(self._max_batch, self._max_records - self._records))
        self._taking = False
        records = list(fetch.items)
        if fetch.missed is not None:
            records.insert(0, self._gap(fetch.missed))
        size = sum(len(record.body) for record in records if isinstance(record, Delta))
        unsettled = _Unsettled(fetch, len(records), len(records), size)
        self._unsettled.append(unsettled)
        self._records += unsettled.records
        self._bytes += size
        await self._fill([_Entry(record, unsettled) for record in records])
        self._settle()

    async def _fill_in_letters(self) -> None:
        dead_letters = await self._letters.next_retries(self._max_batch)
        self._stuck.clear()
        self._letters_in_lanes = len(dead_letters)
        await self._fill([_Entry(dead_letter.record, dead_letter) for dead_letter in dead_letters], in_front=True)

    async def _fill(self, entries: Sequence[_Entry], *, in_front: bool = False) -> None:
        for where in passages([entry.record for entry in entries]):
            passage = entries[where]
            if isinstance(passage[0].record, Delta):
                self._put(passage, in_front)
            else:
                await self._wait_until_empty()
                self._put(passage, in_front)
                await self._wait_until_empty()

    def _put(self, entries: Sequence[_Entry], in_front: bool) -> None:
        self._in_lanes += len(entries)
        for entry in reversed(entries) if in_front else entries:
            lane = self._lane_of(entry.record)
            waiting = self._lanes.get(lane)
            if waiting is None:
                # A lane that is there is in the queue, delayed, or being served, and comes to this entry by itself.
                waiting = self._lanes[lane] = deque()
                self._queue.add(lane)
            if in_front:
                waiting.appendleft(entry)
            else:
                waiting.append(entry)

    def _lane_of(self, record: Record) -> Lane:
        key = record.ordering_key
        return hash(key) % self._wanted.concurrency if self._shared else key

    async def _wait_until_empty(self) -> None:
        while self._in_lanes:
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
            if self._letters.retrying:
                self._pending.wake()  # What it was parked behind may be gone by now, and taking may wait.
            self._finish(blocked)
        trouble = await self._deliver(lane, batch) if batch else None
        if trouble is None:
            self._queue.forget(lane)
        if waiting:
            self._queue_again(lane, trouble)
        else:
            del self._lanes[lane]

    def _next(self, waiting: deque[_Entry]) -> tuple[list[_Entry], list[_Entry]]:
        """Take off the lane what to deliver next, and what is held up in front of it or in between."""
        batch: list[_Entry] = []
        blocked: list[_Entry] = []
        stay: list[_Entry] = []
        while waiting and len(batch) < self._wanted.batch:
            entry = waiting.popleft()
            if isinstance(entry.home, RetriedDeadLetter):
                (stay if entry.record.ordering_key in self._stuck else batch).append(entry)
            else:
                (blocked if self._parking.is_blocked(entry.record) else batch).append(entry)
        self._finish(stay)
        return batch, blocked

    async def _deliver(self, lane: Lane, batch: Sequence[_Entry]) -> RetryLater | None:
        """One delivery. Hot where all of it was stored: nothing is sorted out then."""
        what = lane if self._tells_apart else None
        receipt, _ = await self._attempts.deliver([entry.record for entry in batch], what)
        if receipt is not ALL_STORED:
            return await self._sort_out(lane, batch, receipt)
        if self._letters_in_lanes:
            await self._tell_delivered(batch)
        self._finish(batch)
        return None

    async def _sort_out(self, lane: Lane, batch: Sequence[_Entry], receipt: Receipt) -> RetryLater | None:
        """What is pending goes back to the front of its lane."""
        left = receipt.rejected.keys() | set(receipt.pending)
        stored = [entry for place, entry in enumerate(batch) if place not in left]
        await self._tell_delivered(stored)
        await self._bury(batch, receipt)
        self._lanes[lane].extendleft(batch[place] for place in reversed(receipt.pending))
        self._finish([*stored, *(batch[place] for place in receipt.rejected)])
        return receipt.failure

    async def _tell_delivered(self, stored: Sequence[_Entry]) -> None:
        if numbers := [entry.home.number for entry in stored if isinstance(entry.home, RetriedDeadLetter)]:
            await self._letters.delivered(numbers)

    async def _bury(self, batch: Sequence[_Entry], receipt: Receipt) -> None:
        for place, reason in receipt.rejected.items():
            answer = receipt.answers.get(place, "")
            match batch[place]:
                case _Entry(record, RetriedDeadLetter(number)):
                    if isinstance(record, Delta):
                        self._stuck.add(record.ordering_key)
                    await self._letters.rejected_again(number, reason, answer)
                case _Entry(record):
                    await self._parking.add_dead_letters([(record, reason, answer)])

    def _queue_again(self, lane: Lane, trouble: RetryLater | None) -> None:
        if trouble is None:
            self._queue.add(lane)
            return
        now = asyncio.get_running_loop().time()
        delay = max(0.0, self._attempts.circuit.ready_at - now)
        if trouble.unavailable:
            # Not this lane's fault: the circuit makes it wait, and when that lets go it waits no longer.
            self._queue.add(lane)
        else:
            delay = max(delay, self._queue.add_rate_limited(lane, trouble.after))
        self._attempts.delayed(trouble, delay, len(self._lanes[lane]))

    # ── Settled ──────────────────────────────────────────────────────────────

    def _finish(self, entries: Sequence[_Entry]) -> None:
        """These are stored, dead letters, or stay dead letters."""
        self._in_lanes -= len(entries)
        for entry in entries:
            if isinstance(entry.home, _Unsettled):
                entry.home.left -= 1
            else:
                self._letters_in_lanes -= 1
                if not self._letters_in_lanes:
                    # Taking may wait, and there may be more letters.
                    self._pending.wake()
        self._settle()

    def _settle(self) -> None:
        while self._unsettled and not self._unsettled[0].left:
            unsettled = self._unsettled.popleft()
            self._pending.settle(unsettled.fetch)
            self._records -= unsettled.records
            self._bytes -= unsettled.bytes
            self._progress.set()
        # Not with every delivery: who waits would look each time, and find nothing new.
        if not self._in_lanes:
            self._progress.set()
