"""The worker of a sink that takes batches. A slow sink delays only its own worker."""

from __future__ import annotations

from collections.abc import Sequence

from bridge.delivery.sink_worker import SinkWorker
from bridge.model.dead_letter import RetriedDeadLetter
from bridge.model.primitives.split import split_at_notices
from bridge.model.record import Delta, OrderingKey, Record

_NO_NOTICE = {Delta}


class Worker(SinkWorker):
    """Delivers one batch at a time, and its pending records again before any newer record.

    Dead letters that an operator retries are delivered between two fetches, when no record is in flight.
    """

    _busy = False

    async def _work(self) -> None:
        while True:
            while self._dead_letters.retrying and await self._retry_dead_letters():
                pass
            fetch = await self._pending.take(self._max_batch)
            self._busy = True
            if fetch.missed is not None:
                await self._deliver([self._gap(fetch.missed)])
            if set(map(type, fetch.items)) == _NO_NOTICE:
                await self._deliver(fetch.items)
            else:
                for where in split_at_notices(fetch.items):
                    await self._deliver(fetch.items[where])
            self._pending.settle(fetch)
            self._busy = False
            self._progress.set()

    @property
    def _is_busy(self) -> bool:
        return self._busy

    async def _deliver(self, batch: Sequence[Record]) -> None:
        """Returns when each record is stored, or a dead letter."""
        while batch:
            if self._dead_letters.keys:
                # For every attempt, because a rejection in this very batch blocks later records of it.
                batch, blocked = self._parking.split(batch)
                if blocked:
                    await self._before_letters(blocked)
                    await self._parking.park(blocked)
                    continue
            receipt, delay = await self._attempts.deliver(batch)
            if receipt.rejected:
                answers = receipt.answers
                rejected = [(batch[index], why, answers.get(index, "")) for index, why in receipt.rejected.items()]
                await self._before_letters([record for record, _, _ in rejected])
                await self._parking.add_dead_letters(rejected)
            batch = [batch[index] for index in receipt.pending]
            if receipt.failure is not None:
                await self._attempts.pause(receipt.failure, delay, len(batch))

    async def _before_letters(self, records: Sequence[Record]) -> None:
        """These records become dead letters."""

    def _announce(self, letters: Sequence[RetriedDeadLetter]) -> None:
        """The next delivery is of these dead letters."""

    def _settle_letters(self) -> None:
        """The destination has stored some of them."""

    async def _retry_dead_letters(self) -> bool:
        """Delivers the next dead letters. Returns False when none are left to retry."""
        self._busy = True
        dead_letters = await self._dead_letters.next_retries(self._max_batch)
        rejected: set[OrderingKey] = set()
        for where in split_at_notices([dead_letter.record for dead_letter in dead_letters]):
            await self._deliver_dead_letters(dead_letters[where], rejected)
        self._busy = False
        self._progress.set()
        return bool(dead_letters)

    async def _deliver_dead_letters(
        self, dead_letters: Sequence[RetriedDeadLetter], rejected: set[OrderingKey]
    ) -> None:
        """``rejected``: objects with a dead letter that was rejected again; their later dead letters are not tried."""
        while dead_letters := [each for each in dead_letters if each.record.ordering_key not in rejected]:
            self._announce(dead_letters)
            receipt, delay = await self._attempts.deliver([each.record for each in dead_letters])
            left = receipt.rejected.keys() | set(receipt.pending)
            await self._dead_letters.delivered(
                [each.number for index, each in enumerate(dead_letters) if index not in left]
            )
            if len(left) < len(dead_letters):
                self._settle_letters()
            for index, reason in receipt.rejected.items():
                again = dead_letters[index]
                await self._dead_letters.rejected_again(again.number, reason, receipt.answers.get(index, ""))
                if isinstance(again.record, Delta):
                    rejected.add(again.record.ordering_key)
            dead_letters = [dead_letters[index] for index in receipt.pending]
            if receipt.failure is not None:
                await self._attempts.pause(receipt.failure, delay, len(dead_letters))
