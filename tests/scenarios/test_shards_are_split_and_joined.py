"""One bridge becomes two shards, and these become one bridge again, while objects change on a real API server: the
destinations get every version of every object, in order, and a repetition has the same id."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import Any

import pytest

from bridge.model.primitives.shard import Shard, ShardBy
from tests.kit.bridge_process import BridgeProcess
from tests.kit.churn import churning
from tests.kit.deadlines import BUSY
from tests.kit.judge import assert_true
from tests.kit.received import Received, by_uid, received_lists, repeats, without_repeats
from tests.kit.scene import Scene
from tests.scenarios.test_two_replicas import SHORT, config_of

pytestmark = pytest.mark.long

SINKS = ("log", "live")


class Divided:
    """The bridges of one division after the other."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self.bridges: list[BridgeProcess] = []
        self._stacks: list[AsyncExitStack] = []

    async def begin(self, of: int, former: int = 0) -> None:
        """Start the bridges of a division; those before hand over, and are stopped. Returns when they deliver."""
        before, stack = self.bridges, AsyncExitStack()
        shard = {"of": of, "former": former} if former else {"of": of}
        self.bridges = [self._bridge(f"{len(self._stacks)}-{index}", {**shard, "index": index}) for index in range(of)]
        self._stacks.append(stack)
        for bridge in self.bridges:
            await stack.enter_async_context(bridge.started())
        for bridge in self.bridges:
            await bridge.until("it leads", lambda metrics: metrics.value("leader") == 1)
        for bridge in before:
            await until_it_may_go(bridge)
        if before:
            await self._stacks[-2].aclose()

    def _bridge(self, name: str, shard: dict[str, Any]) -> BridgeProcess:
        section = self._scene.sinks.section
        sinks = {"log": section["log"], "live": {**section["live"], "sole_writer": False}}
        config = config_of(self._scene, name, SHORT, sinks=sinks, shard=shard)
        return BridgeProcess(self._scene.folder / name, config)

    async def end(self) -> None:
        await self._stacks[-1].aclose()


async def until_it_may_go(bridge: BridgeProcess) -> None:
    await bridge.until("its log says that it handed over", lambda _: bool(bridge.logged("this bridge handed over")))


async def streams(scene: Scene) -> dict[str, list[Received]]:
    found = await scene.sinks.streams()
    return {name: received_lists(found[name]) for name in SINKS}


async def until_received(scene: Scene) -> None:
    markers = {each["metadata"]["uid"] for each in await scene.mark()}
    async with asyncio.timeout(60 * BUSY):
        while True:
            if not any(markers - {each.uid for each in stream} for stream in (await streams(scene)).values()):
                return
            await asyncio.sleep(0.1)


async def test_shards_that_are_split_and_joined_lose_nothing(scene: Scene) -> None:
    run = Divided(scene)
    await run.begin(1)
    async with churning(scene.servers.api, scene.namespace, seed=9, pause=0.1) as churn:
        await churn.until_made(60)
        for of, former in ((2, 1), (1, 2)):
            await run.begin(of, former)
            await churn.until_made(60)
    await until_received(scene)
    await run.end()

    happened = await scene.remember()
    halves = [Shard(2, index, ShardBy.UID) for index in range(2)]
    for name, stream in (await streams(scene)).items():
        first = without_repeats(stream)
        assert_true(first, happened, name)
        assert by_uid(each.version for each in first) == by_uid(each.version for each in happened), name
        print(
            f"{name}: {len(happened)} versions of {len(by_uid(each.version for each in happened))} objects, each in"
            f" order, {repeats(stream)} of them again"
        )
        assert all({half.contains(each.uid, "") for each in first} == {True, False} for half in halves)
