"""Steps that no watch announced come back from etcd's history, as far as it reaches."""

from __future__ import annotations

import asyncio
import itertools
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest

from tests.cluster.kube_client import KubeClient, KubeError
from tests.cluster.roles import roles_of
from tests.kit.bridge_process import BridgeProcess, Metrics
from tests.kit.churn import KINDS, an_object, churning
from tests.kit.scene import Scene

pytestmark = pytest.mark.long

OBJECTS, TURNS, WRITERS = 20, 50, 5


class Updates:
    """A thousand updates, made by some writers that wait out whatever happens to the server."""

    def __init__(self, kube: KubeClient, paths: list[str]) -> None:
        self._kube = kube
        self._left = iter(list(itertools.product(range(TURNS), paths)))
        self._made = 0
        self._news = asyncio.Condition()

    async def write(self) -> None:
        for turn, path in self._left:
            while not await self._update(path, str(turn)):  # noqa: ASYNC110  # Nothing announces the server.
                await asyncio.sleep(0.05)
            async with self._news:
                self._made += 1
                self._news.notify_all()

    async def _update(self, path: str, turn: str) -> bool:
        try:
            await self._kube.patch(path, {"metadata": {"labels": {"turn": turn}}})
        except (httpx.TransportError, KubeError):  # The server is down, or has only just started.
            return False
        return True

    async def until_made(self, count: int) -> None:
        async with self._news:
            await self._news.wait_for(lambda: self._made >= count)


async def test_a_restart_in_the_middle_of_1000_updates_loses_none(scene: Scene) -> None:
    """The bridge stands still while the server starts, so that it comes back after 300 updates."""
    api, bridge = scene.servers.api, scene.bridge()
    paths = [f"{scene.root}/configmaps/many-{number}" for number in range(OBJECTS)]
    async with KubeClient(api) as kube, bridge.started():
        for path in paths:
            await kube.create(f"{scene.root}/configmaps", an_object("configmaps", path.rpartition("/")[2]))
        updates = Updates(kube, paths)
        async with asyncio.TaskGroup() as tasks:
            for _ in range(WRITERS):
                tasks.create_task(updates.write())
            await updates.until_made(300)
            await asyncio.to_thread(api.kill9)
            bridge.pause()
            await asyncio.to_thread(scene.servers.etcd.advance, 3)
            await asyncio.to_thread(api.start)
            await updates.until_made(600)
            bridge.resume()
        await scene.until_received(bridge)
        metrics = await bridge.metrics()

    for verdict in (await scene.judged()).values():
        assert verdict.versions >= OBJECTS * TURNS
        assert (verdict.relisted, verdict.skipped) == (0, 0)
        assert verdict.recovered >= 250
    _print_recovery(metrics, bridge)


async def test_a_restart_within_all_kinds_of_changes_is_bridged(scene: Scene) -> None:
    """Objects that came and went meanwhile may be missing; nothing else."""
    api, bridge = scene.servers.api, scene.bridge()
    async with bridge.started():
        async with churning(api, scene.namespace) as churn:
            await churn.until_made(100)
            await asyncio.to_thread(api.kill9)
            await asyncio.to_thread(api.start)
            await churn.until_made(100)
        await scene.until_received(bridge)
        metrics = await bridge.metrics()

    for verdict in (await scene.judged()).values():
        assert verdict.relisted == 0
    _print_recovery(metrics, bridge)


async def test_what_etcd_has_forgotten_stays_relisted(scene: Scene) -> None:
    bridge = scene.bridge()
    async with KubeClient(scene.servers.api) as kube, bridge.started():
        for kind in KINDS:
            await kube.create(f"{scene.root}/{kind}", an_object(kind, "changed"))
        await scene.until_received(bridge)
        await asyncio.to_thread(bridge.kill9)
        await _turn(kube, scene.root, "1", "2")
        await scene.forget()
        await _turn(kube, scene.root, "3", "4")
        await asyncio.to_thread(bridge.start)
        await scene.until_received(bridge)

    for verdict in (await scene.judged()).values():
        assert verdict.relisted == verdict.skipped == len(KINDS), "the second turn is found, the first is not"
        assert verdict.recovered >= 2 * len(KINDS)


async def _turn(kube: KubeClient, root: str, *turns: str) -> None:
    for kind, turn in itertools.product(KINDS, turns):
        await kube.patch(f"{root}/{kind}/changed", {"metadata": {"labels": {"turn": turn}}})


