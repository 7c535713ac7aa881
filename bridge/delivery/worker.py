"""Delivers to sinks that take batches, one batch at a time, and to sinks whose deliveries are transactions.

A slow sink delays only its own worker. ``Worker`` takes a fetch, delivers it until each record is stored, a dead letter
or waits ``Aside`` for a part of the destination, and settles it. ``TransactionWorker`` delivers a fetch together with
the progress that is reached by it, which the destination stores in the same transaction.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Hashable, Iterator, Sequence
from itertools import chain

from msgspec.structs import replace

from bridge.delivery.attempts import PART, WorkerSettings
from bridge.delivery.sink_feed import TransactionFeed
from bridge.delivery.sink_worker import SinkWorker
from bridge.model.primitives.ring import Fetch
from bridge.model.record import Delta, OrderingKey, Record, RetriedDeadLetter, body_bytes, split_at_notices
from sinks.base import RetryLater

MOST_RECORDS = 10_000
MOST_BYTES = 32 << 20
"""Bounds on the records that wait aside."""
MOST_BEHIND = 100_000
"""Records that are delivered and not settled, because one in front of them waits: a crash repeats them."""
_NO_NOTICE = {Delta}


class Worker(SinkWorker):
    """Delivers one batch at a time, and its pending records again before any newer record.

    **A part of the destination** that takes no records, such as a topic, holds up the records of its objects alone:
    they wait aside, and those of other objects go past. All that is delivered meanwhile is settled with them, so a
    crash repeats it. A notice waits until no record waits; so does everything beyond the bounds of ``aside``.

    Dead letters that an operator retries are delivered between two fetches, when no record is in flight.
    """

    _sets_aside = True
    """Records may wait aside."""

    def __init__(self, settings: WorkerSettings) -> None:
        super().__init__(settings)
        self._aside = Aside()
        self._busy = False
        self._letters_at = 0.0
        """When the next retry of dead letters may begin, on the event loop's clock."""
        self._part_failure = RetryLater("")

    async def _work(self) -> None:
        """Dead letters that are to be retried come first; then a fetch at a time, with a notice alone in its delivery.
        A fetch is settled when all its records are stored or durable dead letters. While some wait aside (for a topic
        that takes none), later fetches are delivered past them, and settled behind them."""
        clock = asyncio.get_running_loop().time
        while True:
            while self._dead_letters.retrying and clock() >= self._letters_at and await self._retry_dead_letters():
                pass
            waits = self._aside.waiting or self._letters_at
            fetch = await (self._take_past() if waits else self._pending.take(self._max_batch))
            self._busy = True
            if fetch.missed is not None:
                await self._pass([self._gap(fetch.missed)])
            if set(map(type, fetch.items)) == _NO_NOTICE:
                await self._pass(fetch.items)
            else:
                for where in split_at_notices(fetch.items):
                    await self._pass(fetch.items[where])
            if self._aside.waiting:
                self._aside.hold(fetch)
            else:
                self._pending.settle(fetch, self._attempts.memory)
            self._busy = False
            self._progress.set()

    @property
    def _is_busy(self) -> bool:
        return self._busy or bool(self._aside)

    @property
    def retry_at(self) -> float | None:
        if self._aside and not self._busy and self._attempts.suspended is None:
            return self._aside.retry_at
        return super().retry_at

    def retry_now(self) -> bool:
        waiting = super().retry_now()
        self._aside.retry_at = self._letters_at = 0.0
        self._pending.wake()
        return waiting

    # ── Records that wait aside ──────────────────────────────────────────────

    async def _take_past(self) -> Fetch[Record]:
        """The next fetch, or an empty one when something is to be tried again."""
        loop = asyncio.get_running_loop()
        if self._aside and loop.time() >= self._aside.retry_at:
            await self._retry_aside()
        while self._aside.is_full:
            await self._wait_and_retry()
        due = [self._letters_at] if self._letters_at > loop.time() else []
        due += [self._aside.retry_at] if self._aside else []
        timer = loop.call_at(min(due), self._pending.wake) if due else None
        try:
            return await self._pending.take(self._max_batch)
        finally:
            if timer is not None:
                timer.cancel()

    async def _pass(self, batch: Sequence[Record]) -> None:
        """Returns when each record is stored, a dead letter, or waits aside."""
        if self._aside.waiting:
            if isinstance(batch[0], Delta):
                batch = self._aside.passing(batch)
            else:
                while self._aside:
                    await self._wait_and_retry()
        if batch and (left := await self._deliver(batch)):
            self._aside.add(left)

    async def _wait_and_retry(self) -> None:
        now = asyncio.get_running_loop().time()
        await self._attempts.pause(self._part_failure, max(0.0, self._aside.retry_at - now), len(self._aside))
        await self._retry_aside()

    async def _retry_aside(self) -> None:
        taken = self._aside.take(self._max_batch)
        self._aside.put_back(taken, await self._deliver(taken, PART))
        for fetch in self._aside.settled():
            self._pending.settle(fetch, self._attempts.memory)
        self._progress.set()

    def _waits_aside(self, failure: RetryLater, delay: float, records: int) -> None:
        now = asyncio.get_running_loop().time()
        # While some wait, others that join them neither delay their next attempt nor are worth a line of the log.
        if self._aside.retry_at <= now:
            self._aside.retry_at, self._part_failure = now + delay, failure
            self._attempts.delayed(failure, delay, records)

    # ── Deliveries ───────────────────────────────────────────────────────────

    async def _deliver(self, batch: Sequence[Record], lane: Hashable = None) -> Sequence[Record]:
        """Returns when each record is stored, or a dead letter, but for those that it returns: these wait for a part of
        the destination."""
        while batch:
            if self._dead_letters.keys:
                # For every attempt, because a rejection in this very batch blocks later records of it.
                batch, blocked = self._parking.split(batch)
                if blocked:
                    await self._parking.park(blocked)
                    continue
            receipt, delay = await self._attempts.deliver(batch, lane)
            if receipt.rejected:
                answers = receipt.answers
                rejected = [(batch[index], why, answers.get(index, "")) for index, why in receipt.rejected.items()]
                await self._parking.add_dead_letters(rejected)
            batch = [batch[index] for index in receipt.pending]
            if receipt.failure is None:
                continue
            if receipt.failure.partly and self._sets_aside and batch and isinstance(batch[0], Delta):
                self._waits_aside(receipt.failure, delay, len(batch))
                return batch
            await self._attempts.pause(receipt.failure, delay, len(batch))
        return ()

    def _announce(self, letters: Sequence[RetriedDeadLetter]) -> None:
        """The next delivery is of these dead letters."""

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
            for index, reason in receipt.rejected.items():
                again = dead_letters[index]
                await self._parking.rejected_again(again, reason, receipt.answers.get(index, ""))
                if isinstance(again.record, Delta):
                    rejected.add(again.record.ordering_key)
            dead_letters = [dead_letters[index] for index in receipt.pending]
            if receipt.failure is None:
                continue
            if receipt.failure.partly and self._sets_aside:
                self._letters_at = asyncio.get_running_loop().time() + delay
                self._attempts.delayed(receipt.failure, delay, len(dead_letters))
                return
            await self._attempts.pause(receipt.failure, delay, len(dead_letters))


