"""How things stand at this moment."""

from __future__ import annotations

import asyncio

from bridge.app.plan import SinkPlan
from bridge.delivery.worker import Worker
from bridge.informer import SharedInformer
from bridge.model.record import Record
from bridge.processor.listener import ProcessorListener
from bridge.telemetry.status import InformerState, InformerStatus, SinkState, SinkStatus

STUCK_AFTER = 900.0
"""Seconds without an answer of any kind after which an informer is taken for stuck. Watches end after ten minutes at
the latest, silence ends one after a minute and a half, and every retry is an answer."""


def informer_status(informer: SharedInformer) -> InformerStatus:
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
        reason="" if informer.live else informer.trouble or "",
    )


def unresolved_status(name: str, reason: str) -> InformerStatus:
    return InformerStatus(resource=name, scope="", state=InformerState.UNKNOWN, synced=False, live=False, reason=reason)


def empty_status(name: str) -> InformerStatus:
    """A wildcard that covers nothing at this moment: there is nothing to wait for."""
    return InformerStatus(resource=name, scope="", state=InformerState.LIVE, synced=True, live=True)


def sink_status(plan: SinkPlan, worker: Worker, listener: ProcessorListener[Record], lag: int) -> SinkStatus:
    now = asyncio.get_running_loop().time()
    return SinkStatus(
        name=plan.name,
        type=plan.type,
        state=SinkState(worker.state),
        lag=lag,
        window=listener.in_memory,
        delivered=worker.delivered,
        rejected=worker.rejected,
        last_error=worker.trouble or "",
        retry_in=None if worker.retry_at is None else max(0.0, worker.retry_at - now),
    )


def is_stuck(informer: SharedInformer) -> bool:
    """Nothing was heard for far longer than any deadline allows, and nothing is queued that would explain it."""
    age = asyncio.get_running_loop().time() - informer.last_answer
    return age > STUCK_AFTER and not informer.queued


def _informer_state(informer: SharedInformer) -> InformerState:
    if informer.refused:
        return InformerState.REFUSED
    if not informer.has_synced:
        return InformerState.LISTING
    return InformerState.LIVE if informer.live else InformerState.RECONNECTING
