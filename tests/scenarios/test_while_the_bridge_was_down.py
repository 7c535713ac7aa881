"""The cluster changes while no bridge is there to see it, or none that sees, or what the bridge is to watch changes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.cluster.fixtures import StartKubeApiServer
from tests.cluster.kube_client import KubeClient, Manifest
from tests.kit.bridge_process import BridgeProcess
from tests.kit.churn import KINDS, an_object
from tests.kit.etcd_history import JSON_STORAGE, NO_COMPACTION
from tests.kit.judge import Verdict, assert_makes_sense
from tests.kit.received import Received, as_received, assert_in_order, assert_same_state, rebuilt, without_secrets
from tests.kit.scene import Scene

KEPT, CHANGED, DELETED, RECREATED = "kept", "changed", "deleted", "recreated"


@pytest.mark.parametrize("expired", [False, True], ids=["the position held", "the position had expired"])
async def test_changes_during_the_downtime_are_exported_at_the_start(scene: Scene, expired: bool) -> None:
    bridge = scene.bridge()
    async with KubeClient(scene.servers.api) as kube, bridge.started():
        await _create_all(kube, scene)
        await scene.until_received(bridge)

        await asyncio.to_thread(bridge.kill9)
        await _change_all(kube, scene)
        if expired:
            await scene.forget()
        await asyncio.to_thread(bridge.start)
        await scene.until_received(bridge)
        lists = (await bridge.metrics()).value("reflector_lists_total")

    for verdict in (await scene.judged()).values():
        if expired:
            _assert_was_found_in_lists(verdict)
        else:
            assert verdict.relisted == verdict.skipped == 0
    assert lists == (len(KINDS) if expired else 0)


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
        for name in (DELETED, RECREATED):
            await kube.delete(f"{collection}/{name}")
        for name in (RECREATED, "created", "fleeting"):
            await kube.create(collection, an_object(kind, name))
        await kube.delete(f"{collection}/fleeting")


def _assert_was_found_in_lists(verdict: Verdict) -> None:
    """Of each kind: changed, deleted, deleted and added, created."""
    assert verdict.relisted == 5 * len(KINDS)
    assert verdict.skipped >= 3 * len(KINDS), "one change of two, and what came and went"


async def test_objects_that_left_the_scope_are_deleted_new_ones_added(scene: Scene) -> None:
    here, left, new = scene.namespace, f"{scene.namespace}-left", f"{scene.namespace}-new"
    before = _watching([here, left], "tier=web")
    after = _watching([here, new], "tier=db")
    bridge = scene.bridge(resources=before)
    async with KubeClient(scene.servers.api) as kube, _namespaces(kube, left, new):
        for namespace in (here, left, new):
            for name in ("a", "b"):
                await kube.create(f"/api/v1/namespaces/{namespace}/configmaps", an_object("configmaps", name))
        for name, tier in (("front", "web"), ("back", "web"), ("store", "db")):
            secret = an_object("secrets", name)
            secret["metadata"]["labels"] = {"tier": tier}
            await kube.create(f"{scene.root}/secrets", secret)

        async with bridge.started():
            state_before = await _state(kube, before)
            await _until_state(bridge, scene, state_before)
        last = max(received.sequence for received in (await scene.sinks.delivered())["copy"])
        bridge.configure(scene.config(resources=after))
        async with bridge.started():
            state_after = await _state(kube, after)
            await _until_state(bridge, scene, state_after)
            await bridge.until_delivered()
            received = await scene.sinks.delivered()

    for sink, stream in received.items():
        fresh = [each for each in stream if each.sequence > last]
        gone = {each.subject: without_secrets(each.data) for each in fresh if each.op == "deleted"}
        came = {each.subject: without_secrets(each.data) for each in fresh if each.op == "added"}
        assert_same_state(gone, _without(state_before, state_after), sink)
        assert_same_state(came, _without(state_after, state_before), sink)
        assert len(fresh) == len(gone) + len(came), "what stayed is not reported again"
        evidence = {("/secrets/" in each.subject, each.evidence) for each in fresh if each.op == "deleted"}
        # A Secret's labels are digests, so nothing tells one that the selector leaves out from one that is gone.
        assert evidence == {(False, "unwatched"), (True, "relisted")}, "nothing was deleted"
        assert_makes_sense(stream, sink)
        assert_in_order(stream, sink)


def _watching(namespaces: list[str], selector: str) -> list[dict[str, Any]]:
    """Config maps in these namespaces, and secrets with these labels in the first of them."""
    secrets = {"resource": "secrets", "namespaces": namespaces[:1], "label_selector": selector}
    return [{"resource": "configmaps", "namespaces": namespaces}, secrets]


async def _state(kube: KubeClient, resources: list[dict[str, Any]]) -> dict[str, Manifest]:
    objects: dict[str, Manifest] = {}
    for each in resources:
        selector = {"labelSelector": each["label_selector"]} if "label_selector" in each else {}
        kind = {"configmaps": "ConfigMap", "secrets": "Secret"}[each["resource"]]
        for namespace in each["namespaces"]:
            listed = await kube.get(f"/api/v1/namespaces/{namespace}/{each['resource']}", **selector)
            objects |= as_received(listed, f"/api/v1/{each['resource']}", kind)
    return {subject: without_secrets(thing) for subject, thing in objects.items()}


async def _until_state(bridge: BridgeProcess, scene: Scene, state: dict[str, Manifest]) -> None:
    def is_received(stream: list[Received]) -> bool:
        return {subject: without_secrets(thing) for subject, thing in rebuilt(stream).items()} == state

    await bridge.until("the state is reported", lambda _: is_received(scene.written()))


def _without(these: dict[str, Manifest], others: dict[str, Manifest]) -> dict[str, Manifest]:
    return {subject: thing for subject, thing in these.items() if subject not in others}


@asynccontextmanager
async def _namespaces(kube: KubeClient, *names: str) -> AsyncIterator[None]:
    for name in names:
        await kube.create_namespace(name)
    yield
    for name in names:
        await kube.delete_namespace(name)
