"""A leader that has to list before it has seen what the leader before delivered leaves the Lease to others."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from bridge.election.lease import FRONTIER, TERM
from bridge.facts import LeadershipBegan, LeadershipReleased
from bridge.facts.election import LeadershipResigned
from bridge.model.record import Gap
from bridge.model.resource import Scope
from bridge.model.versions import frontier as frontiers
from bridge.model.versions.frontier import Frontier, Point, SinkFrontier, informer_key
from tests.bridge.app.test_bridge import a_config_map
from tests.bridge.app.test_election import LEASE, SHORT, Replica, lease_annotations
from tests.kit.playground import Playground

CONFIG_MAPS = informer_key("configmaps", Scope())
AHEAD = Point(1, "500")
"""Of what the replica sees before it lists again."""


async def test_it_leaves_the_lease_and_comes_back_with_a_gap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.bridge.app.test_election.LATE", SHORT)
    sinks = {"copy": SinkFrontier()}
    before = Frontier(1, "test", 3, "somebody_1", "1.0", 5, informers={CONFIG_MAPS: AHEAD}, sinks=sinks)
    async with Playground(bookmark_interval=600.0) as cluster:
        cluster.create("configmaps", a_config_map("a"))
        annotations = {TERM: "3", FRONTIER: frontiers.encode(before)}
        metadata = {"name": "kubedelta", "namespace": "default", "annotations": annotations}
        cluster.create(LEASE, {"metadata": metadata, "spec": {}})
        async with asyncio.TaskGroup() as tasks:
            replica = Replica(cluster, "first", tmp_path / "first")
            replica.start(tasks)
            await replica.until(lambda: replica.leads)
            assert not any(isinstance(each, Gap) for each in replica.sink.records), "it is exact"
            for number in range(500):
                cluster.create("secrets", {"metadata": {"name": f"s{number}", "namespace": "default"}})
            cluster.misbehave.expire_history()
            cluster.misbehave.hang_up("configmaps")

            await replica.until(lambda: replica.reported(LeadershipReleased))
            assert [each.resource for each in replica.reported(LeadershipResigned)] == ["configmaps"]
            found = frontiers.decode(lease_annotations(cluster)[FRONTIER])
            assert found.of("copy", CONFIG_MAPS) == AHEAD

            await replica.sink.until(lambda sink: any(isinstance(each, Gap) for each in sink.records))
            assert replica.reported(LeadershipBegan)[-1].term > 4
            assert len(replica.reported(LeadershipResigned)) == 1
            replica.bridge.stop()
