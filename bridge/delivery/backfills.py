"""Begins snapshots, on demand and by schedule, and replays: chooses the objects or records, and plans the backfill in
the sink's feed.

A snapshot has the objects as of the records that the sink has taken, and stands in front of later ones. An expression
(``--where``) chooses among them, in the words of a ``select``. ``SnapshotSchedule`` begins those of ``snapshot.every``,
and those that a sink needs behind a Gap.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import datetime

from bridge.delivery.selecting import expect_effective, judge_anew, report_failures
from bridge.delivery.sink_feed import SinkFeed
from bridge.delivery.sink_pipeline import SinkPipeline
from bridge.model.admin import Replayed, UnknownTarget
from bridge.model.record import SnapshotScope
from bridge.model.status import SnapshotStatus
from bridge.outbox import LastState, Outbox, condition, utc_now
from bridge.telemetry.facts import Report
from bridge.views.decisions import Views
from bridge.views.language import Cel, MissingLibrary
from bridge.views.selection import SelectorText, WrongSelection, compile_selection

CHECK_EVERY = 5.0
"""Seconds between two looks at the schedules. A bridge without schedules wakes for them, too."""
_NAME = "snapshot"


async def begin_snapshot(
    outbox: Outbox,
    sink: str,
    feed: SinkFeed | None,
    *,
    cluster: str,
    report: Report,
    kind: int | None = None,
    scope: SnapshotScope | None = None,
    scheduled: bool = False,
) -> SnapshotStatus:
    """Plans a snapshot of the sink's objects behind the records that it has taken. ``feed``: None for a sink without
    one. ``kind``: of ``scope.resource``. ``cluster``: the configured name, for expressions. Raises UnknownTarget."""
    views = _views_of(scope, cluster)
    async with _planning(outbox, sink, feed) as taken:
        outbox.sinks.without_backfill(sink)
        if sink in outbox.selections.stored:
            expect_effective(outbox.selections, sink, taken)
        namespace = None if scope is None else scope.namespace
        states = await outbox.snapshots.states_as_of(sink, taken, kind, namespace)
        if views is not None:
            states = await _matching(outbox, views, states)
            report_failures(views.failures, report)
        return await outbox.snapshots.begin(sink, taken, states, scope, scheduled=scheduled)


async def begin_replay(
    outbox: Outbox,
    sink: str,
    feed: SinkFeed | None,
    *,
    cluster: str,
    start: int | str,
    kind: int | None = None,
    namespace: str | None = None,
) -> Replayed:
    """Plans a replay of what the sink has received since ``start`` (a sequence number, or an RFC 3339 time), of a kind
    and namespace if given. ``feed`` and ``cluster``: see ``begin_snapshot``. Raises UnknownTarget."""
    async with _planning(outbox, sink, feed) as taken:
        outbox.sinks.without_backfill(sink)
        judged = None
        if sink in outbox.selections.stored:
            judged = await judge_anew(
                outbox.selections, sink, cluster, start=start, through=taken, kind=kind, namespace=namespace
            )
        which = condition(start, kind, namespace)
        return await outbox.sinks.replay(sink, which=which, taken=taken, judged=judged)


async def cancel_snapshot(outbox: Outbox, sink: str, feed: SinkFeed | None) -> SnapshotStatus:
    """See Snapshots.cancel."""
    async with _planning(outbox, sink, feed):
        cancelled = await outbox.snapshots.cancel(sink)
        if feed is not None:
            feed.end_settled_backfill()
        elif outbox.sinks[sink].backfill_is_settled:
            outbox.sinks.end_backfill(sink)
        return cancelled


@asynccontextmanager
async def _planning(outbox: Outbox, sink: str, feed: SinkFeed | None) -> AsyncIterator[int]:
    if feed is None:
        yield outbox.sinks[sink].settled
        return
    async with feed.changing_backfill() as taken:
        if feed.held:
            raise UnknownTarget(f"the selection of sink {sink} is not in effect yet: ask again later")
        yield taken


def _views_of(scope: SnapshotScope | None, cluster: str) -> Views | None:
    """The expression of ``scope`` as a selection; None without one."""
    if scope is None or scope.where is None:
        return None
    try:
        entry = SelectorText(resource="*", where=scope.where)
        return Views({_NAME: compile_selection([entry], "--where", Cel)}, cluster)
    except (WrongSelection, MissingLibrary) as error:
        raise UnknownTarget(str(error).replace("--where[0].where", "--where")) from error


async def _matching(outbox: Outbox, views: Views, states: Sequence[int]) -> Sequence[int]:
    """The states for which the expression holds, or fails, as in ``select``."""

    def matches(state: LastState) -> bool:
        here, held = views.of(state.resource), state.held
        return here.selections[_NAME].matches(here.evaluator.evaluation(held.key, held.body))

    found: list[int] = []
    async for part in outbox.selections.states(states):
        chosen = await outbox.selections.turns.map(matches, part)
        found += [state.held.sequence for state, is_chosen in zip(part, chosen, strict=True) if is_chosen]
    return found


class SnapshotSchedule:
    """Begins the snapshots of sinks with ``snapshot.every``, and of sinks that need one behind a Gap. ``pipelines``: of
    the sinks at the moment of each look, so that a reload takes effect.

    The clock of the machine is read once for each sink, for the time since its last snapshot in an earlier process;
    from then on the time is that of the event loop. So a clock that jumps begins at most one snapshot, and times that
    passed while no bridge ran begin one together.
    """

    def __init__(
        self,
        pipelines: Mapping[str, SinkPipeline],
        outbox: Outbox,
        cluster: str,
        report: Report,
        *,
        now: Callable[[], float] | None = None,
        wall: Callable[[], str] = utc_now,
    ) -> None:
        """``now``: seconds, by default on the event loop's clock. ``wall``: the clock of the machine."""
        self._pipelines = pipelines
        self._outbox = outbox
        self._cluster = cluster
        self._report = report
        self._now = now or asyncio.get_running_loop().time
        self._wall = wall
        self._since: dict[str, float] = {}
        """Sink → the time from which its schedule counts, on the event loop's clock."""

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await self.look()
            await asyncio.sleep(CHECK_EVERY)

    async def look(self) -> None:
        """Begins the snapshots that are due. A sink with another backfill gets its snapshot behind that."""
        every = {name: each.plan.snapshot_every for name, each in self._pipelines.items() if each.plan.snapshot_every}
        self._since = {name: since for name, since in self._since.items() if name in every}
        if new := [name for name in every if name not in self._since]:
            for name, time in (await self._outbox.snapshots.begin_schedules(new)).items():
                self._since[name] = self._now() - _seconds_between(time, self._wall())
        for name, pipeline in tuple(self._pipelines.items()):
            owes = self._outbox.sinks[name].owes_snapshot
            if owes and pipeline.feed.taken >= owes:
                await self._begin(name, scheduled=False)
        for name, seconds in every.items():
            if self._now() - self._since[name] >= seconds and name in self._pipelines:
                await self._begin(name)

    async def _begin(self, name: str, *, scheduled: bool = True) -> None:
        if self._outbox.sinks[name].backfill is not None:
            return
        try:
            feed = self._pipelines[name].feed
            await begin_snapshot(
                self._outbox, name, feed, cluster=self._cluster, report=self._report, scheduled=scheduled
            )
        except UnknownTarget:
            return  # The next look tries again.
        self._since[name] = self._now()


def _seconds_between(time: str, now: str) -> float:
    """0 for a time in the future, to which the clock was set before."""
    try:
        return max(0.0, (datetime.fromisoformat(now) - datetime.fromisoformat(time)).total_seconds())
    except (ValueError, TypeError):
        return 0.0
