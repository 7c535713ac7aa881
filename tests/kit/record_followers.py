"""Followers of sinks' records, which block, as tests ask them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import TypeVar

from bridge.model.versions.followed_record import FollowedRecord, RecordFollower
from tests.kit.deadlines import BUSY

F = TypeVar("F", bound=RecordFollower)


@asynccontextmanager
async def opened(found: F) -> AsyncIterator[F]:
    try:
        assert await asyncio.to_thread(found.open)
        yield found
    finally:
        await asyncio.to_thread(found.close)


async def last(found: RecordFollower, count: int) -> list[FollowedRecord]:
    return list(await asyncio.to_thread(found.last, count, lambda _: True))


async def news(found: RecordFollower, count: int = 1) -> list[FollowedRecord]:
    """At least so many records."""
    records: list[FollowedRecord] = []
    async with asyncio.timeout(30 * BUSY):
        while True:
            records += await asyncio.to_thread(list, found.news())
            if len(records) >= count:
                return records


def versions(records: Sequence[FollowedRecord]) -> list[int]:
    return [int(record.version) - 1000 for record in records]
