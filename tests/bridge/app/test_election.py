"""Replicas of a bridge on one playground: the holder of the Lease delivers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from msgspec.structs import replace

from bridge.admin.client import AdminClient
from bridge.app.bridge import Bridge
from bridge.app.predecessor import FILE, read_predecessor, write_identity
from bridge.election import LeaseTiming
from bridge.election.lease import FRONTIER, LAST_TERM, TERM
from bridge.facts import (
    Fact,
    FrontierUnreadable,
    LeadershipBegan,
    LeadershipLost,
    LeadershipReleased,
    LeaseTermDoubted,
    ListCompleted,
    SettingsDiffer,
)
from bridge.kube import ClusterAccess
from bridge.model.admin import ReplayRequest, SnapshotRequest, UnknownTarget
from bridge.model.record import Delta, Gap, Record, Snapshot
from bridge.model.status import SinkState
from bridge.model.versions import frontier as frontiers
from bridge.model.versions.frontier import Frontier
from bridge.plan.plan import ElectionPlan, Plan, SinkPlan, Wanted
from bridge.selection import SelectorText
from bridge.web.readiness import report
from sinks.base import Receipt
from tests.bridge.app.test_bridge import QUICK, World, a_config_map
from tests.kit.deadlines import BUSY
from tests.kit.playground import Playground
from tests.kit.sinks import RecordingSink

LATE = LeaseTiming(lease_duration=60.0, renew_deadline=40.0, retry_period=0.1)
"""A busy machine loses no Lease."""
SHORT = LeaseTiming(lease_duration=1.0, renew_deadline=40.0, retry_period=0.1)
"""Of a replica that is alone: it takes a free Lease soon, also if it is not exact, and a busy machine loses none."""
LEASE = "leases.coordination.k8s.io"


class Replica(World):
    """A bridge whose sink has a memory of its own."""

    def __init__(
        self,
        cluster: Playground,
        name: str,
        state: Path,
        settings: Mapping[str, str] | None = None,
        sink: RecordingSink | None = None,
        elects: bool = True,
        select: str | None = None,
        grace: float = 60.0,
        wanted: Wanted = Wanted("configmaps"),  # noqa: B008  # frozen
    ) -> None:
        """``settings``: those that must be equal. ``select``: labels of the objects that the sink gets."""
        self.sink = sink or RecordingSink()
        self.loaded: list[str] = []
        """The sinks whose code was imported."""
        state.mkdir(exist_ok=True)
        key = state.parent / "redaction.key"
        key.write_text("k" * 32)
        plan = Plan(
            cluster="test",
            access=ClusterAccess(server=cluster.url),
            wanted=(wanted,),
            sinks=(
                SinkPlan(
                    name="copy",
                    type="memory",
                    make=lambda: self.sink,
                    load=lambda: self.loaded.append("copy"),
                    max_batch=100,
                    select=None if select is None else (SelectorText(resource="configmaps", label_selector=select),),
                ),
            ),
            timing=QUICK,
            discovery_seconds=0.05,
            grace_seconds=grace,  # A busy machine cuts no release off.
            state=state,
            redaction_key_file=key,
            election=ElectionPlan(
                namespace="default", lease="kubedelta", name=name, timing=LATE, settings=settings or {}
            )
            if elects
            else None,
        )
        facts: list[Fact] = []
        super().__init__(cluster, Bridge(plan, facts.append), facts)

    def start(self, tasks: asyncio.TaskGroup) -> None:
        self._task = tasks.create_task(self.bridge.run())

    async def stop(self) -> None:
        assert self._task is not None
        self.bridge.stop()
        await self._task


@asynccontextmanager
async def two_replicas(
    folder: Path, settings: Mapping[str, str] | None = None
) -> AsyncIterator[tuple[Playground, Replica, Replica]]:
    """The first leads. ``settings``: of the second."""
    async with Playground(bookmark_interval=0.2) as cluster, asyncio.TaskGroup() as tasks:
        cluster.create(LEASE, {"metadata": {"name": "kubedelta", "namespace": "default"}, "spec": {}})  # It is free.
        first = Replica(cluster, "first", folder / "first")
        second = Replica(cluster, "second", folder / "second", settings)
        first.start(tasks)
        await first.until(lambda: first.leads)
        second.start(tasks)
        await second.until_ready()
        yield cluster, first, second
        for each in (first, second):
            each.bridge.stop()


def holder(cluster: Playground) -> str:
    return str(cluster.get(LEASE, "kubedelta")["spec"].get("holderIdentity"))


async def test_the_leader_alone_delivers(tmp_path: Path) -> None:
    async with two_replicas(tmp_path) as (cluster, first, second):
        for number in range(5):
            cluster.create("configmaps", a_config_map(f"a{number}"))
        await first.sink.until(lambda sink: "added default/a4" in sink.delivered())

        assert second.sink.records == []
        assert second.bridge.snapshot().sinks[0].state is SinkState.STANDBY
        assert second.bridge.snapshot().ready
        assert holder(cluster).startswith("first_")


async def test_a_follower_has_the_code_of_its_sinks(tmp_path: Path) -> None:
    """A takeover does not wait for imports."""
    async with two_replicas(tmp_path) as (_cluster, _first, second):
        await second.until(lambda: second.loaded == ["copy"])
        assert not second.leads


async def test_a_follower_takes_no_order_for_records(tmp_path: Path) -> None:
    async with two_replicas(tmp_path) as (_cluster, _first, _second), AdminClient(tmp_path / "second") as admin:
        with pytest.raises(UnknownTarget, match="ask the leader, first_"):
            await admin.snapshot(SnapshotRequest("copy"))
        with pytest.raises(UnknownTarget, match="ask the leader, first_"):
            await admin.replay(ReplayRequest("copy", "beginning"))


async def test_a_follower_names_the_settings_that_are_not_the_leaders(tmp_path: Path) -> None:
    async with two_replicas(tmp_path, settings={"sinks.copy": '{"type":"memory"}'}) as (_cluster, first, second):
        await second.until(lambda: second.reported(SettingsDiffer))
        assert [each.sections for each in second.reported(SettingsDiffer)] == [("sinks.copy",)]
        found, leading = second.bridge.snapshot().election, first.bridge.snapshot().election
        assert found is not None
        assert leading is not None
        assert (found.differs, leading.differs) == (("sinks.copy",), ())
        await second.until(lambda: "[!] election following" in report(second.bridge.snapshot()))
        await first.stop()
        await second.until(lambda: second.leads)
        assert "[+] election leading" in report(second.bridge.snapshot())


async def test_a_paused_sink_stays_paused_under_another_leader(tmp_path: Path) -> None:
    async with two_replicas(tmp_path) as (cluster, first, second):
        async with AdminClient(tmp_path / "second") as admin:
            with pytest.raises(UnknownTarget, match="ask the leader, first_"):
                await admin.pause_sink("copy")
        async with AdminClient(tmp_path / "first") as admin:
            assert await admin.pause_sink("copy")
        await first.stop()
        await second.until(lambda: second.leads)
        cluster.create("configmaps", a_config_map("a"))
        await second.until(lambda: second.bridge.snapshot().sinks[0].backlog_records)
        assert second.bridge.snapshot().sinks[0].state is SinkState.PAUSED
        async with AdminClient(tmp_path / "second") as admin:
            assert await admin.resume_sink("copy")
        await second.sink.until(lambda sink: "added default/a" in sink.delivered())


async def test_a_leader_that_ends_leaves_no_step_behind(tmp_path: Path) -> None:
    async with two_replicas(tmp_path) as (cluster, first, second):
        for number in range(3):
            cluster.create("configmaps", a_config_map(f"a{number}"))
        await first.sink.until(lambda sink: "added default/a2" in sink.delivered())
        await first.stop()
        ended = asyncio.get_running_loop().time()
        cluster.create("configmaps", a_config_map("b"))
        await second.sink.until(lambda sink: "added default/b" in sink.delivered())

        assert asyncio.get_running_loop().time() - ended < 1.0 * BUSY
        assert first.reported(LeadershipReleased)
        assert second.reported(LeadershipBegan)[0].term == 2


async def test_a_lost_lease_pauses_deliveries_and_lists_nothing(tmp_path: Path) -> None:
    async with two_replicas(tmp_path) as (cluster, first, second):
        await second.stop()
        lists = len(first.reported(ListCompleted))
        cluster.patch(LEASE, "kubedelta", {"spec": {"holderIdentity": "somebody"}})
        await first.until(lambda: first.reported(LeadershipLost))
        before = len(first.sink.records)
        cluster.create("configmaps", a_config_map("a"))
        await first.until(lambda: first.bridge.snapshot().sinks[0].backlog_records)
        assert len(first.sink.records) == before
        assert first.bridge.snapshot().sinks[0].state is SinkState.STANDBY

        cluster.patch(LEASE, "kubedelta", {"spec": {"holderIdentity": ""}})
        await first.sink.until(lambda sink: "added default/a" in sink.delivered())

        assert len(first.reported(ListCompleted)) == lists
        assert [each.term for each in first.reported(LeadershipBegan)] == [1, 2]


async def test_the_first_leader_is_in_the_lease_before_it_delivers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a replica that has never seen an object, and leads behind it, would not know that a sink got any."""

    class Watching(RecordingSink):
        async def deliver(self, batch: Sequence[Record]) -> Receipt:
            found.append(lease_annotations(cluster).get(FRONTIER, ""))
            return await super().deliver(batch)

    found: list[str] = []
    seldom = LeaseTiming(lease_duration=60.0, renew_deadline=40.0, retry_period=1.0)
    monkeypatch.setattr("tests.bridge.app.test_election.LATE", seldom)  # A delivery would come before the renewal.
    async with Playground(bookmark_interval=0.2) as cluster, asyncio.TaskGroup() as tasks:
        cluster.create(LEASE, {"metadata": {"name": "kubedelta", "namespace": "default"}, "spec": {}})  # It is free.
        cluster.create("configmaps", a_config_map("a"))
        replica = Replica(cluster, "first", tmp_path / "first", sink=Watching())
        replica.start(tasks)
        await replica.sink.until(lambda sink: sink.delivered())
        assert frontiers.decode(found[0]).sinks.keys() == {"copy"}
        replica.bridge.stop()


