"""Records, or changes, that a taker gets at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, TypeVar

import msgspec

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
