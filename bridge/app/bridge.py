"""Builds the rooms, runs them in one task group, and ends them in order."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from bridge.app.exporter import Exporter
from bridge.app.plan import Plan, SinkPlan
from bridge.app.status import empty_status, informer_status, is_stuck, sink_status, unresolved_status
from bridge.app.subscriptions import Subscriptions
from bridge.delivery.worker import Worker
from bridge.facts import RecordsLeftBehind, Report
from bridge.informer import SharedInformerFactory
from bridge.kube import KubeClient, connect
from bridge.model.record import Delta, Record
from bridge.outbox.memory import MemoryOutbox, utc_now
from bridge.processor.pipeline import transform_for
from bridge.processor.shared_processor import SharedProcessor
from bridge.telemetry.status import Snapshot


def _audience(record: Record) -> tuple[str, ...] | None:
    return getattr(record, "audience", None)


def _size(record: Record) -> int:
    return len(record.body) if isinstance(record, Delta) else 0


class Bridge:
    """One run of the bridge. ``run`` returns after ``stop``; any other end is an error."""

    def __init__(self, plan: Plan, report: Report) -> None:
        self._plan = plan
        self._report = report
        self._outbox = MemoryOutbox(max_records=plan.outbox_records, max_bytes=plan.outbox_bytes)
        self._processor = SharedProcessor[Record](self._outbox, audience=_audience, size=_size)
        self._workers = {sink.name: self._worker(sink) for sink in plan.sinks}
        self._factory: SharedInformerFactory | None = None
        self._subscriptions: Subscriptions | None = None
        self._stopping = asyncio.Event()

    # ── Its life ─────────────────────────────────────────────────────────────

    async def run(self) -> None:
        """Raises CredentialsError before anything has begun; afterwards only bugs end it. What the API server or a
        destination can do is waited out."""
        silence = self._plan.silence_seconds
        async with (
            connect(self._plan.access, report=self._report, silence=silence) as client,
            asyncio.TaskGroup() as tasks,
        ):
            workers = [tasks.create_task(worker.run(), name=f"sink {name}") for name, worker in self._workers.items()]
            async with self._make_factory(client) as factory:
                self._factory = factory
                self._subscriptions = Subscriptions(
                    self._plan.wanted,
                    client,
                    factory,
                    every=self._plan.discovery_seconds,
                    report=self._report,
                )
                following = tasks.create_task(self._subscriptions.run(), name="subscriptions")
                await self._stopping.wait()
                following.cancel()
                await asyncio.wait([following])
                await factory.stop()
            await self._wait_settled()
            for name in self._workers:
                if left := self._lag(name):
                    self._report(RecordsLeftBehind(name, left))
            for worker in workers:
                worker.cancel()

    def stop(self) -> None:
        """Read no more, deliver what was read within the grace, and end."""
        self._stopping.set()

    async def _wait_settled(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(self._plan.grace_seconds):
                for worker in self._workers.values():
                    await worker.wait_settled(self._outbox.last)

    # ── How it stands ────────────────────────────────────────────────────────

    def snapshot(self) -> Snapshot:
        factory, subscriptions = self._factory, self._subscriptions
        informers = [informer_status(informer) for informer in factory.informers] if factory else []
        if subscriptions is None:
            informers += [unresolved_status(each.name, "not looked up yet") for each in self._plan.wanted]
        else:
            informers += [unresolved_status(name, reason) for name, reason in subscriptions.unresolved.items()]
            informers += [empty_status(name) for name in subscriptions.empty]
        sinks = [
            sink_status(sink, self._workers[sink.name], self._processor.listeners[sink.name], self._lag(sink.name))
            for sink in self._plan.sinks
        ]
        return Snapshot(
            informers=tuple(informers),
            sinks=tuple(sinks),
            outbox_records=self._outbox.records,
            outbox_bytes=self._outbox.bytes,
        )

    def alive(self) -> bool:
        """See telemetry.status.StatusSource."""
        return self._factory is None or not any(is_stuck(informer) for informer in self._factory.informers)

    def _lag(self, sink: str) -> int:
        return self._outbox.last - self._outbox.cursor(sink)

    # ── Its rooms ────────────────────────────────────────────────────────────

    def _make_factory(self, client: KubeClient) -> SharedInformerFactory:
        return SharedInformerFactory(
            client.lister_watcher,
            deliver=Exporter(self._outbox, self._processor, self._report).export,
            resync=self._processor,
            transform=transform_for,
            indexers={},
            report=self._report,
            timing=self._plan.timing,
            watch_list=self._plan.watch_list,
        )

    def _worker(self, sink: SinkPlan) -> Worker:
        cursor = self._outbox.register(sink.name)
        listener = self._processor.add(
            sink.name, after=cursor, resync=sink.resync_seconds, window=max(sink.window, sink.max_batch)
        )
        return Worker(
            sink.name,
            sink.make,
            listener,
            settle=lambda through: self._outbox.settle(sink.name, through),
            report=self._report,
            now=utc_now,
            max_batch=sink.max_batch,
        )
