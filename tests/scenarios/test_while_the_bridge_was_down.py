"""The cluster changes while no bridge is there to see it, or what the bridge is to watch changes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.cluster.kube_client import KubeClient, Manifest
from tests.kit.bridge_process import BridgeProcess
from tests.kit.churn import KINDS, an_object
from tests.kit.judge import assert_makes_sense
from tests.kit.received import Received, as_received, assert_in_order, assert_same_state, rebuilt, without_secrets
from tests.kit.scene import Scene

KEPT, CHANGED, DELETED, RECREATED = "kept", "changed", "deleted", "recreated"


@pytest.mark.parametrize("expired", [False, True], ids=["the position held", "the position had expired"])
async def test_changes_during_the_downtime_are_exported_at_the_start(scene: Scene, expired: bool) -> None:
    bridge = scene.bridge()
    async with KubeClient(scene.servers.api) as kube, bridge.started():
        for kind in KINDS:
            for name in (KEPT, CHANGED, DELETED, RECREATED):
                await kube.create(f"{scene.root}/{kind}", an_object(kind, name))
        await scene.until_received(bridge)

        await asyncio.to_thread(bridge.kill9)
        for kind in KINDS:
            await _change(kube, f"{scene.root}/{kind}", kind)
        if expired:
            await scene.forget()
        await asyncio.to_thread(bridge.start)
        await scene.until_received(bridge)
        lists = (await bridge.metrics()).value("reflector_lists_total")

    for verdict in (await scene.judged()).values():
        if expired:  # Of each kind: changed, deleted, deleted and added, created.
            assert verdict.relisted == 5 * len(KINDS)
            assert verdict.skipped >= 3 * len(KINDS), "one change of two, and what came and went"
        else:
            assert verdict.relisted == verdict.skipped == 0
    assert lists == (len(KINDS) if expired else 0)


async def _change(kube: KubeClient, collection: str, kind: str) -> None:
    """All that can become of an object while nobody looks."""
    for turn in ("1", "2"):
        await kube.patch(f"{collection}/{CHANGED}", {"metadata": {"labels": {"turn": turn}}})
    for name in (DELETED, RECREATED):
        await kube.delete(f"{collection}/{name}")
    for name in (RECREATED, "created", "fleeting"):
        await kube.create(collection, an_object(kind, name))
    await kube.delete(f"{collection}/fleeting")


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
        last = max(received.sequence for received in (await scene.delivered())["copy"])
        bridge.configure(scene.config(resources=after))
        async with bridge.started():
            state_after = await _state(kube, after)
            await _until_state(bridge, scene, state_after)
            await bridge.until_delivered()
            received = await scene.delivered()

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
