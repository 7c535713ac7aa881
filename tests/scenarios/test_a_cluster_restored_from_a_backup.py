"""etcd's data are copied, dozens of writes follow, and the copy is put back. Real servers; the bridge is a process.

What makes it hard is that more is written then than was undone: the versions have passed all that the bridge knows by
the time it looks, and a watch goes on as if nothing had happened.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.cluster.fixtures import fresh_name
from tests.cluster.kube_client import KubeClient, Manifest
from tests.cluster.servers import Etcd, KubeApiServer
from tests.kit.breakable import Breakable
from tests.kit.bridge_process import BridgeProcess, Metrics
from tests.kit.judge import assert_makes_sense
from tests.kit.received import (
    Received,
    as_received,
    assert_in_order,
    from_file,
    rebuilt,
    received_lists,
    without_secrets,
)
from tests.kit.tcp_line import Line

pytestmark = pytest.mark.long

KINDS = {"configmaps": "ConfigMap", "secrets": "Secret"}
UNDONE = 20
"""Writes between the backup and the restore."""
SIDE_BY_SIDE = 10


@dataclass
class World:
    etcd: Etcd
    api: KubeApiServer
    root: str
    """The path of the namespace."""
    line: Line
    bridge: BridgeProcess
    file: Path
    backup: Path

    def delivered(self) -> list[Received]:
        return received_lists(from_file(self.file))

    def let_nobody_in(self) -> None:
        """Until the line is mended; who is in is thrown out."""
        self.line.refusing = True
        self.line.cut()

    async def be_restored(self) -> None:
        """The copy is put back, and the API server starts on it. Nobody but us reaches it before the line is mended."""
        self.let_nobody_in()
        await asyncio.to_thread(self.api.kill9)
        await asyncio.to_thread(self.etcd.kill9)
        self.etcd.restore(self.backup)
        await asyncio.to_thread(self.etcd.start)
        await asyncio.to_thread(self.api.start)

    async def until_received(self, kube: KubeClient) -> dict[str, Manifest]:
        state = await state_of(self, kube)
        await self.bridge.until("it is delivered", lambda _: without(rebuilt(self.delivered())) == without(state), 120)
        return state


def without(state: Mapping[str, Manifest]) -> dict[str, Manifest]:
    return {subject: without_secrets(thing) for subject, thing in state.items()}


async def state_of(world: World, kube: KubeClient) -> dict[str, Manifest]:
    found: dict[str, Manifest] = {}
    for plural, kind in KINDS.items():
        found |= as_received(await kube.get(f"{world.root}/{plural}"), f"/api/v1/{plural}", kind)
    return found


@pytest.fixture
async def world(breakable: Breakable, tmp_path: Path) -> AsyncIterator[World]:
    etcd, api, namespace = breakable.etcd, breakable.api, fresh_name("shop")
    async with Line(api.port) as line:
        kubeconfig = api.kubeconfig(tmp_path / "kubeconfig")
        kubeconfig.write_text(kubeconfig.read_text().replace(api.url, f"https://127.0.0.1:{line.port}"))
        file = tmp_path / "deltas.ndjson"
        config = {
            "cluster": {"name": "testbed", "kubeconfig": str(kubeconfig)},
            "resources": [{"resource": kind, "namespaces": [namespace]} for kind in KINDS],
            "sinks": {"copy": {"type": "file", "path": str(file)}},
        }
        bridge, root = BridgeProcess(tmp_path / "bridge", config), f"/api/v1/namespaces/{namespace}"
        async with KubeClient(api) as kube:
            await kube.create_namespace(namespace)
        yield World(etcd, api, root, line, bridge, file, tmp_path / "backup")
        await breakable.heal()
        async with KubeClient(api) as kube:
            await kube.delete_namespace(namespace)


# ── What happens ─────────────────────────────────────────────────────────────


async def live(world: World, kube: KubeClient) -> None:
    """Before the backup."""
    for name in ("busy", "changed", "deleted", "untouched", *(f"some-{n}" for n in range(SIDE_BY_SIDE))):
        await kube.create(f"{world.root}/configmaps", {"metadata": {"name": name}, "data": {"turn": "before"}})
    for name in ("changed", "deleted"):
        await kube.create(f"{world.root}/secrets", {"metadata": {"name": name}, "stringData": {"turn": "before"}})


async def be_undone(world: World, kube: KubeClient, writes: int) -> None:
    await kube.patch(f"{world.root}/configmaps/changed", {"data": {"turn": "undone"}})
    await kube.delete(f"{world.root}/configmaps/deleted")
    await kube.delete(f"{world.root}/secrets/deleted")
    await kube.create(f"{world.root}/secrets", {"metadata": {"name": "undone"}})
    await write(world, kube, "undone", writes)


async def write(world: World, kube: KubeClient, turn: str, writes: int) -> None:
    """Each behind the other on one object: so it is the newest, and has the same versions in both histories."""
    for number in range(writes):
        await kube.patch(f"{world.root}/configmaps/busy", {"data": {"turn": f"{turn} {number}"}})


async def pass_by(world: World, kube: KubeClient, version: int) -> None:
    """What is written anew, until the store has more versions than it ever had."""
    await kube.patch(f"{world.root}/configmaps/changed", {"data": {"turn": "anew"}})
    await kube.patch(f"{world.root}/secrets/changed", {"stringData": {"turn": "anew"}})
    await kube.create(f"{world.root}/secrets", {"metadata": {"name": "anew"}})
    while await asyncio.to_thread(world.etcd.revision) < version + 20:
        await write(world, kube, "anew", SIDE_BY_SIDE)


# ── What is asked for ────────────────────────────────────────────────────────


def assert_right(world: World, metrics: Metrics, state: Mapping[str, Manifest], when: str) -> None:
    received = world.delivered()
    assert without(rebuilt(received)) == without(state)
    assert len({each.unique_id for each in received}) == len(received), "an id came again"
    assert_makes_sense(received, "copy")
    assert_in_order(received, "copy")
    assert max(each.epoch for each in received) == 2
    back = {(each.op, each.subject.rpartition("/")[2]) for each in received if each.epoch == 2}
    assert {("updated", "changed"), ("added", "deleted"), ("added", "anew"), ("deleted", "undone")} <= back
    assert metrics.value("history_proofs_total", outcome="other") == 1, "once, for all resources together"
    why = world.bridge.logged("has another history")
    assert len(why) == 1
    by_epoch = [sum(each.epoch == epoch for each in received) for epoch in (1, 2)]
    print(
        f"restored {when}: {by_epoch[0]} deltas before, {by_epoch[1]} in epoch 2; "
        f"{metrics.value('history_proofs_total'):.0f} proofs, {metrics.value('reflector_relists_total'):.0f} relists; "
        f"{json.loads(why[0])['reason']}"
    )


@asynccontextmanager
async def a_life_that_is_undone(world: World) -> AsyncIterator[KubeClient]:
    """Inside, the bridge runs, and has exported all that will be undone."""
    async with KubeClient(world.api) as kube:
        await live(world, kube)
        async with world.bridge.started():
            await world.until_received(kube)
            await asyncio.to_thread(world.etcd.back_up, world.backup)
            await be_undone(world, kube, UNDONE)
            await world.until_received(kube)
            yield kube


@pytest.mark.parametrize("passed", ["before the start", "while it waits", "never"])
async def test_it_is_noticed_by_a_bridge_that_was_down(world: World, passed: str) -> None:
    """``passed``: when the versions pass all that the bridge knows."""
    world.bridge.reconfigure(watch={"silence_seconds": 1})  # A server of the past is silent; two silences make a list.
    async with a_life_that_is_undone(world):
        pass
    reached = 0 if passed == "never" else await asyncio.to_thread(world.etcd.revision)
    await world.be_restored()
    world.line.mend()
    async with KubeClient(world.api) as kube:
        if passed == "before the start":
            await pass_by(world, kube, reached)
        async with world.bridge.started():
            if passed != "before the start":
                await pass_by(world, kube, reached)
            state = await world.until_received(kube)
            metrics = await world.bridge.until_delivered()

    assert_right(world, metrics, state, "while the bridge was down")


async def test_a_restore_is_noticed_though_its_changes_came_and_went(world: World) -> None:
    """Nothing that the bridge knows was undone: only the newest delete shows the restore."""
    async with KubeClient(world.api) as kube:
        await live(world, kube)
        async with world.bridge.started():
            await world.until_received(kube)
            await asyncio.to_thread(world.etcd.back_up, world.backup)
            for number in range(UNDONE // 2):
                await kube.create(f"{world.root}/configmaps", {"metadata": {"name": f"fleeting-{number}"}})
                await kube.delete(f"{world.root}/configmaps/fleeting-{number}")
            await kube.create(f"{world.root}/configmaps", {"metadata": {"name": "last"}})
            await world.until_received(kube)
            await kube.delete(f"{world.root}/configmaps/last")
            await world.until_received(kube)
    reached = await asyncio.to_thread(world.etcd.revision)
    await world.be_restored()
    world.line.mend()
    async with KubeClient(world.api) as kube:
        await pass_by(world, kube, reached)
        async with world.bridge.started():
            await world.until_received(kube)
            metrics = await world.bridge.until_delivered()

    assert metrics.value("history_proofs_total", outcome="other") == 1
    received = world.delivered()
    assert len({each.unique_id for each in received}) == len(received), "an id came again"
    [why] = world.bridge.logged("has another history")
    print(f"restored, and all that was undone had come and gone: {json.loads(why)['reason']}")


async def test_it_is_noticed_by_a_bridge_that_runs(world: World) -> None:
    async with a_life_that_is_undone(world):
        reached = await asyncio.to_thread(world.etcd.revision)
        await world.be_restored()
        async with KubeClient(world.api) as kube:
            await pass_by(world, kube, reached)
            world.line.mend()
            state = await world.until_received(kube)
            metrics = await world.bridge.until_delivered()

    assert_right(world, metrics, state, "while the bridge ran")


async def test_a_restart_without_a_restore_lists_nothing(world: World) -> None:
    async with a_life_that_is_undone(world) as kube:
        world.let_nobody_in()
        await write(world, kube, "unseen", 20)
        world.line.mend()
        await world.until_received(kube)
        await world.bridge.until("all are live", lambda metrics: metrics.value("resource_live") == len(KINDS))
        before = await world.bridge.metrics()
    async with KubeClient(world.api) as kube, world.bridge.started():
        await write(world, kube, "later", 20)
        await world.until_received(kube)
        after = await world.bridge.until_delivered()

    assert before.value("history_proofs_total", outcome="same") >= 1
    assert before.value("reflector_relists_total") == 0
    assert after.value("history_proofs_total", outcome="same") == 1
    assert after.value("reflector_lists_total") == 0
    assert {each.epoch for each in world.delivered()} == {1}
