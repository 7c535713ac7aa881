"""A sink's pipeline: its feed from the outbox, and the worker that delivers it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial

from bridge.content import WrongContent, content_makers
from bridge.delivery import MAX_RECORDS, LaneWorker, SinkWorker, Worker, WorkerSettings
from bridge.facts import DestinationGone, Report, SinkPaused
from bridge.model.record import Record
from bridge.model.status import PauseCause
from bridge.outbox import DeadLetters, SinkCursor, utc_now
from bridge.pipelines.feeds import Feeds
from bridge.pipelines.sink_feed import SinkFeed
from bridge.plan.plan import PlanRefused, SinkPlan
from bridge.resources.current_resources import CurrentResources
from bridge.selection.language import Cel, MissingLibrary
from bridge.transform.for_sink import redact_for_sink
from bridge.transform.redaction import Redaction
from sinks.base import Sink, StatefulSink

_GONE = "the destination answered before this start that it is gone for good (HTTP 410)"


class SinkFactory:
    """Creates a sink for each attempt to open it. A new sink gets the memory of the sink before; its feed saves the
    memory with the cursor."""

    def __init__(self, make: Callable[[], Sink], feed: SinkFeed, cursor: SinkCursor, watched: CurrentResources) -> None:
        self._make = make
        self._feed = feed
        self._cursor = cursor
        self._watched = watched

    def make(self) -> Sink:
        sink = self._make()
        if isinstance(sink, StatefulSink):
            sink.memory = self._cursor.memory
            sink.watched = self._watched
            self._feed.stateful = sink
        return sink


@dataclass(frozen=True, slots=True)
class SinkPipeline:
    """A sink: its plan, its feed, its dead letters, and the worker that delivers both."""

    plan: SinkPlan
    feed: SinkFeed
    dead_letters: DeadLetters
    worker: SinkWorker
    make_content: Callable[[Record], Record] | None = None
    """Adds the content that the options ask for; None if they ask for none."""

    def seen(self, record: Record) -> Record | None:
        """The record as the sink gets it; None if it does not."""
        if record.targets is not None and self.plan.name not in record.targets:
            return None
        feed = self.feed
        seen = record if feed.view is None else feed.view(record)
        if seen is not None and feed.redact is not None:
            seen = feed.redact(seen)
        return seen if seen is None or self.make_content is None else self.make_content(seen)


def make_pipelines(
    plans: Sequence[SinkPlan],
    cluster: str,
    feeds: Feeds,
    watched: CurrentResources,
    redaction: Redaction,
    report: Report,
) -> dict[str, SinkPipeline]:
    """Sink's name → its pipeline, which goes on at the sink's cursor. ``redaction`` has the keys for a sink's own
    rules. Raises PlanRefused for a mistake in an expression."""
    try:
        makers = content_makers({sink.name: sink.content for sink in plans}, cluster, cache(Cel))
    except (WrongContent, MissingLibrary) as error:
        raise PlanRefused(str(error)) from error
    return {sink.name: _make_pipeline(sink, feeds, watched, redaction, report, makers.get(sink.name)) for sink in plans}


def _make_pipeline(
    plan: SinkPlan,
    feeds: Feeds,
    watched: CurrentResources,
    redaction: Redaction,
    report: Report,
    make_content: Callable[[Record], Record] | None,
) -> SinkPipeline:
    outbox = feeds.outbox
    window = max(plan.window, plan.max_batch)
    feed = feeds.feed(plan.name, window=window, resync=plan.resync_seconds)
    feed.redact = redact_for_sink(plan.redact, redaction) if plan.redact else None
    sinks = SinkFactory(plan.make, feed, outbox.sinks[plan.name], watched)
    dead_letters = outbox.sinks.dead_letters[plan.name]
    gone = partial(outbox.sinks.pause, plan.name, PauseCause.GONE)
    worker = _make_worker(plan, sinks.make, feed, dead_letters, report, gone, make_content)
    match outbox.sinks[plan.name].paused:
        case PauseCause.OPERATOR:
            worker.suspend()
            report(SinkPaused(plan.name))
        case PauseCause.GONE:
            worker.suspend(_GONE)
            report(DestinationGone(plan.name, _GONE))
    return SinkPipeline(plan, feed, dead_letters, worker, make_content)


def seconds_until(when: float | None) -> float | None:
    """Seconds until ``when``, a time on the event loop's clock; at least 0. None for None."""
    return None if when is None else max(0.0, when - asyncio.get_running_loop().time())


def _make_worker(
    plan: SinkPlan,
    make: Callable[[], Sink],
    feed: SinkFeed,
    dead_letters: DeadLetters,
    report: Report,
    save_gone: Callable[[], Awaitable[bool]],
    make_content: Callable[[Record], Record] | None,
) -> SinkWorker:
    most = plan.most_in_flight
    settings = WorkerSettings(
        name=plan.name,
        make_sink=make,
        pending=feed,
        dead_letters=dead_letters,
        report=report,
        now=utc_now,
        max_batch=min(plan.max_batch, most),
        on_rejected=plan.on_rejected,
        save_gone=save_gone,
        make_content=make_content,
    )
    if plan.lanes is None:
        return Worker(settings)
    return LaneWorker(settings, plan.lanes, max_records=min(MAX_RECORDS, most))
