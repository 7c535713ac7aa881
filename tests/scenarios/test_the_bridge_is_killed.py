"""The bridge is killed at any moment, over and over, while everything it watches is changing."""

from __future__ import annotations

import asyncio
import random

import httpx
import pytest

from tests.kit.bridge_process import BridgeProcess
from tests.kit.churn import churning
from tests.kit.scene import Scene

LONGEST = 3.0
"""Seconds that the bridge lives at most. It needs about one to start, so a third of the kills meets it starting."""


@pytest.mark.parametrize(
    "rounds",
    [
        pytest.param(10, id="10 times"),
        pytest.param(60, id="60 times", marks=[pytest.mark.soak, pytest.mark.timeout(1800)]),
    ],
)
async def test_a_bridge_that_is_killed_again_and_again_loses_nothing(scene: Scene, rounds: int) -> None:
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    bridge = scene.bridge()
    met: list[str] = []

    async with bridge.started():
        async with churning(scene.servers.api, scene.namespace, seed=seed, pause=0.01) as churn:
            for _ in range(rounds):
                await asyncio.sleep(chance.uniform(0, LONGEST))  # Any moment: nothing may be waited for.
                met.append(await _met(bridge))
                await asyncio.to_thread(bridge.kill9)
                await churn.until_made(chance.randrange(100))
                bridge.launch()
            await asyncio.to_thread(bridge.wait_until_ready)
            await churn.until_made(100)
        await scene.until_told(bridge)
        metrics = await bridge.metrics()

    verdicts = await scene.judged()
    print(f"{rounds} rounds, {churn.made} changes; killed while {', '.join(met)}")
    assert metrics.value("reflector_lists_total") == 0, "every position held: there was nothing to list"
    for verdict in verdicts.values():
        assert verdict.relisted == verdict.skipped == 0
    assert {"starting", "live"} <= set(met)


async def _met(bridge: BridgeProcess) -> str:
    try:
        return "live" if await bridge.ready() else "catching up"
    except httpx.TransportError:
        return "starting"
