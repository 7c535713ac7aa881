"""What the two kinds of worker have in common, and how both are looked at."""

from __future__ import annotations

import asyncio
import random
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress

from bridge.delivery.attempts import SinkAttempts
from bridge.delivery.circuit import Retry
from bridge.delivery.parking import Parking
from bridge.delivery.ports import DeadLetters, RecordSource
from bridge.facts import ListenerOverrun, Report
from bridge.model.fetch import Missed
from bridge.model.gaps import overrun_gap
from bridge.model.policies import OnRejected
from bridge.model.record import Delta, Gap, Record
from bridge.model.status import CircuitState, SinkState
from sinks.base import Sink

_LOOK = 0.1
"""Seconds."""


class SinkWorker(ABC):
    """Takes from ``pending``, delivers, settles. Ends only by cancellation, or by a bug; what was not settled then is
    delivered again by the next worker of this sink.

    **Nothing is lost.** A fetch is settled when every record of it is stored by the destination or durable in the
    dead letters, and all fetches before it are settled.

    **Order.** Records of one object are delivered in their order. With ``park`` that holds beyond a rejected one: it
    and all that follow it go to the dead letters in their order, and come from there when an operator asks. A notice
    is delivered by itself, after everything in front of it and before everything behind.

    **Twice** may come what was under way when a worker was cancelled or killed, and what a destination did not
    acknowledge.
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
        on_rejected: OnRejected = OnRejected.PARK,
        retry: Retry | None = None,
        chance: Callable[[], float] = random.random,
    ) -> None:
        """``now``: the time as RFC 3339, for notices that are made here."""
        self.name = name
        self._pending = pending
        self._letters = dead_letters
        self._report = report
        self._now = now
        self._max_batch = max_batch
        self._retry = retry or Retry()
        self._chance = chance
        self._attempts = SinkAttempts(
            name, make_sink, behind=lambda: pending.behind, report=report, retry=self._retry, chance=chance
        )
        self._parking = Parking(name, dead_letters, on_rejected, report)
        self._progress = asyncio.Event()

    async def run(self) -> None:
        try:
            await self._attempts.open()
            await self._work()
        finally:
            await self._attempts.close()

    async def wait_idle(self) -> None:
        """Return when there is nothing to take, and everything that was taken is settled."""
        while self._is_busy or not self._pending.exhausted:
            await self._wait_for_progress()

    async def wait_idle_by(self, when: float) -> None:
        """The same, for whoever waits no longer than ``when``, on the event loop's clock: returns also as soon as
        every attempt to come is later than that."""
        with suppress(TimeoutError):
            async with asyncio.timeout_at(when), asyncio.TaskGroup() as tasks:
                idle = tasks.create_task(self.wait_idle())
                while self.may_deliver_by(when) and not idle.done():
                    await asyncio.wait([idle], timeout=_LOOK)  # Nothing announces a pause.
                idle.cancel()

    def may_deliver_by(self, when: float) -> bool:
        """An attempt is under way, or begins by ``when``."""
        if self._attempts.suspended:
            return self._attempts.under_way > 0
        retry_at = self.retry_at
        return self.state is not SinkState.WAITING or retry_at is None or retry_at <= when

    # ── What an operator asks for ────────────────────────────────────────────

    def suspend(self) -> None:
        """Begin no attempt until ``resume``. At most one batch is taken meanwhile, or what fits the lanes."""
        self._attempts.suspend()

    def resume(self) -> None:
        self._attempts.resume()

    def retry_now(self) -> bool:
        """End every pause, also one that the destination asked for. False where there was none."""
        waiting = self.retry_at is not None
        self._attempts.hurry()
        return waiting

    # ── How it stands ────────────────────────────────────────────────────────

    @property
    def state(self) -> SinkState:
        if self._attempts.suspended and not self._attempts.under_way:
            return SinkState.PAUSED
        if not self._attempts.is_open:
            return SinkState.OPENING if self.retry_at is None else SinkState.WAITING
        if self._attempts.under_way:
            return SinkState.DELIVERING
        if not self._is_busy:
            return SinkState.IDLE
        return SinkState.DELIVERING if self.retry_at is None else SinkState.WAITING

    @property
    def circuit(self) -> CircuitState:
        return self._attempts.circuit.name

    @property
    def trouble(self) -> str | None:
        """What the destination last could not do; None since it could."""
        return self._attempts.trouble

    @property
    def retry_at(self) -> float | None:
        """On the event loop's clock, while waiting."""
        return None if self._attempts.suspended else self._attempts.retry_at

    @property
    def asked(self) -> float | None:
        """Seconds that the destination asked to be left alone, where it did, with its last trouble."""
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

    # ── What the two kinds do ────────────────────────────────────────────────

    @abstractmethod
    async def _work(self) -> None:
        """Until cancelled."""

    @property
    @abstractmethod
    def _is_busy(self) -> bool:
        """Something that was taken is not settled, or a dead letter is being delivered."""

    async def _wait_for_progress(self) -> None:
        self._progress.clear()
        await self._progress.wait()

    def _gap(self, missed: Missed) -> Gap:
        self._report(ListenerOverrun(self.name, missed.first, missed.last, missed.count))
        return overrun_gap(missed.first, missed.last, self._now())


def passages(records: Sequence[Record]) -> Iterator[slice]:
    """Where the notices are, each by itself, and what stands between them together. Nearly always one for all."""
    if set(map(type, records)) <= {Delta}:
        if records:
            yield slice(0, len(records))
        return
    start = 0
    for place, record in enumerate(records):
        if isinstance(record, Delta):
            continue
        if start < place:
            yield slice(start, place)
        yield slice(place, place + 1)
        start = place + 1
    if start < len(records):
        yield slice(start, len(records))
