"""Records that wait for a part of the destination, such as a topic, while those of other objects go past."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from itertools import chain

from msgspec.structs import replace

from bridge.model.primitives.fetch import Fetch
from bridge.model.record import OrderingKey, Record, body_bytes

MOST_RECORDS, MOST_BYTES = 10_000, 32 << 20
MOST_BEHIND = 100_000
"""Records that are delivered and not settled, because one in front of them waits: a crash repeats them."""


class Aside:
    """The waiting records by object, each object's in their order, and the fetches that cannot be settled before they
    are delivered."""

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
