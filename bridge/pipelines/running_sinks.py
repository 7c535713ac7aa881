"""The pipelines of the configured sinks, and the tasks of their workers: begun at the start, and at a change of the
configuration."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from functools import partial

from bridge.delivery import HeldLease
from bridge.facts import RecordsLeftBehind, Report, SinkCautioned, SinkInsecure
from bridge.pipelines.feeds import Feeds
from bridge.pipelines.sink_pipeline import SinkPipeline, make_pipelines
from bridge.plan.plan import Plan, SinkPlan
from bridge.resources.current_resources import CurrentResources
from bridge.transform.redaction import Redaction


class RunningSinks:
    """Begins and ends pipelines. Ends with its task group, after ``cancel``."""

    def __init__(
        self,
        plan: Plan,
        feeds: Feeds,
        watched: CurrentResources,
        redaction: Redaction,
        report: Report,
        lease: HeldLease | None = None,
    ) -> None:
        """Makes the pipelines of the start. Every sink has a cursor. ``redaction`` has the keys for a sink's own rules.
        ``lease``: see WorkerSettings. Raises PlanRefused for a mistake in an expression."""
        self._feeds = feeds
        self._report = report
        self._make = partial(
            make_pipelines,
            cluster=plan.cluster,
            feeds=feeds,
            watched=watched,
            redaction=redaction,
            report=report,
            lease=lease,
        )
        self._tasks: asyncio.TaskGroup
        self._workers: dict[str, asyncio.Task[None]] = {}
        self.lock = asyncio.Lock()
        """Held while a change of the configuration replaces pipelines."""
        self.pipelines: dict[str, SinkPipeline] = self._made(plan.sinks)
        """By the sinks' names. A change replaces entries, so that a caller asks again after every await."""

    def start(self, tasks: asyncio.TaskGroup) -> None:
        """Runs the workers of all pipelines in ``tasks``."""
        self._tasks = tasks
        for name in self.pipelines:
            self._run(name)

    async def end(self, names: Collection[str], *, by: float) -> None:
        """Ends the workers of these sinks. Records in flight have until ``by``, on the event loop's clock, to be
        settled, as long as the destination takes records. Others are delivered again by the next worker."""
        async with asyncio.TaskGroup() as ending:
            for name in names:
                ending.create_task(self._end(name, by))

    def leave(self, name: str) -> None:
        """Removes the pipeline of a sink that is configured no more, after ``end``."""
        self._feeds.end(name)
        del self.pipelines[name]
        self._workers.pop(name, None)

    def begin(self, plans: Sequence[SinkPlan]) -> None:
        """Runs sinks that are new, or have another plan than before, after ``end`` and ``SinkRegistration.begin``. They
        share no evaluations of expressions with others. Raises as the constructor does."""
        for plan in plans:
            self._feeds.end(plan.name)
        begun = self._made(plans)
        self.pipelines.update(begun)
        for name in begun:
            self._run(name)

    async def wait_settled(self, by: float) -> None:
        """Waits until ``by`` for every sink's backlog, and reports the records that are left."""
        for name, pipeline in self.pipelines.items():
            if name in self._workers and not self._workers[name].done():
                await pipeline.worker.wait_idle_by(by)
        for name in self.pipelines:
            if left := self._feeds.outbox.sinks.backlog_records(name):
                self._report(RecordsLeftBehind(name, left))

    def cancel(self) -> None:
        for worker in self._workers.values():
            worker.cancel()

    def _made(self, plans: Sequence[SinkPlan]) -> dict[str, SinkPipeline]:
        for plan in plans:
            if plan.clear_text:
                self._report(SinkInsecure(plan.name, plan.clear_text))
            if plan.caution:
                self._report(SinkCautioned(plan.name, plan.caution))
        return self._make(plans)

    def _run(self, name: str) -> None:
        worker = self.pipelines[name].worker
        self._workers[name] = self._tasks.create_task(worker.run(), name=f"sink {name}")

    async def _end(self, name: str, by: float) -> None:
        pipeline, worker = self.pipelines[name], self._workers.get(name)
        async with pipeline.feed.ending():
            if worker is not None:
                await pipeline.worker.wait_settled_by(by)
                worker.cancel()
                await asyncio.wait([worker])
        # The worker may have been about to read marked dead letters; the next one looks again.
        pipeline.dead_letters.retrying = True
