"""The StatusSnapshot of a running bridge."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from bridge.informer import SharedInformer, SharedInformerFactory
from bridge.model.status import InformerState, InformerStatus, SinkStatus, StatusSnapshot
from bridge.outbox import Outbox
from bridge.pipelines.backpressure import Backpressure
from bridge.pipelines.sink_pipeline import SinkPipeline, seconds_until
from bridge.plan.plan import Wanted
from bridge.resources.watched_resources import WatchedResources

STUCK_AFTER = 900.0
"""Seconds without any answer after which an informer counts as stuck. Watches end after ten minutes at the latest, the
idle timeout ends a watch after a minute and a half, and every retry brings an answer."""


def _informer_status(informer: SharedInformer) -> InformerStatus:
    age = asyncio.get_running_loop().time() - informer.last_contact
    return InformerStatus(
        resource=informer.resource.name,
        scope=str(informer.scope),
        state=_informer_state(informer),
        synced=informer.has_synced,
        live=informer.live,
        objects=len(informer.indexer),
        queued=informer.queued,
        last_contact=age,
        reason="" if informer.live else informer.last_error or "",
    )


def _unresolved_status(name: str, reason: str) -> InformerStatus:
    return InformerStatus(resource=name, scope="", state=InformerState.UNKNOWN, synced=False, live=False, reason=reason)


def _empty_status(name: str, reason: str) -> InformerStatus:
    """The status of a wildcard that covers no resource at this moment: synced and live."""
    return InformerStatus(resource=name, scope="", state=InformerState.LIVE, synced=True, live=True, reason=reason)


def informers_status(
    wanted: Sequence[Wanted], factory: SharedInformerFactory | None, watched_resources: WatchedResources | None
) -> tuple[InformerStatus, ...]:
    """A status for each informer, and for each configured name without an informer."""
    running = [_informer_status(informer) for informer in factory.informers] if factory else []
    if watched_resources is None:
        return (*running, *(_unresolved_status(each.name, "not looked up yet") for each in wanted))
    return (
        *running,
        *(_unresolved_status(name, reason) for name, reason in watched_resources.unresolved.items()),
        *(_empty_status(name, reason) for name, reason in watched_resources.empty.items()),
    )


def snapshot_of(
    informers: tuple[InformerStatus, ...],
    pipelines: Mapping[str, SinkPipeline],
    outbox: Outbox,
    backlogs: Backpressure,
) -> StatusSnapshot:
    disk = outbox.disk()
    return StatusSnapshot(
        informers=informers,
        sinks=tuple(_sink_status(pipeline, outbox) for pipeline in pipelines.values()),
        outbox_records=outbox.records,
        outbox_bytes=outbox.size,
        outbox_oldest_seconds=outbox.oldest_seconds,
        outbox_file_bytes=disk.file,
        outbox_wal_bytes=disk.wal,
        disk_free_bytes=disk.free,
        ledger_objects=sum(each.objects for each in informers),
        intake_blocked=outbox.no_room or backlogs.blocked,
        disk_full=bool(outbox.no_room),
    )


def _sink_status(pipeline: SinkPipeline, outbox: Outbox) -> SinkStatus:
    worker, dead_letters, feed = pipeline.worker, pipeline.dead_letters, pipeline.feed
    backlog, backfill = outbox.backlog_of(pipeline.plan.name), feed.backfill
    return SinkStatus(
        name=pipeline.plan.name,
        type=pipeline.plan.type,
        state=worker.state,
        backlog_records=backlog.records,
        backlog_bytes=backlog.bytes,
        backlog_seconds=backlog.age,
        window=feed.in_memory,
        delivered=worker.delivered,
        rejected=worker.rejected,
        dead_letters=len(dead_letters),
        parked=dead_letters.parked,
        backfill="" if backfill is None else backfill.kind.value,
        backfill_left=0 if backfill is None else backfill.left,
        circuit=worker.circuit,
        last_error=worker.last_error or "",
        retry_in=seconds_until(worker.retry_at),
        asked=None if worker.retry_at is None else worker.asked,
    )


def is_stuck(informer: SharedInformer) -> bool:
    """Whether an informer got no answer for far longer than any timeout allows, although its queue is empty. A queue
    that waits explains a pause: a full backlog blocks the queue, and a running delivery the proof of the server's
    history."""
    age = asyncio.get_running_loop().time() - informer.last_answer
    return age > STUCK_AFTER and informer.caught_up


def _informer_state(informer: SharedInformer) -> InformerState:
    if informer.refused:
        return InformerState.REFUSED
    if not informer.has_synced:
        return InformerState.LISTING
    return InformerState.LIVE if informer.live else InformerState.RECONNECTING
