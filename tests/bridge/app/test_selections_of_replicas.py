"""A selection changes while replicas are rolled out: the sink gets records by the old one until a replica with the new
one leads, then the difference, and from then on records by the new one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from bridge.election.lease import FRONTIER
from bridge.facts import SelectionChanged
from bridge.facts.outbox import SelectionDeferred
from bridge.model.change import Op
from bridge.model.record import Delta, Record
from bridge.model.versions import frontier as frontiers
from bridge.model.versions.selection_frontier import SelectionFrontier
from sinks.base import Receipt
from tests.bridge.app.test_bridge import a_config_map
from tests.bridge.app.test_election import LEASE, Replica, lease_annotations
from tests.kit.playground import Playground
from tests.kit.sinks import RecordingSink

WEB, DB = "tier=web", "tier=db"


class WitnessSink(RecordingSink):
    """Notes what the Lease says while it gets a difference."""

    def __init__(self, selection: Callable[[], SelectionFrontier]) -> None:
        super().__init__()
        self._selection = selection
        self.announced: list[bool] = []

    async def deliver(self, batch: Sequence[Record]) -> Receipt:
        self.announced += [
            bool(self._selection().changing) for each in batch if isinstance(each, Delta) and each.selection
        ]
        return await super().deliver(batch)


class Rollout:
    """Two replicas into one sink, each with a selection by labels. They end with the test."""

    def __init__(self, cluster: Playground, folder: Path, tasks: asyncio.TaskGroup) -> None:
        self.cluster = cluster
        self.folder = folder
        self._tasks = tasks
        self.sink = WitnessSink(self.selection)
        self._seen = 0
        self.running: dict[int, Replica] = {}

    async def start(self, number: int, select: str) -> Replica:
        replica = Replica(self.cluster, f"kubedelta-{number}", self.folder / str(number), sink=self.sink, select=select)
        replica.start(self._tasks)
        self.running[number] = replica
        await replica.until_ready()
        return replica

    async def stop(self, number: int) -> None:
        await self.running.pop(number).stop()

    async def until_heard(self, version: str) -> None:
        await self.sink.until(lambda sink: any(each.resource_version == version for each in sink.deltas))

    def put(self, name: str, tier: str) -> str:
        """The version of the object, which is new or has other labels now, and other data in any case."""
        if any(each["metadata"]["name"] == name for each in self.cluster.list("configmaps")):
            change = {"metadata": {"labels": {"tier": tier}}, "data": {"value": str(len(self.sink.records))}}
            self.cluster.patch("configmaps", name, change)
        else:
            self.cluster.create("configmaps", a_config_map(name, tier=tier))
        return str(self.cluster.get("configmaps", name)["metadata"]["resourceVersion"])

    def news(self) -> list[str]:
        """Since the last call."""
        deltas = [f"{each.op} {each.key.removeprefix('default/')} {each.evidence}" for each in self.sink.deltas]
        found, self._seen = deltas[self._seen :], len(deltas)
        return found

    def selection(self) -> SelectionFrontier:
        """As the leader published it."""
        return frontiers.decode(lease_annotations(self.cluster)[FRONTIER]).sinks["copy"].selection

    def held(self) -> dict[str, str]:
        """The versions of the objects that a consumer has."""
        found: dict[str, str] = {}
        for each in self.sink.deltas:
            if each.op is Op.DELETED:
                del found[each.key]
            else:
                found[each.key] = each.resource_version
        return found


@pytest.fixture
async def rollout(tmp_path: Path) -> AsyncIterator[Rollout]:
    async with _rollout(tmp_path) as found:
        yield found


@asynccontextmanager
async def _rollout(folder: Path) -> AsyncIterator[Rollout]:
    async with Playground(bookmark_interval=0.1) as cluster, asyncio.TaskGroup() as tasks:
        cluster.create(LEASE, {"metadata": {"name": "kubedelta", "namespace": "default"}, "spec": {}})  # It is free.
        found = Rollout(cluster, folder, tasks)
        await found.start(0, WEB)
        await found.start(1, WEB)
        yield found
        for each in found.running.values():
            each.bridge.stop()


async def begin(rollout: Rollout) -> None:
    for name, tier in (("a", "web"), ("b", "db"), ("moves", "web")):
        version = rollout.put(name, tier)
    await rollout.until_heard(version)
    assert rollout.news() == ["added a watched", "added moves watched"]


async def change_under_the_old_one(rollout: Rollout) -> None:
    for name, tier in (("a", "web"), ("b", "db"), ("moves", "db"), ("late", "db"), ("late", "web")):
        version = rollout.put(name, tier)
    await rollout.until_heard(version)
    assert rollout.news() == ["updated a watched", "deleted moves unselected", "added late watched"]


async def test_the_difference_follows_when_the_other_selection_leads(rollout: Rollout) -> None:
    await begin(rollout)
    await rollout.stop(1)
    second = await rollout.start(1, DB)
    await change_under_the_old_one(rollout)
    await rollout.stop(0)
    await rollout.until_heard(rollout.put("b", "db"))

    news = rollout.news()
    assert sorted(news[:4]) == [
        "added b relisted",
        "added moves relisted",
        "deleted a unselected",
        "deleted late unselected",
    ]
    assert news[4:] in ([], ["updated b watched"])
    assert [(each.added, each.deleted) for each in second.reported(SelectionChanged)] == [(2, 2)]
    assert rollout.sink.announced == [True] * 4
    await second.until(lambda: not rollout.selection().changing)


async def test_the_difference_waits_for_watches_that_lag(rollout: Rollout) -> None:
    """The leader before may have delivered what they have not brought yet."""
    await begin(rollout)
    await rollout.stop(1)
    second = await rollout.start(1, DB)
    with rollout.cluster.misbehave.go_silent("configmaps"):
        last = rollout.put("late", "web")
        await rollout.stop(0)
        await second.until(lambda: bool(second.reported(SelectionDeferred)))
    await rollout.until_heard(last)
    await second.until(lambda: bool(second.reported(SelectionChanged)))
    await rollout.until_heard(rollout.put("b", "db"))

    news = rollout.news()
    assert news[0] == "added late watched", "by the former selection"
    assert sorted(news[1:5]) == [
        "added b relisted",
        "deleted a unselected",
        "deleted late unselected",
        "deleted moves unselected",
    ]
    assert news[5:] == ["updated b watched"]


async def test_a_follower_takes_the_selection_that_the_leader_has(rollout: Rollout) -> None:
    await begin(rollout)
    await rollout.stop(1)
    await rollout.start(1, DB)
    await rollout.stop(0)
    await rollout.until_heard(rollout.put("b", "db"))
    first = await rollout.start(0, DB)
    assert not first.leads
    rollout.news()
    await rollout.until_heard(rollout.put("moves", "db"))
    await rollout.stop(1)
    await rollout.until_heard(rollout.put("b", "db"))

    assert rollout.news() == ["added moves watched", "updated b watched"]
    assert set(rollout.held()) == {"default/b", "default/moves"}
    assert len({each.id for each in rollout.sink.deltas}) == len(rollout.sink.deltas)
