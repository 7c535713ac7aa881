"""From one replica to two and back: the state of one goes on in the election, and without one again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from bridge.model.change import Op
from bridge.model.record import Delta, Gap, Snapshot
from bridge.telemetry.facts.informer import ListCompleted
from bridge.telemetry.facts.outbox import OutboxRebuilt
from tests.bridge.app.test_election import LEASE, Replica
from tests.kit.bridges import a_config_map
from tests.kit.deadlines import until
from tests.kit.playground import Playground
from tests.kit.sinks import RecordingSink, StuckSink


@pytest.fixture
async def cluster() -> AsyncIterator[Playground]:
    async with Playground(bookmark_interval=0.1) as cluster:
        cluster.create(LEASE, {"metadata": {"name": "kubedelta", "namespace": "default"}, "spec": {}})  # It is free.
        yield cluster


@asynccontextmanager
async def alone(cluster: Playground, volume: Path, sink: RecordingSink) -> AsyncIterator[Replica]:
    """Without an election."""
    async with asyncio.TaskGroup() as tasks:
        replica = Replica(cluster, "only", volume, elects=False, sink=sink)
        replica.start(tasks)
        await replica.until_ready()
        yield replica
        await replica.stop()


@asynccontextmanager
async def both(
    cluster: Playground, volumes: Sequence[Path], sink: RecordingSink
) -> AsyncIterator[tuple[Replica, Replica]]:
    """The one on the first volume leads, before the other begins."""
    async with asyncio.TaskGroup() as tasks:
        first, second = (
            Replica(cluster, volume.name.replace("state", "kubedelta"), volume, sink=sink) for volume in volumes
        )
        first.start(tasks)
        await until(lambda: first.leads)
        second.start(tasks)
        await second.until_ready()
        yield first, second
        for each in (first, second):
            each.bridge.stop()


def assert_resumed(replica: Replica) -> None:
    assert not replica.reported(ListCompleted)
    assert not replica.reported(OutboxRebuilt)


@pytest.mark.parametrize("kept", [0, 1], ids=["first volume", "second volume"])
async def test_one_becomes_two_and_one_again(cluster: Playground, tmp_path: Path, kept: int) -> None:
    volumes, sink = [tmp_path / "state-0", tmp_path / "state-1"], RecordingSink()
    async with alone(cluster, volumes[0], sink):
        for name in "ab":
            cluster.create("configmaps", a_config_map(name))
        await sink.until(lambda sink: len(sink.records) == 2)

    cluster.patch("configmaps", "a", {"data": {"value": "2"}})
    cluster.delete("configmaps", "b")
    async with both(cluster, volumes, sink) as (first, second):
        await sink.until(lambda sink: len(sink.records) == 4)
        cluster.patch("configmaps", "a", {"data": {"value": "3"}})
        await sink.until(lambda sink: len(sink.records) == 5)
        if kept == 1:
            await first.stop()
            await until(lambda: second.leads)
            cluster.create("configmaps", a_config_map("c"))
            await sink.until(lambda sink: len(sink.records) == 6)
            await second.stop()
        else:
            await second.stop()
            cluster.create("configmaps", a_config_map("c"))
            await sink.until(lambda sink: len(sink.records) == 6)
            await first.stop()
        assert_resumed(first)

    cluster.delete("configmaps", "c")
    before = len(sink.records)
    async with alone(cluster, volumes[kept], sink) as again:
        await sink.until(lambda sink: sum(isinstance(each, Snapshot) for each in sink.records) == 2)
        cluster.patch("configmaps", "a", {"data": {"value": "4"}})
        await sink.until(lambda sink: sink.delivered()[-1] == "updated default/a")
        assert_resumed(again)
    notices = [each for each in sink.records[before:] if not isinstance(each, Delta)]
    assert [type(each) for each in notices] == [Gap, Snapshot, Snapshot]
    left = len(sink.records)
    async with both(cluster, [volumes[kept], tmp_path / "state-2"], sink) as (again, _):
        cluster.create("configmaps", a_config_map("d"))
        await sink.until(lambda sink: sink.delivered()[-1] == "added default/d")
        assert_resumed(again)

    assert [each for each in sink.records[left:] if not isinstance(each, Delta)] == []
    deltas = [each for each in sink.deltas if each.op is not Op.SYNC]
    assert [each.term for each in deltas] == [0] * 2 + [1] * 3 + [1 + kept] * 3 + [2 + kept]
    numbers = [each.sequence for each in deltas]
    assert numbers == sorted(set(numbers))
    steps = [
        "added a",
        "added b",
        "updated a",
        "deleted b",
        "updated a",
        "added c",
        "deleted c",
        "updated a",
        "added d",
    ]
    assert [f"{each.op} {each.key}" for each in deltas] == [step.replace(" ", " default/") for step in steps]


@pytest.mark.parametrize("led_last", [True, False], ids=["followed", "led before another"])
async def test_a_volume_that_did_not_lead_last_says_so(cluster: Playground, tmp_path: Path, led_last: bool) -> None:
    volumes, sink = [tmp_path / "state-0", tmp_path / "state-1"], RecordingSink()
    async with both(cluster, volumes, sink) as (first, second):
        cluster.create("configmaps", a_config_map("a"))
        await sink.until(lambda sink: "added default/a" in sink.delivered())
        await (second if led_last else first).stop()
        leader = first if led_last else second
        await until(lambda: leader.leads)
        cluster.create("configmaps", a_config_map("lost"))
        await sink.until(lambda sink: "added default/lost" in sink.delivered())
    cluster.delete("configmaps", "lost")
    alone_sink = RecordingSink()
    async with alone(cluster, volumes[1 if led_last else 0], alone_sink):
        await alone_sink.until(lambda sink: sum(isinstance(each, Snapshot) for each in sink.records) == 2)
    notices = [each for each in alone_sink.records if not isinstance(each, Delta)]
    assert [type(each) for each in notices] == [Gap, Snapshot, Snapshot]


async def test_what_one_had_not_delivered_the_leader_of_two_does(cluster: Playground, tmp_path: Path) -> None:
    stuck, sink = StuckSink(), RecordingSink()
    volumes = [tmp_path / "state-0", tmp_path / "state-1"]
    async with alone(cluster, volumes[0], RecordingSink()):
        cluster.create("configmaps", a_config_map("a"))
    async with asyncio.TaskGroup() as tasks:
        one = Replica(cluster, "only", volumes[0], elects=False, sink=stuck, grace=0.1)
        one.start(tasks)
        await one.until_ready()
        cluster.delete("configmaps", "a")
        cluster.create("configmaps", a_config_map("b"))
        await until(lambda: one.bridge.status().sinks[0].backlog_records >= 2)
        await one.stop()

    async with both(cluster, volumes, sink) as (first, _):
        await until(lambda: first.bridge.status().sinks[0].backlog_records == 0)
        await sink.until(lambda sink: "added default/b" in sink.delivered())
    assert stuck.records == []
    assert sink.delivered()[-2:] == ["deleted default/a", "added default/b"]
