"""Makes the attempts at a sink when the circuit, the operator and the Lease permit one; times, counts and reports each.

``SinkAttempts.deliver`` waits until an attempt may begin, hands the batch to the sink, and tells the circuit how it
went. It retries no records: the worker reads the receipt, and decides. A destination may end deliveries by its answer
(it is gone for good, or another bridge has taken it over): then the sink is ``Suspended``, durably, until an operator
resumes it. ``Fencing`` is about a destination that knows another leader: under an election, no request begins until the
Lease says who leads, and the attempt is made again if it is this replica.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Hashable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Protocol, TypeAlias

import msgspec

from bridge.delivery.circuit import AT_REST, Circuit, Retry
from bridge.delivery.sink_feed import SinkFeed
from bridge.model.policies import OnRejected
from bridge.model.primitives.backoff import Backoff
from bridge.model.record import Record, body_bytes, unfit
from bridge.model.status import PauseCause
from bridge.outbox import DeadLetters
from bridge.telemetry.facts import Report
from bridge.telemetry.facts.delivery import (
    BatchDelivered,
    CircuitClosed,
    CircuitOpened,
    DeliveryDelayed,
    DestinationChanged,
    DestinationCreated,
    DestinationGone,
    DestinationLost,
    LeadershipDoubted,
    SinkFenced,
    SinkOpened,
)
from sinks.base import Progress, Receipt, RetryLater, Sink, SinkContext, SinkUnavailable, always


@dataclass(frozen=True, slots=True)
class Suspended:
    """No attempt begins until an operator resumes the sink."""

    cause: PauseCause
    reason: str
    """Why the destination ended deliveries; empty if an operator paused the sink."""


def report_destination(report: Report, sink: str, receipt: Receipt, *, delivered: bool) -> None:
    """``delivered``: the sink has delivered records in this run."""
    if receipt.created:
        report(DestinationCreated(sink, receipt.created, again=delivered))
    if receipt.lost:
        report(DestinationLost(sink, receipt.lost))
    if receipt.changed:
        report(DestinationChanged(sink, receipt.changed))


def pause_cause(failure: RetryLater) -> PauseCause:
    """Whether the failure ends deliveries, and why."""
    return PauseCause.FENCED if failure.fenced else PauseCause.GONE if failure.gone else PauseCause.NONE


def report_halt(report: Report, sink: str, reason: str, cause: PauseCause) -> None:
    """The destination ended deliveries, now or before this start."""
    report(SinkFenced(sink, reason) if cause is PauseCause.FENCED else DestinationGone(sink, reason))


_MOST_FENCES = 3
"""In a term. More of them come from a process outside of the election, which would go on for ever."""


class HeldLease(Protocol):
    """The Lease with which this replica leads."""

    @property
    def is_valid(self) -> bool:
        """Asked before each request; where the answer is no, the worker is about to be cancelled."""
        ...

    async def confirmed(self) -> None:
        """Returns once the Lease was renewed by a request that began after this call. A replica that has lost it is
        cancelled in here."""
        ...


class Fencing:
    """Of a sink, in a term."""

    def __init__(self, sink: str, lease: HeldLease | None, report: Report) -> None:
        """``lease``: None without an election. Then a fence is for the operator."""
        self._sink = sink
        self._lease = lease
        self._report = report
        self._fences = 0
        self._in_doubt = 0
        """Attempts that met another leader and wait for the Lease."""

    def may_send(self) -> bool:
        """Whether this replica leads for certain, and no destination doubts it. Asked before each request."""
        return not self._in_doubt and (self._lease is None or self._lease.is_valid)

    async def until_certain(self) -> None:
        """Returns when ``may_send`` says yes. Another attempt may have met the fence, at any time."""
        while self._lease is not None and not self.may_send():
            await self._lease.confirmed()

    def withheld(self, failure: RetryLater) -> bool:
        """The destination has no part in the failure: the next attempt waits ``until_certain``."""
        return self._lease is not None and failure.withheld

    async def cleared(self, failure: RetryLater) -> bool:
        """Whether this replica leads, all the same, and may try again. Meanwhile no request of the sink begins. False
        for a failure that is no fence, and where the election does not know the other process."""
        if self._lease is None or not (failure.fenced or failure.doubted):
            return False
        self._fences += failure.fenced
        if self._fences > _MOST_FENCES:
            return False
        self._report(LeadershipDoubted(self._sink, failure.reason))
        self._in_doubt += 1
        try:
            await self._lease.confirmed()
        finally:
            self._in_doubt -= 1
        return True


MakeContent: TypeAlias = Callable[[Sequence[Record]], Awaitable[Sequence[Record]]]
"""Makes of records the same records with the content that a sink's options ask for. Never raises: a sink rejects a
record whose content says that it could not be made."""


PART = "a part of the destination"
"""The lane of records that wait for one, see ``RetryLater.partly``."""


class WorkerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """A sink, its records and dead letters, and the sink's policies."""

    name: str
    make_sink: Callable[[], Sink]
    pending: SinkFeed
    dead_letters: DeadLetters
    report: Report
    now: Callable[[], str]
    """Returns the time as RFC 3339, for gaps that the worker makes."""
    max_batch: int
    """Most records of a fetch."""
    save_pause: Callable[[PauseCause], Awaitable[object]]
    """Stores that the destination ended deliveries. Durable on return."""
    on_rejected: OnRejected = OnRejected.PARK
    lease: HeldLease | None = None
    """With which this replica leads; None without an election."""
    make_context: Callable[[], SinkContext] = SinkContext
    """Makes the context of a sink that is about to be opened, but for ``may_send`` and ``in_doubt``."""
    make_content: MakeContent | None = None
    """Called for each attempt; None if the sink's options ask for no content. Dead letters are without it."""
    redacts: bool = False
    """Records come in a form of the sink's own. One that has none (``unfit``) is rejected without an attempt."""
    leaving: Callable[[Record], Record] | None = None
    """Makes the form in which a record leaves, right before each attempt: with the leader's term. Dead letters are
    without it. None for the record as it is."""
    retry: Retry = Retry()
    """For the circuit, and for each lane."""
    jitter: Callable[[], float] = random.random
    """Returns a number from 0 to 1 for each delay."""


