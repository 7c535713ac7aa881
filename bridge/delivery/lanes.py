"""The lanes of a sink: records that wait for their delivery, and the fetches that they came with."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from typing import TypeAlias

import msgspec

from bridge.delivery.parking import Parking
from bridge.delivery.ports import DeadLetterStore
from bridge.delivery.workqueue import WorkQueue
from bridge.model.dead_letter import RetriedDeadLetter
from bridge.model.primitives.fetch import Fetch
from bridge.model.record import Delta, OrderingKey, Record

Lane: TypeAlias = OrderingKey | int
"""An object; or a number, where all objects share some lanes."""


class UnsettledFetch(msgspec.Struct, eq=False):
    """A fetch with records in the lanes."""

    fetch: Fetch[Record]
    left: int
    """Records that are neither stored nor dead letters."""
    records: int
    bytes: int
    """Of the bodies."""


class LaneEntry(msgspec.Struct, frozen=True, eq=False):
    """A record in a lane."""

    record: Record
    origin: UnsettledFetch | RetriedDeadLetter


class UnsettledFetches:
    """The unsettled fetches in their order. A fetch is settled only after all earlier fetches: behind an object that
    fails for long, records are stored but not settled."""

    def __init__(self, max_records: int, max_bytes: int) -> None:
        self._max_records = max_records
        self._max_bytes = max_bytes
        self._fetches: deque[UnsettledFetch] = deque()
        self._records = 0
        self._bytes = 0

    def __bool__(self) -> bool:
        return bool(self._fetches)

    @property
    def is_full(self) -> bool:
        """A further fetch has to wait. The last fetch may have exceeded the bounds."""
        return self.room <= 0 or self._bytes >= self._max_bytes

    @property
    def room(self) -> int:
        """Records that may be added."""
        return self._max_records - self._records

    def add(self, fetch: Fetch[Record], records: Sequence[Record]) -> list[LaneEntry]:
        """``records``: those of the fetch, behind a gap for its missed records."""
        size = sum(len(record.body) for record in records if isinstance(record, Delta))
        unsettled = UnsettledFetch(fetch, len(records), len(records), size)
        self._fetches.append(unsettled)
        self._records += unsettled.records
        self._bytes += size
        return [LaneEntry(record, unsettled) for record in records]

    def pop_settled(self) -> Iterator[Fetch[Record]]:
        """Removes and yields the first fetches, as far as they have no records left."""
        while self._fetches and not self._fetches[0].left:
            unsettled = self._fetches.popleft()
            self._records -= unsettled.records
            self._bytes -= unsettled.bytes
            yield unsettled.fetch


class LaneEntries(dict[Lane, deque[LaneEntry]]):
    """The entries of each lane; a lane without entries is removed. A lane with entries is in the work queue, delayed,
    or being served."""

    def __init__(self, queue: WorkQueue[Lane], shared_lanes: int | None) -> None:
        """``shared_lanes``: the number of lanes that all objects share; None for a lane per object."""
        super().__init__()
        self._queue = queue
        self._shared_lanes = shared_lanes

    def put(self, entries: Sequence[LaneEntry], *, in_front: bool) -> None:
        for entry in reversed(entries) if in_front else entries:
            key = entry.record.ordering_key
            lane = key if self._shared_lanes is None else hash(key) % self._shared_lanes
            waiting = self.get(lane)
            if waiting is None:
                # An existing lane comes to this entry by itself. Only a new lane has to be queued.
                waiting = self[lane] = deque()
                self._queue.add(lane)
            if in_front:
                waiting.appendleft(entry)
            else:
                waiting.append(entry)


class RetriesInLanes:
    """The dead letters that an operator retries, while they are in the lanes."""

    def __init__(self, dead_letters: DeadLetterStore, parking: Parking) -> None:
        self._dead_letters = dead_letters
        self._parking = parking
        self._rejected: set[OrderingKey] = set()
        self.count = 0

    async def take(self, limit: int) -> list[LaneEntry]:
        """Returns the next dead letters as entries. Call only while ``count`` is 0."""
        dead_letters = await self._dead_letters.next_retries(limit)
        self._rejected.clear()
        self.count = len(dead_letters)
        return [LaneEntry(each.record, each) for each in dead_letters]

    def is_behind_rejected(self, entry: LaneEntry) -> bool:
        """A dead letter of the same object was rejected again: later ones are not tried."""
        return entry.record.ordering_key in self._rejected

    async def stored(self, entries: Sequence[LaneEntry]) -> None:
        """Removes the dead letters among the entries."""
        if numbers := [entry.origin.number for entry in entries if isinstance(entry.origin, RetriedDeadLetter)]:
            await self._dead_letters.delivered(numbers)

    async def rejected_again(self, dead_letter: RetriedDeadLetter, reason: str, answer: str) -> None:
        if isinstance(dead_letter.record, Delta):
            self._rejected.add(dead_letter.record.ordering_key)
        await self._parking.rejected_again(dead_letter, reason, answer)
