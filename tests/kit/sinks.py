"""Sinks in memory, for tests of what is in front of a sink."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from bridge.model.record import Delta, Record
from sinks.base import ALL_STORED, BatchResult, Receipt, RetryLater, Sink, SinkContext
from tests.kit.deadlines import BUSY

S = TypeVar("S", bound=Sink)

ALONE = SinkContext()
"""Without an election, and at the beginning."""


def failure_of(receipt: Receipt) -> str:
    assert receipt.failure is not None
    return receipt.failure.reason


def receipt_of(
    batch: Sequence[Record],
    *,
    pending: Collection[int] = (),
    failure: RetryLater | None = None,
    rejected: Mapping[int, str] | None = None,
) -> Receipt:
    """As a sink makes it, with these indexes pending and rejected."""
    result = BatchResult(batch)
    for index, reason in (rejected or {}).items():
        result.reject(index, reason)
    return result.receipt(pending, failure)


@asynccontextmanager
async def opened_sink(sink: S, context: SinkContext = ALONE) -> AsyncIterator[S]:
    """The sink, opened; closed at the end, also where ``open`` fails."""
    try:
        await sink.open(context)
        yield sink
    finally:
        await sink.close()


async def deliver_once(sink: Sink, batch: Sequence[Record]) -> Receipt:
    """The only delivery of a sink that is opened for it, and closed behind it."""
    async with opened_sink(sink):
        return await sink.deliver(batch)


async def until_stored(sink: Sink, records: Sequence[Record]) -> None:
    """As the bridge delivers: what is pending again, until nothing is. Raises TimeoutError."""
    async with asyncio.timeout(60 * BUSY):
        while records:
            receipt = await sink.deliver(records)
            assert not receipt.rejected
            records = [records[index] for index in receipt.pending]
            await asyncio.sleep(0.05 if receipt.failure else 0)


async def remembered(sink: Sink, batch: Sequence[Record]) -> bytes:
    """The sink stores the batch. Returns its memory behind it."""
    receipt = await sink.deliver(batch)
    assert (list(receipt.pending), dict(receipt.rejected)) == ([], {})
    assert receipt.memory is not None
    return receipt.memory


class RecordingSink:
    """Stores everything, and can be waited on. One object may be opened again and again: it keeps what it has."""

    def __init__(self) -> None:
        self.records: list[Record] = []
        self._news = asyncio.Event()

    async def open(self, context: SinkContext) -> None:
        return

    async def deliver(self, batch: Sequence[Record]) -> Receipt:
        self.records.extend(batch)
        self._news.set()
        return ALL_STORED

    async def check(self) -> str:
        return "a list in memory"

    async def close(self) -> None:
        return

    @property
    def deltas(self) -> list[Delta]:
        return [record for record in self.records if isinstance(record, Delta)]

    def delivered(self) -> list[str]:
        """``op key`` of every delta, in order of arrival."""
        return [f"{delta.op} {delta.key}" for delta in self.deltas]

    async def until(self, holds: Callable[[RecordingSink], Any]) -> None:
        """Return when ``holds`` of what has arrived. Raises TimeoutError that says what had."""
        try:
            async with asyncio.timeout(30 * BUSY):
                while not holds(self):
                    self._news.clear()
                    await self._news.wait()
        except TimeoutError:
            last = self.delivered()[-10:]
            raise TimeoutError(f"not so after {30 * BUSY} s; {len(self.records)} arrived, the last: {last}") from None


class StuckSink(RecordingSink):
    """Takes a batch and never answers, until it is let loose."""

    def __init__(self) -> None:
        super().__init__()
        self.loose = asyncio.Event()
        self.holding = asyncio.Event()

    async def deliver(self, batch: Sequence[Record]) -> Receipt:
        self.holding.set()
        await self.loose.wait()
        return await super().deliver(batch)
