"""One sink's worker. A sink that is slow, down or stuck keeps its own worker waiting, and nobody else."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from bridge.facts import BatchDelivered, DeliveryDelayed, ListenerOverrun, RecordRejected, Report, SinkOpened
from bridge.model.backoff import Backoff
from bridge.model.record import Delta, Gap, Record
from sinks.base import Receipt, RetryLater, Sink, SinkUnavailable


class Missing(Protocol):
    """Records that left the outbox before this sink came to them."""

    @property
    def first(self) -> int: ...
    @property
    def last(self) -> int: ...


class Taken(Protocol):
    @property
    def items(self) -> Sequence[Record]: ...
    @property
    def through(self) -> int: ...
    @property
    def missed(self) -> Missing | None: ...


class Pending(Protocol):
    """The sink's pending queue: a ProcessorListener of records."""

    async def take(self, limit: int) -> Taken: ...


class WorkerState(StrEnum):
    OPENING = "opening"
    """The destination was not reached yet."""
    IDLE = "idle"
    """Everything that was there is delivered."""
    DELIVERING = "delivering"
    WAITING = "waiting"
    """The destination could not take records; they are delivered again after a while."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """Seconds."""

    initial: float = 0.2
    """A broker that restarts is soon back."""
    maximum: float = 30.0
    quiet: float = 120.0


class Worker:
    """Takes from ``pending``, delivers, settles. Ends only by cancellation; what was not settled then is delivered
    again by the next worker of this sink."""

    def __init__(
        self,
        name: str,
        make_sink: Callable[[], Sink],
        pending: Pending,
        *,
        settle: Callable[[int], None],
        report: Report,
        now: Callable[[], str],
        max_batch: int,
        retry: Retry | None = None,
        chance: Callable[[], float] = random.random,
    ) -> None:
        retry = retry or Retry()
        self.name = name
        self._make_sink = make_sink
        self._pending = pending
        self._settle = settle
        self._report = report
        self._now = now
        self._max_batch = max_batch
        self._backoff = Backoff(retry.initial, retry.maximum, retry.quiet)
        self._chance = chance
        self.state = WorkerState.OPENING
        self.trouble: str | None = None
        """What the destination last could not do; None since it could."""
        self.retry_at: float | None = None
        """On the event loop's clock, while waiting."""
        self.delivered = 0
        """Records."""
        self.rejected = 0
        self._settled = 0
        self._progress = asyncio.Event()

    async def run(self) -> None:
        sink = await self._open()
        try:
            while True:
                self.state = WorkerState.IDLE
                taken = await self._pending.take(self._max_batch)
                if taken.missed is not None:
                    # By itself: a sink may send records of different objects side by side, and a gap concerns them all.
                    await self._deliver(sink, [self._gap(taken.missed)])
                await self._deliver(sink, taken.items)
                self._settle(taken.through)
                self._settled = taken.through
                self._progress.set()
        finally:
            await sink.close()

    async def wait_settled(self, through: int) -> None:
        """Return when everything up to sequence number ``through`` is settled."""
        while self._settled < through:
            self._progress.clear()
            await self._progress.wait()

    async def _open(self) -> Sink:
        while True:
            sink = self._make_sink()
            try:
                await sink.open()
            except SinkUnavailable as error:
                await sink.close()
                await self._wait(RetryLater(str(error)), records=0)
                self.state = WorkerState.OPENING
            except BaseException:
                await sink.close()
                raise
            else:
                self.trouble = None
                self._report(SinkOpened(self.name))
                return sink

    async def _deliver(self, sink: Sink, batch: Sequence[Record]) -> None:
        loop_time = asyncio.get_running_loop().time
        while batch:
            self.state = WorkerState.DELIVERING
            began = loop_time()
            receipt = await sink.deliver(batch)
            self._count(batch, receipt, loop_time() - began)
            batch = [batch[place] for place in receipt.pending]
            if receipt.trouble is not None:
                await self._wait(receipt.trouble, len(batch))
        self.trouble = None

    def _count(self, batch: Sequence[Record], receipt: Receipt, seconds: float) -> None:
        for place, reason in receipt.rejected.items():
            self.rejected += 1
            self._report(RecordRejected(self.name, batch[place].id, reason))
        left = receipt.rejected.keys() | set(receipt.pending)
        stored = [record for place, record in enumerate(batch) if place not in left] if left else batch
        if stored:
            self.delivered += len(stored)
            size = sum(len(record.body) for record in stored if isinstance(record, Delta))
            self._report(BatchDelivered(self.name, len(stored), size, seconds))

    async def _wait(self, trouble: RetryLater, records: int) -> None:
        loop = asyncio.get_running_loop()
        delay = self._backoff.next(loop.time(), self._chance(), trouble.after)
        self.state = WorkerState.WAITING
        self.trouble = trouble.reason
        self.retry_at = loop.time() + delay
        self._report(DeliveryDelayed(self.name, records, trouble.reason, delay))
        await asyncio.sleep(delay)
        self.retry_at = None

    def _gap(self, missed: Missing) -> Gap:
        count = missed.last - missed.first + 1
        self._report(ListenerOverrun(self.name, missed.first, missed.last, count))
        reason = "the sink was further behind than the outbox is long"
        return Gap(missed.last, missed.first, count, reason, self._now())
