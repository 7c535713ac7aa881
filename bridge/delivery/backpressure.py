"""Takes the informers' batches into the outbox, and keeps every sink's backlog within its bounds, by the sink's policy:
stops the intake, compacts, or drops.

``Exporter.export`` is the front door of everything behind it: it waits while a backlog stops the intake, and its commit
hands the records to the ``SharedProcessor``. The backlogs are looked at a few times a second, beside the hot path. A
sink with a selection that holds much of the log for few records of its own is moved out of the way, so that the log can
be trimmed behind it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from weakref import WeakKeyDictionary

from bridge.delivery.sink_feed import SinkFeed
from bridge.delivery.sink_pipeline import SinkPipeline
from bridge.model.change import ChangeBatch
from bridge.model.policies import BacklogBounds, WhenFull
from bridge.model.primitives.backoff import PollInterval
from bridge.model.record import Delta
from bridge.outbox import Outbox, why_full
from bridge.plan.plan import SinkPlan
from bridge.telemetry.facts import Report
from bridge.telemetry.facts.delivery import (
    BacklogCompacted,
    BacklogDropped,
    BatchCommitted,
    IntakeBlocked,
    IntakeResumed,
)

CHECK_INTERVAL = 0.25
"""Seconds between two checks of the backlogs. Bounds are in records, so a backlog grows little in between."""
QUIET_INTERVAL = 1.0
"""The same while no record is appended. Only the ages of records change then."""
LET_GO = 256 << 20
"""Bytes of records for others that a sink with a selection may hold in the log."""
_COMPACT_AFTER = 1000
"""Records."""
_SETTING = "max_backlog"
"""Path of the bounds in a sink's configuration."""


class Backpressure:
    """``block`` stops the intake, for every sink; ``compact`` and ``drop`` shorten the sink's backlog. Each check asks
    ``pipelines`` for the present plans."""

    def __init__(self, pipelines: Mapping[str, SinkPipeline], outbox: Outbox, report: Report) -> None:
        self._pipelines = pipelines
        self._outbox = outbox
        self._report = report
        self._now = asyncio.get_running_loop().time
        self._compacted: WeakKeyDictionary[SinkFeed, tuple[int, int]] = WeakKeyDictionary()
        """The newest record at the feed's last compaction, and the number of records after it."""
        self._released = False
        self.blocked = ""
        """Why the intake is blocked; empty while it is not."""
        self.can_block = False
        """Some sink's policy is ``block``. The Exporter reads it for each batch."""
        self.sinks_changed()

    def sinks_changed(self) -> None:
        """Call it when ``pipelines`` has other plans."""
        self.can_block = any(each.plan.when_full is WhenFull.BLOCK for each in self._pipelines.values())

    async def run(self) -> None:
        """Compacts and drops, until cancelled."""
        interval, last = PollInterval(CHECK_INTERVAL, QUIET_INTERVAL), self._outbox.last
        while True:
            await asyncio.sleep(interval.seconds)
            interval.looked(changed=self._outbox.last != last)
            last = self._outbox.last
            await self.look()

    async def look(self) -> None:
        """Compacts and drops what is beyond its bound."""
        for each in tuple(self._pipelines.values()):
            if each.plan.when_full is not WhenFull.BLOCK and self._why_full(each.plan):
                await self._shorten(each.plan, each.feed)
            await self._let_go(each.feed)

    async def _let_go(self, feed: SinkFeed) -> None:
        """Lets the log be trimmed behind a sink that holds much of it and has few records in it."""
        cursor, index = self._outbox.sinks[feed.sink], self._outbox.sparse_index
        if self._outbox.sinks.backlogs.bytes_for_others(cursor, index) >= LET_GO:
            await feed.extend()

    async def admit(self) -> None:
        """Returns when no sink with ``block`` is at its bound. The Exporter calls it before each batch,
        if ``can_block``."""
        for name in tuple(self._pipelines):
            if self._why_blocked(name) and not self._released:
                await self._wait_for(name)

    def release(self) -> None:
        """Batches that were read are admitted, whatever the backlogs: the bridge ends, or its informers do. Until
        ``hold``."""
        self._released = True

    def hold(self) -> None:
        """The bounds hold again."""
        self._released = False

    async def _wait_for(self, sink: str) -> None:
        began = self._now()
        self._report(IntakeBlocked(sink, self._outbox.sinks.backlog_records(sink)))
        while (why := self._why_blocked(sink)) and not self._released:
            self.blocked = f"the backlog of sink {sink} is full: {why}"
            await asyncio.sleep(CHECK_INTERVAL)
        self.blocked = ""
        if not why:
            self._report(IntakeResumed(sink, self._now() - began))

    async def _shorten(self, plan: SinkPlan, feed: SinkFeed) -> None:
        last = self._outbox.last
        if plan.when_full is WhenFull.DROP:
            first, through, count = await self._drop(plan.name, plan.bounds, feed)
            if count:
                self._report(BacklogDropped(plan.name, first, through, count))
            return
        if feed in self._compacted:
            through, left = self._compacted[feed]
            if last - through < _min_new_records(plan.bounds.records, left):
                return  # Another compaction would leave about as many records.
        before, after = await feed.compact()
        self._compacted[feed] = (last, after)
        if after < before:
            self._report(BacklogCompacted(plan.name, before, after))

    async def _drop(self, sink: str, bounds: BacklogBounds, feed: SinkFeed) -> tuple[int, int, int]:
        """Returns the first and the last sequence number, and the number of the dropped records."""
        sinks, index = self._outbox.sinks, self._outbox.sparse_index
        beside = feed.handed_out + 1  # The Gap.
        through = sinks.backlogs.drop_through(sinks[sink], bounds, index, self._now(), beside)
        first, count = await feed.drop(through)
        return first, through, count

    def _why_blocked(self, sink: str) -> str:
        """Empty if the sink does not block the intake, or is gone from the configuration."""
        pipeline = self._pipelines.get(sink)
        if pipeline is None or pipeline.plan.when_full is not WhenFull.BLOCK:
            return ""
        return self._why_full(pipeline.plan)

    def _why_full(self, plan: SinkPlan) -> str:
        return why_full(plan.bounds, self._outbox.backlog_of(plan.name), _SETTING)


def _min_new_records(bound: int | None, left: int) -> int:
    """Number of new records behind a compaction that left ``left`` records, before the next compaction, whose cost
    grows with both. A small bound that compaction can reach is kept exactly."""
    if bound is not None and left < bound <= _COMPACT_AFTER:
        return 1
    return max(min(_COMPACT_AFTER, bound or _COMPACT_AFTER), left)


class Exporter:
    """Takes batches of every informer. When ``export`` returns, the batch is durable, and every listener has it. The
    informer waits for that before it processes its next batch."""

    def __init__(self, outbox: Outbox, backlogs: Backpressure, report: Report) -> None:
        self._outbox = outbox
        self._backlogs = backlogs
        self._report = report

    async def export(self, batch: ChangeBatch) -> Sequence[Delta]:
        """The records of the changes."""
        if batch.changes and self._backlogs.can_block:
            await self._backlogs.admit()
        deltas = await self._outbox.append(batch)
        if not deltas:
            return deltas
        ops = [delta.op for delta in deltas]
        self._report(
            BatchCommitted(
                batch.resource,
                batch.scope,
                bytes=sum(len(delta.body) for delta in deltas),
                ops={op: ops.count(op) for op in set(ops)},
            )
        )
        return deltas
