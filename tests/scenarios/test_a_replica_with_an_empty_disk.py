"""A replica with an empty disk joins under load: it gets a copy of the leader's state, and leads when the leader is
killed."""

from __future__ import annotations

import asyncio
import shutil

import pytest

from tests.kit.bridge_process import BridgeProcess
from tests.kit.churn import KINDS, churning
from tests.kit.scene import Scene
from tests.scenarios.test_two_replicas import SHORT, JudgedReplicas, config_of, replicas

pytestmark = pytest.mark.long


async def test_a_replica_begins_with_a_copy_and_takes_over(scene: Scene) -> None:
    first, joining = (BridgeProcess(scene.folder / name, config_of(scene, name, SHORT)) for name in ("pod-0", "pod-1"))
    run = JudgedReplicas(scene, [first, joining])
    async with first.started():
        assert await run.leader() is first
        for kind in KINDS:
            await first.until_live(kind)
        async with churning(scene.servers.api, scene.namespace, seed=4, pause=0.1) as churn, joining.started():
            assert first.logged("a follower has got a copy of the whole state")
            await run.until_equal()
            assert (await joining.metrics()).value("reflector_lists_total") == 0, "the leader alone lists"
            await churn.until_made(40)
            await run.until_in_sync(first)
            await asyncio.to_thread(first.kill9)
            assert await run.leader(other_than=first) is joining
            await churn.until_made(40)
            await asyncio.to_thread(first.start)
            await run.until_equal()
            churn.stop()
            await run.until_received()
            assert (await joining.metrics()).value("reflector_lists_total") == 0, "it goes on where the leader watched"
    print(f"again: {await run.judged()}")


async def test_a_volume_that_is_lost_is_copied_anew(scene: Scene) -> None:
    async with replicas(scene, **SHORT) as run:
        async with churning(scene.servers.api, scene.namespace, seed=6, pause=0.1) as churn:
            leader = await run.leader()
            for _ in range(2):
                other = run.other(leader)
                await run.until_in_sync(leader)
                await asyncio.to_thread(other.kill9)
                shutil.rmtree(other.state)
                other.state.mkdir()
                await asyncio.to_thread(other.start)
                await run.until_equal()
                await run.until_in_sync(leader)
                await asyncio.to_thread(leader.kill9)
                await run.leader(other_than=leader)
                await asyncio.to_thread(leader.start)
                leader = other
                await churn.until_made(20)
        await run.until_received()
    await run.judged()
