"""Keeps every sink's backlog within its bounds, each by its own policy."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from bridge.facts import BacklogCompacted, BacklogDropped, IntakeBlocked, IntakeResumed, Report
from bridge.model.policies import WhenFull
from bridge.outbox import Outbox
from bridge.outbox.consumers.backlog import drop_through, why_full
from bridge.pipelines.sink_feed import SinkFeed
from bridge.plan.plan import SinkPlan

LOOK = 0.25
"""Seconds between two looks at the backlogs; they are counted in records, so little grows meanwhile."""
_WORTH_IT = 1000
"""Records."""
_SETTING = "max_backlog"
"""Path of the bounds in a sink's configuration."""


class Backlogs:
    """``block`` holds up the intake, for every sink; ``compact`` and ``drop`` shorten what the sink is to be told."""

    def __init__(
        self, plans: Sequence[SinkPlan], outbox: Outbox, streams: Mapping[str, SinkFeed], report: Report
    ) -> None:
        self._plans = plans
        self._outbox = outbox
        self._streams = streams
        self._report = report
        self._now = asyncio.get_running_loop().time
        self._compacted: dict[str, tuple[int, int]] = {}
        """Sink → the newest record when its backlog was last compacted, and what was left of it."""
        self._released = False
        self.blocked = ""
        """Why nothing is read from the API server; empty while it is."""

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await asyncio.sleep(LOOK)
            for plan in self._plans:
                if plan.when_full is not WhenFull.BLOCK and self._why_full(plan):
                    await self._shorten(plan)

    async def admit(self) -> None:
        """Return when the intake may go on."""
        for plan in self._plans:
            if plan.when_full is WhenFull.BLOCK and self._why_full(plan) and not self._released:
                await self._wait_for(plan)

    def release(self) -> None:
        """The bridge ends: what was read is taken in, whatever the backlogs are."""
        self._released = True

    async def _wait_for(self, plan: SinkPlan) -> None:
        began = self._now()
        self._report(IntakeBlocked(plan.name, self._outbox.sinks.lag(plan.name)))
        while (why := self._why_full(plan)) and not self._released:
            self.blocked = f"the backlog of sink {plan.name} is full: {why}"
            await asyncio.sleep(LOOK)
        self.blocked = ""
        if not why:
            self._report(IntakeResumed(plan.name, self._now() - began))

    async def _shorten(self, plan: SinkPlan) -> None:
        stream, last = self._streams[plan.name], self._outbox.last
        if plan.when_full is WhenFull.DROP:
            held = self._outbox.sinks[plan.name].holds
            beside = stream.handed_out + 1  # The Gap.
            through = drop_through(plan.bounds, self._outbox.sparse_index, held, last, self._now(), beside)
            first, count = await stream.drop(through)
            if count:
                self._report(BacklogDropped(plan.name, first, through, count))
            return
        if plan.name in self._compacted:
            through, left = self._compacted[plan.name]
            if last - through < _worth_it(plan.bounds.records, left):
                return  # It would come to about the same again.
        before, after = await stream.compact(self._outbox.boot_last)
        self._compacted[plan.name] = (last, after)
        if after < before:
            self._report(BacklogCompacted(plan.name, before, after))

    def _why_full(self, plan: SinkPlan) -> str:
        return why_full(plan.bounds, self._outbox.backlog_of(plan.name), _SETTING)


def _worth_it(bound: int | None, left: int) -> int:
    """New records behind a compaction that left so many, before the next one: what it costs grows with both. A bound
    that is small, and can be held, is held."""
    if bound is not None and left < bound <= _WORTH_IT:
        return 1
    return max(min(_WORTH_IT, bound or _WORTH_IT), left)
