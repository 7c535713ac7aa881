"""Remembers the traced batches, by the sequence numbers of their records."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping

from opentelemetry.context import Context

from bridge.model.record import Delta, Record

_MOST = 4096
"""Batches. Later deliveries of older ones have no spans."""
_MOST_AT_ONCE = 32
"""Traced batches of a delivery that get spans."""


class Traces:
    def __init__(self) -> None:
        self._firsts: list[int] = []
        self._lasts: list[int] = []
        self._contexts: list[Context] = []

    def add(self, first: int, last: int, context: Context) -> None:
        """``context``: the parent of further spans. Sequence numbers ascend from call to call."""
        self._firsts.append(first)
        self._lasts.append(last)
        self._contexts.append(context)
        if len(self._firsts) > 2 * _MOST:
            del self._firsts[:_MOST], self._lasts[:_MOST], self._contexts[:_MOST]

    def of(self, batch: Iterable[Record]) -> Mapping[int, list[int]]:
        """The first sequence number of each traced batch → the indexes of its records in ``batch``. Replays and
        snapshots repeat records, and belong to no batch."""
        found: dict[int, list[int]] = {}
        firsts = self._firsts
        lasts = self._lasts
        for index, record in enumerate(batch):
            if not isinstance(record, Delta) or record.replay or record.snapshot is not None:
                continue
            place = bisect_right(firsts, record.sequence) - 1
            if place >= 0 and record.sequence <= lasts[place]:
                if firsts[place] not in found and len(found) == _MOST_AT_ONCE:
                    break
                found.setdefault(firsts[place], []).append(index)
        return found

    def context(self, first: int) -> Context:
        return self._contexts[bisect_right(self._firsts, first) - 1]
