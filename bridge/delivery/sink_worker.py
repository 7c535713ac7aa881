"""The common part of all workers: the promise, the dead letters, and the state for status and admin.

``SinkWorker`` opens the sink, leaves the work to its kind, and answers what operators and the shutdown ask. ``Parking``
puts rejected records, and the records behind them, into the dead letters.

A pause is durable, since an operator who paused a sink during an incident would be surprised if a restart resumed it.
It shows in ``/readyz?verbose``, ``kubedelta cursors``, the metrics and, at every start, the log.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress

from bridge.delivery.attempts import SinkAttempts, WorkerSettings
from bridge.model.policies import OnRejected
from bridge.model.primitives.ring import Missed
from bridge.model.record import Delta, Gap, NewDeadLetter, Record, RetriedDeadLetter, overrun_gap
from bridge.model.status import CircuitState, PauseCause, SinkState
from bridge.outbox import DeadLetters
from bridge.telemetry.facts import Report
from bridge.telemetry.facts.delivery import ListenerOverrun, RecordRejected, RecordsParked
from sinks.base import is_blocked


class Parking:
    """Decides which records are blocked (``on_rejected: park``), and adds rejected and blocked records to the dead
    letters. A notice belongs to no object, so it is never blocked and blocks no record."""

    def __init__(self, name: str, dead_letters: DeadLetters, policy: OnRejected, report: Report) -> None:
        self._name = name
        self._dead_letters = dead_letters
        self._parks = policy is OnRejected.PARK
        self._report = report
        self.parked = 0
        """Records."""

    def is_blocked(self, record: Record) -> bool:
        """Whether the record, or an earlier record of its object, is a dead letter. An earlier record than the first
        dead letter is not blocked: it comes again after a crash."""
        return (
            self._parks and isinstance(record, Delta) and is_blocked(self._dead_letters.keys, record, record.sequence)
        )

    def split(self, records: Sequence[Record]) -> tuple[Sequence[Record], Sequence[Record]]:
        """Returns the records to deliver, and the blocked records. Free while there are no dead letters."""
        if not self._parks or not self._dead_letters.keys:
            return records, ()
        free: list[Record] = []
        blocked: list[Record] = []
        for record in records:
            (blocked if self.is_blocked(record) else free).append(record)
        return free, blocked

    async def park(self, records: Sequence[Record]) -> None:
        """Adds blocked records to the dead letters. Returns when they are durable."""
        keys = self._dead_letters.keys
        await self._dead_letters.add_dead_letters(
            [NewDeadLetter(record, _behind(keys.get(record.ordering_key)), True) for record in records]
        )
        self.parked += len(records)
        objects = len({record.ordering_key for record in records})
        self._report(RecordsParked(self._name, len(records), objects, self._dead_letters.parked))

    async def add_dead_letters(self, rejected: Sequence[tuple[Record, str, str]]) -> None:
        """Adds rejected records, each with the reason and an excerpt of the destination's answer. Returns when they are
        durable."""
        numbers = await self._dead_letters.add_dead_letters(
            [NewDeadLetter(record, reason, False, answer) for record, reason, answer in rejected]
        )
        for number, (record, reason, _) in zip(numbers, rejected, strict=True):
            self._report_rejected(number or 0, record, reason)

    async def rejected_again(self, letter: RetriedDeadLetter, reason: str, answer: str) -> None:
        """A retried dead letter stays one. Returns when that is durable."""
        await self._dead_letters.rejected_again(letter.number, reason, answer)
        self._report_rejected(letter.number, letter.record, reason)

    def _report_rejected(self, number: int, record: Record, reason: str) -> None:
        self._report(RecordRejected(self._name, record.id, reason, number, *record.ordering_key))


def _behind(sequence: int | None) -> str:
    # None: an operator has dropped the dead letter in front meanwhile.
    front = f"record {sequence}" if sequence else "an earlier record"
    return f"parked behind {front} of this object, which was rejected"


_CHECK_INTERVAL = 0.1
"""Seconds."""
_STATES = {
    PauseCause.OPERATOR: SinkState.PAUSED,
    PauseCause.GONE: SinkState.GONE,
    PauseCause.FENCED: SinkState.FENCED,
}


class SinkWorker(ABC):
    """Takes records from ``pending``, delivers them, settles them. Ends only by cancellation, or by a bug. The next
    worker of this sink delivers the unsettled records again.

    **No record is lost.** A fetch is settled when the destination or the dead letters have stored every record of it,
    and all earlier fetches are settled.

    **Order.** Records of an object are delivered in their order. With ``park`` the order holds beyond a rejected
    record: that record and all later records of its object become dead letters in their order, and are delivered from
    there when an operator retries them. A notice is delivered alone, after all records in front of it and before all
    behind it.

    **Duplicates.** A record may be delivered twice if it was in flight when a worker was cancelled or killed, or if the
    destination did not acknowledge it.
    """

    def __init__(self, settings: WorkerSettings) -> None:
        self.name = settings.name
        self._pending = settings.pending
        self._dead_letters = settings.dead_letters
        self._report = settings.report
        self._now = settings.now
        self._max_batch = settings.max_batch
        self._attempts = SinkAttempts(settings)
        self._parking = Parking(settings.name, settings.dead_letters, settings.on_rejected, settings.report)
        self._progress = asyncio.Event()

    async def run(self) -> None:
        try:
            await self._attempts.open()
            await self._work()
        finally:
            await self._attempts.close()

    async def wait_idle(self) -> None:
        """Returns when there are no records to take, and all taken records are settled."""
        while self._is_busy or not self._pending.exhausted:
            await self._wait_for_progress()

    async def wait_idle_by(self, when: float) -> None:
        """Like ``wait_idle``, but returns at ``when`` on the event loop's clock, or as soon as no attempt can begin
        until then: waiting for a back-off that ends too late would be in vain."""
        await self._wait_while(lambda: self.may_deliver_by(when), self.wait_idle(), when)

    async def wait_settled_by(self, when: float) -> None:
        """Returns when all taken records are settled, at ``when``, or as soon as the destination takes no records. The
        caller keeps the worker from taking more."""
        await self._wait_while(lambda: self._delivers, self._wait_settled(), when)

    async def _wait_settled(self) -> None:
        while self._is_busy:
            await self._wait_for_progress()

    @property
    def _delivers(self) -> bool:
        attempts = self._attempts
        return attempts.in_flight > 0 or (attempts.suspended is None and self.circuit is CircuitState.CLOSED)

    async def _wait_while(self, condition: Callable[[], bool], done: Coroutine[None, None, None], when: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout_at(when), asyncio.TaskGroup() as tasks:
                waiting = tasks.create_task(done)
                while condition() and not waiting.done():
                    await asyncio.wait([waiting], timeout=_CHECK_INTERVAL)  # A pause is not announced.
                waiting.cancel()

    def may_deliver_by(self, when: float) -> bool:
        """An attempt is in flight, or begins by ``when``."""
        if self._attempts.suspended is not None:
            return self._attempts.in_flight > 0
        retry_at = self.retry_at
        return self.state is not SinkState.WAITING or retry_at is None or retry_at <= when

    # ── What an operator asks for ────────────────────────────────────────────

    def suspend(self, cause: PauseCause, reason: str = "") -> None:
        """Begins no attempt until ``resume``. Meanwhile the worker takes at most one batch, or as many records as fit
        the lanes. ``reason``: why the destination ended deliveries; empty if an operator did."""
        self._attempts.suspend(cause, reason)

    def resume(self) -> None:
        self._attempts.resume()

    def retry_now(self) -> bool:
        """Ends every pause, also a pause that the destination asked for. Returns False if there was no pause."""
        waiting = self.retry_at is not None
        self._attempts.retry_now()
        return waiting

    # ── Status ───────────────────────────────────────────────────────────────

    @property
    def state(self) -> SinkState:
        if self._attempts.suspended is not None and not self._attempts.in_flight:
            return _STATES[self._attempts.suspended.cause]
        if not self._attempts.is_open:
            return SinkState.OPENING if self.retry_at is None else SinkState.WAITING
        if self._attempts.in_flight:
            return SinkState.DELIVERING
        if not self._is_busy:
            return SinkState.IDLE
        return SinkState.DELIVERING if self.retry_at is None else SinkState.WAITING

    @property
    def circuit(self) -> CircuitState:
        return self._attempts.circuit.name

    @property
    def last_error(self) -> str | None:
        """The newest failure; None after a success."""
        return self._attempts.last_error

    @property
    def retry_at(self) -> float | None:
        """The end of the pause on the event loop's clock; None without a pause."""
        return self._attempts.retry_at if self._attempts.suspended is None else None

    @property
    def asked(self) -> float | None:
        """Seconds that the destination asked the bridge to wait, with its last failure; None if it did not ask."""
        return self._attempts.asked

    @property
    def delivered(self) -> int:
        """Records since this worker began."""
        return self._attempts.delivered

    @property
    def rejected(self) -> int:
        return self._attempts.rejected

    @property
    def parked(self) -> int:
        return self._parking.parked

    # ── For each worker ──────────────────────────────────────────────────────

    @abstractmethod
    async def _work(self) -> None:
        """Takes and delivers until cancelled."""

    @property
    @abstractmethod
    def _is_busy(self) -> bool:
        """A taken record is not settled, or a dead letter is being delivered."""

    async def _wait_for_progress(self) -> None:
        self._progress.clear()
        await self._progress.wait()

    def _gap(self, missed: Missed) -> Gap:
        self._report(ListenerOverrun(self.name, missed.first, missed.last, missed.count))
        return overrun_gap(missed.first, missed.last, self._now())
