"""An operator who is quicker than the addition of a dead letter."""

from __future__ import annotations

import asyncio

import pytest

from sinks.base import Lanes
from tests.bridge.delivery.fakes import ScriptedSink, a_pod, named, pods
from tests.bridge.delivery.world import World, virtual
from tests.kit.deadlines import BUSY
from tests.kit.sinks import receipt_of


@pytest.mark.parametrize("lanes", [None, Lanes(concurrency=4)])
@virtual
async def test_a_record_parked_as_its_letter_is_dropped_is_delivered(lanes: Lanes | None) -> None:
    sink = ScriptedSink()
    world = World(sink, pods("a"), lanes=lanes)
    world.dead_letters.seconds = 2.0
    sink.script = [receipt_of(pods("a"), rejected={0: "too large"})]
    async with asyncio.timeout(60 * BUSY), world.running() as worker:
        await world.until(lambda: world.dead_letters.names == ["a1"])
        await worker.wait_idle()
        world.pending.happened(a_pod(2, "a"))
        await asyncio.sleep(0.5)
        world.dead_letters.drop_first()
        await world.until(lambda: named(sink.stored) == ["a2"])
        await world.until(lambda: not world.dead_letters.kept)
