"""Carries the operator's commands out on the state. Each command's promise is in ``AdminOperations``.

Both kinds of operations act on an open state. ``OfflineOperations`` are for that of a bridge that does not run, which
``open_admin`` opens under the lock of its directory. ``LiveOperations`` belong to a running bridge, whose sinks and
feeds follow at once. Pauses are durable before they take effect, so a crash in between loses none.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager

from bridge.app.admin.commands import LARGEST_PAGE, AdminOperations
from bridge.delivery.backfills import begin_replay, begin_snapshot, cancel_snapshot
from bridge.delivery.live_tail import LiveTail
from bridge.delivery.sink_feed import SinkFeed
from bridge.delivery.sink_pipeline import SinkPipeline, seconds_until
from bridge.kube import Catalogue
from bridge.model.admin import (
    Cursors,
    CursorStatus,
    DeadLetter,
    DeadLetterChain,
    Followed,
    Reloaded,
    ReloadRequest,
    Replayed,
    ReplayRequest,
    SnapshotRequest,
    StateReport,
    UnknownTarget,
)
from bridge.model.record import Delta, SnapshotScope
from bridge.model.status import BridgeStatus, PauseCause, SinkState, SnapshotStatus
from bridge.outbox import DeadLetters, Outbox
from bridge.plan.entries import meant
from bridge.plan.keys import load_cipher
from bridge.plan.plan_from_settings import plan_of
from bridge.telemetry.facts import Report, discard
from bridge.telemetry.facts.delivery import SinkPaused, SinkResumed
from config.schema import Settings

BEGINNING = "beginning"


class _StateOperations(AdminOperations):
    """Commands on a state, and on the sinks that run."""

    def __init__(
        self,
        outbox: Outbox,
        cluster: str,
        report: Report = discard,
        pipelines: Mapping[str, SinkPipeline] | None = None,
        catalogue: Callable[[], Catalogue] | None = None,
    ) -> None:
        """``cluster``: the configured name, for expressions. ``pipelines``: those of the running sinks at each moment.
        ``catalogue``: returns the resources that the API server serves; None without a discovery."""
        self._outbox = outbox
        self._cluster = cluster
        self._report = report
        self._pipelines = {} if pipelines is None else pipelines
        self._catalogue = catalogue

    async def cursors(self) -> Cursors:
        sinks = [self._cursor(cursor.sink) for cursor in self._outbox.sinks.all]
        sinks.sort(key=lambda each: each.sink)
        return Cursors(self._outbox.first, self._outbox.last, sinks, self._outbox.retains)

    async def replay(self, request: ReplayRequest) -> Replayed:
        kind = None
        if request.resource is not None:
            kind = await self._outbox.ledger.kind_of(await self._name_of(request.resource))
        start = self._outbox.first if request.start == BEGINNING else request.start
        return await begin_replay(
            self._outbox,
            request.sink,
            self._feed(request.sink),
            cluster=self._cluster,
            start=start,
            kind=kind,
            namespace=request.namespace,
        )

    async def snapshot(self, request: SnapshotRequest) -> SnapshotStatus:
        name = None if request.resource is None else await self._name_of(request.resource)
        kind = None if name is None else await self._outbox.ledger.kind_of(name)
        narrowing = (name, request.namespace, request.where)
        return await begin_snapshot(
            self._outbox,
            request.sink,
            self._feed(request.sink),
            cluster=self._cluster,
            report=self._report,
            kind=kind,
            scope=None if narrowing == (None, None, None) else SnapshotScope(*narrowing),
        )

    async def snapshots(self) -> Sequence[SnapshotStatus]:
        return await self._outbox.snapshots.statuses()

    async def cancel_snapshot(self, sink: str) -> SnapshotStatus:
        return await cancel_snapshot(self._outbox, sink, self._feed(sink))

    async def dead_letters(
        self, sink: str | None = None, *, after: int = 0, limit: int = LARGEST_PAGE
    ) -> Sequence[DeadLetter]:
        if sink is not None:
            self._dead_letters_of(sink)
        return await self._outbox.dead_letters(sink, after, limit)

    async def dead_letter_chains(
        self, sink: str | None = None, *, after: int = 0, limit: int = LARGEST_PAGE
    ) -> Sequence[DeadLetterChain]:
        if sink is not None:
            self._dead_letters_of(sink)
        return await self._outbox.dead_letter_chains(sink, after, limit)

    async def dead_letter_body(self, number: int) -> bytes:
        record = await self._outbox.dead_letter(number)
        return record.body if isinstance(record, Delta) else b"null"

    async def retry(self, sink: str, numbers: Sequence[int] | None = None) -> int:
        count = await self._dead_letters_of(sink).retry(numbers)
        self._wake(sink)
        return count

    async def drop(self, sink: str, numbers: Sequence[int] | None = None) -> int:
        count = await self._dead_letters_of(sink).drop(numbers)
        self._wake(sink)
        return count

    async def retry_sink(self, sink: str) -> bool:
        _ = self._outbox.sinks[sink]
        return sink in self._pipelines and self._pipelines[sink].worker.retry_now()

    async def pause_sink(self, sink: str) -> bool:
        # Durable first: after a crash in between, the sink is paused as the operator wanted.
        changed = await self._outbox.sinks.pause(sink, PauseCause.OPERATOR)
        if sink in self._pipelines:
            self._pipelines[sink].worker.suspend(PauseCause.OPERATOR)
        if changed:
            self._report(SinkPaused(sink))
        return changed

    async def resume_sink(self, sink: str) -> bool:
        # Durable first, as above.
        changed = await self._outbox.sinks.pause(sink, PauseCause.NONE)
        if sink in self._pipelines:
            self._pipelines[sink].worker.resume()
        if changed:
            self._report(SinkResumed(sink))
        return changed

    async def state_check(self) -> StateReport:
        return await self._outbox.check()

    async def _name_of(self, name: str) -> str:
        """The resource's name, for any name that kubectl accepts: ``po``, ``pod``, ``Pod``, ``deploy.apps``."""
        served = None if self._catalogue is None else self._catalogue()
        return meant(name, await self._outbox.ledger.exported_resources(), served)

    def _feed(self, sink: str) -> SinkFeed | None:
        """The feed of a sink; None for a sink without one."""
        return self._pipelines[sink].feed if sink in self._pipelines else None

    def _wake(self, sink: str) -> None:
        if (feed := self._feed(sink)) is not None:
            feed.wake()

    def _dead_letters_of(self, sink: str) -> DeadLetters:
        dead_letters = self._outbox.sinks.dead_letters
        if sink not in dead_letters:
            raise UnknownTarget(f"there is no sink {sink}; there are: {', '.join(sorted(dead_letters)) or 'none'}")
        return dead_letters[sink]

    def _cursor(self, sink: str) -> CursorStatus:
        cursor = self._outbox.sinks[sink]
        backfill = cursor.backfill
        size = self._outbox.backlog_of(sink)
        # The worker knows before the database does.
        worker = self._pipelines[sink].worker if sink in self._pipelines else None
        state = None if worker is None else worker.state
        return CursorStatus(
            sink,
            cursor.settled,
            size.records,
            size.bytes,
            size.age,
            cursor.configured,
            "" if backfill is None else backfill.kind.value,
            0 if backfill is None else backfill.last_item - cursor.settled_item,
            bool(cursor.paused),
            gone=cursor.paused is PauseCause.GONE or state is SinkState.GONE,
            fenced=cursor.paused is PauseCause.FENCED or state is SinkState.FENCED,
            retry_in=None if worker is None else seconds_until(worker.retry_at),
            asked=None if worker is None else worker.asked,
            last_error="" if worker is None else worker.last_error or "",
        )


