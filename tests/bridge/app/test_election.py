"""Replicas of a bridge on one playground: the holder of the Lease delivers, the others have a copy of its state."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from bridge.app.admin.client import AdminClient
from bridge.app.endpoints import readiness
from bridge.model.admin import ReplayRequest, SnapshotRequest, UnknownTarget
from bridge.model.policies import LeaseTiming
from bridge.model.record import Delta, Gap, Record, Snapshot
from bridge.model.status import SinkState
from bridge.plan.plan import ElectionPlan, SinkPlan, Wanted
from bridge.replication.identity import FILE, read_predecessors, write_identities
from bridge.replication.lease import LAST_TERM, PUBLISHED, TERM
from bridge.telemetry.facts import Fact
from bridge.telemetry.facts.election import (
    FollowerLost,
    FollowingFailed,
    LeadershipBegan,
    LeadershipLost,
    LeadershipReleased,
    LeaseTermDoubted,
    TookOverLacking,
)
from bridge.telemetry.facts.informer import ListCompleted
from bridge.views.selection import SelectorText
from sinks.base import Receipt
from tests.kit.bridges import World, a_bridge, a_config_map
from tests.kit.copied_states import are_equal
from tests.kit.deadlines import until
from tests.kit.playground import Playground
from tests.kit.sinks import RecordingSink

LATE = LeaseTiming(lease_duration=60.0, renew_deadline=40.0, retry_period=0.1)
"""A busy machine loses no Lease."""
SHORT = LeaseTiming(lease_duration=1.0, renew_deadline=40.0, retry_period=0.1)
"""Of a replica that is alone: it takes a free Lease soon, also if it is not in sync, and a busy machine loses none."""
PATIENCE = 60.0
LEASE = "leases.coordination.k8s.io"


class Replica(World):
    """A bridge whose sink has a memory of its own."""

    def __init__(
        self,
        cluster: Playground,
        name: str,
        state: Path,
        sink: RecordingSink | None = None,
        elects: bool = True,
        select: str | None = None,
        grace: float = 60.0,
        wanted: Wanted = Wanted("configmaps"),  # noqa: B008  # frozen
        timing: LeaseTiming = LATE,
        keys: str = "k",
    ) -> None:
        """``select``: labels of the objects that the sink gets. ``grace``: a busy machine cuts no release off.
        ``keys``: a letter for each key, the present one first."""
        self.sink = sink or RecordingSink()
        self.state = state
        state.mkdir(exist_ok=True, mode=0o700)
        key_files = [state.parent / f"{name}.key-{key}" for key in keys]
        for file, key in zip(key_files, keys, strict=True):
            file.write_text(key * 32)
            file.chmod(0o600)
        copy = SinkPlan(
            name="copy",
            type="memory",
            make=lambda: self.sink,
            max_batch=100,
            select=None if select is None else (SelectorText(resource="configmaps", label_selector=select),),
        )
        election = ElectionPlan(namespace="default", lease="kubedelta", name=name, timing=timing, ack_timeout=PATIENCE)
        facts: list[Fact] = []
        bridge = a_bridge(
            cluster,
            facts,
            state,
            [copy],
            (wanted,),
            grace_seconds=grace,
            redaction_key_file=key_files[0],
            former_key_files=tuple(key_files[1:]),
            election=election if elects else None,
        )
        super().__init__(cluster, bridge, facts)

    def start(self, tasks: asyncio.TaskGroup) -> None:
        self._task = tasks.create_task(self.bridge.run())

    async def stop(self) -> None:
        assert self._task is not None
        self.bridge.stop()
        await self._task

    async def kill(self) -> None:
        """Ends it at once, in the middle of whatever it does, with the Lease as it is."""
        assert self._task is not None
        self._task.cancel()
        await asyncio.wait([self._task])


def a_free_lease(cluster: Playground, annotations: Mapping[str, str] | None = None) -> None:
    metadata = {"name": "kubedelta", "namespace": "default", "annotations": dict(annotations or {})}
    cluster.create(LEASE, {"metadata": metadata, "spec": {}})


@asynccontextmanager
async def two_replicas(folder: Path, **options: Any) -> AsyncIterator[tuple[Playground, Replica, Replica]]:
    """The first leads, and the second is in sync."""
    async with Playground(bookmark_interval=0.2) as cluster, asyncio.TaskGroup() as tasks:
        a_free_lease(cluster)
        first = Replica(cluster, "first", folder / "first", **options)
        second = Replica(cluster, "second", folder / "second", **options)
        first.start(tasks)
        await until(lambda: first.leads)
        second.start(tasks)
        await second.until_ready()
        yield cluster, first, second
        for each in (first, second):
            each.bridge.stop()


@asynccontextmanager
async def one_replica(
    folder: Path, annotations: Mapping[str, str] | None = None, **options: Any
) -> AsyncIterator[tuple[Playground, Replica]]:
    """A replica that is alone, beside a free Lease with these annotations. It leads."""
    async with Playground(bookmark_interval=0.2) as cluster, asyncio.TaskGroup() as tasks:
        a_free_lease(cluster, annotations)
        replica = Replica(cluster, "first", folder / "first", **({"timing": SHORT} | options))
        replica.start(tasks)
        await until(lambda: replica.leads)
        yield cluster, replica
        replica.bridge.stop()


def lease_of(cluster: Playground) -> dict[str, Any]:
    found: dict[str, Any] = cluster.get(LEASE, "kubedelta")
    return found


def holder(cluster: Playground) -> str:
    return str(lease_of(cluster)["spec"].get("holderIdentity") or "")


def published(cluster: Playground) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.json.decode(lease_of(cluster)["metadata"]["annotations"][PUBLISHED])
    return found


# ── Following ────────────────────────────────────────────────────────────────


async def test_the_leader_alone_watches_and_delivers(tmp_path: Path) -> None:
    async with two_replicas(tmp_path) as (cluster, first, second):
        for number in range(5):
            cluster.create("configmaps", a_config_map(f"a{number}"))
        await first.sink.until(lambda sink: "added default/a4" in sink.delivered())

        assert second.sink.records == []
        assert second.reported(ListCompleted) == []
        status = second.bridge.status()
        assert status.ready
        assert status.election is not None
        assert status.election.in_sync
        assert holder(cluster).startswith("first_")


async def test_both_say_who_is_in_sync(tmp_path: Path) -> None:
    async with two_replicas(tmp_path) as (cluster, first, second):
        await until(lambda: "[+] election leading" in readiness(first.bridge.status()))
        assert "follower second: in sync" in readiness(first.bridge.status())
        assert "[+] election following" in readiness(second.bridge.status())
        await second.stop()
        await until(lambda: first.reported(FollowerLost))
        assert "[!] election leading" in readiness(first.bridge.status())
        assert "no follower is in sync" in readiness(first.bridge.status())
        assert [each.follower for each in first.reported(FollowerLost)] == ["second"]
        assert published(cluster)["in_sync"] == []


async def test_a_follower_refuses_commands_and_names_the_leader(tmp_path: Path) -> None:
    async with two_replicas(tmp_path) as (_cluster, _first, _second), AdminClient(tmp_path / "second") as admin:
        for asked in (
            admin.snapshot(SnapshotRequest("copy")),
            admin.replay(ReplayRequest("copy", "beginning")),
            admin.pause_sink("copy"),
            admin.cursors(),
            admin.retry("copy"),
        ):
            with pytest.raises(UnknownTarget, match=r"this replica follows.*ask the leader, first"):
                await asked
        assert (await admin.status()).election is not None


async def test_a_replica_with_another_key_does_not_follow(tmp_path: Path) -> None:
    async with Playground(bookmark_interval=0.2) as cluster, asyncio.TaskGroup() as tasks:
        a_free_lease(cluster)
        first = Replica(cluster, "first", tmp_path / "first")
        other = Replica(cluster, "other", tmp_path / "other", keys="o")
        first.start(tasks)
        await until(lambda: first.leads)
        other.start(tasks)
        await until(lambda: other.reported(FollowingFailed))
        assert not other.bridge.status().ready
        assert "401" in readiness(other.bridge.status())
        for each in (first, other):
            each.bridge.stop()


@pytest.mark.parametrize(("leaders", "followers"), [("a", "ba"), ("ba", "a")])
async def test_a_key_is_renewed_replica_by_replica(tmp_path: Path, leaders: str, followers: str) -> None:
    async with Playground(bookmark_interval=0.2) as cluster, asyncio.TaskGroup() as tasks:
        a_free_lease(cluster)
        first = Replica(cluster, "first", tmp_path / "first", keys=leaders)
        second = Replica(cluster, "second", tmp_path / "second", keys=followers)
        first.start(tasks)
        await until(lambda: first.leads)
        second.start(tasks)
        await second.until_ready()
        await first.stop()
        await until(lambda: second.leads)
        assert second.reported(TookOverLacking) == []
        await second.stop()


# ── Takeovers ────────────────────────────────────────────────────────────────


async def test_a_leader_that_ends_leaves_nothing_behind(tmp_path: Path) -> None:
    async with two_replicas(tmp_path) as (cluster, first, second):
        for number in range(3):
            cluster.create("configmaps", a_config_map(f"a{number}"))
        await first.sink.until(lambda sink: "added default/a2" in sink.delivered())
        await first.stop()
        cluster.create("configmaps", a_config_map("b"))
        await second.sink.until(lambda sink: "added default/b" in sink.delivered())

        assert second.sink.delivered() == ["added default/b"], "nothing is repeated"
        assert second.reported(ListCompleted) == [], "it goes on with the watch"
        assert first.reported(LeadershipReleased)
        assert second.reported(LeadershipBegan)[0].term == 2
        assert second.reported(TookOverLacking) == []


async def test_a_killed_leader_has_a_successor_that_lacks_nothing(tmp_path: Path) -> None:
    async with two_replicas(tmp_path, timing=LeaseTiming(lease_duration=3.0, renew_deadline=2.0, retry_period=0.1)) as (
        cluster,
        first,
        second,
    ):
        for number in range(3):
            cluster.create("configmaps", a_config_map(f"a{number}"))
        await first.sink.until(lambda sink: "added default/a2" in sink.delivered())
        await first.kill()
        cluster.delete("configmaps", "a0")
        await second.sink.until(lambda sink: "deleted default/a0" in sink.delivered())
        assert second.reported(TookOverLacking) == []
        assert not any(isinstance(each, Gap) for each in second.sink.records)


async def test_a_former_leader_follows_and_has_the_same_state(tmp_path: Path) -> None:
    async with Playground(bookmark_interval=0.2) as cluster, asyncio.TaskGroup() as tasks:
        a_free_lease(cluster)
        first, second = (Replica(cluster, name, tmp_path / name) for name in ("first", "second"))
        first.start(tasks)
        await until(lambda: first.leads)
        second.start(tasks)
        await second.until_ready()
        cluster.create("configmaps", a_config_map("a"))
        await first.sink.until(lambda sink: "added default/a" in sink.delivered())
        await first.stop()
        await until(lambda: second.leads)
        again = Replica(cluster, "first", tmp_path / "first")
        again.start(tasks)
        await again.until_ready()
        cluster.create("configmaps", a_config_map("b"))
        await second.sink.until(lambda sink: "added default/b" in sink.delivered())
        await until(lambda: are_equal(tmp_path / "first", tmp_path / "second"))
        await second.stop()
        await again.stop()


async def test_a_paused_sink_stays_paused_under_another_leader(tmp_path: Path) -> None:
    async with two_replicas(tmp_path) as (cluster, first, second):
        async with AdminClient(tmp_path / "first") as admin:
            assert await admin.pause_sink("copy")
        await first.stop()
        await until(lambda: second.leads)
        cluster.create("configmaps", a_config_map("a"))
        await until(lambda: second.bridge.status().sinks and second.bridge.status().sinks[0].backlog_records)
        assert second.bridge.status().sinks[0].state is SinkState.PAUSED
        async with AdminClient(tmp_path / "second") as admin:
            assert await admin.resume_sink("copy")
        await second.sink.until(lambda sink: "added default/a" in sink.delivered())


async def test_a_lost_lease_ends_deliveries_until_it_leads_again(tmp_path: Path) -> None:
    async with two_replicas(tmp_path) as (cluster, first, second):
        await second.stop()
        lists = len(first.reported(ListCompleted))
        cluster.patch(LEASE, "kubedelta", {"spec": {"holderIdentity": "somebody"}})
        await until(lambda: first.reported(LeadershipLost))
        before = len(first.sink.records)
        cluster.create("configmaps", a_config_map("a"))
        await until(lambda: not first.bridge.status().sinks)
        assert len(first.sink.records) == before

        cluster.patch(LEASE, "kubedelta", {"spec": {"holderIdentity": ""}})
        await first.sink.until(lambda sink: "added default/a" in sink.delivered())

        assert len(first.reported(ListCompleted)) == lists
        assert [each.term for each in first.reported(LeadershipBegan)] == [1, 2]


async def test_a_leader_is_in_the_lease_before_it_delivers(tmp_path: Path) -> None:
    """Else whoever was in sync with the leader before would take over without what this one delivered."""

    class Watching(RecordingSink):
        async def deliver(self, batch: Sequence[Record]) -> Receipt:
            found.append(published(cluster))
            return await super().deliver(batch)

    found: list[dict[str, Any]] = []
    seldom = LeaseTiming(lease_duration=60.0, renew_deadline=40.0, retry_period=30.0)
    async with Playground(bookmark_interval=0.2) as cluster, asyncio.TaskGroup() as tasks:
        a_free_lease(cluster)
        cluster.create("configmaps", a_config_map("a"))
        replica = Replica(cluster, "first", tmp_path / "first", sink=Watching(), timing=seldom)
        replica.start(tasks)
        await replica.sink.until(lambda sink: sink.delivered())
        assert (found[0]["term"], found[0]["leader"]) == (1, holder(cluster))
        replica.bridge.stop()


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
            await until(lambda: again.leads)
            assert again.reported(TookOverLacking) == []
            await again.stop()


# ── Who was not in sync ──────────────────────────────────────────────────────


async def test_who_was_not_in_sync_sends_a_gap_and_a_snapshot(tmp_path: Path) -> None:
    """It never knew an object that the first one delivered."""
    async with Playground(bookmark_interval=0.2) as cluster, asyncio.TaskGroup() as tasks:
        a_free_lease(cluster)
        first = Replica(cluster, "first", tmp_path / "first", timing=SHORT)
        first.start(tasks)
        cluster.create("configmaps", a_config_map("a"))
        await first.sink.until(lambda sink: "added default/a" in sink.delivered())
        await first.stop()
        cluster.delete("configmaps", "a")
        cluster.create("configmaps", a_config_map("b"))
        second = Replica(cluster, "second", tmp_path / "second", timing=SHORT)
        second.start(tasks)
        await second.sink.until(lambda sink: sum(isinstance(each, Snapshot) for each in sink.records) == 2)
        notices = [each for each in second.sink.records if not isinstance(each, Delta)]
        assert [type(each) for each in notices] == [Gap, Snapshot, Snapshot]
        assert [each.term for each in second.reported(TookOverLacking)] == [2]
        second.bridge.stop()


@pytest.mark.parametrize(("term", "began", "doubted"), [(3, 4, []), (LAST_TERM, 1, [LAST_TERM])])
async def test_terms_of_somebody_else_stop_nobody(tmp_path: Path, term: int, began: int, doubted: list[int]) -> None:
    async with one_replica(tmp_path, {TERM: str(term)}) as (cluster, replica):
        assert [each.term for each in replica.reported(LeadershipBegan)] == [began]
        assert [each.term for each in replica.reported(LeaseTermDoubted)] == doubted
        cluster.patch(LEASE, "kubedelta", {"metadata": {"annotations": {TERM: str(LAST_TERM)}}})
        await until(lambda: lease_of(cluster)["metadata"]["annotations"][TERM] == str(began))
        assert replica.leads


@pytest.mark.parametrize("text", ['{"leader":5}', "garbage", "x" * 20_000, '{"leader":"somebody","term":9}'])
async def test_what_somebody_else_published_is_replaced(tmp_path: Path, text: str) -> None:
    async with one_replica(tmp_path, {TERM: "3", PUBLISHED: text}) as (cluster, replica):
        cluster.patch(LEASE, "kubedelta", {"metadata": {"annotations": {PUBLISHED: text}}})
        await until(lambda: '"first_' in lease_of(cluster)["metadata"]["annotations"][PUBLISHED])
        await until(lambda: bool(replica.reported(TookOverLacking)))  # The Lease is written before.


def test_a_copied_directory_has_no_predecessor(tmp_path: Path) -> None:
    write_identities(tmp_path, ["kubedelta-0_cafe", "kubedelta-0_beef"])
    assert read_predecessors(tmp_path, "kubedelta-0") == ("kubedelta-0_cafe", "kubedelta-0_beef")
    assert read_predecessors(tmp_path, "kubedelta-1") == ()
    assert (tmp_path / FILE).stat().st_mode & 0o777 == 0o600
    (tmp_path / FILE).write_bytes(b"\xff")
    assert read_predecessors(tmp_path, "kubedelta-0") == ()
    (tmp_path / FILE).unlink()
    assert read_predecessors(tmp_path, "kubedelta-0") == ()
