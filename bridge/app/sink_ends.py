"""The bridge's end towards one sink: its stream out of the outbox, and the worker that delivers it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from bridge.app.awareness import AwareSinks, Watched
from bridge.app.plan import Plan, SinkPlan
from bridge.app.stream import SinkStream
from bridge.delivery import MAX_RECORDS, LaneWorker, SinkWorker, Worker
from bridge.facts import Report, SinkPaused
from bridge.model.record import Record
from bridge.outbox import Outbox
from bridge.outbox.letters import Letters
from bridge.outbox.opening import utc_now
from bridge.processor.shared_processor import SharedProcessor
from sinks.base import Sink


@dataclass(frozen=True, slots=True)
class SinkEnd:
    plan: SinkPlan
    stream: SinkStream
    letters: Letters
    worker: SinkWorker


def make_ends(
    plan: Plan, outbox: Outbox, processor: SharedProcessor[Record], watched: Watched, report: Report
) -> dict[str, SinkEnd]:
    """By the sink's name; each goes on where its cursor is."""
    return {sink.name: _make_end(sink, outbox, processor, watched, report) for sink in plan.sinks}


def _make_end(
    plan: SinkPlan, outbox: Outbox, processor: SharedProcessor[Record], watched: Watched, report: Report
) -> SinkEnd:
    listener = processor.add(
        plan.name,
        after=outbox.sinks[plan.name].settled,
        resync=plan.resync_seconds,
        window=max(plan.window, plan.max_batch),
    )
    sinks = AwareSinks(plan.make, outbox.sinks[plan.name], watched)
    stream = SinkStream(plan.name, listener, outbox.sinks, sinks.memory)
    letters = outbox.sinks.letters[plan.name]
    worker = _make_worker(plan, sinks.make, stream, letters, report)
    if outbox.sinks[plan.name].paused:
        worker.suspend()
        report(SinkPaused(plan.name))
    return SinkEnd(plan, stream, letters, worker)


def seconds_until(when: float | None) -> float | None:
    """``when`` is a time on the event loop's clock."""
    return None if when is None else max(0.0, when - asyncio.get_running_loop().time())


def _make_worker(
    plan: SinkPlan, make: Callable[[], Sink], stream: SinkStream, letters: Letters, report: Report
) -> SinkWorker:
    most = plan.most_in_flight
    if plan.lanes is None:
        return Worker(
            plan.name,
            make,
            stream,
            letters,
            report=report,
            now=utc_now,
            max_batch=min(plan.max_batch, most),
            on_rejected=plan.on_rejected,
        )
    return LaneWorker(
        plan.name,
        make,
        stream,
        letters,
        report=report,
        now=utc_now,
        max_batch=min(plan.max_batch, most),
        max_records=min(MAX_RECORDS, most),
        lanes=plan.lanes,
        on_rejected=plan.on_rejected,
    )
