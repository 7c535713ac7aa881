"""Periodic resyncs."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Protocol

from bridge.informer.delta_fifo import DeltaFIFO


class ResyncPeriods(Protocol):
    """The listeners that want periodic resyncs. Listeners come and go."""

    def resync_periods(self) -> Mapping[str, float]:
        """Listener → seconds; listeners without a period are left out."""
        ...

    async def wait_periods_changed(self) -> None:
        """Returns when a listener with a period came or went."""
        ...


async def resync_when_due(fifo: DeltaFIFO, wanted: ResyncPeriods, synced: asyncio.Event) -> None:
    """Queues a Sync of every object for each listener whose period is over, until cancelled. Periods begin at
    ``synced``."""
    await synced.wait()
    now = asyncio.get_running_loop().time
    due_at: dict[tuple[str, float], float] = {}
    while True:
        listeners = wanted.resync_periods().items()
        due_at = {each: due_at.get(each, now() + each[1]) for each in listeners}
        if due := [each for each, at in due_at.items() if at <= now()]:
            await fifo.resync(tuple(name for name, _ in due))
            due_at.update({each: now() + each[1] for each in due})
            continue
        try:
            async with asyncio.timeout_at(min(due_at.values(), default=None)):
                await wanted.wait_periods_changed()
        except TimeoutError:
            continue
