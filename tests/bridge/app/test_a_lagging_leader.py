"""A leader that has to list before it has seen what the leader before delivered leaves the Lease to others."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from bridge.election.lease import FRONTIER, TERM
from bridge.facts import LeadershipBegan, LeadershipReleased, ListCompleted
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


def create_lease(cluster: Playground, found: Frontier, **spec: object) -> None:
    annotations = {TERM: str(found.term), FRONTIER: frontiers.encode(found)}
    metadata = {"name": "kubedelta", "namespace": "default", "annotations": annotations}
    cluster.create(LEASE, {"metadata": metadata, "spec": spec})


async def test_it_leaves_the_lease_and_comes_back_with_a_gap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.bridge.app.test_election.LATE", SHORT)
    sinks = {"copy": SinkFrontier()}
    before = Frontier(1, "test", 3, "somebody_1", "1.0", 5, informers={CONFIG_MAPS: AHEAD}, sinks=sinks)
    async with Playground(bookmark_interval=600.0) as cluster:
        cluster.create("configmaps", a_config_map("a"))
        create_lease(cluster, before)
        async with asyncio.TaskGroup() as tasks:
            replica = Replica(cluster, "first", tmp_path / "first")
            replica.start(tasks)
            await replica.until(lambda: replica.leads)
            assert not any(isinstance(each, Gap) for each in replica.sink.records), "it is exact"
            create_secrets(cluster, 500)
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


@pytest.mark.parametrize("final", [False, True], ids=["killed", "left in order"])
async def test_a_killed_leader_may_have_come_as_far_as_the_api_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, final: bool
) -> None:
    """The replica has all that was published, and the API server is further when it takes over."""
    monkeypatch.setattr("tests.bridge.app.test_election.LATE", SHORT)
    sinks = {"copy": SinkFrontier()}
    before = Frontier(1, "test", 3, "somebody_1", "1.0", 5, informers={CONFIG_MAPS: AHEAD}, sinks=sinks, final=final)
    async with Playground(bookmark_interval=600.0) as cluster:
        create_lease(cluster, before, holderIdentity="somebody_1", leaseDurationSeconds=3600)
        async with asyncio.TaskGroup() as tasks:
            replica = Replica(cluster, "first", tmp_path / "first")
            replica.start(tasks)
            await replica.until_ready()
            create_secrets(cluster, 500)
            cluster.create("configmaps", a_config_map("a"))
            await replica.until(lambda: replica.bridge.snapshot().outbox_records > 0)
            create_secrets(cluster, 20, "more")
            reached, newest = int(cluster.get("configmaps", "a")["metadata"]["resourceVersion"]), int(cluster.version)
            cluster.patch(LEASE, "kubedelta", {"spec": {"holderIdentity": None}})
            await replica.until(lambda: replica.leads)
            await replica.sink.until(lambda sink: "added default/a" in sink.delivered())
            if not final:
                await replica.until(lambda: bound_in(cluster) is not None)
                bound = bound_in(cluster)
                assert bound is not None
                assert int(bound.version) >= newest > reached
            assert len(cluster.seen("list", "configmaps")) == (0 if final else 1), "the first list was streamed"
            listed = len(replica.reported(ListCompleted))
            cluster.misbehave.expire_history()
            cluster.misbehave.hang_up("configmaps")

            if final:
                await replica.until(lambda: len(replica.reported(ListCompleted)) > listed)
                cluster.create("configmaps", a_config_map("b"))
                await replica.sink.until(lambda sink: "added default/b" in sink.delivered())
                assert not replica.reported(LeadershipResigned)
            else:
                await replica.until(lambda: replica.reported(LeadershipReleased))
                assert [each.resource for each in replica.reported(LeadershipResigned)] == ["configmaps"]
                await replica.sink.until(lambda sink: any(isinstance(each, Gap) for each in sink.records))
            replica.bridge.stop()


async def test_a_lease_that_went_back_is_left_with_a_gap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The store is restored before the replica has passed the bound of a killed leader. Of what the restore undoes, it
    knows its renewals alone."""
    monkeypatch.setattr("tests.bridge.app.test_election.LATE", SHORT)
    sinks = {"copy": SinkFrontier()}
    before = Frontier(1, "test", 3, "somebody_1", "1.0", 5, informers={CONFIG_MAPS: Point(1, "1")}, sinks=sinks)
    async with Playground(bookmark_interval=600.0) as cluster:
        create_lease(cluster, before)
        async with asyncio.TaskGroup() as tasks:
            replica = Replica(cluster, "first", tmp_path / "first")
            replica.start(tasks)
            await replica.until(lambda: bound_in(cluster) is not None)
            await replica.sink.until(lambda sink: any(isinstance(each, Gap) for each in sink.records))
            gaps = len([each for each in replica.sink.records if isinstance(each, Gap)])
            backup, number = cluster.snapshot(), renewal_in(cluster)
            await replica.until(lambda: renewal_in(cluster) > number + 1)
            cluster.restore(backup)

            await replica.until(lambda: replica.reported(LeadershipReleased))
            await replica.sink.until(lambda sink: sum(isinstance(each, Gap) for each in sink.records) > gaps)
            replica.bridge.stop()


def renewal_in(cluster: Playground) -> int:
    return frontiers.decode(lease_annotations(cluster)[FRONTIER]).renewal


def bound_in(cluster: Playground) -> Point | None:
    return frontiers.decode(lease_annotations(cluster)[FRONTIER]).bounds.get(CONFIG_MAPS)


def create_secrets(cluster: Playground, number: int, name: str = "s") -> None:
    for each in range(number):
        cluster.create("secrets", {"metadata": {"name": f"{name}{each}", "namespace": "default"}})
