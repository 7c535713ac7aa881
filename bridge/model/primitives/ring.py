"""The newest items of an endless sequence, in memory, within bounds; and what a taker gets of it at once."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Generic, TypeVar

import msgspec

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Slice(Generic[T]):
    """A range of the sequence."""

    items: Sequence[T]
    first: int
    """The sequence number of the first item; in an empty slice, the number of the next item."""

    @property
    def last(self) -> int:
        return self.first + len(self.items) - 1


class Ring(Generic[T]):
    """Numbers items 1, 2, 3, … and keeps the newest: at most ``max_items``, with at most ``max_bytes`` by the sizes
    that callers gave. The newest item is always kept, whatever its size."""

    def __init__(self, max_items: int, max_bytes: int) -> None:
        self._items: deque[tuple[T, int]] = deque()
        self._max_items = max_items
        self._max_bytes = max_bytes
        self._bytes = 0
        self.last = 0
        """Sequence number of the newest item ever appended; 0 before the first."""

    def __len__(self) -> int:
        return len(self._items)

    @property
    def first(self) -> int:
        """Sequence number of the oldest kept item; ``last + 1`` in an empty ring."""
        return self.last - len(self._items) + 1

    @property
    def bytes(self) -> int:
        return self._bytes

    def append(self, item: T, size: int = 0) -> int:
        """Adds an item of ``size`` bytes and drops the oldest beyond the bounds. Returns the item's sequence number."""
        self._items.append((item, size))
        self._bytes += size
        self.last += 1
        while len(self._items) > 1 and (len(self._items) > self._max_items or self._bytes > self._max_bytes):
            self._drop_oldest()
        return self.last

    def trim(self, through: int) -> None:
        """Drops the items up to and including sequence number ``through``."""
        while self._items and self.first <= through:
            self._drop_oldest()

    def read(self, after: int, limit: int) -> Slice[T]:
        """At most ``limit`` items behind sequence number ``after``. If some of them were dropped, the slice's ``first``
        is larger than ``after + 1``."""
        start = min(max(after + 1, self.first), self.last + 1)
        skipped = start - self.first
        # Reading usually happens near one end; islice walks from the left, so far-right reads rotate instead.
        if skipped > len(self._items) // 2:
            count = min(limit, self.last - start + 1)
            from_right = islice(reversed(self._items), self.last - start - count + 1, self.last - start + 1)
            items = [item for item, _ in from_right]
            items.reverse()
        else:
            items = [item for item, _ in islice(self._items, skipped, skipped + limit)]
        return Slice(items, start)

    def _drop_oldest(self) -> None:
        _, size = self._items.popleft()
        self._bytes -= size


# ── What a taker gets ────────────────────────────────────────────────────────


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
