"""A leader is killed behind its last renewal, and its successor never saw what it had delivered last."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from bridge.election.lease import FRONTIER
from bridge.model.resource import Scope
from bridge.model.versions.frontier import Point, decode, informer_key
from tests.cluster.kube_client import KubeClient
from tests.kit.bridge_process import BridgeProcess
from tests.kit.churn import an_object
from tests.kit.deadlines import BUSY
from tests.kit.replicas import Replicas
from tests.kit.scene import Scene
from tests.kit.tcp_line import Line
from tests.scenarios.test_two_replicas import config_of

pytestmark = pytest.mark.long

ELECTION = {"lease_duration": "9s", "renew_deadline": "6s", "retry_period": "2s"}


class BehindAKilledOne:
    """Two replicas, of which the second one watches through a line."""

    def __init__(self, scene: Scene, replicas: Replicas, line: Line) -> None:
        self.scene, self.replicas, self.line = scene, replicas, line
        self.first, self.second = replicas.both
        self.kube = KubeClient(scene.servers.api)
        self.config_maps = f"{scene.root}/configmaps"
        self.lease = f"/apis/coordination.k8s.io/v1/namespaces/{scene.namespace}/leases/kubedelta"

    async def published(self) -> Point | None:
        """How far the webhook has settled ConfigMaps, as the Lease says."""
        lease = await self.kube.get(self.lease)
        key = informer_key("configmaps", Scope(namespace=self.scene.namespace))
        return decode(lease["metadata"]["annotations"][FRONTIER]).of("hook", key)

    def events(self, of: str = "") -> Sequence[dict[str, Any]]:
        return [each for each in self.scene.sinks.receiver.events if f"/{of}" in each.get("subject", "/")]

    async def until(self, holds: Any) -> None:
        async with asyncio.timeout(60 * BUSY):
            while not holds():  # noqa: ASYNC110  # The receiver announces nothing.
                await asyncio.sleep(0.01)

    async def kill_behind_a_renewal(self, name: str) -> bool:
        """The first replica has delivered an object, and is killed before the Lease has that. False if the Lease was
        faster; then the second replica goes on as before."""
        [marker] = [each for each in await self.scene.mark() if each["kind"] == "ConfigMap"]
        here = Point(1, marker["metadata"]["resourceVersion"])
        async with asyncio.timeout(60 * BUSY):
            while not ((point := await self.published()) and point.covers(here)):  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        await self.replicas.until_exact(self.first)
        self.line.half_open()
        before = await self.published()
        await self.kube.create(self.config_maps, an_object("configmaps", name))
        await self.until(lambda: self.events(name))
        await asyncio.to_thread(self.first.kill9)
        if await self.published() == before:
            return True
        self.line.cut()
        await asyncio.to_thread(self.first.start)
        await self.replicas.leader()
        return False


@asynccontextmanager
async def behind_a_killed_one(scene: Scene) -> AsyncIterator[BehindAKilledOne]:
    hook = {"sinks": {"hook": scene.sinks.section["hook"]}}
    configs = [config_of(scene, name, ELECTION, **hook) for name in ("pod-0", "pod-1")]
    async with Line(scene.servers.api.port) as line:
        configs[1]["cluster"] = {**configs[1]["cluster"], "kubeconfig": through(line, scene.folder / "kubeconfig")}
        both = [BridgeProcess(scene.folder / f"pod-{n}", config) for n, config in enumerate(configs)]
        async with both[0].started():
            replicas = Replicas(both)
            assert await replicas.leader() is both[0]
            async with both[1].started():
                await replicas.until_ready()
                run = BehindAKilledOne(scene, replicas, line)
                async with run.kube:
                    yield run


def through(line: Line, kubeconfig: Path) -> str:
    found = json.loads(kubeconfig.read_text())
    found["clusters"][0]["cluster"]["server"] = f"https://127.0.0.1:{line.port}"
    path = kubeconfig.with_name("kubeconfig-of-the-line")
    path.write_text(json.dumps(found))
    return str(path)


async def test_an_object_that_it_alone_delivered_does_not_stay(scene: Scene) -> None:
    """It is gone before the next leader, whose watch was half-open, has to list."""
    async with behind_a_killed_one(scene) as run:
        number = 0
        while not await run.kill_behind_a_renewal(f"seen-by-one-{number}"):
            number += 1
        name = f"seen-by-one-{number}"
        await run.kube.delete(f"{run.config_maps}/{name}")
        await scene.forget()
        assert await run.replicas.leader() is run.second
        await run.second.until("it is exact", lambda now: now.value("leader_exact") == 1)
        before = len(run.events())
        run.line.cut()

        await run.until(lambda: any("snapshot.ended" in each["type"] for each in run.events()[before:]))
        kinds = [each["type"].rsplit(".", 2)[-2] for each in run.events()[before:]]
        print(f"{name} has no delete; then came {', '.join(dict.fromkeys(kinds))}")
        assert run.second.logged("this replica leaves the Lease")
        assert not [each for each in run.events(name) if each["type"].endswith(".deleted.v1")]
        assert any(each["type"].startswith("kubedelta.gap") for each in run.events()[before:])
        assert not any(f"/{name}" in each.get("subject", "") for each in run.events()[before:])
