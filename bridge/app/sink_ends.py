"""The bridge's end towards one sink: its stream out of the outbox, and the worker that delivers it."""

from __future__ import annotations

from dataclasses import dataclass

from bridge.app.plan import Plan, SinkPlan
from bridge.app.stream import SinkStream
from bridge.delivery import LaneWorker, SinkWorker, Worker
from bridge.facts import Report
from bridge.model.record import Record
from bridge.outbox import Outbox
from bridge.outbox.letters import Letters
from bridge.outbox.opening import utc_now
from bridge.processor.shared_processor import SharedProcessor


@dataclass(frozen=True, slots=True)
class SinkEnd:
    plan: SinkPlan
    stream: SinkStream
    letters: Letters
    worker: SinkWorker


def make_ends(plan: Plan, outbox: Outbox, processor: SharedProcessor[Record], report: Report) -> dict[str, SinkEnd]:
    """By the sink's name; each goes on where its cursor is."""
    return {sink.name: _make_end(sink, outbox, processor, report) for sink in plan.sinks}


def _make_end(plan: SinkPlan, outbox: Outbox, processor: SharedProcessor[Record], report: Report) -> SinkEnd:
    listener = processor.add(
        plan.name,
        after=outbox.sinks[plan.name].settled,
        resync=plan.resync_seconds,
        window=max(plan.window, plan.max_batch),
    )
    stream = SinkStream(plan.name, listener, outbox.sinks)
    letters = outbox.sinks.letters[plan.name]
    return SinkEnd(plan, stream, letters, _make_worker(plan, stream, letters, report))


def _make_worker(plan: SinkPlan, stream: SinkStream, letters: Letters, report: Report) -> SinkWorker:
    if plan.lanes is None:
        return Worker(
            plan.name,
            plan.make,
            stream,
            letters,
            report=report,
            now=utc_now,
            max_batch=plan.max_batch,
            on_rejected=plan.on_rejected,
        )
    return LaneWorker(
        plan.name,
        plan.make,
        stream,
        letters,
        report=report,
        now=utc_now,
        max_batch=plan.max_batch,
        lanes=plan.lanes,
        on_rejected=plan.on_rejected,
    )