class Aside:
    """Records that wait for a part of the destination, such as a topic, while those of other objects go past: by
    object, each object's in their order, and the fetches that cannot be settled before they are delivered."""

    def __init__(self) -> None:
        self._records: dict[OrderingKey, list[Record]] = {}
        self._count = self._bytes = self._behind = 0
        self._fetches: deque[Fetch[Record]] = deque()
        self.waiting = False
        """A record waits: an attribute, since it is looked at for every batch."""
        self.retry_at = 0.0
        """On the event loop's clock."""

    def __bool__(self) -> bool:
        return bool(self._records)

    def __len__(self) -> int:
        return self._count

    @property
    def is_full(self) -> bool:
        """Nothing goes past any more: the worker has to wait."""
        return self._count >= MOST_RECORDS or self._bytes >= MOST_BYTES or self._behind >= MOST_BEHIND

    def add(self, records: Sequence[Record]) -> None:
        for record in records:
            self._records.setdefault(record.ordering_key, []).append(record)
            self._count += 1
            self.waiting = True
            self._bytes += body_bytes(record)

    def passing(self, records: Sequence[Record]) -> Sequence[Record]:
        """The records that may go past. Those of objects that wait are added behind these."""
        waiting = self._records
        self.add([record for record in records if record.ordering_key in waiting])
        return [record for record in records if record.ordering_key not in waiting]

    def take(self, most: int) -> list[Record]:
        """Removes the first records of the objects that have waited longest since their last attempt. What is left of
        them comes back by ``put_back``."""
        taken: list[Record] = []
        for key in [*self._records]:
            records = self._records[key]
            if taken and len(taken) + len(records) > most:
                break
            taken += records[:most]
            self._records[key] = records[most:]
        return taken

    def put_back(self, taken: Sequence[Record], left: Sequence[Record]) -> None:
        """``left``: of those that ``take`` removed, the ones that still wait. Their objects stand behind the others."""
        rest = {key: self._records.pop(key) for key in dict.fromkeys(record.ordering_key for record in taken)}
        self._count -= len(taken) + sum(map(len, rest.values()))
        self._bytes -= sum(map(body_bytes, chain(taken, *rest.values())))
        self.add(left)
        for records in rest.values():
            self.add(records)
        self.waiting = bool(self._records and self._count)

    def hold(self, fetch: Fetch[Record]) -> None:
        """To be settled when no record waits any more; its items are not needed for that."""
        self._behind += len(fetch.items)
        self._fetches.append(replace(fetch, items=()))

    def settled(self) -> Iterator[Fetch[Record]]:
        """The fetches to settle now, in the order of ``hold``; none while a record waits."""
        if not self._records:
            self._behind = 0
            while self._fetches:
                yield self._fetches.popleft()


