"""The operator's commands, on the state of a stopped bridge or inside a running bridge: see model.admin."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence

import msgspec

from bridge.facts import Report, SinkPaused, SinkResumed
from bridge.kube import Catalogue
from bridge.model.admin import (
    About,
    Cursors,
    CursorStatus,
    DeadLetter,
    Followed,
    Reloaded,
    ReloadRequest,
    Replayed,
    ReplayRequest,
    StateReport,
    UnknownTarget,
)
from bridge.model.primitives.addresses import host_and_port
from bridge.model.record import Delta
from bridge.model.status import PauseCause, SinkState, StatusSnapshot
from bridge.outbox import DeadLetters, Outbox, condition
from bridge.pipelines.judging import judge_anew
from bridge.pipelines.live_tail import LiveTail
from bridge.pipelines.sink_pipeline import SinkPipeline, seconds_until
from bridge.plan.plan import Plan
from bridge.resources.resolve import meant

BEGINNING = "beginning"


def about(plan: Plan) -> About:
    """Identity of this process, which runs this plan."""
    return About(os.getpid(), plan.file, "" if plan.listen is None else host_and_port(*plan.listen))


class OfflineOperations:
    """Commands on the files of a stopped bridge. They take effect at the next start."""

    def __init__(self, outbox: Outbox, cluster: str) -> None:
        """``cluster``: the configured name, for expressions."""
        self._outbox = outbox
        self._cluster = cluster

    async def cursors(self) -> Cursors:
        sinks = [self._cursor(cursor.sink) for cursor in self._outbox.sinks.all]
        return Cursors(self._outbox.first, self._outbox.last, sorted(sinks, key=lambda each: each.sink))

    async def replay(self, request: ReplayRequest) -> Replayed:
        kind = None if request.resource is None else await self._kind_of(request.resource)
        start = self._outbox.first if request.start == BEGINNING else request.start
        return await self._replay(request.sink, start, kind, request.namespace)

    async def dead_letters(self, sink: str | None = None, *, after: int = 0, limit: int = 1000) -> Sequence[DeadLetter]:
        if sink is not None:
            self._dead_letters_of(sink)
        return await self._outbox.dead_letters(sink, after, limit)

    async def dead_letter_body(self, number: int) -> bytes:
        record = await self._outbox.dead_letter(number)
        return record.body if isinstance(record, Delta) else b"null"

    async def retry(self, sink: str, numbers: Sequence[int] | None = None) -> int:
        return await self._dead_letters_of(sink).retry(numbers)

    async def drop(self, sink: str, numbers: Sequence[int] | None = None) -> int:
        return await self._dead_letters_of(sink).drop(numbers)

    async def retry_sink(self, sink: str) -> bool:
        _ = self._outbox.sinks[sink]
        return False

    async def pause_sink(self, sink: str) -> bool:
        return await self._outbox.sinks.pause(sink, PauseCause.OPERATOR)

    async def resume_sink(self, sink: str) -> bool:
        return await self._outbox.sinks.pause(sink, PauseCause.NONE)

    async def state_check(self) -> StateReport:
        return await self._outbox.check()

    async def reload(self, request: ReloadRequest) -> Reloaded:
        raise UnknownTarget("no bridge runs; its next start reads the configuration")

    async def status(self) -> StatusSnapshot:
        raise UnknownTarget("no bridge runs")

    async def follow(self, sink: str | None = None) -> AsyncGenerator[Followed, None]:
        raise UnknownTarget("no bridge runs, so no record is committed")
        yield

    async def _kind_of(self, name: str) -> int:
        """The kind's number, for any name that kubectl accepts: ``po``, ``pod``, ``Pod``, ``deploy.apps``."""
        ledger = self._outbox.ledger
        return await ledger.kind_of(meant(name, await ledger.exported_resources(), self._served()))

    def _served(self) -> Catalogue | None:
        """The resources that the API server serves; None without a discovery."""
        return None

    async def _replay(self, sink: str, start: int | str, kind: int | None, namespace: str | None) -> Replayed:
        sinks, selections, judged = self._outbox.sinks, self._outbox.selections, None
        taken = sinks.without_backfill(sink).settled
        if sink in selections.stored:
            judged = await judge_anew(
                selections, sink, self._cluster, start=start, through=taken, kind=kind, namespace=namespace
            )
        return await sinks.replay(sink, which=condition(start, kind, namespace), taken=taken, judged=judged)

    def _dead_letters_of(self, sink: str) -> DeadLetters:
        dead_letters = self._outbox.sinks.dead_letters
        if sink not in dead_letters:
            raise UnknownTarget(f"there is no sink {sink}; there are: {', '.join(sorted(dead_letters)) or 'none'}")
        return dead_letters[sink]

    def _cursor(self, sink: str) -> CursorStatus:
        cursor, backfill = self._outbox.sinks[sink], self._outbox.sinks[sink].backfill
        size = self._outbox.backlog_of(sink)
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
            gone=cursor.paused is PauseCause.GONE,
        )


class LiveOperations(OfflineOperations):
    """Commands inside a running bridge. They take effect at once."""

    def __init__(
        self,
        outbox: Outbox,
        pipelines: Mapping[str, SinkPipeline],
        report: Report,
        *,
        cluster: str,
        catalogue: Callable[[], Catalogue | None],
        reload: Callable[[ReloadRequest], Awaitable[Reloaded]] | None,
        live_tail: LiveTail,
        status: Callable[[], StatusSnapshot],
    ) -> None:
        """``reload``: None for a bridge without a configuration file."""
        super().__init__(outbox, cluster)
        self._reload = reload
        self._live_tail = live_tail
        self._status = status
        self._pipelines = pipelines
        self._report = report
        self._catalogue = catalogue

    def _served(self) -> Catalogue | None:
        return self._catalogue()

    async def status(self) -> StatusSnapshot:
        return self._status()

    def follow(self, sink: str | None = None) -> AsyncGenerator[Followed, None]:
        return self._live_tail.follow(sink)

    async def retry_sink(self, sink: str) -> bool:
        waited = await super().retry_sink(sink)
        return self._pipelines[sink].worker.retry_now() if sink in self._pipelines else waited

    async def pause_sink(self, sink: str) -> bool:
        # Durable first: after a crash in between, the sink is paused as the operator wanted.
        changed = await super().pause_sink(sink)
        if sink in self._pipelines:
            self._pipelines[sink].worker.suspend()
        if changed:
            self._report(SinkPaused(sink))
        return changed

    async def resume_sink(self, sink: str) -> bool:
        # Durable first, as above.
        changed = await super().resume_sink(sink)
        if sink in self._pipelines:
            self._pipelines[sink].worker.resume()
        if changed:
            self._report(SinkResumed(sink))
        return changed

    async def reload(self, request: ReloadRequest) -> Reloaded:
        if self._reload is None:
            raise UnknownTarget("this bridge has no configuration file")
        return await self._reload(request)

    async def retry(self, sink: str, numbers: Sequence[int] | None = None) -> int:
        count = await super().retry(sink, numbers)
        self._wake(sink)
        return count

    async def drop(self, sink: str, numbers: Sequence[int] | None = None) -> int:
        count = await super().drop(sink, numbers)
        self._wake(sink)
        return count

    async def _replay(self, sink: str, start: int | str, kind: int | None, namespace: str | None) -> Replayed:
        if sink not in self._pipelines:
            return await super()._replay(sink, start, kind, namespace)
        return await self._pipelines[sink].feed.replay(start, kind, namespace)

    def _cursor(self, sink: str) -> CursorStatus:
        cursor = super()._cursor(sink)
        if sink not in self._pipelines:
            return cursor
        worker = self._pipelines[sink].worker
        return msgspec.structs.replace(
            cursor,
            gone=cursor.gone or worker.state is SinkState.GONE,  # The worker knows before the database does.
            retry_in=seconds_until(worker.retry_at),
            asked=worker.asked,
            last_error=worker.last_error or "",
        )

    def _wake(self, sink: str) -> None:
        if sink in self._pipelines:
            self._pipelines[sink].feed.wake()