async def test_a_follower_ends_without_a_delivery(tmp_path: Path) -> None:
    async with two_replicas(tmp_path) as (_cluster, first, second):
        await second.stop()
        assert (second.sink.records, second.reported(LeadershipBegan)) == ([], [])
        assert first.leads


async def test_a_restarted_leader_does_not_wait_for_its_own_lease(tmp_path: Path) -> None:
    async with two_replicas(tmp_path) as (cluster, first, second):
        await second.stop()
        before = holder(cluster)
        await first.stop()
        # As a kill leaves it.
        lasting = {"spec": {"holderIdentity": before, "leaseDurationSeconds": 600}}
        cluster.patch(LEASE, "kubedelta", lasting)
        async with asyncio.TaskGroup() as tasks:
            again = Replica(cluster, "first", tmp_path / "first")
            again.start(tasks)
            await again.until(lambda: again.leads)
            await again.stop()


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.bridge.app.test_election.LATE", SHORT)


@asynccontextmanager
async def leading_behind(written: Frontier, term: int, folder: Path) -> AsyncIterator[tuple[Playground, Replica]]:
    """A replica that leads and has delivered. Before, the Lease had this term and what somebody had written."""
    annotations = {TERM: str(term), FRONTIER: frontiers.encode(written)}
    async with Playground(bookmark_interval=0.2) as cluster, asyncio.TaskGroup() as tasks:
        metadata = {"name": "kubedelta", "namespace": "default", "annotations": annotations}
        cluster.create(LEASE, {"metadata": metadata, "spec": {}})
        replica = Replica(cluster, "first", folder / "first")
        replica.start(tasks)
        await replica.until(lambda: replica.leads)
        cluster.create("configmaps", a_config_map("a"))
        await replica.sink.until(lambda sink: "added default/a" in sink.delivered())
        yield cluster, replica


