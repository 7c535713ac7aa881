"""Runs the rooms of a bridge whose outbox is open: their construction, the order in which they begin and end, and their
state for /readyz and the gauges.

The rooms live in one task group. On ``stopping``, reading from the API server ends first; then the sinks finish within
the grace period, and the outbox ends last. A replica that leads ends its sinks instead as soon as nothing is in flight,
since another replica goes on with the backlog. Changes that are not durable by then are read again at the next start.

``status`` collects the state of every informer and sink at the moment of the call. A change of the configuration
replaces informers for a moment, during which ``SteadyReadiness`` counts the bridge as ready if it was ready before.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial

import msgspec

from bridge.app.admin.operations import LiveOperations
from bridge.app.live_change import LiveChange
from bridge.app.operators import PageSources, open_to_operators
from bridge.app.reloader import Reloader
from bridge.app.watched_resources import WatchedResources
from bridge.delivery import HeldLease
from bridge.delivery.backfills import SnapshotSchedule
from bridge.delivery.backpressure import Backpressure, Exporter
from bridge.delivery.live_tail import LiveTail
from bridge.delivery.selecting import Selecting
from bridge.delivery.sink_feed import Feeds
from bridge.delivery.sink_pipeline import RunningSinks, SinkPipeline, seconds_until
from bridge.informer import RecoverySlots, SharedInformer, SharedInformerFactory
from bridge.informer.controller import Transform
from bridge.kube import KubeClient
from bridge.model.record import WatchedPart
from bridge.model.resource import Resource, Scope
from bridge.model.status import BridgeStatus, ElectionStatus, InformerState, InformerStatus, SinkStatus
from bridge.outbox import Outbox
from bridge.plan.cluster_identity import identify
from bridge.plan.entries import ignored_by, recovers_steps, rules_for
from bridge.plan.plan import CurrentResources, Plan
from bridge.telemetry.facts import Report
from bridge.telemetry.facts.informer import ObjectLeftBare
from bridge.transform.digest import IgnoredPaths
from bridge.transform.redaction import Redaction
from bridge.transform.transform import naming_managers, transform_for


class RunningBridge:
    """The rooms of a run. Its constructor builds each of them, in the order of their dependence."""

    def __init__(
        self,
        plan: Plan,
        client: KubeClient,
        feeds: Feeds,
        redaction: Redaction,
        reloader: Reloader | None,
        report: Report,
        *,
        lease: HeldLease | None,
        election: Callable[[], ElectionStatus | None],
    ) -> None:
        """``lease``: with which this replica leads; None without an election. ``election``: returns its state."""
        self._client = client
        self._outbox = outbox = feeds.outbox
        self._reloader = reloader
        self._report = report
        self._leads = lease is not None
        self._election = election
        current = CurrentResources(plan.wanted)
        self._sinks = RunningSinks(plan, feeds, current, redaction, report, lease, self._watched_parts)
        pipelines = self._sinks.pipelines
        self._selecting = Selecting(pipelines, plan.cluster, outbox.selections, report)
        self._backlogs = Backpressure(pipelines, outbox, report)
        self._snapshots = SnapshotSchedule(pipelines, outbox, plan.cluster, report)
        exporter = Exporter(outbox, self._backlogs, report)
        self._factory = informer_factory(plan, client, feeds, exporter, redaction, current, report)
        every, prepare = plan.discovery_seconds, self._selecting.prepare
        self._watched_resources = WatchedResources(
            current, client, self._factory, outbox.ledger, every=every, prepare=prepare, report=report
        )
        self._steady = SteadyReadiness()
        self.live = LiveChange(
            plan=plan,
            client=client,
            outbox=outbox,
            sinks=self._sinks,
            selecting=self._selecting,
            backlogs=self._backlogs,
            current=current,
            watched_resources=self._watched_resources,
            replacing=lambda: self._steady.changing(self.status()),
        )
        self._live_tail = LiveTail(feeds.processor, outbox.sinks, pipelines, plan.cluster)
        self._admin = LiveOperations(
            outbox,
            pipelines,
            report,
            cluster=plan.cluster,
            catalogue=lambda: current.catalogue,
            reload=None if reloader is None else reloader.reload,
            live_tail=self._live_tail,
            status=self.status,
        )
        self._sources = PageSources(
            feeds.processor, self.status, form=lambda sink: pipelines[sink].seen if sink in pipelines else None
        )
        self._grace_ends = float("inf")
        """The end of the grace period, on the event loop's clock, once ``stop`` was called."""

    async def run(self, stopping: asyncio.Event) -> None:
        """Returns when the rooms have ended, after ``stopping`` is set."""
        async with open_to_operators(self.live.plan, self._admin, self._sources, self._report):
            try:
                await self._export(stopping)
            finally:
                self._live_tail.close()

    async def _export(self, stopping: asyncio.Event) -> None:
        async with asyncio.TaskGroup() as tasks:
            background = [
                tasks.create_task(self._outbox.run(), name="outbox"),
                tasks.create_task(self._backlogs.run(), name="backpressure"),
                tasks.create_task(self._selecting.run(), name="selections"),
                tasks.create_task(self._snapshots.run(), name="snapshots"),
            ]
            self._sinks.start(tasks)
            watching = tasks.create_task(self._watch(stopping), name="watching")
            await asyncio.wait([watching])
            if self._leads:  # Another replica goes on with the backlog, as soon as nothing is in flight here.
                await self._sinks.end(tuple(self._sinks.pipelines), by=self._grace_ends)
            else:
                await self._sinks.wait_settled(self._grace_ends)
            self._sinks.cancel()
            for task in background:
                task.cancel()

    async def _watch(self, stopping: asyncio.Event) -> None:
        """Watches until ``stopping``. On return, reading has ended; changes that are not durable are read again at the
        next start."""
        async with asyncio.TaskGroup() as tasks, self._factory as factory:
            following = [tasks.create_task(self._follow_discovery(), name="discovery")]
            if self._reloader is not None:
                following.append(tasks.create_task(self._reloader.run(self.live), name="reload"))
            await stopping.wait()
            self._grace_ends = asyncio.get_running_loop().time() + self.live.plan.grace_seconds
            # Before the factory stops: both could start another informer.
            for task in following:
                task.cancel()
            # At once, and again behind a reload that was under way: an informer whose batch waits for a full backlog
            # could not end, and discovery may wait for such an informer.
            self._backlogs.release()
            await asyncio.wait(following)
            self._backlogs.release()
            with suppress(TimeoutError):
                async with asyncio.timeout_at(self._grace_ends):
                    await factory.stop()
            factory.abandon()

    async def _follow_discovery(self) -> None:
        watched, restart = self._watched_resources, self.live.plan.restart_on_cluster_change
        ledger = self._outbox.ledger
        await identify(self._client, ledger, restart=restart, report=self._report, held_up=watched.held_up)
        await watched.run()

    # ── State ────────────────────────────────────────────────────────────────

    def status(self) -> BridgeStatus:
        informers = informers_status(
            self._factory.informers, self._watched_resources.unresolved, self._watched_resources.empty
        )
        outbox = self._outbox
        disk = outbox.disk()
        status = BridgeStatus(
            informers=informers,
            sinks=tuple(_sink_status(pipeline, outbox) for pipeline in self._sinks.pipelines.values()),
            outbox_records=outbox.records,
            outbox_bytes=outbox.size,
            outbox_oldest_seconds=outbox.oldest_seconds,
            outbox_file_bytes=disk.file,
            outbox_wal_bytes=disk.wal,
            disk_free_bytes=disk.free,
            ledger_objects=sum(each.objects for each in informers),
            intake_blocked=outbox.no_room or self._backlogs.blocked,
            disk_full=bool(outbox.no_room),
            election=self._election(),
            configuration=None if self._reloader is None else self._reloader.status,
            shard=self.live.plan.shard,
            state_directory=str(self.live.plan.state),
        )
        return msgspec.structs.replace(status, changing=self._steady.covers(status))

    def _watched_parts(self) -> tuple[WatchedPart, ...] | None:
        """None before the first discovery."""
        if self.live.current() is None:
            return None
        return tuple(
            WatchedPart(
                each.resource.name,
                _informer_state(each),
                each.scope.namespace,
                each.scope.label_selector,
                each.scope.field_selector,
            )
            for each in self._factory.informers
        )

    def alive(self) -> bool:
        return not any(is_stuck(informer) for informer in self._factory.informers)


