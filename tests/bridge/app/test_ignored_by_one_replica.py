"""Replicas whose ``ignore_changes`` differ, as in a roll-out: steps have one id whoever delivers them, and none is lost
that both export."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from bridge.facts import ChangesIgnored
from bridge.model.primitives.field_path import FieldPath
from bridge.model.record import Delta
from bridge.plan.plan import Wanted
from tests.bridge.app.test_bridge import a_config_map
from tests.bridge.app.test_election import LEASE, Replica
from tests.kit.playground import Playground
from tests.kit.sinks import RecordingSink

EVERY = Wanted("configmaps")
FEWER = Wanted("configmaps", ignore_changes=(FieldPath.parsed("data.beat"),))


@pytest.mark.parametrize(("before", "after"), [(FEWER, EVERY), (EVERY, FEWER)], ids=["no more", "now"])
async def test_the_next_leader_ignores_other_changes(tmp_path: Path, before: Wanted, after: Wanted) -> None:
    sink = RecordingSink()
    async with Playground(bookmark_interval=0.1) as cluster, asyncio.TaskGroup() as tasks:
        cluster.create(LEASE, {"metadata": {"name": "kubedelta", "namespace": "default"}, "spec": {}})  # It is free.
        first = Replica(cluster, "first", tmp_path / "first", sink=sink, wanted=before)
        first.start(tasks)
        await first.until(lambda: first.leads)
        second = Replica(cluster, "second", tmp_path / "second", sink=sink, wanted=after)
        second.start(tasks)
        await second.until_ready()
        cluster.create("configmaps", a_config_map("a"))
        ignoring = first if before is FEWER else second

        async def change(name: str, value: str, *, ignored: bool = False) -> str:
            cluster.patch("configmaps", "a", {"data": {name: value}})
            version = str(cluster.get("configmaps", "a")["metadata"]["resourceVersion"])
            count = len(ignoring.reported(ChangesIgnored))
            if ignored:
                await ignoring.until(lambda: len(ignoring.reported(ChangesIgnored)) > count)
            else:
                await sink.until(lambda sink: version in [each.resource_version for each in sink.deltas])
            return version

        expected = [str(cluster.get("configmaps", "a")["metadata"]["resourceVersion"])]
        expected.append(await change("value", "one"))
        beat = await change("beat", "1", ignored=before is FEWER)
        if before is EVERY:
            expected.append(beat)
        expected.append(await change("value", "two"))
        await second.until_ready()
        await first.stop()
        await second.until(lambda: second.leads)
        beat = await change("beat", "2", ignored=after is FEWER)
        if after is EVERY:
            expected.append(beat)
        expected.append(await change("value", "three"))
        cluster.delete("configmaps", "a")
        await sink.until(lambda sink: "deleted default/a" in sink.delivered())
        second.bridge.stop()

    assert [type(each) for each in sink.records] == [Delta] * len(sink.records), "no Gap, and no snapshot"
    assert [each.resource_version for each in sink.deltas[:-1]] == expected
    assert len({each.id for each in sink.deltas}) == len(sink.deltas)
    numbers = [each.sequence for each in sink.deltas]
    assert numbers == sorted(set(numbers))
