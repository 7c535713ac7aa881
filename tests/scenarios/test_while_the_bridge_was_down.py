"""The cluster changes while no bridge is there to see it, or none that sees."""

from __future__ import annotations

import asyncio

import pytest

from tests.cluster.fixtures import StartKubeApiServer
from tests.cluster.kube_client import KubeClient
from tests.kit.churn import KINDS, an_object
from tests.kit.etcd_history import JSON_STORAGE, NO_COMPACTION
from tests.kit.judge import Verdict
from tests.kit.scene import Scene

KEPT, CHANGED, DELETED, RECREATED = "kept", "changed", "deleted", "recreated"


@pytest.mark.parametrize("forgotten", ["nothing", "by the watch cache", "by etcd"])
async def test_changes_during_the_downtime_are_exported_at_the_start(scene: Scene, forgotten: str) -> None:
    """``forgotten``: who cannot tell any more what happened. The watch cache is emptied by a restart of the server."""
    bridge = scene.bridge()
    async with KubeClient(scene.servers.api) as kube, bridge.started():
        await _create_all(kube, scene)
        await scene.until_received(bridge)

        await asyncio.to_thread(bridge.kill9)
        await _change_all(kube, scene)
        match forgotten:
            case "by the watch cache":
                await asyncio.to_thread(scene.servers.api.restart)
            case "by etcd":
                await scene.forget()
        await asyncio.to_thread(bridge.start)
        await scene.until_received(bridge)
        lists = (await bridge.metrics()).value("reflector_lists_total")

    for verdict in (await scene.judged()).values():
        match forgotten:
            case "nothing":
                assert verdict.relisted == verdict.skipped == 0
            case "by the watch cache":
                assert verdict.relisted == 0
                assert verdict.recovered >= 7 * len(KINDS)
                assert verdict.skipped <= 2 * len(KINDS), "what came and went"
            case "by etcd":
                _assert_was_found_in_lists(verdict)
    assert lists == (0 if forgotten == "nothing" else len(KINDS))


async def test_changes_behind_a_dead_api_server_come_when_it_is_back(
    scene: Scene, start_kube_apiserver: StartKubeApiServer
) -> None:
    """The bridge runs, and the cluster changes through another API server. The dead one cannot stream a first state, as
    servers before 1.32 could not."""
    flags = (JSON_STORAGE, NO_COMPACTION, "--feature-gates=WatchList=false")
    dying = await asyncio.to_thread(start_kube_apiserver, scene.servers.etcd, *flags)
    bridge = scene.bridge(api=dying)
    async with KubeClient(scene.servers.api) as kube, bridge.started():
        await _create_all(kube, scene)
        await scene.until_received(bridge)

        await asyncio.to_thread(dying.kill9)
        await bridge.until("the outage is noticed", lambda metrics: metrics.value("resource_live") == 0)
        assert not await bridge.ready()
        await _change_all(kube, scene)
        await scene.forget()
        await asyncio.to_thread(dying.start)
        await scene.until_received(bridge)
        relists = (await bridge.metrics()).value("reflector_relists_total")

    for verdict in (await scene.judged()).values():
        _assert_was_found_in_lists(verdict)
    assert relists == len(KINDS)


async def _create_all(kube: KubeClient, scene: Scene) -> None:
    for kind in KINDS:
        for name in (KEPT, CHANGED, DELETED, RECREATED):
            await kube.create(f"{scene.root}/{kind}", an_object(kind, name))


async def _change_all(kube: KubeClient, scene: Scene) -> None:
    """All that can become of an object while nobody looks."""
    for kind in KINDS:
        collection = f"{scene.root}/{kind}"
        for turn in ("1", "2"):
            await kube.patch(f"{collection}/{CHANGED}", {"metadata": {"labels": {"turn": turn}}})
        await kube.patch(f"{collection}/{DELETED}", {"metadata": {"labels": {"turn": "1"}}})
        for name in (DELETED, RECREATED):
            await kube.delete(f"{collection}/{name}")
        for name in (RECREATED, "created", "fleeting"):
            await kube.create(collection, an_object(kind, name))
        await kube.delete(f"{collection}/fleeting")


def _assert_was_found_in_lists(verdict: Verdict) -> None:
    """Of each kind: changed, deleted, deleted and added, created."""
    assert verdict.relisted == 5 * len(KINDS)
    assert verdict.skipped >= 3 * len(KINDS), "one change of two, one of what was deleted, and what came and went"
