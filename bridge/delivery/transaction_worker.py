"""The worker of a sink whose deliveries are transactions."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from bridge.delivery.ports import TransactionSource
from bridge.delivery.sink_worker import WorkerSettings
from bridge.delivery.worker import Worker
from bridge.model.dead_letter import RetriedDeadLetter


class TransactionWorker(Worker):
    """Delivers a whole fetch at once, notices included, and gives the sink the progress that is reached with it.

    **Exactly once.** The destination stores records and progress together, or neither. After a crash, and after a
    delivery whose end is unknown, the progress that the destination has decides where the worker goes on. Rejected
    records are dead letters before a transaction goes past them.

    A transaction begins ``seconds`` after the one before, unless a full fetch waits: so a single change is delivered at
    once, and many changes share the price of a transaction.
    """

    _sets_aside = False

    def __init__(self, settings: WorkerSettings, source: TransactionSource, seconds: float) -> None:
        """``source`` is the ``pending`` of the settings."""
        super().__init__(settings)
        self._source = source
        self._seconds = seconds
        self._begins_at = 0.0
        """When the next transaction may begin, on the event loop's clock."""

    async def run(self) -> None:
        await self._source.begin()
        await super().run()

    async def _work(self) -> None:
        await self._source.recover()
        clock = asyncio.get_running_loop().time
        while True:
            # A dead letter of before a kill may stand in front of the settled log: its record comes again, and is known
            # by the dead letter, which a retry would remove.
            if self._source.taken >= self._dead_letters.newest_at_start:
                while self._dead_letters.retrying and await self._retry_dead_letters():
                    pass
            if (pause := self._begins_at - clock()) > 0:
                await asyncio.sleep(pause)
            fetch = await self._source.take(self._max_batch)
            self._busy = True
            records = list(fetch.items) if fetch.missed is None else [self._gap(fetch.missed), *fetch.items]
            if records:
                self._begins_at = 0.0 if len(records) >= self._max_batch else clock() + self._seconds
                self._source.hand_over(fetch)
                await self._deliver(records)
            self._source.settle(fetch)
            self._busy = False
            self._progress.set()

    def _announce(self, letters: Sequence[RetriedDeadLetter]) -> None:
        self._source.hand_over_letters(letters)
