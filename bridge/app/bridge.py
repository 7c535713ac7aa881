"""Builds the rooms, runs them in one task group, and ends them in order."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from functools import partial

from bridge.admin.operations import LiveOperations, about
from bridge.admin.server import AdminServer
from bridge.app.status import informers_status, is_stuck, snapshot_of
from bridge.facts import RecordsLeftBehind, Report, SinkInsecure
from bridge.informer import SharedInformerFactory
from bridge.informer.controller import Transform
from bridge.kube import Catalogue, KubeClient, connect
from bridge.model.resource import Resource
from bridge.model.status import StatusSnapshot
from bridge.outbox import Damaged, StateError, StateUnusable
from bridge.pipelines.backpressure import Backpressure
from bridge.pipelines.exporter import Exporter
from bridge.pipelines.feeds import Feeds
from bridge.pipelines.selecting import Selecting
from bridge.pipelines.sink_pipeline import SinkPipeline, make_pipelines
from bridge.plan.plan import Plan, PlanRefused
from bridge.plan.redaction_key_file import load_keys
from bridge.resources.cluster_identity import identify
from bridge.resources.current_resources import CurrentResources
from bridge.resources.resolve import rules_for
from bridge.resources.watched_resources import WatchedResources
from bridge.transform.redaction import Redaction
from bridge.transform.transform import transform_for


class Bridge:
    """A run of the bridge. ``run`` returns after ``stop``; any other end is an exception."""

    def __init__(self, plan: Plan, report: Report) -> None:
        self._plan = plan
        self._report = report
        self._stopping = asyncio.Event()
        self._running: _Running | None = None
        self.backlog: Mapping[str, int] = {}
        """Sink → its backlog in records, after ``run`` has ended. Empty if the state was not opened."""

    async def run(self) -> None:
        """Raises CredentialsError, StateError and PlanRefused before the first watch; afterwards Damaged, and the
        exception of a bug. Failures of the API server or of a destination are retried without end."""
        plan = self._plan
        for sink in plan.sinks:
            if sink.clear_text:
                self._report(SinkInsecure(sink.name, sink.clear_text))
        async with connect(
            plan.access, report=self._report, idle_timeout=plan.idle_timeout, latency=plan.latency
        ) as client:
            sinks = {sink.name: sink.start for sink in plan.sinks}
            selecting = [sink.name for sink in plan.sinks if sink.select is not None]
            feeds = await Feeds.open(
                plan.state, sinks, retention=plan.retention, selecting=selecting, report=self._report
            )
            async with feeds.outbox as outbox:
                # Inside of the outbox's lock: two bridges that start at once must not each make a key.
                keys = load_keys(plan.redaction_key_file, plan.former_key_files, plan.state)
                redaction = Redaction(keys, plan.presets, plan.redact)
                self._running = _Running(plan, feeds, redaction, self._report)
                try:
                    await self._running.run(client, self._stopping)
                except BaseExceptionGroup as group:
                    raise _for_the_operator(group) from group
                finally:
                    self.backlog = {sink.name: outbox.sinks.backlog_records(sink.name) for sink in plan.sinks}
                    self._running = None

    def stop(self) -> None:
        """Stops reading from the API server; sinks finish within the grace period; then ``run`` returns."""
        self._stopping.set()

    # ── State ────────────────────────────────────────────────────────────────

    def snapshot(self) -> StatusSnapshot:
        if self._running is None:
            informers = informers_status(self._plan.wanted, None, None)
            return StatusSnapshot(informers=informers, sinks=())
        return self._running.snapshot()

    def alive(self) -> bool:
        """See model.status.StatusSource."""
        return self._running is None or self._running.alive()


class _Running:
    """A bridge whose outbox is open."""

    def __init__(self, plan: Plan, feeds: Feeds, redaction: Redaction, report: Report) -> None:
        self._plan = plan
        self._outbox = outbox = feeds.outbox
        self._redaction = redaction
        self._report = report
        self._processor = feeds.processor
        self._watched = CurrentResources()
        self._pipelines: dict[str, SinkPipeline] = make_pipelines(plan, feeds, self._watched, redaction, report)
        sink_feeds = {name: pipeline.feed for name, pipeline in self._pipelines.items()}
        self._selecting = Selecting(plan.sinks, plan.cluster, outbox.selections, sink_feeds, report)
        self._backlogs = Backpressure(plan.sinks, outbox, sink_feeds, report)
        self._admin = LiveOperations(outbox, self._pipelines, report, catalogue=self._catalogue)
        self._factory: SharedInformerFactory | None = None
        self._watched_resources: WatchedResources | None = None
        self._grace_ends = float("inf")
        """The end of the grace period, on the event loop's clock, once ``stop`` was called."""

    async def run(self, client: KubeClient, stopping: asyncio.Event) -> None:
        admin = AdminServer(self._plan.state, self._admin, self._report, about=about(self._plan))
        try:
            await admin.start()
        except OSError as error:
            raise StateUnusable(f"state.directory: cannot make admin.sock in {self._plan.state}: {error}") from error
        try:
            async with asyncio.TaskGroup() as tasks:
                retention = [
                    tasks.create_task(self._outbox.run(), name="outbox"),
                    tasks.create_task(self._backlogs.run(), name="backpressure"),
                    tasks.create_task(self._selecting.run(), name="selections"),
                ]
                workers = [
                    tasks.create_task(pipeline.worker.run(), name=f"sink {name}")
                    for name, pipeline in self._pipelines.items()
                ]
                watching = tasks.create_task(self._watch(client, stopping), name="watching")
                await asyncio.wait([watching])
                await self._wait_settled()
                for task in (*workers, *retention):
                    task.cancel()
        finally:
            await admin.stop()

    async def _watch(self, client: KubeClient, stopping: asyncio.Event) -> None:
        """Watches until ``stopping``. On return, reading has ended; changes that are not durable are read again at the
        next start."""
        async with asyncio.TaskGroup() as tasks, self._make_factory(client) as factory:
            self._factory = factory
            self._watched_resources = WatchedResources(
                self._plan.wanted,
                client,
                factory,
                self._outbox.ledger,
                every=self._plan.discovery_seconds,
                watched=self._watched,
                prepare=self._selecting.prepare,
                report=self._report,
            )
            following = tasks.create_task(self._follow(client, self._watched_resources), name="discovery")
            await stopping.wait()
            self._grace_ends = asyncio.get_running_loop().time() + self._plan.grace_seconds
            # First of all: an informer whose batch waits for a full backlog could not end.
            self._backlogs.release()
            # Before the factory stops: discovery could start another informer.
            following.cancel()
            await asyncio.wait([following])
            with suppress(TimeoutError):
                async with asyncio.timeout_at(self._grace_ends):
                    await factory.stop()
            factory.abandon()

    async def _follow(self, client: KubeClient, watched_resources: WatchedResources) -> None:
        restart = self._plan.restart_on_cluster_change
        await identify(client, self._outbox.ledger, restart=restart, report=self._report)
        await watched_resources.run()

    async def _wait_settled(self) -> None:
        for pipeline in self._pipelines.values():
            await pipeline.worker.wait_idle_by(self._grace_ends)
        for name in self._pipelines:
            if left := self._outbox.sinks.backlog_records(name):
                self._report(RecordsLeftBehind(name, left))

    # ── State ────────────────────────────────────────────────────────────────

    def snapshot(self) -> StatusSnapshot:
        informers = informers_status(self._plan.wanted, self._factory, self._watched_resources)
        return snapshot_of(informers, self._pipelines, self._outbox, self._backlogs)

    def _catalogue(self) -> Catalogue | None:
        return None if self._watched_resources is None else self._watched_resources.catalogue

    def _transform(self, resource: Resource) -> Transform:
        rules = rules_for(self._plan.wanted, resource, self._catalogue() or Catalogue())
        return transform_for(resource, self._redaction.extended(rules))

    def alive(self) -> bool:
        return self._factory is None or not any(is_stuck(informer) for informer in self._factory.informers)

    def _make_factory(self, client: KubeClient) -> SharedInformerFactory:
        admit = self._backlogs.admit if self._backlogs.can_block else None
        return SharedInformerFactory(
            partial(client.lister_watcher, managed_fields=False),
            deliver=Exporter(self._outbox, admit, self._report).export,
            stored=self._outbox.body,
            resync=self._processor,
            transform=self._transform,
            indexers={},
            report=self._report,
            timing=self._plan.timing,
            watch_list=self._plan.watch_list,
            discard_positions=self._outbox.ledger.discard_positions,
        )


def _for_the_operator(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """The first exception for an operator (StateError, Damaged, PlanRefused), if the group has no other exceptions."""
    understood, others = group.split((StateError, Damaged, PlanRefused))
    if understood is None or others is not None:
        return group
    first: BaseException = understood
    while isinstance(first, BaseExceptionGroup):
        first = first.exceptions[0]
    return first
