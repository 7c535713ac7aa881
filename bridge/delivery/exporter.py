"""Takes batches of the informers into the outbox: the front door of everything behind it.

``Exporter.export`` appends a batch and returns when it is durable; before that, it waits while a backlog stops the
intake (``backpressure``). The commit hands the records to the ``SharedProcessor``.
"""

from __future__ import annotations

from collections.abc import Sequence

from bridge.delivery.backpressure import Backpressure
from bridge.model.change import ChangeBatch
from bridge.model.record import Delta
from bridge.outbox import Outbox
from bridge.telemetry.facts import Report
from bridge.telemetry.facts.delivery import BatchCommitted


class Exporter:
    """Takes batches of every informer. When ``export`` returns, the batch is durable, and every listener has it. The
    informer waits for that before it processes its next batch."""

    def __init__(self, outbox: Outbox, backlogs: Backpressure, report: Report) -> None:
        self._outbox = outbox
        self._backlogs = backlogs
        self._report = report

    async def export(self, batch: ChangeBatch) -> Sequence[Delta]:
        """The records of the changes."""
        if batch.changes and self._backlogs.can_block:
            await self._backlogs.admit()
        deltas = await self._outbox.append(batch)
        if not deltas:
            return deltas
        ops = [delta.op for delta in deltas]
        self._report(
            BatchCommitted(
                batch.resource,
                batch.scope,
                bytes=sum(len(delta.body) for delta in deltas),
                ops={op: ops.count(op) for op in set(ops)},
            )
        )
        return deltas
