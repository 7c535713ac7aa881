"""The disk under the state is full."""

from __future__ import annotations

import asyncio

import pytest

from tests.kit.bridge_process import Metrics
from tests.kit.churn import churning
from tests.kit.scene import Scene
from tests.kit.small_disk import MEBIBYTE, SmallDisk
from tests.kit.webhook_receiver import ACCEPTED, Answer


@pytest.mark.parametrize(
    ("min_free_bytes", "left"),
    [pytest.param(4 * MEBIBYTE, 2 * MEBIBYTE, id="less than asked for"), pytest.param(0, 0, id="nothing")],
)
async def test_a_full_disk_stops_the_intake_and_nothing_else(
    scene: Scene, small_disk: SmallDisk, min_free_bytes: int, left: int
) -> None:
    bridge = scene.bridge(state={"min_free_bytes": min_free_bytes})
    bridge.state = small_disk.folder
    async with bridge.started():
        async with churning(scene.servers.api, scene.namespace, pause=0.1) as churn:
            await churn.until_made(50)
            small_disk.fill(leave=left)
            await bridge.until("the intake has stopped", lambda now: now.value("intake_blocked") == 1)
            await bridge.until_delivered()
            committed = _committed(await bridge.metrics())
            await churn.until_made(50)
            full = await bridge.metrics()
            assert _committed(full) == committed, "nothing is read that cannot be kept"
            small_disk.make_room()
            await bridge.until("it goes on", lambda now: _committed(now) > committed + 50)
        await scene.until_received(bridge)
        metrics = await bridge.metrics()

    for verdict in (await scene.judged()).values():
        assert verdict.relisted == verdict.skipped == 0
    assert metrics.value("intake_blocked") == 0
    assert metrics.value("outbox_full_total") >= 1


async def test_a_bridge_killed_on_a_full_disk_keeps_acknowledgements(scene: Scene, small_disk: SmallDisk) -> None:
    bridge = scene.bridge(state={"min_free_bytes": 4 * MEBIBYTE})
    bridge.state = small_disk.folder
    scene.sinks.receiver.answer = lambda _: Answer(503)
    async with bridge.started():
        async with churning(scene.servers.api, scene.namespace, pause=0.1) as churn:
            await churn.until_made(60)
            small_disk.fill(leave=2 * MEBIBYTE)
            await bridge.until("the intake has stopped", lambda now: now.value("intake_blocked") == 1)
            await bridge.until_delivered("log", "live", "copy")
            received = {each.id for each in scene.written()}
            await asyncio.to_thread(bridge.kill9)
            scene.sinks.receiver.answer = lambda _: ACCEPTED
            bridge.launch()
            await bridge.until(
                "the hook has what was acknowledged", lambda now: _delivered(now, "hook") >= len(received)
            )
            small_disk.make_room()
            await bridge.until("it goes on", lambda now: _committed(now) > 50)
        await scene.until_received(bridge)

    for verdict in (await scene.judged()).values():
        assert verdict.relisted == verdict.skipped == 0


def _committed(now: Metrics) -> float:
    return now.value("records_committed_total")


def _delivered(now: Metrics, sink: str) -> float:
    return now.value("sink_delivered_records_total", sink=sink)
