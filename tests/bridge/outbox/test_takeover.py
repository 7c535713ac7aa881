"""What goes from one leader to the next beside the log: snapshots, pauses, and sinks that are new."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path

import pytest
from msgspec.structs import replace

from bridge.facts import discard
from bridge.model.change import Evidence
from bridge.model.policies import StartPolicy
from bridge.model.record import SnapshotScope
from bridge.model.status import PauseCause
from bridge.model.versions import frontier as frontiers
from bridge.outbox import Outbox, OwedSnapshot, number_of_now
from bridge.pipelines.snapshots import SnapshotSchedule
from bridge.plan.plan import SinkPlan
from tests.bridge.outbox.opened import crashed, feeds_of, joined, opened
from tests.bridge.outbox.test_standby import PODS_KEY, SINKS, Side, all_see, point, published, replicas
from tests.kit.informed import Informed
from tests.kit.pipelines import without_worker
from tests.kit.sinks import RecordingSink

PLAN = SinkPlan(name="audit", type="fake", make=RecordingSink, max_batch=10)


async def begins_owed(side: Side, sink: str = "audit") -> bool:
    """Looks once at the snapshots that the leader owes, with a feed as after a takeover. Returns whether one began."""
    feeds = feeds_of(side.outbox)
    feed = feeds.feed(sink)
    schedule = SnapshotSchedule({sink: without_worker(PLAN, feed, side.outbox)}, side.outbox, "prod", discard)
    await schedule.look()
    feeds.end(sink)
    return side.outbox.sinks[sink].backfill is not None


async def demand(side: Side, scope: SnapshotScope | None) -> None:
    """Begins a snapshot of all objects; ``scope``: what it says about itself."""
    taken = side.outbox.sinks["audit"].settled
    states = await side.outbox.snapshots.states_as_of("audit", taken, None, None)
    await side.outbox.snapshots.begin("audit", taken, states, scope, scheduled=False)


@pytest.mark.parametrize(
    "scope", [None, SnapshotScope(resource="pods", namespace="shop", where="object.x == 'secret'")]
)
async def test_a_snapshot_on_demand_begins_anew(tmp_path: Path, scope: SnapshotScope | None) -> None:
    async with replicas(tmp_path) as [leader, follower]:
        await leader.standby.take_over(1, None)
        await all_see([leader, follower], "added shop/a", "added mall/b", position="110")
        await leader.delivers("audit")
        await demand(leader, scope)
        assert await leader.delivers("audit", 1) == ["snapshot"]
        found = published(leader)
        assert found.sinks["audit"].backfill == "snapshot"
        assert "secret" not in frontiers.encode(found), "whoever may read the Lease would read it"

        await follower.standby.take_over(2, found)
        assert follower.standby.owed == {"audit": OwedSnapshot(scope and replace(scope, where=None))}
        again = published(follower).sinks["audit"]
        assert (again.backfill, again.scope) == ("snapshot", found.sinks["audit"].scope), "for the next leader, too"
        assert await begins_owed(follower)
        assert not follower.standby.owed
        assert published(follower).sinks["audit"].scope == again.scope
        objects = ["sync shop/a"] if scope else ["sync shop/a", "sync mall/b"]
        assert await follower.delivers("audit") == ["snapshot", *objects, "snapshot"]
        assert published(follower).sinks["audit"].backfill == ""
        assert published(follower).replays == 2, "its records have other ids"


async def test_the_replays_of_a_rebuilt_state_fit_into_a_frontier(tmp_path: Path) -> None:
    """They begin at a number behind all lost ones."""
    async with await Outbox.open(tmp_path, SINKS, report=discard, first_behind=number_of_now):
        pass
    (tmp_path / "outbox.db").write_bytes(b"no database" * 1000)
    async with opened(tmp_path, SINKS) as outbox:
        leader = Side(outbox, await joined(outbox))
        await leader.pods.begin(outbox)
        await leader.sees("added shop/a", position="110")
        await leader.standby.take_over(1, None)
        await leader.delivers("audit")
        await demand(leader, None)
        assert published(leader).replays > number_of_now() - 3600 * 10**6


async def test_a_cancelled_snapshot_stays_cancelled(tmp_path: Path) -> None:
    async with replicas(tmp_path) as [leader, follower]:
        await leader.standby.take_over(1, None)
        await all_see([leader, follower], "added shop/a", position="110")
        await leader.delivers("audit")
        await demand(leader, None)
        await leader.delivers("audit", 1)
        await leader.outbox.snapshots.cancel("audit")
        await follower.standby.take_over(2, published(leader))
        assert not follower.standby.owed


async def test_a_long_condition_becomes_a_snapshot_of_everything(tmp_path: Path) -> None:
    async with replicas(tmp_path) as [leader, follower]:
        await leader.standby.take_over(1, None)
        await demand(leader, SnapshotScope(where="x" * 3000))
        await follower.standby.take_over(2, published(leader))
        assert follower.standby.owed == {"audit": OwedSnapshot(None)}


async def test_a_snapshot_follows_the_gap_of_an_inexact_takeover(tmp_path: Path) -> None:
    async with replicas(tmp_path) as [leader, follower]:
        await leader.standby.take_over(1, None)
        await leader.sees("added shop/a", position="110")
        await leader.delivers("audit")
        follower.pods.evidence = Evidence.LISTED
        await follower.sees("added shop/a", position=None)
        await follower.sees(position="120")
        await follower.standby.take_over(2, published(leader))
        assert not await begins_owed(follower), "the Gap comes first"
        assert await follower.delivers("audit") == ["added shop/a", "gap"]
        assert await begins_owed(follower)
        assert await follower.delivers("audit") == ["snapshot", "sync shop/a", "snapshot"]


async def test_a_snapshot_waits_for_what_the_leader_before_delivered(tmp_path: Path) -> None:
    """Else it would set objects back, and the leader behind it would trust the frontier."""
    async with replicas(tmp_path) as [leader, follower]:
        await leader.standby.take_over(1, None)
        await all_see([leader, follower], "added shop/a", position="110")
        await leader.sees("added shop/b", position="120")
        await leader.delivers("audit")
        await demand(leader, None)
        await follower.standby.take_over(2, published(leader))
        await follower.delivers("audit")
        assert not await begins_owed(follower)

        await follower.sees("added shop/b", position="120")
        await follower.delivers("audit")
        assert await begins_owed(follower)


async def test_pauses_go_to_the_next_leader(tmp_path: Path) -> None:
    async with replicas(tmp_path) as [leader, follower]:
        await leader.standby.take_over(1, None)
        await leader.outbox.sinks.pause("audit", PauseCause.OPERATOR)
        await leader.outbox.sinks.pause("slow", PauseCause.GONE)
        found = published(leader)
        leader.standby.step_down()
        await follower.standby.take_over(2, found)
        sinks = follower.outbox.sinks
        assert (sinks["audit"].paused, sinks["slow"].paused) == (PauseCause.OPERATOR, PauseCause.GONE)

        await sinks.pause("audit", PauseCause.NONE)
        await sinks.pause("slow", PauseCause.NONE)
        await sinks.pause("slow", PauseCause.OPERATOR)
        await leader.standby.take_over(3, published(follower))
        sinks = leader.outbox.sinks
        assert (sinks["audit"].paused, sinks["slow"].paused) == (PauseCause.NONE, PauseCause.OPERATOR)
        copy = crashed(tmp_path / "0", tmp_path / "copy")
    async with opened(copy, SINKS) as outbox:
        assert (outbox.sinks["audit"].paused, outbox.sinks["slow"].paused) == (PauseCause.NONE, PauseCause.OPERATOR)


async def test_a_pause_that_was_not_published_stays_there(tmp_path: Path) -> None:
    async with replicas(tmp_path) as [leader, _]:
        await leader.standby.take_over(1, None)
        found = published(leader)
        await leader.outbox.sinks.pause("audit", PauseCause.OPERATOR)
        leader.standby.step_down()
        await leader.standby.take_over(2, found)
        assert leader.outbox.sinks["audit"].paused is PauseCause.OPERATOR


async def test_a_cancelled_takeover_does_not_lead(tmp_path: Path) -> None:
    async with replicas(tmp_path) as [leader, follower]:
        await leader.standby.take_over(1, None)
        await all_see([leader, follower], "added shop/a", position="110")
        async with asyncio.TaskGroup() as tasks:
            begun = tasks.create_task(follower.standby.take_over(2, published(leader)))
            await asyncio.sleep(0)  # The transaction is under way.
            begun.cancel()
        assert begun.cancelled()
        follower.standby.step_down()
        await follower.outbox.sinks.pause("slow", PauseCause.NONE)  # Behind that transaction.
        assert follower.standby.term == 2, "it was written"
        assert not follower.standby.leading

        await leader.delivers("audit")
        follower.standby.observe(published(leader))
        assert follower.outbox.sinks["audit"].settled == 1
        await follower.standby.take_over(3, published(leader))
        assert follower.standby.leading
        assert await follower.delivers("slow") == ["added shop/a"]


async def test_a_fence_belongs_to_the_term_that_it_ended(tmp_path: Path) -> None:
    async with replicas(tmp_path) as [leader, follower]:
        await leader.standby.take_over(1, None)
        await leader.outbox.sinks.pause("audit", PauseCause.FENCED)
        await follower.standby.take_over(2, published(leader))
        assert follower.outbox.sinks["audit"].paused is PauseCause.NONE


# ── Sinks that are new ───────────────────────────────────────────────────────


@asynccontextmanager
async def reopened(directory: Path, sinks: Mapping[str, StartPolicy]) -> AsyncIterator[Side]:
    """A start of a replica with these sinks, as ``Bridge`` does it."""
    async with opened(directory, dict.fromkeys(sinks)) as outbox:
        side = Side(outbox, await joined(outbox, "kubedelta-1/2"))
        side.standby.configured.starts = sinks
        await outbox.registration.begin(sinks, (), before=False)
        side.pods = await Informed(versions=side.pods.versions).begin(outbox)
        yield side


async def deliver_all(leader: Side, *sinks: str) -> None:
    for sink in sinks:
        await leader.delivers(sink)


async def step_both(sides: Sequence[Side], *steps: str, position: int) -> None:
    """Both see the steps, with versions just below the position."""
    for side in sides:
        side.pods.versions = count(position - 9)
        await side.sees(*steps, position=str(position))


@pytest.mark.parametrize(
    ("start", "gets"),
    [
        (StartPolicy.NOW, ["updated shop/b"]),
        (StartPolicy.SNAPSHOT, ["updated shop/b", "snapshot", "added shop/a", "added shop/b", "snapshot"]),
    ],
)
async def test_a_sink_that_no_leader_knew_begins_at_the_frontier(
    tmp_path: Path, start: StartPolicy, gets: list[str]
) -> None:
    async with replicas(tmp_path) as [leader, follower]:
        await leader.standby.take_over(1, None)
        await all_see([leader, follower], "added shop/a", "added shop/b", position="110")
        await deliver_all(leader, *SINKS)
        follower.standby.observe(published(leader))
        await follower.outbox.maintain()
        copy = crashed(tmp_path / "1", tmp_path / "copy")
        async with reopened(copy, {**SINKS, "new": start}) as later:
            later.standby.observe(published(leader))
            assert later.standby.exact("new"), "or a roll-out that adds a sink would wait for ever"
            await step_both([leader, later], "updated shop/a", position=120)
            await deliver_all(leader, *SINKS)
            later.standby.observe(published(leader))
            await later.outbox.maintain()
            assert later.outbox.sinks["new"].settled == later.outbox.last, "it does not hold the log"
            await step_both([leader, later], "updated shop/b", position=130)
            await later.standby.take_over(2, published(leader))
            assert await later.delivers("new") == gets


async def test_the_earliest_record_is_that_of_the_takeover(tmp_path: Path) -> None:
    async with replicas(tmp_path) as [leader, follower]:
        await leader.standby.take_over(1, None)
        await all_see([leader, follower], "added shop/a", position="110")
        await leader.delivers("audit")
        follower.standby.observe(published(leader))
        await follower.outbox.maintain()
        copy = crashed(tmp_path / "1", tmp_path / "copy")
        async with reopened(copy, {**SINKS, "new": StartPolicy.EARLIEST}) as later:
            later.standby.observe(published(leader))
            await later.standby.take_over(2, published(leader))
            assert await later.delivers("new") == ["added shop/a"], "the other sink has not got it"


async def test_the_earliest_record_is_not_published_as_settled(tmp_path: Path) -> None:
    async with replicas(tmp_path) as [leader, follower]:
        await leader.standby.take_over(1, None)
        await follower.outbox.registration.begin({"new": StartPolicy.EARLIEST}, (), before=False)
        follower.standby.configured.starts = {"new": StartPolicy.EARLIEST}
        await all_see([leader, follower], "added shop/a", position="110")
        await deliver_all(leader, *SINKS)
        follower.standby.observe(published(leader))
        assert follower.outbox.sinks["new"].settled == 1, "it does not hold the log"
        await follower.standby.take_over(2, published(leader))
        assert published(follower).of("new", PODS_KEY) == point(90)
        assert await follower.delivers("new") == ["added shop/a"]
        assert published(follower).of("new", PODS_KEY) == point(110)


async def test_a_sink_that_a_reload_adds_keeps_what_it_lacks(tmp_path: Path) -> None:
    """The other sinks have settled it, so the follower had forgotten where the batches are."""
    async with replicas(tmp_path) as [leader, follower]:
        await leader.standby.take_over(1, None)
        follower.standby.observe(published(leader))
        await leader.outbox.registration.begin({"new": StartPolicy.NOW}, (), before=False)
        await step_both([leader, follower], "added shop/a", position=110)
        await step_both([leader, follower], "added shop/b", position=120)
        await deliver_all(leader, *SINKS)
        await leader.delivers("new", 1)
        follower.standby.observe(published(leader))
        await follower.outbox.registration.begin({"new": StartPolicy.NOW}, (), before=False)
        follower.standby.observe(published(leader))
        assert follower.outbox.sinks["new"].settled == 1
        await follower.standby.take_over(2, published(leader))
        assert await follower.delivers("new") == ["added shop/b"]


async def test_the_leader_says_that_a_new_sink_has_nothing(tmp_path: Path) -> None:
    async with replicas(tmp_path) as [leader, _]:
        await leader.standby.take_over(1, None)
        await leader.sees("added shop/a", position="110")
        await deliver_all(leader, *SINKS)
        published(leader)
        await leader.outbox.registration.begin({"new": StartPolicy.EARLIEST}, (), before=False)
        assert published(leader).of("new", PODS_KEY) == point(90)
        assert await leader.delivers("new") == ["added shop/a"]
        assert published(leader).of("new", PODS_KEY) == point(110)


async def test_a_sink_that_began_on_the_leader_lacks_no_step(tmp_path: Path) -> None:
    """The follower gets the sink later, with its own start at ``now``: that of the leader counts."""
    async with replicas(tmp_path) as [leader, follower]:
        await leader.standby.take_over(1, None)
        await all_see([leader, follower], "added shop/a", position="110")
        await leader.delivers("audit")
        follower.standby.observe(published(leader))
        await leader.outbox.registration.begin({"new": StartPolicy.NOW}, (), before=False)
        await step_both([leader, follower], "updated shop/a", position=120)
        await leader.delivers("audit")
        await follower.outbox.maintain()
        copy = crashed(tmp_path / "1", tmp_path / "copy")
        async with reopened(copy, {**SINKS, "new": StartPolicy.NOW}) as later:
            found = published(leader)
            assert found.of("new", PODS_KEY) != found.of("audit", PODS_KEY)
            later.standby.observe(found)
            await later.standby.take_over(2, found)
            assert await later.delivers("new") == ["updated shop/a"]


async def test_a_leader_begins_a_new_sink_by_its_own_start(tmp_path: Path) -> None:
    async with replicas(tmp_path) as [leader, _]:
        await leader.standby.take_over(1, None)
        await leader.sees("added shop/a", position="110")
        await leader.outbox.registration.begin({"new": StartPolicy.NOW}, (), before=False)
        assert await leader.delivers("new") == []
