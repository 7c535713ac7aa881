"""A frozen API server is noticed and followed on; and in the middle of load the bridge itself is asked to end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from bridge.playground import Playground
from bridge.playground.manifests import config_map
from tests.kit.bridge_process import BridgeProcess
from tests.kit.churn import KINDS, churning
from tests.kit.four_sinks import FourSinks
from tests.kit.received import assert_in_order
from tests.kit.scene import Scene

OBJECTS = 20
SILENCE = 5
"""Seconds. A second silence in a row is answered with a list: a busy machine must let the server go on before that."""


async def test_a_frozen_api_server_is_noticed_and_followed_unlisted(scene: Scene) -> None:
    api = scene.servers.api
    bridge = scene.bridge(watch={"silence_seconds": SILENCE})
    async with bridge.started():
        async with churning(api, scene.namespace) as churn:
            await churn.until_made(30)
            before = await bridge.metrics()
            began = asyncio.get_running_loop().time()
            await scene.until_received(bridge)  # The silence begins later, and before the pause returns.
            api.pause()
            await bridge.until("the silence is noticed", lambda now: now.value("resource_live") == 0, timeout=60)
            noticed = asyncio.get_running_loop().time() - began
            api.resume()
            for kind in KINDS:
                await bridge.until_live(kind)
            after = await bridge.metrics()
            await churn.until_made(30)
        await scene.until_received(bridge)

    assert before.value("reflector_watches_total") == len(KINDS)
    assert noticed >= SILENCE
    assert after.value("reflector_lists_total") == len(KINDS), "the version still held: there was nothing to list"
    for verdict in (await scene.judged()).values():
        assert verdict.relisted == verdict.skipped == verdict.duplicates == 0
    print(f"noticed after {noticed:.1f} s")


async def test_sigterm_under_load_delivers_everything_that_was_read(four_sinks: FourSinks, tmp_path: Path) -> None:
    async with Playground() as cluster:
        config = {
            "cluster": {"name": "playground", "server": cluster.url},
            "resources": ["configmaps"],
            "sinks": four_sinks.section,
            "shutdown_grace_seconds": 60,
        }
        bridge = BridgeProcess(tmp_path / "bridge", config)
        bridge.stop_timeout = 70
        async with bridge.started(), _in_background(_change_quickly(cluster)):
            await bridge.until("load is under way", lambda now: now.value("records_committed_total") > 1000)
            behind = (await bridge.metrics()).value("sink_backlog_records")
            ending = asyncio.get_running_loop().time()
            await asyncio.to_thread(bridge.stop)
            seconds = asyncio.get_running_loop().time() - ending
        streams = await four_sinks.delivered()

    read = len(streams["copy"])
    for sink, stream in streams.items():
        assert sorted(received.sequence for received in stream) == list(range(1, read + 1)), sink
        assert_in_order(stream, sink)
    assert read > 1000
    assert behind > 0, "there was something left to deliver"
    print(f"ended with 0 after {seconds:.1f} s; each of {len(streams)} sinks has all of {read} deltas")


MOST_CHANGES = 4000
"""What the slowest sink has delivered within the grace, on a machine that does something else as well."""


async def _change_quickly(cluster: Playground) -> None:
    for name in (f"c{number}" for number in range(OBJECTS)):
        cluster.create("configmaps", config_map(name))
    for step in range(MOST_CHANGES):
        cluster.patch("configmaps", f"c{step % OBJECTS}", {"data": {"step": str(step)}})
        if step % 10 == 0:
            await asyncio.sleep(0)


@asynccontextmanager
async def _in_background(work: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    async with asyncio.TaskGroup() as group:
        task = group.create_task(work)
        yield
        task.cancel()
