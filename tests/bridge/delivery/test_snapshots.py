"""Snapshots on demand and by schedule: their records, their order among changes, kills, cancels and refusals."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from bridge.delivery.backfills import SnapshotSchedule, begin_snapshot, cancel_snapshot
from bridge.delivery.sink_feed import SinkFeed
from bridge.model.admin import UnknownTarget
from bridge.model.formats.cloudevent import notice_data
from bridge.model.policies import StartPolicy
from bridge.model.record import Delta, Record, Snapshot, SnapshotScope
from bridge.model.status import SnapshotState, SnapshotStatus
from bridge.outbox import Outbox, Retention
from bridge.plan.plan import SinkPlan
from bridge.telemetry.facts import Fact, discard
from bridge.telemetry.facts.delivery import ExpressionFailed
from bridge.telemetry.facts.outbox import SnapshotBegan, SnapshotCancelled, SnapshotEnded
from tests.bridge.delivery.chat import BIG, EVERY, change, put, started, taken
from tests.bridge.outbox.opened import Bench, crashed, feeds_of, opened
from tests.kit.informed import Informed
from tests.kit.pipelines import opened_feeds, replay, without_worker
from tests.kit.sinks import RecordingSink
from tests.kit.virtual_time import StandingClock

TWO = {"audit": StartPolicy.NOW, "other": StartPolicy.NOW}
RETAINED = Retention(retain_bytes=1 << 20)


class SnapshotBench(Bench):
    def __init__(self, outbox: Outbox, informer: Informed, facts: list[Fact]) -> None:
        super().__init__(outbox, informer)
        self.facts = facts

    async def snapshot(self, **scope: Any) -> SnapshotStatus:
        """``resource`` is not looked up by kubectl's rules."""
        kind = await self.outbox.ledger.kind_of(scope["resource"]) if "resource" in scope else None
        found = SnapshotScope(**scope) if scope else None
        return await begin_snapshot(
            self.outbox, "audit", self.feed, cluster="test", report=self.facts.append, kind=kind, scope=found
        )

    async def cancel(self) -> SnapshotStatus:
        return await cancel_snapshot(self.outbox, "audit", self.feed)

    async def rest(self, limit: int = 100) -> list[Record]:
        self.settle()
        return await super().rest(limit)

    async def received(self) -> list[str]:
        return story(await self.rest())


def made(directory: Path) -> Path:
    directory.mkdir()
    return directory


def story(records: Sequence[Record]) -> list[str]:
    return [
        f"{each.op} {each.key}" if isinstance(each, Delta) else each.edge if isinstance(each, Snapshot) else "gap"
        for each in records
    ]


@asynccontextmanager
async def bench(directory: Path, *, facts: list[Fact] | None = None, **options: Any) -> AsyncIterator[SnapshotBench]:
    reported: list[Fact] = [] if facts is None else facts
    async with opened(directory, TWO, facts=reported, **options) as outbox:
        yield SnapshotBench(outbox, await Informed().begin(outbox), reported)


# ── Its records ──────────────────────────────────────────────────────────────


async def test_a_snapshot_has_the_objects_behind_what_was_taken(tmp_path: Path) -> None:
    async with bench(tmp_path) as it:
        await it.exports("added shop/a", "added shop/b", "updated shop/a", "added shop/c", "deleted shop/c")
        await it.rest()
        status = await it.snapshot()
        await it.exports("updated shop/b", "deleted shop/a")
        records = await it.rest()

    assert story(records) == [
        "began", "sync shop/b", "sync shop/a", "ended", "updated shop/b", "deleted shop/a"
    ]  # fmt: skip
    began, b, a, ended, *_ = records
    assert isinstance(began, Snapshot)
    assert isinstance(ended, Snapshot)
    assert (began.id, ended.id) == ("snapshot/audit/5/1/began", "snapshot/audit/5/1/ended")
    assert (began.count, ended.count, began.only) == (2, 2, None)
    assert isinstance(a, Delta)
    assert isinstance(b, Delta)
    assert [(each.snapshot, each.last_of_snapshot) for each in (b, a)] == [
        ("snapshot/audit/5/1", False),
        ("snapshot/audit/5/1", True),
    ]
    assert [each.sequence for each in records] == [5, 5, 5, 5, 6, 7]
    assert a.id == a.delivery_id == f"{a.uid}/{a.resource_version}/sync/snapshot/1"
    assert (a.before, a.targets) == (None, None)
    assert (status.objects, status.left, status.state) == (2, 2, SnapshotState.DELIVERING)
    assert [each for each in it.facts if isinstance(each, SnapshotBegan | SnapshotEnded)] == [
        SnapshotBegan("audit", 2),
        SnapshotEnded("audit", 2),
    ]


