"""One sink behind its circuit. Every attempt at it is made here, timed, counted and reported."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable, Sequence
from contextlib import suppress
from dataclasses import replace
from operator import attrgetter

from bridge.delivery.circuit import AT_REST, Circuit, Retry
from bridge.facts import (
    BatchDelivered,
    CircuitClosed,
    CircuitOpened,
    DeliveryDelayed,
    DestinationCreated,
    RecordRejected,
    Report,
    SinkOpened,
)
from bridge.model.primitives.backoff import Backoff
from bridge.model.record import Delta, Record
from sinks.base import Receipt, RetryLater, Sink, SinkUnavailable

_body = attrgetter("body")


class SinkAttempts:
    """``open`` once, then ``deliver``, then ``close``. Nothing is retried here but opening."""

    def __init__(
        self,
        name: str,
        make_sink: Callable[[], Sink],
        *,
        behind: Callable[[], int],
        report: Report,
        retry: Retry,
        chance: Callable[[], float],
    ) -> None:
        """``behind``: records that the sink has not settled."""
        self._name = name
        self._make_sink = make_sink
        self._behind = behind
        self._report = report
        self._chance = chance
        self._opening = Backoff(retry.initial, retry.maximum, retry.quiet)
        self._longest_asked = retry.longest_asked
        self._sink: Sink | None = None
        self._failing: dict[Hashable, RetryLater] = {}
        """What did not go through when it was last tried, and why."""
        self._change = asyncio.Event()
        self._now = asyncio.get_running_loop().time
        self.circuit = Circuit(retry)
        self.retry_at: float | None = None
        """On the event loop's clock: the end of the pause."""
        self.suspended = False
        """An operator paused the sink: no attempt begins."""
        self.under_way = 0
        """Attempts."""
        self.delivered = 0
        """Records."""
        self.rejected = 0

    @property
    def is_open(self) -> bool:
        return self._sink is not None

    @property
    def trouble(self) -> str | None:
        """What the destination last could not do, of what it still has not done."""
        return None if self._latest is None else self._latest.reason

    @property
    def asked(self) -> float | None:
        """Seconds that the destination asked to be left alone, where it did, with that trouble."""
        return None if self._latest is None else self._latest.after

    @property
    def _latest(self) -> RetryLater | None:
        return next(reversed(self._failing.values()), None)

    @property
    def ready_at(self) -> float:
        """When the next attempt may begin, on the event loop's clock. Infinite where no clock decides."""
        return float("inf") if self.suspended else self.circuit.ready_at

    def suspend(self) -> None:
        """What is under way comes to its end."""
        self.suspended = True

    def resume(self) -> None:
        self.suspended = False
        self._tell()

    def hurry(self) -> None:
        """End every pause."""
        now = self._now()
        self.circuit.hurry(now)
        if self.retry_at is not None:
            self.retry_at = now
        self._tell()

    async def open(self) -> None:
        """Make sinks until one opens."""
        while self._sink is None:
            await self._until_ready()
            sink = self._make_sink()
            try:
                await sink.open()
            except SinkUnavailable as error:
                await sink.close()
                _heed_cancellation()
                trouble = self._failing[None] = RetryLater(str(error))
                delay = self._opening.next(self._now(), self._chance())
                await self.pause(trouble, delay, records=0)
            except BaseException:
                await sink.close()
                raise
            else:
                self._sink = sink
                _heed_cancellation()
        self._failing.clear()
        self._report(SinkOpened(self._name))

    async def close(self) -> None:
        sink, self._sink = self._sink, None
        if sink is not None:
            await sink.close()

    async def deliver(self, batch: Sequence[Record], what: Hashable = None) -> tuple[Receipt, float]:
        """Wait until the circuit lets it through, and make one attempt. Returns also the seconds until the next one
        should be made, where this one failed. ``what``: see Circuit.failed."""
        if self._sink is None:
            raise RuntimeError("deliver() before open()")
        if self.suspended or self.circuit.state is not AT_REST:
            await self._until_ready()
        number, began = self.circuit.begin(), self._now()
        self.under_way += 1
        try:
            receipt = await self._sink.deliver(batch)
        finally:
            self.under_way -= 1
        _heed_cancellation()
        self._count(batch, receipt, self._now() - began)
        if len(receipt.pending) < len(batch) and self.circuit.state is not AT_REST:
            number = self._succeeded(number)
        if receipt.failure is None:
            self._failing.pop(what, None)
            return receipt, 0.0
        trouble = self._bounded(receipt.failure)
        return replace(receipt, failure=trouble), self._failed(number, trouble, what)

    async def pause(self, trouble: RetryLater, delay: float, records: int) -> None:
        """Let ``delay`` seconds pass. For whoever makes one attempt at a time."""
        self.delayed(trouble, delay, records)
        self.retry_at = until = self._now() + delay
        try:
            while until > self._now():
                await self._wait_until(until)
                until = self.retry_at
        finally:
            self.retry_at = None

    def delayed(self, trouble: RetryLater, delay: float, records: int) -> None:
        self._report(DeliveryDelayed(self._name, records, trouble.reason, delay, self._behind(), trouble.after))

    def _bounded(self, trouble: RetryLater) -> RetryLater:
        """Whatever a destination asks for, it is tried again some day."""
        if trouble.after is None or 0 <= trouble.after <= self._longest_asked:
            return trouble
        return replace(trouble, after=max(0.0, min(trouble.after, self._longest_asked)))

    def _count(self, batch: Sequence[Record], receipt: Receipt, seconds: float) -> None:
        if receipt.created:
            self._report(DestinationCreated(self._name, receipt.created, again=self.delivered > 0))
        for place, reason in receipt.rejected.items():
            self.rejected += 1
            self._report(RecordRejected(self._name, batch[place].id, reason))
        stored = batch
        if receipt.rejected or receipt.pending:
            left = receipt.rejected.keys() | set(receipt.pending)
            stored = [record for place, record in enumerate(batch) if place not in left]
        if stored:
            self.delivered += len(stored)
            # Notices come by themselves.
            size = sum(map(len, map(_body, stored))) if isinstance(stored[0], Delta) else 0
            self._report(BatchDelivered(self._name, len(stored), size, seconds))

    def _succeeded(self, number: int) -> int:
        """Returns the number for what else came out of this attempt."""
        seconds = self.circuit.succeeded(number, self._now())
        if seconds is None:
            return number
        self._report(CircuitClosed(self._name, seconds))
        self._tell()
        return self.circuit.begin()

    def _failed(self, number: int, trouble: RetryLater, what: Hashable) -> float:
        self._failing.pop(what, None)
        self._failing[what] = trouble
        failure = self.circuit.failed(
            number, self._now(), self._chance(), at_least=trouble.after, whole=trouble.unavailable, what=what
        )
        if failure.opened:
            self._report(CircuitOpened(self._name, self.circuit.state.failures, trouble.reason))
        self._tell()
        return failure.delay

    def _tell(self) -> None:
        self._change.set()

    async def _until_ready(self) -> None:
        while (ready_at := self.ready_at) > self._now():
            await self._wait_until(ready_at)

    async def _wait_until(self, when: float) -> None:
        """Or until the circuit changes."""
        self._change.clear()
        with suppress(TimeoutError):
            async with asyncio.timeout_at(when if when < float("inf") else None):
                await self._change.wait()


def _heed_cancellation() -> None:
    """Raise what the sink may have swallowed: client libraries use asyncio.wait_for, and that of Python 3.11 loses a
    cancellation which meets a result. A worker that lost it would never end."""
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError
