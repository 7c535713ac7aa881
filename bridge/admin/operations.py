"""The operator's commands, on the state of a stopped bridge: see model.admin."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence

from bridge.facts import Report, discard
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
from bridge.model.status import PauseCause, SnapshotStatus, StatusSnapshot
from bridge.outbox import DeadLetters, Outbox, condition
from bridge.pipelines.judging import judge_anew
from bridge.pipelines.sink_feed import SinkFeed
from bridge.pipelines.snapshots import begin_snapshot, cancel_snapshot
from bridge.resources.resolve import meant

BEGINNING = "beginning"


class OfflineOperations:
    """Commands on the files of a stopped bridge. They take effect at the next start."""

    def __init__(self, outbox: Outbox, cluster: str, report: Report = discard) -> None:
        """``cluster``: the configured name, for expressions."""
        self._outbox = outbox
        self._cluster = cluster
        self._report = report

    async def cursors(self) -> Cursors:
        sinks = [self._cursor(cursor.sink) for cursor in self._outbox.sinks.all]
        sinks.sort(key=lambda each: each.sink)
        return Cursors(self._outbox.first, self._outbox.last, sinks, self._outbox.retains)

    async def replay(self, request: ReplayRequest) -> Replayed:
        kind = None
        if request.resource is not None:
            kind = await self._outbox.ledger.kind_of(await self._name_of(request.resource))
        start = self._outbox.first if request.start == BEGINNING else request.start
        return await self._replay(request.sink, start, kind, request.namespace)

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

    async def dead_letters(self, sink: str | None = None, *, after: int = 0, limit: int = 1000) -> Sequence[DeadLetter]:
        if sink is not None:
            self._dead_letters_of(sink)
        return await self._outbox.dead_letters(sink, after, limit)

    async def dead_letter_chains(
        self, sink: str | None = None, *, after: int = 0, limit: int = 1000
    ) -> Sequence[DeadLetterChain]:
        if sink is not None:
            self._dead_letters_of(sink)
        return await self._outbox.dead_letter_chains(sink, after, limit)

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

    async def _name_of(self, name: str) -> str:
        """The resource's name, for any name that kubectl accepts: ``po``, ``pod``, ``Pod``, ``deploy.apps``."""
        return meant(name, await self._outbox.ledger.exported_resources(), self._served())

    def _feed(self, _sink: str) -> SinkFeed | None:
        """The feed of a sink; None for a sink without one."""
        return None

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
            fenced=cursor.paused is PauseCause.FENCED,
        )