def informer_factory(
    plan: Plan,
    client: KubeClient,
    feeds: Feeds,
    exporter: Exporter,
    redaction: Redaction,
    current: CurrentResources,
    report: Report,
) -> SharedInformerFactory:
    """Its informers deliver to the exporter, and read bodies from the outbox. An informer has the rules that entries
    and discovery say for its resource when it is made."""

    def transform(resource: Resource, scope: Scope) -> Transform:
        rules = rules_for(current.wanted, resource, current.catalogue)
        left_bare = partial(ObjectLeftBare, resource, scope)
        made = transform_for(resource, redaction.extended(rules), lambda reason: report(left_bare(reason)))
        return naming_managers(made) if plan.retention.managers else made

    def ignoring(resource: Resource, scope: Scope) -> IgnoredPaths | None:
        paths = ignored_by(current.wanted, resource, scope, current.catalogue)
        return IgnoredPaths(paths) if paths else None

    def recovers(resource: Resource, scope: Scope) -> bool:
        return recovers_steps(current.wanted, resource, scope, current.catalogue)

    return SharedInformerFactory(
        partial(client.lister_watcher, managed_fields=plan.retention.managers, shard=plan.shard),
        deliver=exporter.export,
        stored=feeds.outbox.body,
        resync=feeds.processor,
        transform=transform,
        indexers={},
        report=report,
        timing=plan.timing,
        watch_list=plan.watch_list,
        discard_positions=feeds.outbox.ledger.discard_positions,
        ignoring=ignoring,
        recovery=None if plan.recovery is None else RecoverySlots(plan.recovery, recovers),
    )