async def test_a_snapshot_of_a_sink_that_lags_is_as_old_as_its_records(tmp_path: Path) -> None:
    async with bench(tmp_path, retention=RETAINED) as it:
        await it.exports("added shop/a", "added shop/b")
        await it.take(1)
        await it.exports("updated shop/a", "deleted shop/b", "added shop/c")
        feeds_of(it.outbox).feed("other")
        it.outbox.sinks["other"].settle(5)
        await it.snapshot()
        await it.outbox.maintain()
        await it.outbox.maintain()
        assert await it.received() == [
            "began", "sync shop/a", "ended", "added shop/b", "updated shop/a", "deleted shop/b", "added shop/c"
        ]  # fmt: skip


async def test_a_second_snapshot_has_other_ids(tmp_path: Path) -> None:
    async with bench(tmp_path) as it:
        await it.exports("added shop/a")
        found = await it.rest()
        for _ in range(2):
            await it.snapshot()
            found += await it.rest()
        identities = [each.unique_id for each in found]
        assert len(set(identities)) == len(identities) == 7


async def test_a_snapshot_without_objects_says_so(tmp_path: Path) -> None:
    async with bench(tmp_path) as it:
        assert (await it.snapshot()).objects == 0
        assert await it.received() == ["began", "ended"]
        await it.outbox.maintain()
        [status] = await it.outbox.snapshots.statuses()
        assert (status.state, status.ended != "") == (SnapshotState.DELIVERED, True)


async def test_a_narrowed_snapshot_names_its_objects(tmp_path: Path) -> None:
    async with bench(tmp_path) as it:
        await it.exports("added shop/a", "added pay/a", "added shop/b")
        await it.rest()
        where = "object.key.endsWith('a')"
        await it.snapshot(resource="pods", namespace="shop", where=where)
        records = await it.rest()
        assert story(records) == ["began", "sync shop/a", "ended"]
        for edge in (records[0], records[-1]):
            assert isinstance(edge, Snapshot)
            only = msgspec.json.decode(notice_data(edge))["only"]
            assert only == {"resource": "pods", "namespace": "shop", "where": where}
        [status] = await it.outbox.snapshots.statuses()
        assert (status.resource, status.namespace, status.where) == ("pods", "shop", where)


async def test_an_object_that_cannot_be_judged_is_in_the_snapshot(tmp_path: Path) -> None:
    async with bench(tmp_path) as it:
        await it.exports("added shop/a")
        await it.rest()
        assert (await it.snapshot(where="object.spec.missing > 1")).objects == 1
        assert [each.key for each in it.facts if isinstance(each, ExpressionFailed)] == ["shop/a"]


async def test_a_wrong_expression_begins_no_snapshot(tmp_path: Path) -> None:
    async with bench(tmp_path) as it:
        with pytest.raises(UnknownTarget, match=r"^--where: .*column 1"):
            await it.snapshot(where="objekt.spec == 1")
        assert it.feed.backfill is None


# ── Kills, compaction, cancel ────────────────────────────────────────────────


async def test_a_snapshot_goes_on_after_a_kill_with_the_same_ids(tmp_path: Path) -> None:
    async with bench(made(tmp_path / "first")) as it:
        await it.exports("added shop/a", "added shop/b", "added shop/c")
        await it.rest()
        await it.exports("updated shop/a")
        assert story(await it.take()) == ["updated shop/a"], "in flight"
        await it.snapshot()
        await it.take(2)
        it.settle()
        await it.take(1)
        await it.outbox.maintain()
        crashed(tmp_path / "first", tmp_path / "second")
        before = await it.rest()
    async with bench(tmp_path / "second") as it:
        again = await it.rest()
        [status] = await it.outbox.snapshots.statuses()
    assert story(again) == ["sync shop/c", "sync shop/a", "ended"]
    assert story(before) == ["sync shop/a", "ended"]
    assert [each.unique_id for each in again[-2:]] == [each.unique_id for each in before]
    assert isinstance(again[1], Delta)
    assert again[1].last_of_snapshot
    assert (status.number, status.state) == (1, SnapshotState.DELIVERED)