class OfflineOperations(_StateOperations):
    """Commands on the files of a stopped bridge. They take effect at the next start."""

    async def reload(self, request: ReloadRequest) -> Reloaded:
        raise UnknownTarget("no bridge runs; its next start reads the configuration")

    async def status(self) -> BridgeStatus:
        raise UnknownTarget("no bridge runs")

    async def follow(self, sink: str | None = None) -> AsyncGenerator[Followed, None]:
        raise UnknownTarget("no bridge runs, so no record is committed")
        yield


@asynccontextmanager
async def open_admin(settings: Settings) -> AsyncIterator[AdminOperations]:
    """Holds the lock of the directory inside the context. Raises StateError, and Damaged for a damaged database, which
    stays unchanged."""
    plan = plan_of(settings)
    sinks = {sink.name: sink.start for sink in plan.sinks}
    async with await Outbox.open(
        plan.state, sinks, retention=plan.retention, report=discard, only_existing=True, cipher=load_cipher(plan)
    ) as outbox:
        yield OfflineOperations(outbox, plan.cluster)


class LiveOperations(_StateOperations):
    """Commands inside a running bridge. They take effect at once."""

    def __init__(
        self,
        outbox: Outbox,
        pipelines: Mapping[str, SinkPipeline],
        report: Report,
        *,
        cluster: str,
        catalogue: Callable[[], Catalogue],
        reload: Callable[[ReloadRequest], Awaitable[Reloaded]] | None,
        live_tail: LiveTail,
        status: Callable[[], BridgeStatus],
    ) -> None:
        """``reload``: None for a bridge without a configuration file."""
        super().__init__(outbox, cluster, report, pipelines, catalogue)
        self._reload = reload
        self._live_tail = live_tail
        self._status = status

    async def reload(self, request: ReloadRequest) -> Reloaded:
        if self._reload is None:
            raise UnknownTarget("this bridge has no configuration file")
        return await self._reload(request)

    async def status(self) -> BridgeStatus:
        return self._status()

    def follow(self, sink: str | None = None) -> AsyncGenerator[Followed, None]:
        return self._live_tail.follow(sink)