class TransactionWorker(Worker):
    """Delivers a whole fetch at once, notices included, and gives the sink the progress that is reached with it.

    **Exactly once.** The destination stores records and progress together, or neither. After a crash, and after a
    delivery whose end is unknown, the progress that the destination has decides where the worker goes on. Rejected
    records are dead letters before a transaction goes past them.

    A transaction begins ``seconds`` after the one before, unless a full fetch waits: so a single change is delivered at
    once, and many changes share the price of a transaction.
    """

    _sets_aside = False

    def __init__(self, settings: WorkerSettings, feed: TransactionFeed, seconds: float) -> None:
        """``feed`` is the ``pending`` of the settings."""
        super().__init__(settings)
        self._feed = feed
        self._seconds = seconds
        self._begins_at = 0.0
        """When the next transaction may begin, on the event loop's clock."""

    async def run(self) -> None:
        await self._feed.begin()
        await super().run()

    async def _work(self) -> None:
        """First, what the destination already has of the log is settled. Then a transaction at a time: it is settled
        when the destination has committed it, with the progress in it."""
        if (read := await self._feed.recover(self._attempts.committed)) is not None:
            self._report(read)
        clock = asyncio.get_running_loop().time
        while True:
            # A dead letter of before a kill may stand in front of the settled log: its record comes again, and is known
            # by the dead letter, which a retry would remove.
            if self._feed.taken >= self._dead_letters.newest_at_start:
                while self._dead_letters.retrying and await self._retry_dead_letters():
                    pass
            if (pause := self._begins_at - clock()) > 0:
                await asyncio.sleep(pause)
            fetch = await self._feed.take(self._max_batch)
            self._busy = True
            records = list(fetch.items) if fetch.missed is None else [self._gap(fetch.missed), *fetch.items]
            if records:
                self._begins_at = 0.0 if len(records) >= self._max_batch else clock() + self._seconds
                self._feed.hand_over(fetch)
                await self._deliver(records)
            self._feed.settle(fetch, self._attempts.memory)
            self._busy = False
            self._progress.set()

    def _announce(self, letters: Sequence[RetriedDeadLetter]) -> None:
        self._feed.hand_over_letters(letters)
