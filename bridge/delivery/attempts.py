"""A sink behind its circuit breaker. Times, counts and reports each attempt."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Sequence
from contextlib import suppress
from dataclasses import replace
from operator import attrgetter

from bridge.delivery.circuit import AT_REST, Circuit, Retry
from bridge.delivery.destination_facts import report_destination
from bridge.facts import (
    BatchDelivered,
    CircuitClosed,
    CircuitOpened,
    DeliveryDelayed,
    DestinationGone,
    RecordRejected,
    Report,
    SinkOpened,
)
from bridge.model.primitives.backoff import Backoff
from bridge.model.record import Delta, Record
from sinks.base import Receipt, RetryLater, Sink, SinkUnavailable

_body = attrgetter("body")


class SinkAttempts:
    """``open`` once, then ``deliver``, then ``close``. Only ``open`` retries by itself: the worker retries records."""

    def __init__(
        self,
        name: str,
        make_sink: Callable[[], Sink],
        *,
        backlog_records: Callable[[], int],
        report: Report,
        retry: Retry,
        jitter: Callable[[], float],
        save_gone: Callable[[], Awaitable[object]],
        make_content: Callable[[Record], Record] | None = None,
    ) -> None:
        """``backlog_records``: returns the number of unsettled records of the sink. The others: see WorkerSettings."""
        self._name = name
        self._save_gone = save_gone
        self._make_content = make_content
        self._make_sink = make_sink
        self._backlog_records = backlog_records
        self._report = report
        self._jitter = jitter
        self._opening = Backoff(retry.initial, retry.maximum, retry.quiet)
        self._longest_asked = retry.longest_asked
        self._sink: Sink | None = None
        self._failing: dict[Hashable, RetryLater] = {}
        """Lane (None without lanes) → its failure, if its last attempt failed. The newest failure is the last."""
        self._change = asyncio.Event()
        self._now = asyncio.get_running_loop().time
        self.circuit = Circuit(retry)
        self.retry_at: float | None = None
        """The end of the pause, on the event loop's clock."""
        self.suspended = False
        """No attempt begins: an operator paused the sink, or the destination is gone."""
        self.gone = ""
        """Why the destination wants no more records, if it does not."""
        self.in_flight = 0
        """Attempts."""
        self.delivered = 0
        """Records."""
        self.rejected = 0

    @property
    def is_open(self) -> bool:
        return self._sink is not None

    @property
    def last_error(self) -> str | None:
        """The newest failure that no later success has cleared."""
        return self.gone or (None if self._latest is None else self._latest.reason)

    @property
    def asked(self) -> float | None:
        """Seconds that the destination asked the bridge to wait, with that failure; None if it did not ask."""
        return None if self._latest is None else self._latest.after

    @property
    def _latest(self) -> RetryLater | None:
        return next(reversed(self._failing.values()), None)

    @property
    def ready_at(self) -> float:
        """When the next attempt may begin, on the event loop's clock. Infinite while the sink is paused, or while
        another attempt decides."""
        return float("inf") if self.suspended else self.circuit.ready_at

    def suspend(self, gone: str = "") -> None:
        """Begins no attempt until ``resume``. Attempts in flight go on."""
        self.suspended, self.gone = True, self.gone or gone

    def resume(self) -> None:
        self.suspended, gone, self.gone = False, self.gone, ""
        self.retry_now() if gone else self._wake()

    def retry_now(self) -> None:
        """Ends every pause."""
        now = self._now()
        self.circuit.retry_now(now)
        if self.retry_at is not None:
            self.retry_at = now
        self._wake()

    async def open(self) -> None:
        """Creates sinks until a sink opens: a failed ``open`` leaves a sink in an unknown state."""
        while self._sink is None:
            await self._until_ready()
            sink = self._make_sink()
            try:
                await sink.open()
            except SinkUnavailable as error:
                await sink.close()
                _raise_lost_cancellation()
                failure = self._failing[None] = RetryLater(str(error))
                delay = self._opening.next(self._now(), self._jitter())
                await self.pause(failure, delay, records=0)
            except BaseException:
                await sink.close()
                raise
            else:
                self._sink = sink
                _raise_lost_cancellation()
        self._failing.clear()
        self._report(SinkOpened(self._name))

    async def close(self) -> None:
        sink, self._sink = self._sink, None
        if sink is not None:
            await sink.close()

    async def deliver(self, batch: Sequence[Record], lane: Hashable = None) -> tuple[Receipt, float]:
        """Waits until the circuit permits an attempt, and makes it. Returns the receipt and, if the attempt failed, the
        seconds until the next attempt. ``lane``: see ``Circuit.failed``."""
        if self._sink is None:
            raise RuntimeError("deliver() before open()")
        if self.suspended or self.circuit.state is not AT_REST:
            await self._until_ready()
        circuit = self.circuit
        number, began = circuit.state_number if circuit.state is AT_REST else circuit.begin(), self._now()
        self.in_flight += 1
        try:
            make = self._make_content
            receipt = await self._sink.deliver(batch if make is None else [make(record) for record in batch])
        finally:
            self.in_flight -= 1
        _raise_lost_cancellation()
        self._count(batch, receipt, self._now() - began)
        if len(receipt.pending) < len(batch) and self.circuit.state is not AT_REST:
            # A part of the batch was stored: the destination works, whatever happened to the rest.
            number = self._succeeded(number)
        if receipt.failure is None:
            self._failing.pop(lane, None)
            return receipt, 0.0
        failure = self._bounded(receipt.failure)
        delay = self._failed(number, failure, lane)
        if failure.gone and not self.gone:
            self.suspend(failure.reason)
            self._report(DestinationGone(self._name, failure.reason))
            await self._save_gone()
        return replace(receipt, failure=failure), delay

    async def pause(self, failure: RetryLater, delay: float, records: int) -> None:
        """Waits ``delay`` seconds, or until ``retry_now``. For a worker that makes one attempt at a time."""
        self.delayed(failure, delay, records)
        self.retry_at = until = self._now() + delay
        try:
            while until > self._now():
                await self._wait_until(until)
                until = self.retry_at
        finally:
            self.retry_at = None

    def delayed(self, failure: RetryLater, delay: float, records: int) -> None:
        """Reports that so many records wait ``delay`` seconds for their next attempt."""
        if not failure.gone:
            backlog = self._backlog_records()
            self._report(DeliveryDelayed(self._name, records, failure.reason, delay, backlog, failure.after))

    def _bounded(self, failure: RetryLater) -> RetryLater:
        """Bounds the pause that the destination asked for: a mistake there must not stop the sink for ever."""
        if failure.after is None or 0 <= failure.after <= self._longest_asked:
            return failure
        return replace(failure, after=max(0.0, min(failure.after, self._longest_asked)))

    def _count(self, batch: Sequence[Record], receipt: Receipt, seconds: float) -> None:
        if receipt.created or receipt.lost or receipt.changed:
            report_destination(self._report, self._name, receipt, delivered=self.delivered > 0)
        for index, reason in receipt.rejected.items():
            self.rejected += 1
            self._report(RecordRejected(self._name, batch[index].id, reason))
        stored = batch
        if receipt.rejected or receipt.pending:
            left = receipt.rejected.keys() | set(receipt.pending)
            stored = [record for index, record in enumerate(batch) if index not in left]
        if stored:
            self.delivered += len(stored)
            # A notice is the only record of its batch, and has no body.
            size = sum(map(len, map(_body, stored))) if isinstance(stored[0], Delta) else 0
            self._report(BatchDelivered(self._name, len(stored), size, seconds))

    def _succeeded(self, number: int) -> int:
        """Returns the number under which this attempt may still report a failure: the circuit may have a new state."""
        seconds = self.circuit.succeeded(number, self._now())
        if seconds is None:
            return number
        self._report(CircuitClosed(self._name, seconds))
        self._wake()
        return self.circuit.begin()

    def _failed(self, number: int, failure: RetryLater, lane: Hashable) -> float:
        self._failing.pop(lane, None)  # Inserted anew, as the newest failure.
        self._failing[lane] = failure
        result = self.circuit.failed(
            number, self._now(), self._jitter(), at_least=failure.after, unavailable=failure.unavailable, lane=lane
        )
        if result.opened and not failure.gone:
            self._report(CircuitOpened(self._name, self.circuit.state.failures, failure.reason))
        self._wake()
        return result.delay

    def _wake(self) -> None:
        self._change.set()

    async def _until_ready(self) -> None:
        while (ready_at := self.ready_at) > self._now():
            await self._wait_until(ready_at)

    async def _wait_until(self, when: float) -> None:
        """Waits until this time, or until the circuit or the operator's pause changes."""
        self._change.clear()
        with suppress(TimeoutError):
            async with asyncio.timeout_at(when if when < float("inf") else None):
                await self._change.wait()


def _raise_lost_cancellation() -> None:
    """Raises CancelledError if the sink has swallowed a cancellation: client libraries use asyncio.wait_for, which in
    Python 3.11 loses a cancellation that arrives together with a result. The worker would never end."""
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError
