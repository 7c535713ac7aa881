"""The number of shards changes while objects come, change and go: every step is delivered once, in order."""

from __future__ import annotations

import asyncio
import random
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from bridge.app.bridge import Bridge
from bridge.election import Former, LeaseTiming
from bridge.facts import Fact, ShardHandedOver, ShardInherited, ShardWaits
from bridge.kube import ClusterAccess
from bridge.model.change import Op
from bridge.model.primitives.shard import Division
from bridge.model.record import Delta
from bridge.plan.plan import CopyPlan, ElectionPlan, Plan, PlanRefused, SinkPlan, Wanted
from tests.bridge.app.test_bridge import QUICK, World
from tests.kit.playground import Playground
from tests.kit.sinks import RecordingSink

TIMING = LeaseTiming(lease_duration=60.0, renew_deadline=40.0, retry_period=0.1)
LEASES = "leases.coordination.k8s.io"


class ShardBridge(World):
    """A bridge with a shard. All write into one sink."""

    def __init__(
        self,
        cluster: Playground,
        sink: RecordingSink,
        mine: Division,
        former: int,
        state: Path,
        timing: LeaseTiming,
        copy: CopyPlan | None = None,
    ) -> None:
        self.mine = mine
        state.mkdir()
        key = state.parent / "redaction.key"
        key.write_text("k" * 32)
        before = [Division(former, index) for index in mine.heirs(former)] if former else []
        plan = Plan(
            cluster="test",
            access=ClusterAccess(server=cluster.url),
            wanted=(Wanted("configmaps"),),
            shard=mine.shard,
            sinks=(SinkPlan(name="copy", type="memory", make=lambda: sink, max_batch=100),),
            timing=QUICK,
            discovery_seconds=0.05,
            grace_seconds=5.0,
            state=state,
            redaction_key_file=key,
            election=ElectionPlan(
                namespace="default",
                lease=f"kubedelta{mine.suffix}",
                name=state.name,
                timing=timing,
                former=tuple(Former(each, f"kubedelta{each.suffix}") for each in before),
                copy=copy,
            ),
        )
        facts: list[Fact] = []
        super().__init__(cluster, Bridge(plan, facts.append), facts)

    async def until_leads(self) -> None:
        await self.until(lambda: self.leads)

    async def until_reported(self, fact: type[Fact]) -> None:
        await self.until(lambda: self.reported(fact))


class Run:
    """A playground whose objects never rest, and bridges of one division after the other."""

    def __init__(self, cluster: Playground, tasks: asyncio.TaskGroup, folder: Path) -> None:
        self.cluster = cluster
        self.sink = RecordingSink()
        self.happened: dict[str, list[str]] = defaultdict(list)
        """uid → versions, and last ``deleted``."""
        self.bridges: list[ShardBridge] = []
        self._tasks = tasks
        self._folder = folder
        self._there: dict[str, str] = {}
        self._chance = random.Random(7)

    def start(self, of: int, former: int, timing: LeaseTiming = TIMING) -> list[ShardBridge]:
        begun = []
        for index in range(of):
            state = self._folder / f"{len(self.bridges)}-of-{of}"
            begun.append(ShardBridge(self.cluster, self.sink, Division(of, index), former, state, timing))
            self.bridges.append(begun[-1])
            begun[-1]._task = self._tasks.create_task(begun[-1].bridge.run())
        return begun

    async def split(self) -> tuple[ShardBridge, list[ShardBridge]]:
        """A bridge with all objects, and the two shards that lead after it."""
        [former] = self.start(1, 0)
        await former.until_leads()
        shards = self.start(2, 1)
        for each in shards:
            await each.until_leads()
        return former, shards

    async def live(self) -> None:
        while True:
            self.step()
            await asyncio.sleep(0.002)

    def step(self) -> None:
        name = f"object-{self._chance.randrange(30)}"
        if name not in self._there:
            made = self.cluster.create("configmaps", {"metadata": {"name": name, "namespace": "default"}})
            self._there[name] = made["metadata"]["uid"]
        elif self._chance.random() < 0.2:
            self.cluster.delete("configmaps", name, namespace="default")
            self.happened[self._there.pop(name)].append("deleted")
            return
        else:
            data = {"data": {"n": str(self._chance.random())}}
            made = self.cluster.patch("configmaps", name, data, namespace="default")
        self.happened[made["metadata"]["uid"]].append(made["metadata"]["resourceVersion"])

    async def until_delivered(self) -> None:
        def last(uid: str) -> str:
            return self.delivered().get(uid, [""])[-1]

        await self.sink.until(lambda _: all(last(uid) == steps[-1] for uid, steps in self.happened.items()))

    def delivered(self) -> dict[str, list[str]]:
        """uid → versions, and ``deleted``, as they arrived."""
        found = defaultdict(list)
        for delta in self.ours():
            found[delta.uid].append("deleted" if delta.op is Op.DELETED else delta.resource_version)
        return found

    def ours(self) -> list[Delta]:
        """Without the objects that the playground begins with."""
        return [each for each in self.sink.deltas if "object-" in each.key]


@asynccontextmanager
async def running(folder: Path) -> AsyncIterator[Run]:
    async with Playground(bookmark_interval=0.2) as cluster, asyncio.TaskGroup() as tasks:
        # It is free: nobody waits for the holder of a deleted Lease.
        cluster.create(LEASES, {"metadata": {"name": "kubedelta", "namespace": "default"}, "spec": {}})
        run = Run(cluster, tasks, folder)
        yield run
        for each in run.bridges:
            each.bridge.stop()


async def stop(bridges: list[ShardBridge]) -> None:
    for each in bridges:
        assert each._task is not None
        each.bridge.stop()
        await each._task


@pytest.mark.parametrize("divisions", [(2, 1), pytest.param((2, 4, 2, 1), marks=pytest.mark.long)])
async def test_shards_are_split_and_joined(tmp_path: Path, divisions: tuple[int, ...]) -> None:
    async with running(tmp_path) as run:
        before, former = run.start(1, 0), 1
        await before[0].until_leads()
        living = asyncio.create_task(run.live())  # noqa: TID251
        for of in divisions:
            after = run.start(of, former)
            for each in after:
                await each.until_leads()
            for each in before:
                await each.until_reported(ShardHandedOver)
                assert not each.leads
            assert all(each.reported(ShardInherited) for each in after)
            await stop(before)
            before, former = after, of
        living.cancel()
        await run.until_delivered()

    assert run.delivered() == run.happened
    assert all(isinstance(record, Delta) for record in run.sink.records), "no Gap, and no snapshot"
    in_order: dict[str, int] = {}
    for delta in run.ours():
        assert in_order.get(delta.uid, 0) < delta.sequence
        in_order[delta.uid] = delta.sequence


async def test_a_shard_waits_until_the_former_one_runs(tmp_path: Path) -> None:
    async with running(tmp_path) as run:
        [former] = run.start(1, 0)
        await former.until_leads()
        await stop([former])
        for _ in range(20):
            run.step()
        children = run.start(2, 1)
        for each in children:
            await each.until_reported(ShardWaits)
        assert run.delivered() == {}
        assert not any(each.bridge.snapshot().ready for each in children)

        former._task = asyncio.create_task(Bridge(former.bridge._plan, former.facts.append).run())  # noqa: TID251
        await run.until_delivered()
        for each in children:
            await each.until_leads()
        former._task.cancel()

    assert run.delivered() == run.happened


async def test_another_change_at_the_same_time_is_refused(tmp_path: Path) -> None:
    async with running(tmp_path) as run:
        await run.split()
        third = ShardBridge(run.cluster, run.sink, Division(4, 3), 1, tmp_path / "third", TIMING)

        with pytest.raises(PlanRefused, match=r"all objects, .*was handed over to 2 shards: set shard.former to 2"):
            await third.bridge.run()


async def test_a_bridge_that_was_left_over_takes_nothing_back(tmp_path: Path) -> None:
    async with running(tmp_path) as run:
        former, children = await run.split()
        await stop([former])
        again = Bridge(former.bridge._plan, former.facts.append)
        former.facts.clear()
        running_again = asyncio.create_task(again.run())  # noqa: TID251
        await former.until_reported(ShardHandedOver)
        run.step()
        await run.until_delivered()
        again.stop()
        await running_again
        assert all(each.leads for each in children)
