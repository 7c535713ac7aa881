"""Entries of ``resources`` are narrowed while replicas are rolled out."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from bridge.election.lease import FRONTIER
from bridge.model.record import Delta, Gap, Record, Snapshot, SnapshotEdge
from bridge.model.resource import Scope
from bridge.model.versions import frontier as frontiers
from bridge.plan.plan import Wanted
from tests.bridge.app.test_bridge import a_config_map
from tests.bridge.app.test_election import LEASE, Replica, lease_annotations
from tests.kit.playground import Playground
from tests.kit.sinks import RecordingSink

BOTH = Wanted("configmaps", scopes=(Scope("default"), Scope("other")))
ONE = Wanted("configmaps", scopes=(Scope("default"),))


class Narrowing:
    """Replicas into one sink. The first leads."""

    def __init__(self, cluster: Playground, folder: Path, tasks: asyncio.TaskGroup) -> None:
        self._folder = folder
        self._tasks = tasks
        self.cluster = cluster
        self.sink = RecordingSink()
        self.running: dict[int, Replica] = {}

    async def start(self, number: int, wanted: Wanted) -> Replica:
        name, state = f"kubedelta-{number}", self._folder / str(number)
        replica = self.running[number] = Replica(self.cluster, name, state, sink=self.sink, wanted=wanted)
        replica.start(self._tasks)
        await replica.until_ready()
        return replica

    async def stop(self, number: int) -> None:
        await self.running.pop(number).stop()

    async def create(self, name: str, namespace: str) -> None:
        self.cluster.create("configmaps", a_config_map(name, namespace=namespace))
        await self.sink.until(lambda sink: f"added {namespace}/{name}" in sink.delivered())

    async def until_repaired(self, gaps: int) -> None:
        """There were so many Gaps, each with a snapshot behind it."""
        await self.sink.until(lambda sink: len(gaps_of(sink)) == gaps and has_ended(sink.records))

    def published(self) -> set[str]:
        """Informers that the leader published."""
        return set(frontiers.decode(lease_annotations(self.cluster)[FRONTIER]).informers)


@pytest.fixture(autouse=True)
def looks_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """A leader looks soon for the snapshots that it owes."""
    monkeypatch.setattr("bridge.pipelines.snapshots.CHECK_EVERY", 0.05)


def gaps_of(sink: RecordingSink) -> list[Gap]:
    return [each for each in sink.records if isinstance(each, Gap)]


def has_ended(records: list[Record]) -> bool:
    """Whether a snapshot stands behind the last Gap, and is whole."""
    last = max(at for at, each in enumerate(records) if isinstance(each, Gap))
    return len([each for each in records[last:] if isinstance(each, Snapshot)]) == 2


def held(sink: RecordingSink) -> set[str]:
    """The objects of a consumer that keeps to snapshots: an object that is not in the last one has left."""
    found: set[str] = set()
    for each in sink.records:
        match each:
            case Delta(op="deleted"):
                found.discard(each.key)
            case Delta():
                found.add(each.key)
            case Snapshot(edge=SnapshotEdge.BEGAN):
                found.clear()
            case _:
                pass
    return found


@asynccontextmanager
async def rolled_out(folder: Path) -> AsyncIterator[Narrowing]:
    """The second replica does not watch the namespace ``other`` any more, in which the first goes on."""
    async with Playground(bookmark_interval=0.1) as cluster, asyncio.TaskGroup() as tasks:
        cluster.create(LEASE, {"metadata": {"name": "kubedelta", "namespace": "default"}, "spec": {}})  # It is free.
        found = Narrowing(cluster, folder, tasks)
        await found.start(0, BOTH)
        await found.create("stays", "default")
        await found.create("leaves", "other")
        await found.start(1, BOTH)
        await found.stop(1)
        await found.start(1, ONE)
        await found.create("late", "other")
        yield found
        for each in found.running.values():
            each.bridge.stop()


async def test_a_replica_that_watches_less_sends_a_snapshot(tmp_path: Path) -> None:
    async with rolled_out(tmp_path) as narrowing:
        await narrowing.stop(0)
        await narrowing.until_repaired(1)
        assert held(narrowing.sink) == {"default/stays"}

        await narrowing.start(0, ONE)
        await narrowing.running[0].until(lambda: len(narrowing.published()) == 1)
        await narrowing.stop(1)
        await narrowing.create("new", "default")
        assert len(gaps_of(narrowing.sink)) == 1


async def test_a_replica_that_watches_more_again_sends_a_snapshot(tmp_path: Path) -> None:
    async with rolled_out(tmp_path) as narrowing:
        await narrowing.stop(0)
        await narrowing.until_repaired(1)
        assert "deleted other/leaves" in narrowing.sink.delivered()

        await narrowing.stop(1)
        first = await narrowing.start(0, BOTH)
        await first.until(lambda: first.leads)
        await narrowing.until_repaired(2)
        assert held(narrowing.sink) == {"default/stays", "other/leaves", "other/late"}