# ── Priority and fairness ────────────────────────────────────────────────────

FAIRNESS = "/apis/flowcontrol.apiserver.k8s.io/v1"
BUSY_USER = "restricted"


async def test_an_api_server_that_is_busy_gives_all_steps_back(scene: Scene) -> None:
    """It rejects (429) what exceeds three requests at the same time. The recovery waits a second each time, and asks
    again for what it was refused."""
    api, objects, at_once = scene.servers.api, 12, 12
    bridge = scene.bridge(
        cluster={"name": "testbed", "kubeconfig": str(api.kubeconfig(scene.folder / "busy", BUSY_USER))},
        watch={"recover_steps": {"concurrency": at_once}},
    )
    async with KubeClient(api) as kube, roles_of(kube, BUSY_USER) as roles:
        await roles.let(["list", "watch"], {"": [*KINDS]}, scene.namespace)
        async with few_lists_at_once(kube, scene.namespace), bridge.started():
            paths = [f"{scene.root}/configmaps/many-{number}" for number in range(objects)]
            for path in paths:
                await kube.create(f"{scene.root}/configmaps", an_object("configmaps", path.rpartition("/")[2]))
            await scene.until_received(bridge)
            await asyncio.to_thread(bridge.kill9)
            for turn, path in itertools.product("12", paths):
                await kube.patch(path, {"metadata": {"labels": {"turn": turn}}})
            await asyncio.to_thread(api.restart)
            await asyncio.to_thread(bridge.start)
            await scene.until_received(bridge)
            metrics, rejected = await bridge.metrics(), await rejected_lists(kube, scene.namespace)

    for verdict in (await scene.judged()).values():
        assert (verdict.relisted, verdict.skipped) == (0, 0)
        assert verdict.recovered >= 2 * objects
    print(f"{rejected} lists were answered 429")
    _print_recovery(metrics, bridge)
    seconds = sum(each["seconds"] for each in _recoveries(bridge))
    assert rejected, "as many lists at once are too many for it"
    assert seconds >= 1, "the recovery waited"
    assert rejected <= at_once * (1 + seconds), "and asked again once a second"


@asynccontextmanager
async def few_lists_at_once(kube: KubeClient, name: str) -> AsyncIterator[None]:
    """One share of the 600 requests that kube-apiserver has for some 250 shares."""
    limited = {"nominalConcurrencyShares": 1, "borrowingLimitPercent": 0, "limitResponse": {"type": "Reject"}}
    subject = {"kind": "User", "user": {"name": BUSY_USER}}
    lists = {"verbs": ["list"], "apiGroups": [""], "resources": ["configmaps"], "namespaces": ["*"]}
    rule = {"subjects": [subject], "resourceRules": [lists]}
    spec = {"priorityLevelConfiguration": {"name": name}, "matchingPrecedence": 500, "rules": [rule]}
    levels, schemas = f"{FAIRNESS}/prioritylevelconfigurations", f"{FAIRNESS}/flowschemas"
    await kube.create(levels, {"metadata": {"name": name}, "spec": {"type": "Limited", "limited": limited}})
    await kube.create(schemas, {"metadata": {"name": name}, "spec": spec})
    try:
        yield
    finally:
        await kube.delete(f"{schemas}/{name}")
        await kube.delete(f"{levels}/{name}")


async def rejected_lists(kube: KubeClient, schema: str) -> int:
    """Since the API server started."""
    text = (await kube.http.get("/metrics")).raise_for_status().text
    found = re.findall(rf'^apiserver_flowcontrol_rejected_requests_total{{.*"{schema}".*}} (\S+)$', text, re.MULTILINE)
    return sum(int(float(each)) for each in found)


# ── Its cost ─────────────────────────────────────────────────────────────────


def _print_recovery(now: Metrics, bridge: BridgeProcess) -> None:
    steps, requests = (now.value(f"reflector_{name}_total") for name in ("recovered_steps", "recovery_requests"))
    seconds = sum(each["seconds"] for each in _recoveries(bridge))
    cost = f", {1000 * seconds / steps:.1f} ms a step" if steps else ""
    print(f"{steps:.0f} steps recovered with {requests:.0f} requests{cost}")
    print(*bridge.logged("steps that no watch announced"), sep="\n")


def _recoveries(bridge: BridgeProcess) -> list[dict[str, Any]]:
    """As the bridge logged them."""
    return [json.loads(line) for line in bridge.logged("steps that no watch announced")]
