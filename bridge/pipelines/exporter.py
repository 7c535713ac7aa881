"""Passes batches of an informer to the outbox, which distributes them to the sinks."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

from bridge.facts import BatchCommitted, Report
from bridge.model.change import ChangeBatch, Op
from bridge.model.record import Delta


class Appends(Protocol):
    """The outbox, as far as the Exporter needs it."""

    async def append(self, batch: ChangeBatch) -> Sequence[Delta]: ...


class Exporter:
    """Takes batches of every informer. When ``export`` returns, the batch is durable, and every listener has it. The
    informer waits for that before it processes its next batch."""

    def __init__(self, outbox: Appends, admit: Callable[[], Awaitable[None]] | None, report: Report) -> None:
        self._outbox = outbox
        self._report = report
        self.admit = admit
        """Returns when the intake may go on; None where no sink ever holds it up."""

    async def export(self, batch: ChangeBatch) -> None:
        if batch.changes and self.admit is not None:
            await self.admit()
        deltas = await self._outbox.append(batch)
        if not deltas:
            return
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
