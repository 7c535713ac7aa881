"""A sink whose client library swallows a cancellation does not keep its worker from ending."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress

import pytest

from bridge.model.record import Record
from sinks.base import ALL_STORED, Receipt, SinkContext, SinkUnavailable
from tests.bridge.delivery.fakes import ScriptedSink, pods
from tests.bridge.delivery.world import World, virtual


class Swallowing(ScriptedSink):
    """As asyncio.wait_for of Python 3.11 does when a result has just come."""

    def __init__(self, *, opens: bool = True, swallows_in_open: bool = False) -> None:
        super().__init__()
        self.reached = asyncio.Event()
        self._opens = opens
        self._swallows_in_open = swallows_in_open

    async def open(self, context: SinkContext) -> None:
        if self._swallows_in_open:
            await self._swallow()
        if not self._opens:
            raise SinkUnavailable("away")

    async def deliver(self, batch: Sequence[Record]) -> Receipt:
        await self._swallow()
        return ALL_STORED

    async def _swallow(self) -> None:
        self.reached.set()
        with suppress(asyncio.CancelledError):
            await asyncio.Event().wait()


@pytest.mark.parametrize("opens", [True, False])
@virtual
async def test_a_worker_that_is_cancelled_while_its_sink_opens_ends(opens: bool) -> None:
    await _ends(Swallowing(opens=opens, swallows_in_open=True))


@virtual
async def test_a_worker_cancelled_in_a_delivery_settles_nothing() -> None:
    world = await _ends(Swallowing())

    assert world.pending.settled == 0


async def _ends(sink: Swallowing) -> World:
    """Where it goes on, nothing can happen any more, and the virtual clock fails the test."""
    world = World(sink, pods("ab"))
    async with world.running():
        await sink.reached.wait()
    return world
