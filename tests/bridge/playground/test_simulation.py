"""The cluster that lives: every step one change, nothing half done at rest, the same life from the same seed."""

from __future__ import annotations

import asyncio
from collections import Counter
from datetime import UTC, datetime
from typing import Any

import pytest

from bridge.playground import ClusterSimulation
from tests.kit.deadlines import until
from tests.kit.playground import Playground

CERTIFICATES = "certificates.certs.example.com"
CHANGING = ("deployments.apps", "configmaps", "secrets", "leases.coordination.k8s.io")


def _cluster(seed: int = 3) -> tuple[Playground, ClusterSimulation]:
    server = Playground(seed=seed, now=lambda: datetime(2026, 1, 1, tzinfo=UTC))
    life = ClusterSimulation(server, seed=seed)
    life.populate()
    return server, life


def _state(server: Playground) -> dict[str, Any]:
    kinds = [kind.name for kind in server.catalogue if kind.watchable and not kind.stored_as]
    return {name: server.list(name) for name in kinds}


@pytest.fixture(scope="module")
def long_life() -> tuple[Playground, list[int]]:
    """A cluster after 2000 steps, and how many changes each step made."""
    server, life = _cluster()
    changes = []
    for step in range(2000):
        if step == 500:
            life.define()
        before = int(server.version)
        life.step()
        changes.append(int(server.version) - before)
    return server, changes


def test_every_step_makes_one_change(long_life: tuple[Playground, list[int]]) -> None:
    _, changes = long_life
    assert changes == [1] * 2000


def test_the_same_seed_lives_the_same_life() -> None:
    states = []
    for _ in range(2):
        server, life = _cluster()
        for _ in range(500):
            life.step()
        states.append(_state(server))
    assert states[0] == states[1]


def test_deployments_are_found_with_their_pods_up() -> None:
    server, _ = _cluster()
    pods = Counter(pod["metadata"]["labels"]["app"] for pod in server.list("pods"))
    wanted = {each["metadata"]["name"]: each["spec"]["replicas"] for each in server.list("deployments.apps")}
    assert pods == wanted
    assert {pod["status"]["phase"] for pod in server.list("pods")} == {"Running"}
    assert len(server.list("namespaces")) == 7


def test_over_time_everything_that_can_happen_happens() -> None:
    server, life = _cluster()
    life.define()
    changed: Counter[str] = Counter()
    phases, images, restarts = set(), set(), 0
    before = _versions(server)
    for _ in range(65):
        for _ in range(30):
            life.step()
        now = _versions(server)
        changed.update(kind for kind, name in now if before.get((kind, name)) != now[kind, name])
        changed.update(f"-{kind}" for kind, name in before.keys() - now.keys())
        before = now
        for pod in server.list("pods"):
            phases.add(pod["status"]["phase"])
            images.add(pod["spec"]["containers"][0]["image"])
            restarts += sum(each["restartCount"] for each in pod["status"].get("containerStatuses", ()))
    assert phases == {"Pending", "Running", "Succeeded"}
    assert len(images) > 10
    assert restarts
    for kind in ("pods", "replicasets.apps", CERTIFICATES):
        assert changed[kind], kind
        assert changed[f"-{kind}"], kind
    for kind in CHANGING:
        assert changed[kind], kind


def _versions(server: Playground) -> dict[tuple[str, str], str]:
    return {
        (kind, f"{each['metadata']['namespace']}/{each['metadata']['name']}"): each["metadata"]["resourceVersion"]
        for kind in (*CHANGING, "pods", "replicasets.apps", CERTIFICATES)
        for each in server.list(kind)
    }


def test_a_long_life_stays_small(long_life: tuple[Playground, list[int]]) -> None:
    server, _ = long_life
    assert sum(len(objects) for objects in _state(server).values()) < 150


async def test_it_runs_at_its_rate_until_it_is_cancelled() -> None:
    async with Playground(seed=1) as server:
        life = ClusterSimulation(server, rate=1000, definition_after=0.1)
        before = int(server.version)
        async with asyncio.TaskGroup() as group:
            running = group.create_task(life.run())
            await until(lambda: int(server.version) >= before + 500)
            running.cancel()
        assert running.cancelled()
        assert server.list("pods")


async def test_the_definition_appears_after_its_time() -> None:
    async with Playground(seed=1) as server:
        life = ClusterSimulation(server, rate=50, definition_after=0.2)
        life.populate()
        with pytest.raises(LookupError):
            server.list(CERTIFICATES)
        async with asyncio.TaskGroup() as group:
            running = group.create_task(life.run())
            await until(lambda: any(kind.name == CERTIFICATES for kind in server.catalogue))
            await until(lambda: server.list(CERTIFICATES))
            running.cancel()
