"""The disk under the state is full, or what lies on it is damaged."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from bridge.outbox.storage.database import PAGE_BYTES
from tests.cluster.kube_client import KubeClient, Manifest
from tests.kit.bridge_process import Metrics
from tests.kit.churn import churning
from tests.kit.received import (
    Received,
    ReceivedGap,
    as_received,
    assert_in_order,
    assert_same_state,
    rebuilt,
    without_secrets,
)
from tests.kit.scene import Scene
from tests.kit.small_disk import MEBIBYTE, SmallDisk
from tests.kit.webhook_receiver import ACCEPTED, Answer

KIND_NAMES = {"configmaps": "ConfigMap", "secrets": "Secret", "pods": "Pod"}


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


@pytest.mark.parametrize("part", ["beginning", "middle"])
async def test_a_damaged_database_is_set_aside_and_resent_after_a_gap(scene: Scene, part: str) -> None:
    bridge = scene.bridge()
    async with KubeClient(scene.servers.api) as kube, bridge.started():
        async with churning(scene.servers.api, scene.namespace, pause=0.1) as churn:
            await churn.until_made(60)
        await scene.until_received(bridge)
        before = await scene.sinks.streams()
        objects_before = await _state(kube, scene)

        await asyncio.to_thread(bridge.stop)
        _damage(bridge.state / "outbox.db", part)
        await asyncio.to_thread(bridge.start)
        await scene.until_received(bridge)
        rebuilds = (await bridge.metrics()).value("outbox_rebuilds_total")
        objects = await _state(kube, scene)
        streams = await scene.sinks.streams()

    assert rebuilds == 1
    assert [*bridge.state.glob("outbox.db.*.aside")], "it is kept for who wants to look"
    for sink, stream in streams.items():
        last_before = max(each.sequence for each in before[sink] if isinstance(each, Received))
        [gap] = [each for each in stream if isinstance(each, ReceivedGap)]
        fresh = [each for each in stream if isinstance(each, Received) and each.sequence > last_before]
        assert last_before < gap.first <= gap.last < min(each.sequence for each in fresh), "the gap comes first"
        assert gap.count is None, "nobody knows how many"
        assert {each.subject for each in fresh if each.op == "sync"} >= objects_before.keys()
        assert_same_state({subject: without_secrets(thing) for subject, thing in rebuilt(fresh).items()}, objects, sink)
        assert_in_order(fresh, sink)


def _damage(file: Path, part: str) -> None:
    """The beginning; or everything behind the first page, since a page that is free is never looked at."""
    first, count = {"beginning": (0, 8192), "middle": (PAGE_BYTES, file.stat().st_size - PAGE_BYTES)}[part]
    with file.open("r+b") as database:
        database.seek(first)
        database.write(b"\xa5" * count)


async def _state(kube: KubeClient, scene: Scene) -> dict[str, Manifest]:
    objects: dict[str, Manifest] = {}
    for kind, name in KIND_NAMES.items():
        objects |= as_received(await kube.get(f"{scene.root}/{kind}"), f"/api/v1/{kind}", name)
    return {subject: without_secrets(thing) for subject, thing in objects.items()}


def _committed(now: Metrics) -> float:
    return now.value("records_committed_total")


def _delivered(now: Metrics, sink: str) -> float:
    return now.value("sink_delivered_records_total", sink=sink)