async def test_records_in_flight_before_a_snapshot_come_again_first(tmp_path: Path) -> None:
    async with bench(made(tmp_path / "first")) as it:
        await it.exports("added shop/a", "updated shop/a")
        first = await it.take()
        await it.snapshot()
        crashed(tmp_path / "first", tmp_path / "second")
    async with bench(tmp_path / "second") as it:
        again = await it.rest()
    assert story(again) == ["added shop/a", "updated shop/a", "began", "sync shop/a", "ended"]
    assert [each.unique_id for each in again[:2]] == [each.unique_id for each in first]
    assert again[3].snapshot == "snapshot/audit/2/1"


async def test_a_compacted_snapshot_keeps_the_newer_state(tmp_path: Path) -> None:
    async with bench(tmp_path) as it:
        await it.exports("added shop/a", "added shop/b", "added shop/c")
        await it.rest()
        await it.snapshot()
        await it.exports("updated shop/a", "updated shop/a", "deleted shop/b")
        assert await it.feed.compact() == (8, 5)
        records = await it.rest()
    assert story(records) == ["began", "sync shop/c", "updated shop/a", "deleted shop/b", "ended"]
    ended = records[-1]
    assert isinstance(ended, Snapshot)
    assert ended.count == 1
    assert [each.snapshot for each in records[1:4]] == ["snapshot/audit/3/1", None, None]


async def test_a_cancelled_snapshot_ends_with_a_notice_of_its_own(tmp_path: Path) -> None:
    async with bench(made(tmp_path / "first")) as it:
        await it.exports("added shop/a", "added shop/b", "added shop/c")
        await it.rest()
        await it.snapshot()
        await it.take(2)
        await it.exports("updated shop/b")
        await it.feed.compact()
        cancelled = await it.cancel()
        assert (cancelled.state, cancelled.left) == (SnapshotState.CANCELLED, 1)
        assert SnapshotCancelled("audit", 1) in it.facts
        with pytest.raises(UnknownTarget, match="no snapshot on demand under way"):
            await it.cancel()
        await it.outbox.maintain()
        crashed(tmp_path / "first", tmp_path / "second")
        *_, last = rest = await it.rest()
        assert story(rest) == ["updated shop/b", "cancelled"]
        assert isinstance(last, Snapshot)
        assert (last.id, last.count) == ("snapshot/audit/3/1/cancelled", 1)
        assert it.feed.backfill is None
        assert not any(isinstance(each, SnapshotEnded) for each in it.facts)
        assert (await it.snapshot()).number == 2
    async with bench(tmp_path / "second") as it:
        again = await it.rest()
        assert story(again) == ["began", "sync shop/a", "updated shop/b", "cancelled"]
        assert again[1].snapshot == "snapshot/audit/3/1"
        assert not (await it.outbox.check()).problems


async def test_a_snapshot_cancelled_before_its_beginning_is_unseen(tmp_path: Path) -> None:
    async with bench(tmp_path) as it:
        await it.exports("added shop/a", "added shop/b")
        await it.take()
        await it.snapshot()
        assert (await it.cancel()).left == 2
        assert await it.received() == []
        assert it.feed.backfill is None


async def test_a_former_process_may_have_begun_a_cancelled_snapshot(tmp_path: Path) -> None:
    async with bench(made(tmp_path / "first")) as it:
        await it.exports("added shop/a")
        await it.rest()
        await it.snapshot()
        crashed(tmp_path / "first", tmp_path / "second")
    async with bench(tmp_path / "second") as it:
        await it.cancel()
        assert await it.received() == ["added shop/a", "began", "cancelled"]


