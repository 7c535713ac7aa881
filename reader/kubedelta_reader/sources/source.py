"""The promise of every Source, and its errors."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import ClassVar, Self, TypeVar

import msgspec

from kubedelta_reader.events import Record

NOT_THERE = "nobody made it yet, or the name is wrong, or the right to describe it is missing"
_LOOK_EVERY = 0.25
"""Seconds between two looks for further records."""


class Unavailable(Exception):
    """The destination cannot be reached, or not be read now; both may change later. The message tells where to look,
    and holds no secret."""


class NoDestination(Unavailable):
    """There is no such file, topic or stream yet. It is made with the first record, or the name is wrong."""


class Source(ABC):
    """Reads the records of a destination from a position on, and changes nothing there. Call ``open`` until it finds
    the destination, then ``resume`` for another position than the oldest record, then ``read`` or ``follow`` any number
    of times, and ``close`` once, also after a failed ``open``. ``async with`` opens and closes. Runs on the event loop
    and never blocks it.

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
    def read(self) -> AsyncGenerator[Sequence[Record]]:
        """Yields records in batches, from the end of the previous ``read`` to the present end. Records of one object
        come in the destination's order. After a failure the next ``read`` goes on behind the records that were yielded
        before. May wait a fraction of a second for a record."""

    async def follow(self) -> AsyncGenerator[Sequence[Record]]:
        """``read`` again and again. An empty batch says that the reader has caught up: nothing was left to read. It
        comes at the first present end, and at each one behind further records."""
        caught_up = False
        while True:
            async with aclosing(self.read()) as batches:
                async for batch in batches:
                    caught_up = caught_up and not batch
                    yield batch
            if not caught_up:
                caught_up = True
                yield ()
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

    async def __aenter__(self) -> Self:
        try:
            await self.open()
        except BaseException:
            await self.close()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


P = TypeVar("P")


def place_in(position: bytes, kind: type[P]) -> P:
    """A position of that kind. Raises ValueError."""
    try:
        return msgspec.json.decode(position, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise ValueError(f"no position of such a source: {error}") from error
