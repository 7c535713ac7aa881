"""A history of a real API server, against a watch that kept every version of every object with its body.

Two thousand changes of ten kinds. In the middle the bridge is killed, and what happens meanwhile is compacted away, so
that it comes back to a later state: there, a state may be one that it knew before, if it says so.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

import msgspec
import pytest

from bridge.cli import main
from bridge.history import HistoryFile, NotInHistory, PastPoint
from tests.cluster.fixtures import fresh_name
from tests.cluster.kube_client import KubeClient, Manifest
from tests.cluster.servers import KubeApiServer
from tests.kit.bridge_process import BridgeProcess
from tests.kit.deadlines import until
from tests.kit.independent_watch import IndependentWatch
from tests.kit.kinds import EXAMPLES, Example

KINDS = (
    "ConfigMap", "LimitRange", "ServiceAccount", "Role", "RoleBinding", "NetworkPolicy", "Ingress", "Lease", "Service",
    "ReplicationController",
)  # fmt: skip
NAMES = tuple(f"thing-{number}" for number in range(4))
SEEN, BLIND, SEEN_AGAIN = 900, 200, 900
"""Changes."""


@dataclass
class World:
    kube: KubeClient
    namespace: str
    watch: IndependentWatch
    examples: dict[str, Example]
    """By the name of the resource."""
    there: set[tuple[str, str]] = field(default_factory=set)
    chance: random.Random = field(default_factory=lambda: random.Random(7))
    made: int = 0

    async def change(self, count: int) -> None:
        for _ in range(count):
            resource, name = self.chance.choice([*self.examples]), self.chance.choice(NAMES)
            example = self.examples[resource]
            collection = example.path(self.namespace)
            path = f"{collection}/{name}"
            if (resource, name) not in self.there:
                await self.kube.create(collection, example.manifest(name))
                self.there.add((resource, name))
            elif self.chance.random() < 0.1:
                await self.kube.delete(path, propagationPolicy="Background")
                self.there.discard((resource, name))
            else:
                labels = {
                    "step": str(self.chance.random()),
                    f"l{self.chance.randrange(5)}": self.chance.choice([None, "x"]),
                }
                await self.kube.patch(path, {"metadata": {"labels": labels}})
            self.made += 1
        await until(lambda: len(self.watch.happened) >= self.made)

    def truth(self, resource: str, version: int) -> dict[str, Manifest]:
        """Name → the object at the version."""
        kind = self.examples[resource].kind
        found: dict[str, Manifest] = {}
        for each, thing in self.watch.happened:
            if thing["kind"] == kind and int(each.resource_version) <= version:
                found[thing["metadata"]["name"]] = thing
                if each.op == "deleted":
                    del found[thing["metadata"]["name"]]
        return {name: as_told(thing) for name, thing in found.items()}

    @property
    def newest(self) -> int:
        return max(int(each.resource_version) for each in self.watch.versions)


def as_told(thing: Manifest) -> Manifest:
    metadata = {name: value for name, value in thing["metadata"].items() if name != "managedFields"}
    return {**thing, "metadata": metadata}


@pytest.fixture
async def world(forgetful_apiserver: KubeApiServer) -> AsyncIterator[World]:
    chosen = [next(each for each in EXAMPLES if each.kind == kind) for kind in KINDS]
    namespace = fresh_name("oracle")
    async with KubeClient(forgetful_apiserver) as kube, IndependentWatch(kube, namespace) as watch:
        await kube.create_namespace(namespace)
        for example in chosen:
            await watch.follow(example.resource)
        yield World(kube, namespace, watch, {example.resource.name: example for example in chosen})
        await kube.delete_namespace(namespace)


def at(path: Path, point: str, resource: str) -> dict[str, tuple[Any, str]]:
    """Name → state and why it is uncertain."""
    with HistoryFile.open(path) as history:
        found = history.at(PastPoint.parsed(point), resource=resource)
        return {each.key.rpartition("/")[2]: (msgspec.json.decode(each.state), each.uncertain) for each in found}


async def build(folder: Path, to: str, *words: str) -> Path:
    path = folder / to
    code = await asyncio.to_thread(
        main, ["history", "build", "--from", str(folder / "audit.ndjson"), "--to", str(path), *words]
    )
    assert code == 0
    return path


async def test_every_answer_is_what_the_server_had(world: World, tmp_path: Path) -> None:
    api = world.kube.server
    config = {
        "cluster": {"name": "testbed", "kubeconfig": str(api.kubeconfig(tmp_path / "kubeconfig"))},
        "resources": [{"resource": each, "namespaces": [world.namespace]} for each in world.examples],
        "sinks": {"audit": {"type": "file", "path": str(tmp_path / "audit.ndjson")}},
    }
    folder = tmp_path / "bridge"
    folder.mkdir()
    bridge = BridgeProcess(folder, config)
    async with bridge.started():
        await world.change(SEEN)
        await bridge.until("all is read", lambda _: _has(tmp_path, world.newest))
        quiet, then = datetime.now(UTC), world.newest
        await build(tmp_path, "k8s.db")
        await asyncio.to_thread(bridge.kill9)
        await world.change(BLIND)
        blind_until = world.newest
        await asyncio.to_thread(api.etcd.compact)
        await asyncio.to_thread(bridge.start)
        await world.change(SEEN_AGAIN)
        await bridge.until("all is read", lambda _: _has(tmp_path, world.newest))
    path = await build(tmp_path, "k8s.db")
    trimmed = await build(tmp_path, "trimmed.db", "--keep", "5s")

    versions = sorted(int(each.resource_version) for each in world.watch.versions)
    chance = random.Random(11)
    asked = exact = 0
    for version in chance.sample(versions, 150):
        resource = chance.choice([*world.examples])
        truth = world.truth(resource, version)
        try:
            found = at(path, f"{resource}={version}", resource)
        except NotInHistory:
            assert truth == {}
            continue
        asked += 1
        certain = {name: state for name, (state, why) in found.items() if not why}
        assert certain.items() <= truth.items(), (resource, version)
        if not then < version <= blind_until:
            assert certain == truth, (resource, version)
            exact += 1
    assert asked > 100
    assert exact > 80

    assert_every_version_is_a_step(world, path, then, blind_until)
    for resource, point, version, following in told_times(tmp_path, world, chance):
        truth = world.truth(resource, version)
        certain = {name: state for name, (state, why) in at(path, point, resource).items() if not why}
        assert [name for name in certain if certain[name] != truth.get(name)] == [], (resource, point)
        if following <= then or version > blind_until:
            assert certain == truth, (resource, point)

    for resource in world.examples:
        assert {name: state for name, (state, _) in at(path, quiet.isoformat(), resource).items()} == world.truth(
            resource, then
        )
        assert at(path, "now", resource) == at(trimmed, "now", resource)
        assert {name: state for name, (state, _) in at(path, "now", resource).items()} == world.truth(
            resource, world.newest
        )
    with HistoryFile.open(trimmed) as history:
        assert history.since > 0
        kept = list(history.changes(PastPoint("", history.since)))
    for step in chance.sample(kept, min(40, len(kept))):
        resource = next(each for each in world.examples if each.startswith(f"{step.key.split('/')[2]}"))
        point = f"{resource}={step.version}"
        try:
            found = at(trimmed, point, resource)
        except NotInHistory:
            # Of a step that nobody saw, the time is that of the last version which the bridge saw.
            assert step.blind is not None
            continue
        assert found == at(path, point, resource)


def assert_every_version_is_a_step(world: World, path: Path, then: int, blind_until: int) -> None:
    """With its body, of those that the bridge saw; and no step is of anything else."""
    happened = {
        (each.uid, each.resource_version, each.op): as_told(thing)
        for each, thing in world.watch.happened
        if not then < int(each.resource_version) <= blind_until
    }
    steps = {}
    with HistoryFile.open(path) as history:
        for resource in world.examples:
            for name in NAMES:
                for step in history.steps(resource, name):
                    if step.evidence == "watched":
                        steps[step.uid, step.version, step.op] = msgspec.json.decode(step.state)
    assert len(happened) >= SEEN + SEEN_AGAIN
    assert steps == happened


def told_times(folder: Path, world: World, chance: random.Random) -> list[tuple[str, str, int, int]]:
    """Resource, a time when the bridge saw one of its versions, the newest version until then, and the one behind it.
    What a comparison found comes in no order of versions."""
    lines = [msgspec.json.decode(line) for line in (folder / "audit.ndjson").read_bytes().splitlines()]
    found = []
    for resource in world.examples:
        told = [each for each in lines if each["partitionkey"].split("/")[2:3] == [resource.partition(".")[0]]]
        newest = accumulate((int(each["resourceversion"]) for each in told), max)
        seen = [(each["time"], version) for each, version in zip(told, newest, strict=True)]
        for (time, version), (later, following) in chance.sample([*pairwise(seen)], 10):
            if time != later:
                found.append((resource, time, version, following))
    assert len(found) > 50
    return found


def _has(folder: Path, version: int) -> bool:
    return f'"resourceversion":"{version}"'.encode() in (folder / "audit.ndjson").read_bytes()