class SinkAttempts:
    """``open`` once, then ``deliver``, then ``close``. Only ``open`` retries by itself: the worker retries records."""

    def __init__(self, settings: WorkerSettings) -> None:
        retry = settings.retry
        self._settings = settings
        self._jitter = settings.jitter
        self._name = settings.name
        self._report = settings.report
        self._make_content = settings.make_content
        self._redacts = settings.redacts
        self._leaving = settings.leaving
        self._elected = settings.lease is not None
        self._fencing = Fencing(settings.name, settings.lease, settings.report)
        self._opening = Backoff(retry.initial, retry.maximum, retry.quiet)
        self._parts = Backoff(retry.initial, retry.maximum, retry.quiet)
        """Of failures of a part of the destination, which the circuit does not count."""
        self._bounded = retry.bounded
        self._sink: Sink | None = None
        self.committed: Progress | None = None
        """What ``Sink.open`` returned."""
        self.memory: bytes | None = None
        """The sink's newest (``Receipt.memory``); None before the first."""
        self._failing: dict[Hashable, RetryLater] = {}
        """Lane (None without lanes) → its failure, if its last attempt failed. The newest failure is the last."""
        self._change = asyncio.Event()
        self._now = asyncio.get_running_loop().time
        self.circuit = Circuit(retry)
        self.retry_at: float | None = None
        """The end of the pause, on the event loop's clock."""
        self.suspended: Suspended | None = None
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
        ended = "" if self.suspended is None else self.suspended.reason
        return ended or (None if self._latest is None else self._latest.reason)

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
        another attempt decides, or the Lease is in doubt."""
        return self.circuit.ready_at if self.suspended is None and self._fencing.may_send() else float("inf")

    def suspend(self, cause: PauseCause, reason: str = "") -> None:
        """Begins no attempt until ``resume``. Attempts in flight go on. ``reason``: see Suspended. An operator's pause
        adds nothing to what the destination said."""
        if not self._halted:
            self.suspended = Suspended(cause, reason)

    def resume(self) -> None:
        halted, self.suspended = self._halted, None
        self.retry_now() if halted else self._change.set()

    @property
    def _halted(self) -> bool:
        """The destination ended deliveries."""
        return self.suspended is not None and self.suspended.cause is not PauseCause.OPERATOR

    def retry_now(self) -> None:
        """Ends every pause."""
        now = self._now()
        self.circuit.retry_now(now)
        if self.retry_at is not None:
            self.retry_at = now
        self._change.set()

    async def open(self) -> None:
        """Creates sinks until a sink opens: a failed ``open`` leaves a sink in an unknown state."""
        may_send = self._fencing.may_send if self._elected else always
        in_doubt = 0
        while self._sink is None:
            await self._until_ready()
            sink = self._settings.make_sink()
            context = replace(self._settings.make_context(), may_send=may_send, in_doubt=in_doubt)
            try:
                self.committed = await sink.open(context)
            except SinkUnavailable as error:
                await sink.close()
                _raise_lost_cancellation()
                in_doubt = in_doubt if error.in_doubt is None else error.in_doubt
                failure = self._failing[None] = error.retry_later()
                await self._fencing.cleared(failure)
                await self.pause(failure, self._opening.next(self._now(), self._jitter()), records=0)
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
        """Waits until circuit and Lease permit an attempt, and makes it. Returns the receipt and, if the attempt
        failed, the seconds until the next attempt. Records that the sink withheld are pending without a failure; so are
        those of a batch with ``unfit`` ones, which are rejected first. ``lane``: see ``Circuit.failed``."""
        if self._sink is None:
            raise RuntimeError("deliver() before open()")
        if self._redacts and (rejected := {index: why for index, record in enumerate(batch) if (why := unfit(record))}):
            self.rejected += len(rejected)
            return Receipt([index for index in range(len(batch)) if index not in rejected], rejected=rejected), 0.0
        # In front of the waits: nothing stands between these and the attempt.
        records = batch if self._make_content is None else await self._make_content(batch)
        if self.suspended is not None or self._elected or self.circuit.state is not AT_REST:
            await self._until_ready()
        circuit = self.circuit
        number = circuit.state_number if circuit.state is AT_REST else circuit.begin()
        began = self._now()
        self.in_flight += 1
        try:
            leaving = self._leaving
            receipt = await self._sink.deliver(records if leaving is None else [leaving(record) for record in records])
        finally:
            self.in_flight -= 1
        _raise_lost_cancellation()
        if receipt.memory is not None:
            self.memory = receipt.memory
        self._count(batch, receipt, self._now() - began)
        partly = receipt.failure is not None and receipt.failure.partly
        if (partly or len(receipt.pending) < len(batch)) and self.circuit.state is not AT_REST:
            # A part of the batch was stored, or would be: the destination works, whatever happened to the rest.
            number = self._succeeded(number)
        if receipt.failure is None:
            self._failing.pop(lane, None)
            return receipt, 0.0
        if self._fencing.withheld(receipt.failure):
            self.circuit.withdraw(number, self._now())
            self._change.set()
            return replace(receipt, failure=None), 0.0
        failure = replace(receipt.failure, after=self._bounded(receipt.failure.after))
        delay = self._part_failed(failure) if partly else self._failed(number, failure, lane)
        cleared = await self._fencing.cleared(failure)
        if not cleared and (cause := pause_cause(failure)) and not self._halted:
            self.suspend(cause, failure.reason)
            report_halt(self._report, self._name, failure.reason, cause)
            await self._settings.save_pause(cause)
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
        if not pause_cause(failure):
            backlog = self._settings.pending.backlog_records
            self._report(DeliveryDelayed(self._name, records, failure.reason, delay, backlog, failure.after))

    def _count(self, batch: Sequence[Record], receipt: Receipt, seconds: float) -> None:
        if receipt.created or receipt.lost or receipt.changed:
            report_destination(self._report, self._name, receipt, delivered=self.delivered > 0)
        self.rejected += len(receipt.rejected)
        stored = batch
        if receipt.rejected or receipt.pending:
            left = receipt.rejected.keys() | set(receipt.pending)
            stored = [record for index, record in enumerate(batch) if index not in left]
        if stored:
            self.delivered += len(stored)
            self._report(BatchDelivered(self._name, len(stored), sum(map(body_bytes, stored)), seconds))

    def _succeeded(self, number: int) -> int:
        """Returns the number under which this attempt may still report a failure: the circuit may have a new state."""
        seconds = self.circuit.succeeded(number, self._now())
        if seconds is None:
            return number
        self._report(CircuitClosed(self._name, seconds))
        self._change.set()
        return self.circuit.begin()

    def _failed(self, number: int, failure: RetryLater, lane: Hashable) -> float:
        self._failing.pop(lane, None)  # Inserted anew, as the newest failure.
        self._failing[lane] = failure
        result = self.circuit.failed(
            number, self._now(), self._jitter(), at_least=failure.after, unavailable=failure.unavailable, lane=lane
        )
        if result.opened and not pause_cause(failure):
            self._report(CircuitOpened(self._name, self.circuit.state.failures, failure.reason))
        self._change.set()
        return result.delay

    def _part_failed(self, failure: RetryLater) -> float:
        self._failing.pop(PART, None)
        self._failing[PART] = failure
        return self._parts.next(self._now(), self._jitter())

    async def _until_ready(self) -> None:
        await self._fencing.until_certain()
        while (ready_at := self.ready_at) > self._now():
            await self._wait_until(ready_at)
            await self._fencing.until_certain()

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
