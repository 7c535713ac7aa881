"""Snapshots of sinks with and without a selection, asked of a running bridge while objects change: through kills, to
real brokers. Each consumer's state stays that of the cluster, and no record sets an object back."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from bridge.app.admin.client import AdminClient
from bridge.model.admin import SnapshotRequest, UnknownTarget
from bridge.model.status import SnapshotStatus
from bridge.playground import Playground
from bridge.playground.simulation.manifests import config_map
from tests.cluster.kube_client import Manifest
from tests.kit.bridge_process import BridgeProcess
from tests.kit.deadlines import BUSY
from tests.kit.four_sinks import FourSinks
from tests.kit.received import (
    ReceivedEdge,
    Stream,
    assert_in_order,
    rebuilt,
    received_lists,
    without_repeats,
)

NAMES = [f"object-{number}" for number in range(40)]
WHERE = "int(object.data.n) > 4"
SINKS = ("log", "live", "hook", "copy")
VIEWS: Mapping[str, Mapping[str, Any]] = {
    "hook": {"select": [{"resource": "configmaps", "where": WHERE}]},
    "live": {"redact": ["data.secret"]},
}


def config(cluster: Playground, sinks: FourSinks) -> Mapping[str, Any]:
    return {
        "cluster": {"name": "testbed", "server": cluster.url},
        "resources": [{"resource": "configmaps", "namespaces": ["default"]}],
        "sinks": sinks.section,
    }


def churn(cluster: Playground, chance: random.Random) -> None:
    name, there = chance.choice(NAMES), objects(cluster)
    data = {"n": str(chance.randrange(10)), "secret": "s3cr3t"}
    if name not in there:
        cluster.create("configmaps", config_map(name, data))
    elif chance.random() < 0.3:
        cluster.delete("configmaps", name)
    else:
        cluster.patch("configmaps", name, {"data": data})


def objects(cluster: Playground) -> dict[str, Manifest]:
    found = {each["metadata"]["name"]: each for each in cluster.list("configmaps", namespace="default")}
    return {name: thing for name, thing in found.items() if name in NAMES}


@asynccontextmanager
async def churning(cluster: Playground) -> AsyncIterator[None]:
    chance, ends = random.Random(5), asyncio.Event()

    async def change() -> None:
        while not ends.is_set():
            churn(cluster, chance)
            await asyncio.sleep(0.01)

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(change())
        yield
        ends.set()


async def test_no_snapshot_sets_a_consumer_back(four_sinks: FourSinks, tmp_path: Path) -> None:
    async with Playground() as cluster:
        chance = random.Random(3)
        for _ in range(80):
            churn(cluster, chance)
        bridge = BridgeProcess(tmp_path / "bridge", config(cluster, replace(four_sinks, options=VIEWS)))
        async with bridge.started():
            await bridge.until_delivered()
            async with churning(cluster):
                begun = [await asked(bridge, sink) for sink in SINKS]
                await asyncio.to_thread(bridge.kill9)
                await asyncio.to_thread(bridge.start)
                begun += [await asked(bridge, "live", where=WHERE), await asked(bridge, "log", namespace="x")]
                begun += [await asked(bridge, sink) for sink in SINKS]
            cluster.create("configmaps", config_map("last", {"n": "0"}))
            await bridge.until("all changes are read", lambda _: b"/last" in four_sinks.file.read_bytes())
            await bridge.until("the snapshots are delivered", lambda now: now.value("sink_backfill_records") == 0)
            await bridge.until_delivered()
            async with AdminClient(bridge.state) as client:
                statuses = await client.snapshots()
        kept = objects(cluster)
        streams = await four_sinks.streams()

    assert {(each.sink, each.state, each.left) for each in statuses} == {(sink, "delivered", 0) for sink in SINKS}
    assert len({each.number for each in begun}) == len(begun)
    for sink, stream in streams.items():
        matches = {name: thing for name, thing in kept.items() if sink != "hook" or int(thing["data"]["n"]) > 4}
        judge(sink, stream, matches, [each for each in begun if each.sink == sink])


async def asked(bridge: BridgeProcess, sink: str, **scope: str) -> SnapshotStatus:
    """Begins a snapshot, behind the snapshot before."""
    async with asyncio.timeout(10 * BUSY), AdminClient(bridge.state) as client:
        while True:
            try:
                return await client.snapshot(SnapshotRequest(sink, **scope))
            except UnknownTarget as refusal:
                if "ask again" not in str(refusal):
                    raise
                await asyncio.sleep(0.05)


def judge(sink: str, stream: Stream, kept: Mapping[str, Manifest], begun: Sequence[SnapshotStatus]) -> None:
    received = received_lists(stream)
    ours = [each for each in received if each.subject.rpartition("/")[2] in NAMES]
    assert_in_order(ours, sink)
    state = {each["metadata"]["name"]: each for each in rebuilt(ours).values()}
    assert versions(state) == versions(kept), sink
    secrets = {each.data["data"].get("secret") for each in ours}
    assert ("s3cr3t" in secrets) is (sink != "live")
    for each in begun:
        of_it = [found for found in ours if found.id.endswith(f"/sync/snapshot/{each.number}")]
        edges = {found.edge for found in stream if isinstance(found, ReceivedEdge) and found.number == each.number}
        assert len(without_repeats(of_it)) == each.objects or each.namespace, (sink, each)
        assert edges == {"began", "ended"}, (sink, each)
        if sink == "hook" or each.where:
            assert all(int(found.data["data"]["n"]) > 4 for found in of_it)


def versions(things: Mapping[str, Manifest]) -> dict[str, str]:
    return {name: each["metadata"]["resourceVersion"] for name, each in things.items()}
