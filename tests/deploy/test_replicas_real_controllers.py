"""The chart's replicas under the controllers of Kubernetes, and the steps of the guides with kubectl."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import TypeAlias

import pytest

from tests.cluster.kube_client import KubeClient, KubeError, Manifest
from tests.cluster.servers import ControllerManager
from tests.deploy.guide import Shell, commands_of
from tests.deploy.helm import CHART, CONFIG, Helm, Values
from tests.deploy.nodes import VOLUMES, Nodes, running

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed"),
]

ELECTION: Values = {"config": {**CONFIG, "election": {"enabled": True}}}
KEY: Values = {"redaction": {"existingSecret": "kubedelta-redaction"}}
Release: TypeAlias = Callable[..., Awaitable[None]]
"""``release(**values)``: installs or upgrades."""


@pytest.fixture
async def nodes(kube: KubeClient, controller_manager: ControllerManager, namespace: str) -> AsyncIterator[Nodes]:
    assert controller_manager.running
    async with running(kube, namespace) as nodes:
        yield nodes


@pytest.fixture
def release(helm: Helm, nodes: Nodes, kubeconfig: Path) -> Release:
    async def release(**values: object) -> None:
        words = ("upgrade", "--install", "kubedelta", str(CHART), "-f", "-")
        of_test = {"rbac": {"create": False}, "persistence": {"storageClass": nodes.storage_class}, "config": CONFIG}
        merged = {**of_test, **values}
        merged["persistence"] = {**of_test["persistence"], **merged["persistence"]}  # type: ignore[dict-item]
        await asyncio.to_thread(helm.on_cluster, kubeconfig, nodes.namespace, *words, values=merged)

    return release


def _uids(pods: dict[str, Manifest]) -> dict[str, str]:
    return {name: pod["metadata"]["uid"] for name, pod in pods.items()}


def _workloads(nodes: Nodes, kind: str) -> str:
    return f"/apis/apps/v1/namespaces/{nodes.namespace}/{kind}"


async def test_one_replica_becomes_two_with_its_volume_and_back(
    nodes: Nodes, release: Release, shell: Shell, tmp_path: Path
) -> None:
    key, rebind = commands_of("replicas.md", "From one replica to two")
    await release()
    await nodes.kube.wait_for(nodes.pods, lambda pods: len(pods) == 1)
    volume = await nodes.volume_of("kubedelta-state")

    (tmp_path / "redaction.key").write_text("0" * 64)
    await shell(key[key.index("\n") + 1 :])  # The first line reads a file in the pod.
    await release(replicas=0)
    await nodes.ready()
    await shell(rebind)
    await release(**ELECTION, **KEY, replicas=1)

    alone = await nodes.ready("kubedelta-0")
    assert await nodes.volume_of("state-kubedelta-0") == volume
    await release(**ELECTION, **KEY, replicas=2)
    both = await nodes.ready("kubedelta-0", "kubedelta-1")
    assert _uids(both)["kubedelta-0"] == _uids(alone)["kubedelta-0"]
    assert await nodes.volume_of("state-kubedelta-1") != volume

    await release(**ELECTION, **KEY, replicas=1)
    assert _uids(await nodes.ready("kubedelta-0")) == _uids(alone)
    await release(**ELECTION, **KEY, replicas=0)
    await nodes.ready()
    await release(persistence={"existingClaim": "state-kubedelta-0"})
    [pod] = await nodes.kube.wait_for(nodes.pods, lambda pods: len(pods) == 1)
    claims = [each["persistentVolumeClaim"] for each in pod["spec"]["volumes"] if "persistentVolumeClaim" in each]
    assert claims == [{"claimName": "state-kubedelta-0"}]
    assert await nodes.volume_of("state-kubedelta-0") == volume


@pytest.fixture
async def two(nodes: Nodes, release: Release) -> dict[str, Manifest]:
    """Two replicas that are ready."""
    await release(**ELECTION, **KEY, replicas=2)
    return await nodes.ready("kubedelta-0", "kubedelta-1")


async def test_a_roll_out_replaces_a_pod_when_the_last_one_is_ready(
    nodes: Nodes, release: Release, two: dict[str, Manifest]
) -> None:
    nodes.sick.add("kubedelta-1")
    await release(config={**ELECTION["config"], "latency": 0.05}, replicas=2, **KEY)
    await nodes.kube.wait_for(
        _workloads(nodes, "statefulsets"),
        lambda found: (found[0]["status"].get("updatedReplicas"), found[0]["status"].get("readyReplicas")) == (1, 1),
    )
    first = await nodes.kube.get(f"{nodes.pods}/kubedelta-0")
    assert first["metadata"]["uid"] == _uids(two)["kubedelta-0"]

    await nodes.heal("kubedelta-1")
    await nodes.kube.wait_for(
        _workloads(nodes, "statefulsets"),
        lambda found: (found[0]["status"].get("updatedReplicas"), found[0]["status"].get("readyReplicas")) == (2, 2),
    )
    after = await nodes.ready("kubedelta-0", "kubedelta-1")
    assert not _uids(after).items() & _uids(two).items()
    steps = [
        (pods[name], what)
        for name in ("kubedelta-1", "kubedelta-0")
        for pods, what in ((two, "gone"), (after, "made"), (after, "ready"))
    ]
    assert await nodes.saw(*steps) == steps


async def test_going_back_replaces_only_the_pod_that_does_not_start(
    nodes: Nodes, release: Release, two: dict[str, Manifest], helm: Helm, kubeconfig: Path
) -> None:
    nodes.sick.add("kubedelta-1")
    await release(config={**ELECTION["config"], "latency": 0.05}, replicas=2, **KEY)
    broken = await nodes.replaced(two["kubedelta-1"])

    await asyncio.to_thread(helm.on_cluster, kubeconfig, nodes.namespace, "rollback", "kubedelta")
    mended = await nodes.replaced(broken)
    await nodes.heal("kubedelta-1")

    after = await nodes.ready("kubedelta-0", "kubedelta-1")
    assert _uids(after) == {**_uids(two), "kubedelta-1": mended["metadata"]["uid"]}


async def test_a_drain_gets_one_replica_at_a_time(nodes: Nodes, two: dict[str, Manifest]) -> None:
    budgets = f"/apis/policy/v1/namespaces/{nodes.namespace}/poddisruptionbudgets"

    async def allowed(number: int) -> Manifest:
        found = await nodes.kube.wait_for(
            budgets, lambda budgets: budgets[0].get("status", {}).get("disruptionsAllowed") == number
        )
        return dict(found[0]["status"])

    async def evict(name: str) -> None:
        await nodes.kube.create(f"{nodes.pods}/{name}/eviction", {"metadata": {"name": name}})

    status = await allowed(1)
    assert (status["expectedPods"], status["desiredHealthy"], status["currentHealthy"]) == (2, 1, 2)
    nodes.sick.add("kubedelta-0")
    await evict("kubedelta-0")
    await allowed(0)
    with pytest.raises(KubeError, match="429"):
        await evict("kubedelta-1")
    await nodes.heal("kubedelta-0")
    await allowed(1)
    await evict("kubedelta-1")


async def test_a_lost_volume_is_made_anew_with_its_pod(nodes: Nodes, two: dict[str, Manifest], shell: Shell) -> None:
    [anew] = commands_of("replicas.md", "A volume is lost")
    lost, kept = await nodes.volume_of("state-kubedelta-1"), await nodes.volume_of("state-kubedelta-0")

    await shell(anew)

    await nodes.kube.wait_for(VOLUMES, lambda volumes: not volumes, fieldSelector=f"metadata.name={lost}")
    after = await nodes.ready("kubedelta-0", "kubedelta-1")
    assert await nodes.volume_of("state-kubedelta-1") != lost
    assert await nodes.volume_of("state-kubedelta-0") == kept
    assert _uids(after)["kubedelta-0"] == _uids(two)["kubedelta-0"]
