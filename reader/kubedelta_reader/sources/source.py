"""The promise of every Source, and its errors."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import aclosing
from datetime import datetime
from types import TracebackType
from typing import ClassVar, TypeVar

from kubedelta_reader.events import Record

S = TypeVar("S", bound="Source")

_LOOK_EVERY = 0.25
"""Seconds between two looks for further records."""


class Unavailable(Exception):
    """The destination cannot be reached, or not be read now; both may change later. The message tells where to look,
    and holds no secret."""


class NoDestination(Unavailable):
    """There is no such file, topic or stream yet. It is made with the first record, or the name is wrong."""


class Source(ABC):
    """Reads the records of a destination from a position on, and changes nothing there. Call ``open`` until it finds
    the destination, then ``resume``, ``begin`` or ``last`` for another position than the oldest record, then ``read``
    or ``follow`` any number of times, and ``close`` once, also after a failed ``open``. ``async with`` opens and
    closes. Runs on the event loop and never blocks it.

    Failures of a destination or a network are raised as Unavailable, by every method but ``close``.
    """

    partitioned: ClassVar[bool] = False
    """See ``Reader``: records have partitions, with an order in each alone."""

    @abstractmethod
    async def open(self) -> str:
        """Returns a short description of the destination for people. Raises NoDestination, and may be called again
        then."""

    @abstractmethod
    async def resume(self, position: bytes) -> None:
        """``read`` begins where a former source had this ``position``; an empty one is the oldest record. Records
        before it may come again. Raises ValueError for bytes that are no position of such a source."""

    @abstractmethod
    async def begin(self, since: datetime | None) -> None:
        """``read`` begins with the first record of that time or later; None for the oldest record."""

    @abstractmethod
    async def last(self, count: int, accepts: Callable[[Record], bool]) -> Sequence[Record]:
        """The last records that ``accepts`` takes, in their order, as far back as the destination can look. ``read``
        goes on behind the newest record."""

    @abstractmethod
    def read(self) -> AsyncGenerator[Sequence[Record]]:
        """Yields records in batches, from the end of the previous ``read`` to the present end. Records of one object
        come in the destination's order. After a failure the next ``read`` goes on behind the records that were yielded
        before. May wait a fraction of a second for a record."""

    async def follow(self) -> AsyncGenerator[Sequence[Record]]:
        """``read`` again and again."""
        while True:
            async with aclosing(self.read()) as batches:
                async for batch in batches:
                    yield batch
            await asyncio.sleep(_LOOK_EVERY)

    @property
    @abstractmethod
    def position(self) -> bytes:
        """Behind the last batch that was yielded: some text, for ``resume``."""

    @property
    @abstractmethod
    def lost(self) -> bool:
        """Whether records were removed before they were read, as far as the destination tells."""

    @property
    def notes(self) -> Sequence[str]:
        """Findings for people so far, such as what was lost."""
        return ()

    @property
    def left(self) -> int | None:
        """Records that the present ``read`` has still to read; None if unknown."""
        return None

    @abstractmethod
    async def close(self) -> None: ...

    async def __aenter__(self: S) -> S:
        try:
            await self.open()
        except BaseException:
            await self.close()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


FIRST_LOOK_BACK = 100
_LONGEST_LOOK_BACK = 100_000
"""Records of a stream or a partition among which the last ones are sought."""


def look_backs(first: int, end: int, count: int) -> Iterator[int]:
    """Where to begin to seek the last ``count`` of the records from ``first`` to ``end``: each time further back,
    until the caller has found so many. Empty for a count of 0."""
    back = max(count, FIRST_LOOK_BACK)
    while count and first < end:
        start = max(first, end - back)
        yield start
        if start == first or back >= _LONGEST_LOOK_BACK:
            return
        back = min(10 * back, _LONGEST_LOOK_BACK)
