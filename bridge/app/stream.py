"""What one sink is told, in order: its log, and before it goes on, what it is to be told out of turn."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from bridge.delivery.ports import Taken
from bridge.model.record import Record
from bridge.outbox.errands import Errand
from bridge.outbox.sinks import Sinks
from bridge.processor.listener import Missed, ProcessorListener


@dataclass(frozen=True, slots=True)
class Stretch:
    items: Sequence[Record]
    missed: Missed | None = None
    through: int | None = None
    """Settled with it: the log up to here."""
    place: int | None = None
    """Settled with it: what is told out of turn, up to here."""
    ends_errand: bool = False


class SinkStream:
    """The Pending of one sink's worker (see delivery.ports).

    Only one of ``take`` and ``paused`` goes on at a time: what is told out of turn is planned while nothing is being
    handed out, so that it is known what the sink may have been told.
    """

    def __init__(self, sink: str, listener: ProcessorListener[Record], sinks: Sinks) -> None:
        self.sink = sink
        self._listener = listener
        self._sinks = sinks
        self._turn = asyncio.Lock()
        self._errand_read = False
        """It has been handed out to the end, and goes when that is settled."""

    @property
    def taken(self) -> int:
        """How far the log was handed out."""
        return self._listener.taken

    @property
    def in_memory(self) -> int:
        return self._listener.in_memory

    @property
    def errand(self) -> Errand | None:
        """What is still to be handed out out of turn."""
        return None if self._errand_read else self._sinks[self.sink].errand

    @property
    def exhausted(self) -> bool:
        """Everything that there is has been handed out."""
        return self._listener.exhausted and self.errand is None

    async def take(self, limit: int) -> Stretch:
        """See delivery.ports.Pending."""
        async with self._turn:
            errand = self.errand
            if errand is not None:
                if self._listener.taken >= errand.after:
                    return await self._take_errand(errand, limit)
                limit = min(limit, errand.after - self._listener.taken)
            taken = await self._listener.take(limit)
            return Stretch(taken.items, taken.missed, through=taken.through)

    async def _take_errand(self, errand: Errand, limit: int) -> Stretch:
        items, place = await self._sinks.read_errand(self.sink, limit)
        if items:
            return Stretch(items, place=place)
        self._errand_read = True
        self._listener.skip(errand.cut)
        return Stretch((), ends_errand=True)

    def wake(self) -> None:
        """See delivery.ports.Pending."""
        self._listener.wake()

    def settle(self, taken: Taken) -> None:
        """See delivery.ports.Pending."""
        if not isinstance(taken, Stretch):
            raise TypeError(f"{type(taken).__name__} was not taken from this stream")
        if taken.through is not None:
            self._sinks.settle(self.sink, taken.through)
        if taken.place is not None:
            self._sinks.settle_errand(self.sink, taken.place)
        if taken.ends_errand:
            self._sinks.end_errand(self.sink)
            self._errand_read = False

    # ── Out of turn ──────────────────────────────────────────────────────────

    async def compact(self, told_through: int) -> tuple[int, int]:
        """See Sinks.compact."""
        self.wake()
        async with self._turn:
            if self._errand_read:
                return (0, 0)
            return await self._sinks.compact(self.sink, self.taken, told_through)

    async def drop(self, through: int) -> tuple[int, int]:
        """See Sinks.drop."""
        if not self._can_drop(through):
            return (0, 0)
        self.wake()
        async with self._turn:
            if not self._can_drop(through):
                return (0, 0)
            return await self._sinks.drop(self.sink, self.taken, through)

    def _can_drop(self, through: int) -> bool:
        """Something up to there was not handed out."""
        errand = self.errand
        return not self._errand_read and through > (self.taken if errand is None else errand.cut)

    async def replay(self, start: int | str, kind: int | None, namespace: str | None) -> tuple[int, int, int]:
        """See Sinks.replay."""
        self.wake()
        async with self._turn:
            return await self._sinks.replay(self.sink, start=start, taken=self.taken, kind=kind, namespace=namespace)