# ── Status ───────────────────────────────────────────────────────────────────


def _sink_status(pipeline: SinkPipeline, outbox: Outbox) -> SinkStatus:
    worker = pipeline.worker
    dead_letters = pipeline.dead_letters
    backlog = outbox.backlog_of(pipeline.plan.name)
    backfill = pipeline.feed.backfill
    return SinkStatus(
        name=pipeline.plan.name,
        type=pipeline.plan.type,
        state=worker.state,
        backlog_records=backlog.records,
        backlog_bytes=backlog.bytes,
        backlog_seconds=backlog.age,
        window=pipeline.feed.in_memory,
        delivered=worker.delivered,
        rejected=worker.rejected,
        dead_letters=len(dead_letters),
        parked=dead_letters.parked,
        backfill="" if backfill is None else backfill.kind.value,
        backfill_left=0 if backfill is None else backfill.left,
        circuit=worker.circuit,
        last_error=worker.last_error or "",
        retry_in=seconds_until(worker.retry_at),
        asked=None if worker.retry_at is None else worker.asked,
    )


def informers_status(
    informers: Iterable[SharedInformer], unresolved: Mapping[str, str], empty: Mapping[str, str]
) -> tuple[InformerStatus, ...]:
    """A status for each informer, and for each configured name without an informer: name → the reason."""
    return (
        *map(_informer_status, informers),
        *(_without_informer(name, InformerState.UNKNOWN, reason) for name, reason in unresolved.items()),
        *(_without_informer(name, InformerState.LIVE, reason) for name, reason in empty.items()),
    )


def _informer_status(informer: SharedInformer) -> InformerStatus:
    age = asyncio.get_running_loop().time() - informer.last_contact
    return InformerStatus(
        resource=informer.resource.name,
        scope=str(informer.scope),
        state=_informer_state(informer),
        synced=informer.has_synced,
        live=informer.live,
        objects=len(informer.indexer),
        queued=informer.queued,
        last_contact=age,
        reason="" if informer.live else informer.last_error or "",
    )


def _informer_state(informer: SharedInformer) -> InformerState:
    if informer.refused:
        return InformerState.REFUSED
    if not informer.has_synced:
        return InformerState.LISTING
    return InformerState.LIVE if informer.live else InformerState.RECONNECTING


def _without_informer(name: str, state: InformerState, reason: str) -> InformerStatus:
    """A wildcard that covers no resource at this moment is live."""
    live = state is InformerState.LIVE
    return InformerStatus(resource=name, scope="", state=state, synced=live, live=live, reason=reason)


STUCK_AFTER = 900.0
"""Seconds without any answer after which an informer counts as stuck. Watches end after ten minutes at the latest, the
idle timeout ends a watch after a minute and a half, and every retry brings an answer."""


def is_stuck(informer: SharedInformer) -> bool:
    """Whether an informer got no answer for far longer than any timeout allows, although its queue is empty. A queue
    that waits explains a pause: a full backlog blocks the queue, and a running delivery the proof of the server's
    history."""
    age = asyncio.get_running_loop().time() - informer.last_answer
    return age > STUCK_AFTER and informer.caught_up


# ── Readiness over a change ──────────────────────────────────────────────────

SETTLING = 10.0
"""Seconds behind a change in which the new informers may open their watches: the kubelet's time between two probes."""


class SteadyReadiness:
    """A bridge that was ready before a change counts as ready until all its informers are live again, for at most
    ``SETTLING`` behind the change."""

    def __init__(self) -> None:
        self._until = float("-inf")
        """On the event loop's clock."""

    @contextmanager
    def changing(self, before: BridgeStatus) -> Iterator[None]:
        """Surrounds a change."""
        was_ready = before.ready
        self._until = float("inf") if was_ready else float("-inf")
        try:
            yield
        finally:
            if was_ready:
                self._until = asyncio.get_running_loop().time() + SETTLING

    def covers(self, now: BridgeStatus) -> bool:
        """Whether ``now``, which says nothing of the change, counts as ready because of the change."""
        if asyncio.get_running_loop().time() >= self._until:
            return False
        if now.ready and self._until != float("inf"):
            self._until = float("-inf")  # A watch that ends from now on is no matter of the change.
        return True
