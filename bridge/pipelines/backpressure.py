"""Keeps every sink's backlog within its bounds, by the sink's policy."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from bridge.facts import BacklogCompacted, BacklogDropped, IntakeBlocked, IntakeResumed, Report
from bridge.model.policies import WhenFull
from bridge.outbox import Outbox, drop_through, why_full
from bridge.pipelines.sink_feed import SinkFeed
from bridge.plan.plan import SinkPlan

CHECK_INTERVAL = 0.25
"""Seconds between two checks of the backlogs. Bounds are in records, so a backlog grows little in between."""
_COMPACT_AFTER = 1000
"""Records."""
_SETTING = "max_backlog"
"""Path of the bounds in a sink's configuration."""


class Backpressure:
    """``block`` stops the intake, for every sink; ``compact`` and ``drop`` shorten the sink's backlog."""

    def __init__(
        self, plans: Sequence[SinkPlan], outbox: Outbox, feeds: Mapping[str, SinkFeed], report: Report
    ) -> None:
        self._plans = plans
        self._outbox = outbox
        self._feeds = feeds
        self._report = report
        self._now = asyncio.get_running_loop().time
        self._compacted: dict[str, tuple[int, int]] = {}
        """Sink → the newest record at its last compaction, and the number of records after it."""
        self._released = False
        self.blocked = ""
        """Why the intake is blocked; empty while it is not."""

    @property
    def can_block(self) -> bool:
        """Some sink's policy is ``block``."""
        return any(plan.when_full is WhenFull.BLOCK for plan in self._plans)

    async def run(self) -> None:
        """Compacts and drops, until cancelled."""
        while True:
            await asyncio.sleep(CHECK_INTERVAL)
            for plan in self._plans:
                if plan.when_full is not WhenFull.BLOCK and self._why_full(plan):
                    await self._shorten(plan)

    async def admit(self) -> None:
        """Returns when no sink with ``block`` is at its bound. The Exporter calls it before each batch,
        if ``can_block``."""
        for plan in self._plans:
            if plan.when_full is WhenFull.BLOCK and self._why_full(plan) and not self._released:
                await self._wait_for(plan)

    def release(self) -> None:
        """The bridge ends: batches that were read are admitted, whatever the backlogs."""
        self._released = True

    async def _wait_for(self, plan: SinkPlan) -> None:
        began = self._now()
        self._report(IntakeBlocked(plan.name, self._outbox.sinks.backlog_records(plan.name)))
        while (why := self._why_full(plan)) and not self._released:
            self.blocked = f"the backlog of sink {plan.name} is full: {why}"
            await asyncio.sleep(CHECK_INTERVAL)
        self.blocked = ""
        if not why:
            self._report(IntakeResumed(plan.name, self._now() - began))

    async def _shorten(self, plan: SinkPlan) -> None:
        feed, last = self._feeds[plan.name], self._outbox.last
        if plan.when_full is WhenFull.DROP:
            held = self._outbox.sinks[plan.name].holds
            beside = feed.handed_out + 1  # The Gap.
            through = drop_through(plan.bounds, self._outbox.sparse_index, held, last, self._now(), beside)
            first, count = await feed.drop(through)
            if count:
                self._report(BacklogDropped(plan.name, first, through, count))
            return
        if plan.name in self._compacted:
            through, left = self._compacted[plan.name]
            if last - through < _min_new_records(plan.bounds.records, left):
                return  # Another compaction would leave about as many records.
        before, after = await feed.compact(self._outbox.last_at_start)
        self._compacted[plan.name] = (last, after)
        if after < before:
            self._report(BacklogCompacted(plan.name, before, after))

    def _why_full(self, plan: SinkPlan) -> str:
        return why_full(plan.bounds, self._outbox.backlog_of(plan.name), _SETTING)


def _min_new_records(bound: int | None, left: int) -> int:
    """Number of new records behind a compaction that left ``left`` records, before the next compaction, whose cost
    grows with both. A small bound that compaction can reach is kept exactly."""
    if bound is not None and left < bound <= _COMPACT_AFTER:
        return 1
    return max(min(_COMPACT_AFTER, bound or _COMPACT_AFTER), left)