@pytest.mark.parametrize("numbers", [{"sequence": 1 << 53}, {"replays": 1 << 53}], ids=["sequence", "replays"])
async def test_numbers_of_somebody_else_stop_nobody(tmp_path: Path, short: None, numbers: dict[str, int]) -> None:
    """Behind the largest number of a frontier, no replica could read the next one."""
    written = replace(Frontier(1, "test", 3, "somebody", "1.0", 5), **numbers)
    async with leading_behind(written, 3, tmp_path) as (cluster, replica):
        await replica.until(lambda: '"by":"first' in lease_annotations(cluster)[FRONTIER])
        found = frontiers.decode(lease_annotations(cluster)[FRONTIER])
        assert (found.term, found.replays) == (4, 0)
        assert found.sequence < 1 << 52
        assert "to which no bridge comes" in replica.reported(FrontierUnreadable)[0].reason
        await replica.stop()


@pytest.mark.parametrize(("term", "of_frontier", "doubted"), [(3, 9, []), (LAST_TERM, LAST_TERM, [LAST_TERM])])
async def test_terms_of_somebody_else_stop_nobody(
    tmp_path: Path, short: None, term: int, of_frontier: int, doubted: list[int]
) -> None:
    written = Frontier(1, "test", of_frontier, "somebody", "1.0", 5)
    async with leading_behind(written, term, tmp_path) as (cluster, replica):
        [began] = replica.reported(LeadershipBegan)
        assert began.term == (1 if doubted else term + 1)
        assert [each.term for each in replica.reported(LeaseTermDoubted)] == doubted
        assert all("somebody else has written it" in each.reason for each in replica.reported(FrontierUnreadable))
        assert replica.reported(FrontierUnreadable)
        await replica.until(lambda: frontiers.decode(lease_annotations(cluster)[FRONTIER]).term == began.term)
        assert lease_annotations(cluster)[TERM] == str(began.term)
        cluster.patch(LEASE, "kubedelta", {"metadata": {"annotations": {TERM: str(LAST_TERM)}}})
        await replica.until(lambda: lease_annotations(cluster)[TERM] == str(began.term))
        assert replica.leads
        replica.bridge.stop()


