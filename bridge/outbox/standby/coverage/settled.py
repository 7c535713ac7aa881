"""The records of the own log that another replica has delivered (pure). Hot from a takeover until they are passed."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping
from typing import NamedTuple, TypeAlias

from bridge.model.change import Evidence
from bridge.model.primitives.shard import Shard
from bridge.model.record import Delta, Record
from bridge.model.versions.frontier import Point
from bridge.outbox.waypoints.index import Batch


class Settled(NamedTuple):
    """The records of an informer that need no delivery to a sink."""

    before: int
    """Those with smaller numbers; and, since the batches of the other replica were others,"""
    point: Point | None
    """those that a watch announced, with versions up to this point."""


Rules: TypeAlias = Mapping[str, Mapping[str, Settled]]
"""Sink → informer → what is settled."""


class SettledElsewhere:
    """Made at a takeover. An informer that lags behind the other replica's may still bring such records."""

    def __init__(self, rules: Rules) -> None:
        self._rules = dict(rules)
        self._batches: list[Batch] = []
        self._firsts: list[int] = []
        self._open = {informer for of_sink in rules.values() for informer in of_sink}

    def begin(self, batches: Iterable[Batch]) -> None:
        """Batches of before the takeover; those that are known have no effect."""
        found = {batch.first: batch for batch in batches if self._concerns(batch)}
        found |= {batch.first: batch for batch in self._batches}
        self._firsts = sorted(found)
        self._batches = [found[first] for first in self._firsts]

    def learn(self, sink: str, settled: Mapping[str, Settled]) -> None:
        """The sink has got more than was known; ``begin`` follows with the batches from before."""
        self._rules[sink] = settled
        self._open |= settled.keys()

    def note(self, batch: Batch) -> None:
        """A further batch."""
        if batch.informer not in self._open:
            return
        if self._concerns(batch):
            self._batches.append(batch)
            self._firsts.append(batch.first)
        elif batch.since is not None:
            self._open.discard(batch.informer)

    def _concerns(self, batch: Batch) -> bool:
        return any(_may_have(found, batch) for of in self._rules.values() if (found := of.get(batch.informer)))

    def forget(self, sink: str) -> None:
        """The sink gets every record from now on."""
        self._rules.pop(sink, None)

    def trim(self, through: int) -> None:
        """Every sink has settled the log up to ``through``."""
        passed = bisect_right([batch.last for batch in self._batches], through)
        del self._batches[:passed], self._firsts[:passed]

    def has(self, sink: str, record: Record) -> bool:
        """Whether the sink has got the record from another replica. Not so for a replay."""
        if not self._firsts or not isinstance(record, Delta) or record.replay:
            return False
        at = bisect_right(self._firsts, record.sequence) - 1
        if at < 0 or record.sequence > self._batches[at].last:
            return False
        settled = self._rules.get(sink, {}).get(self._batches[at].informer)
        if settled is None:
            return False
        if record.sequence < settled.before:
            return True
        if settled.point is None or record.evidence is not Evidence.WATCHED:
            return False
        return settled.point.covers(Point(record.epoch, record.resource_version))


def _may_have(settled: Settled, batch: Batch) -> bool:
    if batch.first < settled.before:
        return True
    return settled.point is not None and not (batch.since is not None and batch.since.covers(settled.point))


class SettledByShards(SettledElsewhere):
    """The same after shards were joined: of each object, its former shard has settled more than all of them."""

    def __init__(self, rules: Rules, parts: Iterable[tuple[Shard, SettledElsewhere]]) -> None:
        super().__init__(rules)
        self._parts = tuple(parts)

    def begin(self, batches: Iterable[Batch]) -> None:
        batches = tuple(batches)
        super().begin(batches)
        for _, part in self._parts:
            part.begin(batches)

    def note(self, batch: Batch) -> None:
        super().note(batch)
        for _, part in self._parts:
            part.note(batch)

    def forget(self, sink: str) -> None:
        super().forget(sink)
        for _, part in self._parts:
            part.forget(sink)

    def trim(self, through: int) -> None:
        super().trim(through)
        for _, part in self._parts:
            part.trim(through)

    def has(self, sink: str, record: Record) -> bool:
        if super().has(sink, record):
            return True
        return isinstance(record, Delta) and any(
            shard.contains(record.uid, record.key) and part.has(sink, record) for shard, part in self._parts
        )