async def test_a_snapshot_whose_end_was_sent_has_no_other_end(tmp_path: Path) -> None:
    async with bench(made(tmp_path / "first")) as it:
        await it.exports("added shop/a")
        await it.rest()
        await it.snapshot()
        await it.take()
        await it.cancel()
        await it.outbox.maintain()
        crashed(tmp_path / "first", tmp_path / "second")
        assert await it.received() == []
    async with bench(tmp_path / "second") as it:
        assert await it.received() == ["began", "sync shop/a", "ended"]


async def test_the_snapshot_with_which_a_sink_begins_is_not_cancelled(tmp_path: Path) -> None:
    async with bench(tmp_path) as it:
        await it.exports("added shop/a")
    late = {"late": StartPolicy.SNAPSHOT}
    async with opened(tmp_path, late) as outbox:
        with pytest.raises(UnknownTarget, match="no snapshot on demand under way"):
            await cancel_snapshot(outbox, "late", feeds_of(outbox).feed("late"))


# ── Beside other backfills ───────────────────────────────────────────────────


async def test_a_snapshot_beside_another_backfill_is_refused(tmp_path: Path) -> None:
    async with bench(tmp_path, retention=RETAINED) as it:
        await it.exports("added shop/a")
        await it.rest()
        await replay(it.outbox, it.feed, 1)
        with pytest.raises(UnknownTarget, match="sink audit still gets a replay, 1 records to go: ask again after it"):
            await it.snapshot()
        await it.rest()
        await it.snapshot()
        for asked in (it.snapshot(), replay(it.outbox, it.feed, 1)):
            with pytest.raises(UnknownTarget, match="still gets a snapshot, 3 records to go"):
                await asked


# ── Of a sink that selects ───────────────────────────────────────────────────


async def test_a_snapshot_has_the_selected_objects_alone(tmp_path: Path) -> None:
    async with started(tmp_path, BIG) as (outbox, feed):
        await put(outbox, 3, 7, 8)
        await taken(feed)
        await begin_snapshot(outbox, "chat", feed, cluster="test", report=discard)
        assert await taken(feed) == ["sync 7", "sync 8"]
        wider = SnapshotScope(where="object.spec.n != 7")
        await begin_snapshot(outbox, "chat", feed, cluster="test", report=discard, scope=wider)
        assert await taken(feed) == ["sync 8"]


async def test_a_snapshot_waits_until_the_sink_has_the_difference(tmp_path: Path) -> None:
    async with started(tmp_path, EVERY) as (outbox, feed):
        await put(outbox, 1, 9)
    async with started(tmp_path, BIG) as (outbox, feed):
        with pytest.raises(UnknownTarget, match="its selection changed with record 3: ask again when it has that"):
            await begin_snapshot(outbox, "chat", feed, cluster="test", report=discard)
        await taken(feed)
        await begin_snapshot(outbox, "chat", feed, cluster="test", report=discard)
        await change(outbox, ("9", 1))
        assert await taken(feed) == ["sync 9", "deleted 9"]


async def test_a_snapshot_is_newer_than_the_difference_of_a_selection(tmp_path: Path) -> None:
    table: dict[str, tuple[int, str]] = {}
    async with started(tmp_path, EVERY) as (outbox, feed):
        await put(outbox, 1)
        keep(table, await fetched(feed))
    async with started(tmp_path, BIG) as (_, feed):
        keep(table, await fetched(feed))
    async with started(tmp_path, EVERY) as (outbox, feed):
        assert [each.op for each in await fetched(feed)] == ["added"], "the table loses this row"
        await begin_snapshot(outbox, "chat", feed, cluster="test", report=discard)
        keep(table, await fetched(feed))
    assert table == {"shop/1": (3, "sync")}


async def fetched(feed: SinkFeed) -> list[Delta]:
    found: list[Delta] = []
    while not feed.exhausted:
        fetch = await feed.take(100)
        found += [each for each in fetch.items if isinstance(each, Delta)]
        feed.settle(fetch)
    return found


def keep(table: dict[str, tuple[int, str]], rows: Sequence[Delta]) -> None:
    """By key, the row with the largest sequence number."""
    for row in rows:
        table[row.key] = max(table.get(row.key, (0, "")), (row.sequence, row.op))