@pytest.mark.parametrize("text", ['{"v":2}', "garbage", None], ids=["of a later version", "garbage", "removed"])
async def test_a_frontier_that_nobody_can_read_costs_a_gap(tmp_path: Path, short: None, text: str | None) -> None:
    """The second replica never knew an object that the first one delivered."""
    async with Playground(bookmark_interval=0.2) as cluster, asyncio.TaskGroup() as tasks:
        cluster.create(LEASE, {"metadata": {"name": "kubedelta", "namespace": "default"}, "spec": {}})
        first = Replica(cluster, "first", tmp_path / "first")
        first.start(tasks)
        cluster.create("configmaps", a_config_map("a"))
        await first.sink.until(lambda sink: "added default/a" in sink.delivered())
        await first.stop()
        cluster.patch(LEASE, "kubedelta", {"metadata": {"annotations": {FRONTIER: text}}})
        cluster.delete("configmaps", "a")
        second = Replica(cluster, "second", tmp_path / "second")
        second.start(tasks)
        await second.until(lambda: second.reported(ListCompleted))
        assert not second.bridge.snapshot().ready, "it is not exact"
        await second.sink.until(lambda sink: any(isinstance(each, Snapshot) for each in sink.records))
        assert [type(each) for each in second.sink.records if not isinstance(each, Delta)][:2] == [Gap, Snapshot]
        assert second.reported(FrontierUnreadable) or text is None
        second.bridge.stop()


def lease_annotations(cluster: Playground) -> Mapping[str, str]:
    found: Mapping[str, str] = cluster.get(LEASE, "kubedelta")["metadata"]["annotations"]
    return found


def test_a_copied_directory_has_no_predecessor(tmp_path: Path) -> None:
    write_identity(tmp_path, "kubedelta-0_cafe")
    assert read_predecessor(tmp_path, "kubedelta-0") == "kubedelta-0_cafe"
    assert read_predecessor(tmp_path, "kubedelta-1") == ""
    assert (tmp_path / FILE).stat().st_mode & 0o777 == 0o600
    (tmp_path / FILE).write_bytes(b"\xff")
    assert read_predecessor(tmp_path, "kubedelta-0") == ""
    (tmp_path / FILE).unlink()
    assert read_predecessor(tmp_path, "kubedelta-0") == ""
