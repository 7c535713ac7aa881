"""The state belongs to one bridge, one cluster and one past: anything else is refused, or recognised."""

from __future__ import annotations

import asyncio
from pathlib import Path

from bridge.playground import Playground
from tests.cluster.kube_client import KubeClient
from tests.kit.bridge_process import BridgeProcess
from tests.kit.judge import assert_makes_sense
from tests.kit.received import as_received, assert_in_order, assert_same_state, rebuilt
from tests.kit.scene import Scene

NOT_CONFIGURED_RIGHT = 78
"""EX_CONFIG."""


# ── One bridge ───────────────────────────────────────────────────────────────


async def test_a_state_directory_has_one_bridge_at_a_time(tmp_path: Path) -> None:
    async with Playground() as cluster:
        config = {
            "cluster": {"name": "playground", "server": cluster.url},
            "resources": ["configmaps"],
            "sinks": {"copy": {"type": "file", "path": str(tmp_path / "deltas.ndjson")}},
        }
        first, second = BridgeProcess(tmp_path / "first", config), BridgeProcess(tmp_path / "second", config)
        second.state = first.state
        async with first.started():
            code = await asyncio.to_thread(second.ended)
            assert await first.ready()
            await asyncio.to_thread(first.kill9)
            async with second.started():
                assert await second.ready(), "the kernel let go of the lock of who was killed"

    assert code == NOT_CONFIGURED_RIGHT
    assert second.logged("state.directory", str(first.state), "held by another process")


# ── One cluster ──────────────────────────────────────────────────────────────


async def test_another_clusters_state_is_refused_or_begins_an_epoch(scene: Scene, kube: KubeClient) -> None:
    bridge = scene.bridge()
    async with KubeClient(scene.servers.api) as one:
        for name in ("a", "b"):
            await one.create(f"{scene.root}/configmaps", {"metadata": {"name": name}})
        async with bridge.started():
            await scene.until_received(bridge)
        state_before = rebuilt(scene.written())

    await kube.create_namespace(scene.namespace)
    try:
        for name in ("b", "c"):
            await kube.create(f"{scene.root}/configmaps", {"metadata": {"name": name}})
        bridge.configure(scene.config(api=kube.server))
        assert await asyncio.to_thread(bridge.ended) == NOT_CONFIGURED_RIGHT
        assert bridge.logged("state.on_cluster_change", "belongs to the cluster")
        assert rebuilt(scene.written()) == state_before, "nothing is reported of a cluster that was refused"

        restart = {"on_cluster_change": "restart"}
        bridge.configure(scene.config(api=kube.server, state=restart))
        async with bridge.started():
            state = as_received(await kube.get(f"{scene.root}/configmaps"), "/api/v1/configmaps", "ConfigMap")
            await bridge.until("the state is reported", lambda _: rebuilt(scene.written()) == state)
            await bridge.until_delivered()
            metrics = await bridge.metrics()
            received = await scene.sinks.delivered()
        async with bridge.started():
            assert (await bridge.metrics()).value("reflector_lists_total") == 0, "the state belongs to this one now"
            await bridge.until_delivered()
            assert (await scene.sinks.delivered()).keys() == received.keys()
    finally:
        await kube.delete_namespace(scene.namespace)

    assert metrics.value("cluster_changes_total") == 1
    for sink, stream in received.items():
        fresh = [each for each in stream if each.epoch == 2]
        assert_same_state(rebuilt(stream), state, sink)
        assert_makes_sense(stream, sink)
        assert_in_order(stream, sink)
        assert {each.evidence for each in fresh} == {"relisted"}
        gone = {each.subject: each.data for each in fresh if each.op == "deleted"}
        assert_same_state(gone, state_before, sink)


# ── One past ─────────────────────────────────────────────────────────────────


async def test_a_cluster_restored_from_a_backup_begins_an_epoch(scene: Scene, tmp_path: Path) -> None:
    etcd, api = scene.servers.etcd, scene.servers.api
    config_maps = f"{scene.root}/configmaps"
    bridge = scene.bridge(watch={"silence_seconds": 1})  # A server of the past is silent; two silences make a list.
    async with KubeClient(api) as kube:
        for name in ("kept", "changed", "deleted"):
            await kube.create(config_maps, {"metadata": {"name": name}})
        state = as_received(await kube.get(config_maps), "/api/v1/configmaps", "ConfigMap")
        async with bridge.started():
            await bridge.until("the state is reported", lambda _: rebuilt(scene.written()) == state)
            await asyncio.to_thread(etcd.back_up, tmp_path / "backup")
            await kube.patch(f"{config_maps}/changed", {"data": {"turn": "1"}})
            await kube.delete(f"{config_maps}/deleted")
            await kube.create(config_maps, {"metadata": {"name": "forgotten"}})
            await scene.until_received(bridge)

    await asyncio.to_thread(api.kill9)
    await asyncio.to_thread(etcd.kill9)
    etcd.restore(tmp_path / "backup")
    await asyncio.to_thread(etcd.start)
    await asyncio.to_thread(api.start)
    async with bridge.started():
        await bridge.until("the past is reported", lambda _: rebuilt(scene.written()) == state)
        await bridge.until_delivered()
        metrics = await bridge.metrics()
        received = await scene.sinks.delivered()

    assert metrics.value("reflector_version_resets_total", resource="configmaps") == 1
    for sink, stream in received.items():
        assert_same_state(rebuilt(stream), state, sink)
        assert_makes_sense(stream, sink)
        assert_in_order(stream, sink)
        back = [each for each in stream if each.epoch == 2 and "/configmaps/" in each.subject]
        names = {(each.op, each.data["metadata"]["name"]) for each in back}
        assert names >= {("updated", "changed"), ("added", "deleted"), ("deleted", "forgotten")}
        assert {each.evidence for each in back} == {"relisted"}
