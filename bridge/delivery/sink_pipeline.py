"""Makes a sink's pipeline: its feed from the outbox, and the worker that delivers from it; and runs and ends pipelines.

``RunningSinks`` has the pipelines of the configured sinks and the tasks of their workers: begun at the start, and
replaced at a change of the configuration. It joins for each sink what its plan names: the context with which it opens,
the feed with the sink's own redaction, the maker of its content, and the worker of its kind.
``ContentThread`` makes content that is long in a thread, so that the event loop goes on.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache, partial
from typing import TypeAlias

from bridge.delivery.attempts import HeldLease, MakeContent, WorkerSettings, report_halt
from bridge.delivery.lane_worker import MAX_RECORDS, LaneWorker
from bridge.delivery.sink_feed import Feeds, SinkFeed, TransactionFeed
from bridge.delivery.sink_worker import SinkWorker
from bridge.delivery.worker import TransactionWorker, Worker
from bridge.model.record import Delta, Record, TermBegan, WatchedPart, gap_in_shard, in_term, record_bytes
from bridge.model.status import PauseCause
from bridge.outbox import DeadLetters, Outbox, utc_now
from bridge.plan.plan import CurrentResources, Plan, PlanRefused, SinkPlan
from bridge.telemetry.facts import Report
from bridge.telemetry.facts.delivery import (
    RecordsLeftBehind,
    SinkCautioned,
    SinkInsecure,
    SinkPaused,
    StatesNotCompared,
)
from bridge.transform.redaction import Redaction, redact_for_sink
from bridge.views.content_maker import WrongContent, content_makers
from bridge.views.language import Cel, MissingLibrary
from sinks.base import Progress, SinkContext

SHORT = 256 * 1024
FEW = 8
"""Bytes of the states, and records, in a batch whose content is made on the event loop: in some ten milliseconds, and
within the work that an expression may be on each of them (``views.language.cost``)."""
MakeRecord: TypeAlias = Callable[[Record], Record]

_HALTED = {
    PauseCause.GONE: "the destination answered before this start that it is gone for good (HTTP 410)",
    PauseCause.FENCED: "another bridge had taken the destination over before this start",
}


@dataclass(frozen=True, slots=True)
class SinkPipeline:
    """A sink: its plan, its feed, its dead letters, and the worker that delivers both."""

    plan: SinkPlan
    feed: SinkFeed
    dead_letters: DeadLetters
    worker: SinkWorker
    make_content: MakeContent | None = None
    """Adds the content that the options ask for; None if they ask for none."""

    def seen(self, record: Record) -> Record | None:
        """The record as the sink gets it, without content; None if it does not."""
        if record.targets is not None and self.plan.name not in record.targets:
            return None
        seen = record if self.feed.view is None else self.feed.view(record)
        return None if seen is None else self.redacted(seen)

    def redacted(self, record: Record) -> Record:
        """A record that the sink gets, by its own rules."""
        return record if self.feed.redact is None else self.feed.redact(record)


class ContentThread:
    """Makers of content share values, so batches take turns: on the event loop if the batch is short and it is nobody's
    turn, else in a thread."""

    def __init__(self, report: Report) -> None:
        self._turn = threading.Lock()
        self._thread = ThreadPoolExecutor(1, "content")
        self._report = report

    async def made(self, sink: str, make: MakeRecord, records: Sequence[Record]) -> Sequence[Record]:
        """The records with the content of the sink. Cancelled, a batch in the thread is made to its end, in vain."""
        if len(records) <= FEW and sum(map(record_bytes, records)) <= SHORT and self._turn.acquire(blocking=False):
            try:
                made = list(map(make, records))
            finally:
                self._turn.release()
        else:
            made = await asyncio.get_running_loop().run_in_executor(self._thread, self._in_turn, make, records)
        for record in made:
            if isinstance(record, Delta) and record.content is not None and (why := record.content.uncompared):
                self._report(StatesNotCompared(sink, record.resource.name, record.key, why))
        return made

    def _in_turn(self, make: MakeRecord, records: Sequence[Record]) -> list[Record]:
        with self._turn:
            return list(map(make, records))


def context_of(
    outbox: Outbox, sink: str, *, watched: CurrentResources, progress: Callable[[], Progress]
) -> SinkContext:
    """The context of a sink that is opened now."""
    cursor = outbox.sinks[sink]
    began = TermBegan(outbox.term, cursor.settled + outbox.ahead, utc_now()) if outbox.leads else None
    return SinkContext(shard=outbox.sinks.shard, memory=cursor.memory, watched=watched, term=began, progress=progress)


def leaving_of(outbox: Outbox) -> MakeRecord | None:
    """Makes the form in which a record leaves; None for the record as it is."""
    term = partial(in_term, term=outbox.term, ahead=outbox.ahead) if outbox.term else None
    if outbox.sinks.shard is None:
        return term
    shard = partial(gap_in_shard, shard=outbox.sinks.shard)
    return shard if term is None else lambda record: shard(term(record))


def seconds_until(when: float | None) -> float | None:
    """Seconds until ``when``, a time on the event loop's clock; at least 0. None for None."""
    return None if when is None else max(0.0, when - asyncio.get_running_loop().time())


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
        watching: Callable[[], tuple[WatchedPart, ...] | None] | None = None,
    ) -> None:
        """Makes the pipelines of the start. Every sink has a cursor. ``redaction`` has the keys for a sink's own rules.
        ``lease``: see WorkerSettings; ``watching``: see SinkFeed. Raises PlanRefused for a mistake in an expression."""
        self._cluster = plan.cluster
        self._feeds = feeds
        self._watched = watched
        self._redaction = redaction
        self._report = report
        self._lease = lease
        self._watching = watching
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
        """Runs sinks that are new, or have another plan than before, after ``end`` and ``SinkCursors.begin``. They
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
        """Sink's name → its pipeline, which goes on at the sink's cursor."""
        for plan in plans:
            if plan.clear_text:
                self._report(SinkInsecure(plan.name, plan.clear_text))
            if plan.caution:
                self._report(SinkCautioned(plan.name, plan.caution))
        try:
            makers = content_makers({plan.name: plan.content for plan in plans}, self._cluster, cache(Cel))
        except (WrongContent, MissingLibrary) as error:
            raise PlanRefused(str(error)) from error
        thread = ContentThread(self._report)
        made = {name: partial(thread.made, name, maker) for name, maker in makers.items()}
        return {plan.name: self._pipeline(plan, made.get(plan.name)) for plan in plans}

    def _pipeline(self, plan: SinkPlan, make_content: MakeContent | None) -> SinkPipeline:
        sinks = self._feeds.outbox.sinks
        kind = SinkFeed if plan.transactions is None else TransactionFeed
        redact = redact_for_sink(plan.redact, self._redaction) if plan.redact else None
        window = max(plan.window, plan.max_batch)
        feed = self._feeds.feed(
            plan.name, kind, window=window, resync=plan.resync_seconds, redact=redact, watching=self._watching
        )
        worker = self._worker(plan, feed, make_content)
        cause = sinks[plan.name].paused
        if cause is PauseCause.OPERATOR:
            worker.suspend(cause)
            self._report(SinkPaused(plan.name))
        elif cause:
            worker.suspend(cause, _HALTED[cause])
            report_halt(self._report, plan.name, _HALTED[cause], cause)
        return SinkPipeline(plan, feed, sinks.dead_letters[plan.name], worker, make_content)

    def _worker(self, plan: SinkPlan, feed: SinkFeed, make_content: MakeContent | None) -> SinkWorker:
        outbox, most = self._feeds.outbox, plan.most_in_flight
        progress = feed.progress if isinstance(feed, TransactionFeed) else Progress
        settings = WorkerSettings(
            name=plan.name,
            make_sink=plan.make,
            make_context=partial(context_of, outbox, plan.name, watched=self._watched, progress=progress),
            pending=feed,
            dead_letters=outbox.sinks.dead_letters[plan.name],
            report=self._report,
            now=utc_now,
            max_batch=min(plan.max_batch, most),
            on_rejected=plan.on_rejected,
            save_pause=partial(outbox.sinks.pause, plan.name),
            make_content=make_content,
            redacts=bool(plan.redact),
            leaving=leaving_of(outbox),
            lease=self._lease,
        )
        if plan.transactions is not None and isinstance(feed, TransactionFeed):
            return TransactionWorker(settings, feed, plan.transactions.seconds)
        if plan.lanes is None:
            return Worker(settings)
        return LaneWorker(settings, plan.lanes, max_records=min(MAX_RECORDS, most))

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
