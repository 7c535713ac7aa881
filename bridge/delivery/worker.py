"""The worker of a sink that takes batches. A sink that is slow, down or stuck keeps its own worker waiting, and nobody
else."""

from __future__ import annotations

from collections.abc import Sequence

from bridge.delivery.ports import OrderingKey, RetriedDeadLetter
from bridge.delivery.sink_worker import SinkWorker, passages
from bridge.model.record import Delta, Record


class Worker(SinkWorker):
    """Delivers one batch at a time. What is pending of it is delivered again before anything newer.

    Dead letters that an operator asked for are delivered between two fetches: nothing is under way then.
    """

    _busy = False

    async def _work(self) -> None:
        while True:
            while self._letters.retrying and await self._retry_letters():
                pass
            fetch = await self._pending.take(self._max_batch)
            self._busy = True
            if fetch.missed is not None:
                await self._deliver([self._gap(fetch.missed)])
            for where in passages(fetch.items):
                await self._deliver(fetch.items[where])
            self._pending.settle(fetch)
            self._busy = False
            self._progress.set()

    @property
    def _is_busy(self) -> bool:
        return self._busy

    async def _deliver(self, batch: Sequence[Record]) -> None:
        """Return when each of these is stored, or a dead letter."""
        while batch:
            if self._letters.keys:
                batch, blocked = self._parking.split(batch)
                if blocked:
                    await self._parking.park(blocked)
                    continue
            receipt, delay = await self._attempts.deliver(batch)
            if receipt.rejected:
                answers = receipt.answers
                added = [(batch[place], why, answers.get(place, "")) for place, why in receipt.rejected.items()]
                await self._parking.add_dead_letters(added)
            batch = [batch[place] for place in receipt.pending]
            if receipt.failure is not None:
                await self._attempts.pause(receipt.failure, delay, len(batch))

    async def _retry_letters(self) -> bool:
        """Deliver the next ones. False where there are none."""
        self._busy = True
        dead_letters = await self._letters.next_retries(self._max_batch)
        stuck: set[OrderingKey] = set()
        for where in passages([dead_letter.record for dead_letter in dead_letters]):
            await self._deliver_letters(dead_letters[where], stuck)
        self._busy = False
        self._progress.set()
        return bool(dead_letters)

    async def _deliver_letters(self, dead_letters: Sequence[RetriedDeadLetter], stuck: set[OrderingKey]) -> None:
        """``stuck``: objects one of whose letters was rejected again. Their later ones stay what they are."""
        while dead_letters := [
            dead_letter for dead_letter in dead_letters if dead_letter.record.ordering_key not in stuck
        ]:
            receipt, delay = await self._attempts.deliver([dead_letter.record for dead_letter in dead_letters])
            left = receipt.rejected.keys() | set(receipt.pending)
            await self._letters.delivered(
                [dead_letter.number for place, dead_letter in enumerate(dead_letters) if place not in left]
            )
            for place, reason in receipt.rejected.items():
                await self._letters.rejected_again(dead_letters[place].number, reason, receipt.answers.get(place, ""))
                if isinstance(dead_letters[place].record, Delta):
                    stuck.add(dead_letters[place].record.ordering_key)
            dead_letters = [dead_letters[place] for place in receipt.pending]
            if receipt.failure is not None:
                await self._attempts.pause(receipt.failure, delay, len(dead_letters))
