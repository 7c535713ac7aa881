"""Holds records, or changes, that a taker gets at once, and divides a batch so that notices come alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Generic, TypeVar

import msgspec

from bridge.model.record import Delta, Record

T = TypeVar("T")


class Missed(msgspec.Struct, frozen=True):
    """Items that left the log before the taker came to them."""

    first: int
    last: int

    @property
    def count(self) -> int:
        return self.last - self.first + 1


class Fetch(msgspec.Struct, Generic[T], frozen=True):
    """Once its items are settled, and those of every fetch before it, everything up to ``through`` and ``index`` is."""

    items: Sequence[T]
    through: int | None = None
    """A sequence number of the log; None for items of a backfill."""
    missed: Missed | None = None
    """Comes before ``items``."""
    index: int | None = None
    """Of a backfill; None for items of the log."""


def split_at_notices(records: Sequence[Record]) -> Iterator[slice]:
    """Yields slices: each notice alone, and the records between two notices together. Nearly always a single slice."""
    if set(map(type, records)) <= {Delta}:
        if records:
            yield slice(0, len(records))
        return
    start = 0
    for index, record in enumerate(records):
        if isinstance(record, Delta):
            continue
        if start < index:
            yield slice(start, index)
        yield slice(index, index + 1)
        start = index + 1
    if start < len(records):
        yield slice(start, len(records))
