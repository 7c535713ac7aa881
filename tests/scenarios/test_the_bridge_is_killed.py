"""The bridge is killed at any moment, over and over, while everything it watches is changing."""

from __future__ import annotations

import asyncio
import os
import random
from collections import Counter

import pytest

from tests.kit.bridge_process import BridgeProcess, Metrics
from tests.kit.churn import KINDS, churning
from tests.kit.scene import Scene

YOUNG, LIVE = 1.0, 0.5
"""Seconds. Every fourth time the bridge is killed as soon as it runs, every fourth within ``YOUNG`` of its start,
mostly before it watches, and every second time within ``LIVE`` after it watched."""


@pytest.mark.parametrize(
    "rounds",
    [
        pytest.param(8, id="8 times"),
        pytest.param(60, id="60 times", marks=[pytest.mark.soak, pytest.mark.timeout(1800)]),
    ],
)
async def test_a_bridge_that_is_killed_again_and_again_loses_nothing(scene: Scene, rounds: int) -> None:
    seed = int(os.environ.get("SEED", random.randrange(2**32)))
    print(f"SEED={seed} makes the same changes and kills at the same moments, as far as the machine does its part")
    chance = random.Random(seed)
    bridge = scene.bridge()
    met: Counter[str] = Counter()

    for _ in range(rounds // 5):  # Before it has made its state, or while it does.
        bridge.launch()
        await asyncio.sleep(chance.uniform(0, YOUNG))
        await asyncio.to_thread(bridge.kill9)
    async with bridge.started():
        async with churning(scene.servers.api, scene.namespace, seed=seed, pause=0.2) as churn:
            await bridge.until("there are positions to go on from", _has_received_all_kinds)
            for number in range(rounds):
                await asyncio.to_thread(bridge.kill9)
                await churn.until_made(chance.randrange(20))
                await _lives_for_a_moment(bridge, chance, met, number)
            await asyncio.to_thread(bridge.kill9)
            await asyncio.to_thread(bridge.start)
        await scene.until_received(bridge)
        metrics = await bridge.metrics()

    verdicts = await scene.judged()
    print(f"{rounds} rounds, {churn.made} changes; killed while {dict(met)}")
    assert metrics.value("reflector_lists_total") == 0, "every position held: there was nothing to list"
    for verdict in verdicts.values():
        assert verdict.relisted == verdict.skipped == 0
    assert met["live"]


@pytest.mark.soak
@pytest.mark.timeout(1800)
async def test_with_its_position_expired_no_net_change_is_lost(scene: Scene) -> None:
    """Each time the store forgets, between a kill and the next start, what happened meanwhile."""
    rounds = 50
    seed = int(os.environ.get("SEED", random.randrange(2**32)))
    print(f"SEED={seed} makes the same changes and kills at the same moments, as far as the machine does its part")
    chance = random.Random(seed)
    bridge = scene.bridge()
    met: Counter[str] = Counter()

    async with bridge.started():
        for number in range(rounds):
            async with churning(scene.servers.api, scene.namespace, seed=seed + number, pause=0.01) as churn:
                await churn.until_made(20)
                await asyncio.to_thread(bridge.kill9)
                await churn.until_made(chance.randrange(20, 60))
            await scene.forget()
            async with churning(scene.servers.api, scene.namespace, seed=seed - number, pause=0.01):
                await _lives_for_a_moment(bridge, chance, met, number)
        await asyncio.to_thread(bridge.kill9)
        await asyncio.to_thread(bridge.start)
        await scene.until_received(bridge)

    verdicts = await scene.judged()
    print(f"{rounds} rounds; killed while {dict(met)}")
    assert all(verdict.relisted for verdict in verdicts.values())


async def _lives_for_a_moment(bridge: BridgeProcess, chance: random.Random, met: Counter[str], number: int) -> None:
    bridge.launch()
    if number % 2:
        await asyncio.to_thread(bridge.wait_until_ready)
    await asyncio.sleep(chance.uniform(0, (0, LIVE, YOUNG, LIVE)[number % 4]))  # Any moment.
    met[await _met(bridge)] += 1
    assert bridge.running, f"it ended by itself in round {number}"


def _has_received_all_kinds(now: Metrics) -> bool:
    return all(now.value("records_committed_total", resource=kind) for kind in KINDS)


async def _met(bridge: BridgeProcess) -> str:
    try:
        return "live" if await bridge.ready() else "catching up"
    except OSError:
        return "starting"
