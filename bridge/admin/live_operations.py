"""The operator's commands inside a running bridge: see model.admin."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence

import msgspec

from bridge.admin.operations import OfflineOperations
from bridge.facts import Report, SinkPaused, SinkResumed
from bridge.kube import Catalogue
from bridge.model.admin import (
    About,
    CursorStatus,
    Followed,
    Reloaded,
    ReloadRequest,
    Replayed,
    UnknownTarget,
)
from bridge.model.primitives.addresses import host_and_port
from bridge.model.status import PauseCause, SinkState, StatusSnapshot
from bridge.outbox import Outbox
from bridge.pipelines.live_tail import LiveTail
from bridge.pipelines.sink_feed import SinkFeed
from bridge.pipelines.sink_pipeline import SinkPipeline, seconds_until
from bridge.plan.plan import Plan


def about(plan: Plan) -> About:
    """Identity of this process, which runs this plan."""
    return About(os.getpid(), plan.file, "" if plan.listen is None else host_and_port(*plan.listen))


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
        super().__init__(outbox, cluster, report)
        self._reload = reload
        self._live_tail = live_tail
        self._status = status
        self._pipelines = pipelines
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
            self._pipelines[sink].worker.suspend(PauseCause.OPERATOR)
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
        if (feed := self._feed(sink)) is None:
            return await super()._replay(sink, start, kind, namespace)
        return await feed.replay(start, kind, namespace)

    def _feed(self, sink: str) -> SinkFeed | None:
        return self._pipelines[sink].feed if sink in self._pipelines else None

    def _cursor(self, sink: str) -> CursorStatus:
        cursor = super()._cursor(sink)
        if sink not in self._pipelines:
            return cursor
        worker = self._pipelines[sink].worker
        return msgspec.structs.replace(
            cursor,
            # The worker knows before the database does.
            gone=cursor.gone or worker.state is SinkState.GONE,
            fenced=cursor.fenced or worker.state is SinkState.FENCED,
            retry_in=seconds_until(worker.retry_at),
            asked=worker.asked,
            last_error=worker.last_error or "",
        )

    def _wake(self, sink: str) -> None:
        if sink in self._pipelines:
            self._pipelines[sink].feed.wake()
