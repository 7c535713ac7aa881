"""What a DeltaFIFO hands over at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from bridge.informer.delta_fifo import DeltaFIFO
from bridge.informer.deltas import QueuedDelta


class Drained(NamedTuple):
    deltas: Sequence[QueuedDelta]
    position: str | None


async def drained(fifo: DeltaFIFO) -> Drained:
    taken: list[Drained] = []

    async def process(deltas: Sequence[QueuedDelta], position: str | None) -> None:
        taken.append(Drained(deltas, position))

    await fifo.drain(process)
    return taken[0]
