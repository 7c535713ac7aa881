"""Readers of destinations, as tests ask them: for versions, as ``verify`` does, and for records as ``tail`` shows
them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import TypeVar

from kubedelta_reader.sources import NoDestination

from bridge.model.formats.stored_record import FollowedRecord, StoredVersion, StoredVersions, followed
from sinks.reader import ANY_OBJECT, ReadFilter, RecordReader
from tests.kit.deadlines import BUSY

R = TypeVar("R", bound=RecordReader)


@asynccontextmanager
async def opened(reader: R) -> AsyncIterator[R]:
    try:
        await reader.open()
        yield reader
    finally:
        await reader.close()


async def is_there(reader: RecordReader) -> bool:
    try:
        await reader.open()
    except NoDestination:
        return False
    return True


async def rest(reader: RecordReader, sought: Sequence[ReadFilter] = ANY_OBJECT) -> list[StoredVersion]:
    """The versions in all records that were not read yet."""
    versions = StoredVersions()
    return [held async for batch in reader.read(sought) for record in batch for held in versions.of(record)]


async def last(
    reader: RecordReader, count: int, accepts: Callable[[FollowedRecord], bool] = lambda _: True
) -> list[FollowedRecord]:
    return [followed(each) for each in await reader.last(count, lambda record: accepts(followed(record)))]


async def present(reader: RecordReader) -> list[FollowedRecord]:
    """The records that are there and were not read yet."""
    return [followed(record) async for batch in reader.read() for record in batch]


async def news(reader: RecordReader, count: int = 1) -> list[FollowedRecord]:
    """At least so many records."""
    records: list[FollowedRecord] = []
    async with asyncio.timeout(30 * BUSY):
        while True:
            records += await present(reader)
            if len(records) >= count:
                return records


def versions(records: Sequence[FollowedRecord]) -> list[int]:
    return [int(record.version) - 1000 for record in records]
