"""The API server restarts under a bridge that is no administrator: its RBAC cache is empty, and its history is gone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from tests.cluster.fixtures import fresh_name
from tests.cluster.kube_client import KubeClient
from tests.cluster.roles import roles_of
from tests.kit.breakable import Breakable
from tests.kit.bridge_process import BridgeProcess, Metrics
from tests.kit.received import from_file, received_lists

RESOURCES = {
    "": ["configmaps", "secrets", "services", "pods", "serviceaccounts", "nodes", "namespaces", "events"],
    "apps": ["deployments", "replicasets", "statefulsets", "daemonsets"],
    "batch": ["jobs", "cronjobs"],
}
NAMES = [f"{plural}.{group}" if group else plural for group, plurals in RESOURCES.items() for plural in plurals]
DOWN = 5.0
"""Seconds."""
LONGEST = 60.0
"""Seconds from the API server's readiness to its first change in a sink, on the slowest machine: nobody listened for
long where the API server needs long to start, and then a pause may take half a minute. Some seconds are usual."""


async def test_watches_return_in_seconds_and_no_grant_is_asked_for(breakable: Breakable, tmp_path: Path) -> None:
    api, namespace = breakable.api, fresh_name("restarts")
    file, config_maps = tmp_path / "deltas.ndjson", f"/api/v1/namespaces/{namespace}/configmaps"
    config = {
        "cluster": {"name": "testbed", "kubeconfig": str(api.kubeconfig(tmp_path / "kubeconfig", user="restricted"))},
        "resources": NAMES,
        "sinks": {"copy": {"type": "file", "path": str(file)}},
    }
    async with KubeClient(api) as kube, _readable(kube, namespace):
        async with BridgeProcess(tmp_path / "bridge", config).started() as bridge:
            for name in (*(f"before-{n}" for n in range(50)), "before"):  # Of these the other resources hear nothing.
                await kube.create(config_maps, {"metadata": {"name": name}})
            await bridge.until("the object before is reported", lambda _: _has(file, "before"))

            await asyncio.to_thread(api.kill9)
            await bridge.until("the outage is noticed", _is_blind)
            await asyncio.sleep(DOWN)
            await asyncio.to_thread(api.start)
            now = asyncio.get_running_loop().time
            ready = now()
            await kube.create(config_maps, {"metadata": {"name": "after"}})
            await bridge.until("the object after is reported", lambda _: _has(file, "after"), timeout=LONGEST)
            received = now() - ready
            await bridge.until("every watch is live again", _is_live, timeout=LONGEST)
            live = now() - ready
            metrics = await bridge.metrics()

        refused, advised = bridge.logged("forbidden"), bridge.logged("grant its account")
        assert not advised, "it was granted before, and is"
        relisted = metrics.value("reflector_relists_total")
        assert relisted >= 1, "the API server has forgotten what came before its start"
        print(
            f"API server down for {DOWN:.0f} s and ready after {api.start_seconds:.1f} s: the first change is reported"
            f" {received:.1f} s later, all {len(NAMES)} resources are live after {live:.1f} s;"
            f" {relisted:.0f} were listed; {len(refused)} lines name refusals, {len(advised)} of what to grant"
        )


def _has(file: Path, name: str) -> bool:
    return any(received.subject.endswith(f"/{name}") for received in received_lists(from_file(file)))


def _is_blind(now: Metrics) -> bool:
    return now.value("resource_live") == 0


def _is_live(now: Metrics) -> bool:
    return now.value("resource_live") == len(NAMES)


@asynccontextmanager
async def _readable(kube: KubeClient, namespace: str) -> AsyncIterator[None]:
    """A namespace, and the right to read all of RESOURCES, which go afterwards."""
    await kube.create_namespace(namespace)
    async with roles_of(kube) as roles:
        await roles.let(["list", "watch"], RESOURCES)
        yield
    await kube.delete_namespace(namespace)
