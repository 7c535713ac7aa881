"""From an informer to the listeners, by way of the outbox."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from bridge.facts import BatchCommitted, Report
from bridge.model.change import ChangeBatch, Op
from bridge.model.record import Delta, Record
from bridge.processor.shared_processor import SharedProcessor


class Appends(Protocol):
    """The outbox, as far as exporting needs it."""

    async def append(self, batch: ChangeBatch) -> Sequence[Delta]: ...


class Exporter:
    """Takes batches from every informer. When ``export`` returns, the batch is in the outbox and every listener knows
    of it; nothing newer of that informer is processed before."""

    def __init__(self, outbox: Appends, processor: SharedProcessor[Record], report: Report) -> None:
        self._outbox = outbox
        self._processor = processor
        self._report = report

    async def export(self, batch: ChangeBatch) -> None:
        deltas = await self._outbox.append(batch)
        if not deltas:
            return
        self._processor.distribute(deltas, deltas[-1].sequence)
        ops = [delta.op for delta in deltas]
        self._report(
            BatchCommitted(
                batch.resource,
                batch.scope,
                records=len(deltas),
                bytes=sum(len(delta.body) for delta in deltas),
                added=ops.count(Op.ADDED),
                updated=ops.count(Op.UPDATED),
                deleted=ops.count(Op.DELETED),
            )
        )