# ── By schedule ──────────────────────────────────────────────────────────────

HOUR, DAY = 3600.0, 86_400.0
NOON = "2026-11-21T12:00:00.000000Z"


class Scheduled:
    """A start of a bridge whose sink has a snapshot every day. ``wall``: the clock of the machine."""

    def __init__(self, outbox: Outbox, feed: SinkFeed, wall: str, every: float = DAY) -> None:
        self.outbox = outbox
        self.feed = feed
        self.clock = StandingClock()
        self.pipelines = {"audit": without_worker(self._plan(every), feed, outbox)}
        self.schedule = SnapshotSchedule(self.pipelines, outbox, "test", discard, now=self.clock, wall=lambda: wall)

    def _plan(self, every: float) -> SinkPlan:
        return SinkPlan(name="audit", type="fake", make=RecordingSink, max_batch=10, snapshot_every=every)

    def reload(self, every: float) -> None:
        self.pipelines["audit"] = without_worker(self._plan(every), self.feed, self.outbox)

    async def after(self, seconds: float) -> bool:
        """Whether a snapshot begins that much later."""
        self.clock.now += seconds
        await self.schedule.look()
        return self.feed.backfill is not None

    async def deliver(self) -> None:
        while not self.feed.exhausted:
            self.feed.settle(await self.feed.take(100))


@asynccontextmanager
async def scheduled(directory: Path, wall: str, every: float = DAY) -> AsyncIterator[Scheduled]:
    feeds = await opened_feeds(directory, TWO, report=discard, clock=lambda: wall)
    async with feeds.outbox as outbox:
        await Informed().begin(outbox)
        yield Scheduled(outbox, feeds.feed("audit"), wall, every)


async def test_a_schedule_begins_a_snapshot_each_time(tmp_path: Path) -> None:
    async with scheduled(tmp_path, NOON) as it:
        assert not await it.after(0)
        assert not await it.after(DAY - 1)
        assert await it.after(1)
        await it.deliver()
        assert not await it.after(DAY - 1)
        assert await it.after(1)


async def test_a_schedule_goes_on_over_a_restart(tmp_path: Path) -> None:
    async with scheduled(tmp_path, NOON) as it:
        assert not await it.after(0)
    async with scheduled(tmp_path, "2026-11-22T11:00:00.000000Z") as it:
        assert not await it.after(0)
        assert await it.after(HOUR)


async def test_snapshots_missed_while_no_bridge_ran_are_one(tmp_path: Path) -> None:
    async with scheduled(tmp_path, NOON) as it:
        assert not await it.after(0)
    async with scheduled(tmp_path, "2026-11-30T12:00:00.000000Z") as it:
        assert await it.after(0)
        await it.deliver()
        assert not await it.after(DAY - 1)
    async with scheduled(tmp_path, "2026-11-30T13:00:00.000000Z") as it:
        assert not await it.after(0)
        assert not await it.after(22 * HOUR)
        assert await it.after(HOUR)


async def test_a_clock_that_was_set_back_delays_by_one_time_at_most(tmp_path: Path) -> None:
    async with scheduled(tmp_path, NOON) as it:
        assert not await it.after(0)
    async with scheduled(tmp_path, "2020-01-01T00:00:00.000000Z") as it:
        assert not await it.after(0)
        assert await it.after(DAY)


async def test_a_due_snapshot_waits_for_another_backfill(tmp_path: Path) -> None:
    async with scheduled(tmp_path, NOON) as it:
        assert not await it.after(0)
        await begin_snapshot(it.outbox, "audit", it.feed, cluster="test", report=discard)
        assert await it.after(DAY), "the one on demand"
        await it.deliver()
        assert it.feed.backfill is None
        assert await it.after(0)
        [status] = await it.outbox.snapshots.statuses()
        assert status.number == 2


async def test_a_reload_changes_the_schedule(tmp_path: Path) -> None:
    async with scheduled(tmp_path, NOON, every=0) as it:
        assert not await it.after(9 * DAY)
        it.reload(DAY)
        assert not await it.after(0)
        assert not await it.after(2 * HOUR)
        it.reload(HOUR)
        assert await it.after(0)
