"""Backfills: snapshots, compacted and dropped backlogs, replays."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest
from msgspec.structs import replace

from bridge.delivery import LaneWorker, WorkerSettings
from bridge.delivery.sink_feed import SinkFeed
from bridge.model.admin import Replayed, UnknownTarget
from bridge.model.policies import StartPolicy
from bridge.model.record import Delta, Gap, Record, Snapshot
from bridge.outbox import Outbox, Retention, condition
from bridge.outbox.consumers import backfill, backfill_plans
from bridge.outbox.storage.directory_lock import FILE
from bridge.outbox.store import MOST_BYTES
from bridge.telemetry.facts import Fact, discard
from bridge.telemetry.facts.outbox import SnapshotBegan, SnapshotEnded
from sinks.base import Lanes
from tests.bridge.delivery.world import never_gone
from tests.bridge.outbox.opened import AUDIT, Taker, crashed, everything, opened, story
from tests.kit.deadlines import BUSY
from tests.kit.informed import Informed
from tests.kit.pipelines import replay
from tests.kit.records import DEPLOYMENTS, TIME
from tests.kit.sinks import RecordingSink

BEGINNING = 0
RETAINED = Retention(retain_bytes=1 << 30)
WITH_LATE = AUDIT | {"late": StartPolicy.SNAPSHOT}


async def settled(outbox: Outbox) -> None:
    for cursor in outbox.sinks.all:
        outbox.sinks[cursor.sink].settle(outbox.last)
    await outbox.maintain()


# ── Snapshots ────────────────────────────────────────────────────────────────


async def test_a_new_sink_gets_a_snapshot_and_then_the_changes(tmp_path: Path) -> None:
    async with opened(tmp_path) as outbox:
        informer = await Informed().begin(outbox)
        await informer.exports(
            outbox, "added shop/a", "added shop/b", "updated shop/a", "added shop/c", "deleted shop/c"
        )

    facts: list[Fact] = []
    async with opened(tmp_path, WITH_LATE, facts=facts) as outbox:
        taker = Taker(outbox, "late")
        await (await Informed().begin(outbox)).exports(outbox, "updated shop/b")
        records = await taker.rest(limit=2)

        assert story(records) == ["snapshot", "added shop/b", "added shop/a", "snapshot", "updated shop/b"]
        began, b, a, ended, _ = records
        assert isinstance(began, Snapshot)
        assert isinstance(ended, Snapshot)
        assert (began.edge, began.count, began.sequence, began.sink) == ("began", 2, 5, "late")
        assert (ended.edge, ended.count, ended.sequence) == ("ended", 2, 5)
        assert [b.sequence, a.sequence] == [5, 5]
        assert outbox.sinks["audit"].backfill is None
        assert outbox.sinks["late"].backfill is None
    assert SnapshotBegan("late", 2) in facts
    assert SnapshotEnded("late", 2) in facts


async def test_snapshot_records_name_it_and_the_last_says_so(tmp_path: Path) -> None:
    async with opened(tmp_path) as outbox:
        await (await Informed().begin(outbox)).exports(outbox, "added shop/a", "added shop/b", "added shop/c")
    async with opened(tmp_path, WITH_LATE) as outbox:
        taker = Taker(outbox, "late")
        await (await Informed().begin(outbox)).exports(outbox, "updated shop/b", "added shop/d")
        await taker.take(2)
        taker.settle()
        await outbox.maintain()
        left = crashed(tmp_path, tmp_path / "left")
        records = await taker.rest(limit=1)
    async with opened(left, WITH_LATE) as outbox:
        assert outbox.sinks.backlog_records("late") == 5
        again = await Taker(outbox, "late").rest(limit=10)
        assert outbox.sinks.backlog_records("late") == 0

    assert records == again, "it goes on after a crash where it was saved"
    assert named(records) == [
        ("added shop/b", "snapshot/late/3", False),
        ("added shop/c", "snapshot/late/3", True),
        ("snapshot", "snapshot/late/3", False),
        ("updated shop/b", None, False),
        ("added shop/d", None, False),
    ]


async def test_changes_within_a_compacted_snapshot_are_no_part_of_it(tmp_path: Path) -> None:
    """The end of a snapshot has the number of its objects."""
    async with opened(tmp_path) as outbox:
        await (await Informed().begin(outbox)).exports(outbox, "added shop/a", "added shop/b", "added shop/c")
    async with opened(tmp_path, WITH_LATE) as outbox:
        taker = Taker(outbox, "late")
        await (await Informed().begin(outbox)).exports(outbox, "updated shop/a", "deleted shop/c", "added shop/d")
        await taker.feed.compact()
        records = await taker.rest()

    assert named(records) == [
        ("snapshot", "snapshot/late/3", False),
        ("added shop/a", "snapshot/late/3", False),
        ("added shop/b", "snapshot/late/3", True),
        ("updated shop/a", None, False),
        ("deleted shop/c", None, False),
        ("added shop/d", None, False),
        ("snapshot", "snapshot/late/3", False),
    ]
    began, ended = (record for record in records if isinstance(record, Snapshot))
    assert (began.count, ended.count) == (3, 2)


def named(records: Sequence[Record]) -> list[tuple[str, str | None, bool]]:
    """The story of a record, its snapshot, and whether it is marked as the last of the snapshot."""
    last = [isinstance(record, Delta) and record.last_of_snapshot for record in records]
    return list(zip(story(records), (record.snapshot for record in records), last, strict=True))


async def test_a_snapshot_of_nothing_is_none(tmp_path: Path) -> None:
    async with opened(tmp_path, WITH_LATE) as outbox:
        assert outbox.sinks["late"].backfill is None
        assert Taker(outbox, "late").feed.exhausted


async def test_snapshot_states_stay_until_read_whatever_happens(tmp_path: Path) -> None:
    async with opened(tmp_path) as outbox:
        await (await Informed().begin(outbox)).exports(outbox, "added shop/a", "added shop/b")
        await settled(outbox)
    async with opened(tmp_path, WITH_LATE) as outbox:
        taker = Taker(outbox, "late")
        informer = await Informed().begin(outbox)
        await informer.exports(outbox, "deleted shop/a", "updated shop/b")
        outbox.sinks["audit"].settle(outbox.last)
        await outbox.maintain()
        await taker.take(2)
        taker.settle()
        await outbox.maintain()
        assert (await outbox.check()).problems == []

        assert await taker.delivered() == ["added shop/b", "snapshot", "deleted shop/a", "updated shop/b"]
        await settled(outbox)
        report = await outbox.check()
        assert (report.records, report.objects, report.problems) == (0, 1, [])


async def test_a_sink_forgotten_in_a_snapshot_keeps_no_records(tmp_path: Path) -> None:
    async with opened(tmp_path) as outbox:
        await (await Informed().begin(outbox)).exports(outbox, "added shop/a", "added shop/b")
        await settled(outbox)
    async with opened(tmp_path, WITH_LATE) as outbox:
        await (await Informed().begin(outbox)).exports(outbox, "deleted shop/a")
        outbox.sinks["audit"].settle(outbox.last)
        await outbox.maintain()
    async with opened(tmp_path) as outbox:
        await outbox.sinks.count_absence(100.0, 50.0)
        await outbox.maintain()
        report = await outbox.check()
        assert (report.records, report.objects, report.sinks, report.problems) == (0, 1, 1, [])


async def test_absence_counts_while_the_bridge_runs_until_the_return(tmp_path: Path) -> None:
    async with opened(tmp_path, WITH_LATE):
        pass
    for _ in range(3):
        async with opened(tmp_path) as outbox:
            await outbox.sinks.count_absence(30.0, 100.0)
            assert not outbox.sinks["late"].configured
    async with opened(tmp_path, WITH_LATE):
        pass
    async with opened(tmp_path) as outbox:
        await outbox.sinks.count_absence(30.0, 100.0)
        assert outbox.sinks["late"].absent_seconds == 30.0
        await outbox.sinks.count_absence(70.0, 100.0)
        assert [cursor.sink for cursor in outbox.sinks.all] == ["audit"]


# ── Compaction ───────────────────────────────────────────────────────────────


async def test_a_compacted_update_has_the_state_before_the_first(tmp_path: Path) -> None:
    async with opened(tmp_path, retention=Retention(before=True)) as outbox:
        taker = Taker(outbox)
        informer = await Informed().begin(outbox)
        [first] = await informer.exports(outbox, "added shop/a")
        assert await taker.delivered() == ["added shop/a"]
        for _ in range(3):
            await informer.exports(outbox, "updated shop/a", "updated shop/a")
        await informer.exports(outbox, "added shop/b", "updated shop/b", "added shop/c", "deleted shop/c")
        assert await taker.feed.compact() == (10, 2)
        await informer.exports(outbox, "updated shop/a")
        assert await taker.feed.compact() == (3, 2)
        new, updated = await taker.rest()

        assert isinstance(new, Delta)
        assert (new.op, new.sequence, new.before) == ("added", 9, None), "a new object has none"
        assert isinstance(updated, Delta)
        assert (updated.op, updated.sequence, updated.before) == ("updated", 12, first.body)


@pytest.mark.parametrize("part", [1, 2, 3])
async def test_a_backlog_is_compacted_as_one_however_it_is_fetched(
    tmp_path: Path, part: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backfill_plans, "_CHUNK", part)
    async with opened(tmp_path) as outbox:
        taker = Taker(outbox)
        informer = await Informed().begin(outbox)
        for name in ("a", "b", "c"):
            await informer.exports(outbox, f"added shop/{name}", f"updated shop/{name}")
        assert await taker.feed.compact() == (6, 3)
        await informer.exports(outbox, "deleted shop/a", "updated shop/b", "updated shop/c")
        assert await taker.feed.compact() == (6, 2)
        await informer.exports(outbox, "updated shop/b", "updated shop/b", "updated shop/c")
        assert await taker.feed.drop(outbox.last - 1) == (10, 2)
        assert await taker.delivered() == ["added shop/b", "added shop/c", "gap", "updated shop/c"]


async def shorten(taker: Taker, outbox: Outbox, policy: str) -> None:
    if policy == "compact":
        await taker.feed.compact()
    else:
        await taker.feed.drop(outbox.last)


SHORTENED = {"compact": ["updated shop/a"], "drop": ["gap"]}


@pytest.mark.parametrize("policy", ["compact", "drop"])
@pytest.mark.parametrize("settled", [0, 1, 3])
async def test_a_compacted_backlog_leaves_the_log_and_a_crash_is_safe(
    tmp_path: Path, policy: str, settled: int
) -> None:
    """A sink that is dead has always something in flight."""
    in_flight = ["added shop/a", "added shop/b", "added shop/c"]
    async with opened(tmp_path) as outbox:
        taker = Taker(outbox)
        informer = await Informed().begin(outbox)
        await informer.exports(outbox, *in_flight)
        for _ in in_flight:
            await taker.take(1)
        for _ in range(4):
            await informer.exports(outbox, *["updated shop/a"] * 50)
            await shorten(taker, outbox, policy)
            await outbox.maintain()
            assert outbox.records == 0, "no record is kept for this sink"
            assert outbox.backlog_of("audit").records == len(in_flight) + 1
        for fetch in taker.held[:settled]:
            taker.feed.settle(fetch)
        await outbox.maintain()
        assert outbox.backlog_of("audit").records == len(in_flight) - settled + 1
        assert (await outbox.check()).problems == []
        left = crashed(tmp_path, tmp_path / "left")

        del taker.held[:settled]
        taker.settle()
        assert await taker.delivered() == SHORTENED[policy]
        assert outbox.sinks.backlog_records("audit") == 0
    async with opened(left) as outbox:
        again = Taker(outbox)
        assert await again.delivered() == in_flight[settled:] + SHORTENED[policy]
        await outbox.maintain()
        assert (await outbox.check()).problems == []


async def test_records_in_flight_at_a_replay_return_as_they_were(tmp_path: Path) -> None:
    async with opened(tmp_path, retention=RETAINED) as outbox:
        taker = Taker(outbox)
        informer = await Informed().begin(outbox)
        await informer.exports(outbox, "added shop/a", "added shop/b")
        await taker.take()
        await replay(outbox, taker.feed, 1)
        left = crashed(tmp_path, tmp_path / "left")
    async with opened(left, retention=RETAINED) as outbox:
        found = await Taker(outbox).rest()

    assert [getattr(record, "replay", None) for record in found] == [0, 0, 1, 1]


async def test_the_oldest_age_counts_from_the_records_in_flight(tmp_path: Path) -> None:
    async with opened(tmp_path) as outbox:
        taker = Taker(outbox)
        informer = await Informed().begin(outbox)
        await informer.exports(outbox, "added shop/a")
        await taker.take()
        outbox.backlog_of("audit")
        began = asyncio.get_running_loop().time()
        await informer.exports(outbox, "updated shop/a")
        await taker.feed.compact()
        least = asyncio.get_running_loop().time() - began
        assert outbox.backlog_of("audit").age >= least
        taker.settle()
        await taker.rest()
        assert outbox.backlog_of("audit").age == 0.0


async def test_a_compacted_backlog_is_the_same_after_a_crash_and_comes_once(tmp_path: Path) -> None:
    async with opened(tmp_path, retention=Retention(before=True)) as outbox:
        taker = Taker(outbox)
        informer = await Informed().begin(outbox)
        await informer.exports(outbox, "added shop/a", "added shop/b")
        await taker.rest()
        await informer.exports(outbox, "updated shop/a", "updated shop/a", "deleted shop/b")
        await taker.feed.compact()
        await outbox.maintain()
        compacted = crashed(tmp_path, tmp_path / "compacted")
        expected = await taker.rest()
        await outbox.sinks.dead_letters["audit"].add_dead_letters([])  # Behind what was written before.
        delivered = crashed(tmp_path, tmp_path / "delivered")
    assert story(expected) == ["updated shop/a", "deleted shop/b"]
    for left, records in ((compacted, expected), (delivered, [])):
        async with opened(left, retention=Retention(before=True)) as outbox:
            assert await Taker(outbox).rest() == records
            assert outbox.sinks.backlog_records("audit") == 0


async def test_an_empty_compaction_follows_redelivered_records(tmp_path: Path) -> None:
    async with opened(tmp_path) as outbox:
        taker = Taker(outbox)
        informer = await Informed().begin(outbox)
        await informer.exports(outbox, "added shop/a")
        await taker.take()
        await informer.exports(outbox, "added shop/b", "deleted shop/b")
        await taker.feed.compact()
        left = crashed(tmp_path, tmp_path / "left")
    async with opened(left) as outbox:
        taker = Taker(outbox)
        assert await taker.delivered() == ["added shop/a"]
        assert outbox.sinks.backlog_records("audit") == 0
        await (await Informed().begin(outbox)).exports(outbox, "added shop/c")
        assert await taker.delivered() == ["added shop/c"]


async def test_an_empty_backfill_ends_when_earlier_fetches_settle(tmp_path: Path) -> None:
    async with opened(tmp_path) as outbox, asyncio.TaskGroup() as tasks:
        taker = Taker(outbox)
        informer = await Informed().begin(outbox)
        await informer.exports(outbox, "added shop/a")
        await taker.take()
        await informer.exports(outbox, "added shop/b", "deleted shop/b")
        await taker.feed.compact()
        waiting = tasks.create_task(taker.feed.take(10))
        await asyncio.sleep(0)
        taker.settle()
        async with asyncio.timeout(5 * BUSY):
            await waiting
        assert await taker.delivered() == []
        assert outbox.sinks.backlog_records("audit") == 0


# ── Gaps ─────────────────────────────────────────────────────────────────────


async def test_what_was_dropped_is_said_in_its_place(tmp_path: Path) -> None:
    async with opened(tmp_path) as outbox:
        taker = Taker(outbox)
        informer = await Informed().begin(outbox)
        await informer.exports(outbox, "added shop/a", "updated shop/a", "added shop/b", "added shop/c")
        await taker.take(1)
        assert await taker.feed.drop(3) == (2, 2)
        [gap, c] = await taker.rest()

        assert about(gap)[:3] == (2, 3, 2)
        assert story([c]) == ["added shop/c"]


async def test_a_gap_that_waits_is_widened_and_names_its_resources(tmp_path: Path) -> None:
    async with opened(tmp_path) as outbox:
        taker = Taker(outbox)
        pods = await Informed().begin(outbox)
        deployments = await Informed(DEPLOYMENTS).begin(outbox)
        await pods.exports(outbox, "added shop/a", "added bank/a", "added shop/b")
        await taker.feed.drop(3)
        await deployments.exports(outbox, "added shop/web")
        await pods.exports(outbox, "added mall/c")
        left = crashed(tmp_path, tmp_path / "left")
        first = await taker.rest()
    async with opened(left) as outbox:
        taker = Taker(outbox)
        assert await taker.feed.drop(4) == (1, 4)
        widened = await taker.rest()

    assert story(first) == ["gap", "added shop/web", "added mall/c"]
    assert about(first[0]) == (1, 3, 3, {("pods", "shop"), ("pods", "bank")}, True)
    assert story(widened) == ["gap", "added mall/c"]
    assert about(widened[0]) == (1, 4, 4, {("pods", "shop"), ("pods", "bank"), ("deployments.apps", "shop")}, True)


async def test_a_gap_about_very_much_names_the_resources_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backfill, "MOST_CONCERNS", 3)
    async with opened(tmp_path) as outbox:
        taker = Taker(outbox)
        await (await Informed().begin(outbox)).exports(outbox, *(f"added space-{n}/a" for n in range(6)))
        await taker.feed.drop(5)
        [gap, _] = await taker.rest()
    assert about(gap) == (1, 5, 5, {("pods", None)}, True)


def about(gap: Record) -> tuple[int, int, int | None, set[tuple[str, str | None]], bool]:
    """Its first and last record and their number, their resources and namespaces, and whether these are all."""
    assert isinstance(gap, Gap)
    concerns = {(each.resource.name, each.namespace) for each in gap.concerns}
    return gap.first, gap.sequence, gap.count, concerns, gap.only


async def test_a_gap_stays_behind_older_records_on_compaction(tmp_path: Path) -> None:
    async with opened(tmp_path) as outbox:
        taker = Taker(outbox)
        informer = await Informed().begin(outbox)
        await informer.exports(outbox, "added shop/a", "added shop/b")
        await taker.rest()
        await informer.exports(outbox, "deleted shop/a")
        await taker.feed.compact()
        await informer.exports(outbox, "added shop/a")
        await taker.feed.drop(outbox.last)
        await informer.exports(outbox, "updated shop/b")
        await taker.feed.compact()

        assert await taker.delivered() == ["deleted shop/a", "gap", "updated shop/b"]


async def test_only_what_was_meant_for_the_sink_is_counted_as_missing(tmp_path: Path) -> None:
    async with opened(tmp_path, {"audit": StartPolicy.NOW, "au": StartPolicy.NOW}) as outbox:
        taker = Taker(outbox, "au")
        informer = await Informed().begin(outbox)
        await informer.exports(outbox, "added shop/a")
        batch = informer.batch(
            [informer.change("sync shop/a", ("audit",)), informer.change("sync shop/a", ("au",))], "7"
        )
        await outbox.append(batch)

        assert await taker.feed.drop(3) == (1, 2)


# ── Replay ───────────────────────────────────────────────────────────────────


async def replayable(outbox: Outbox) -> Taker:
    """Six records, all settled and kept."""
    taker = Taker(outbox)
    pods, deployments = await Informed().begin(outbox), await Informed(DEPLOYMENTS).begin(outbox)
    await pods.exports(outbox, "added shop/a", "added shopping/a", "updated shop/a")
    await deployments.exports(outbox, "added shop/d", "added shopping/d")
    await pods.exports(outbox, "deleted shop/a")
    await taker.rest()
    await outbox.maintain()
    return taker


@pytest.mark.parametrize(
    ("start", "resource", "namespace", "expected"),
    [
        (BEGINNING, None, None, [1, 2, 3, 4, 5, 6]),
        (3, None, None, [3, 4, 5, 6]),
        (BEGINNING, "pods", None, [1, 2, 3, 6]),
        (BEGINNING, None, "shop", [1, 3, 4, 6]),
        (2, "pods", "shop", [3, 6]),
        (BEGINNING, "deployments.apps", "shopping", [5]),
        (BEGINNING, None, "sho", []),
        (7, None, None, []),
        ("2026-11-21T09:00:00.000000Z", None, None, [1, 2, 3, 4, 5, 6]),
        ("2026-11-21T09:00:00.000001Z", None, None, []),
        ("0", None, None, [1, 2, 3, 4, 5, 6]),
    ],
)
async def test_a_replay_delivers_the_chosen_records_again(
    tmp_path: Path, start: int | str, resource: str | None, namespace: str | None, expected: list[int]
) -> None:
    async with opened(tmp_path, retention=RETAINED, time="2026-11-21T09:00:00.000000Z") as outbox:
        taker = await replayable(outbox)
        log = await everything(outbox)
        kind = None if resource is None else await outbox.ledger.kind_of(resource)

        found = await replay(outbox, taker.feed, start, kind=kind, namespace=namespace)
        records = await taker.rest(limit=2)

        assert found == Replayed(len(expected), min(expected, default=0), max(expected, default=0))
        assert records == [replace(record, replay=1) for record in log if record.sequence in expected]
        assert outbox.sinks.backlog_records("audit") == 0


def delivery_ids(records: Sequence[Record]) -> list[str]:
    return [record.delivery_id for record in records]


async def test_a_resumed_replay_repeats_its_ids_the_next_has_others(tmp_path: Path) -> None:
    async with opened(tmp_path, retention=RETAINED) as outbox:
        taker = await replayable(outbox)
        await replay(outbox, taker.feed, 1)
        await (await Informed().begin(outbox)).exports(outbox, "added shop/new")
        first_delivery = delivery_ids(await everything(outbox))
        handed_out = delivery_ids(await taker.take(3))
        left = crashed(tmp_path, tmp_path / "left")
    async with opened(left, retention=RETAINED) as outbox:
        again = Taker(outbox)
        *repeated, new = await again.rest()
        await replay(outbox, again.feed, 1)
        replayed = await again.rest()

    assert delivery_ids(repeated) == [f"{each}/replay/1" for each in first_delivery[:-1]]
    assert delivery_ids(repeated)[:3] == handed_out
    assert delivery_ids([new]) == first_delivery[-1:], "new records follow"
    assert delivery_ids(replayed) == [f"{each}/replay/2" for each in first_delivery]
    assert [record.id for record in replayed] == [record.id for record in (*repeated, new)] == first_delivery


async def test_what_a_compaction_leaves_of_a_replay_is_of_that_replay(tmp_path: Path) -> None:
    async with opened(tmp_path, retention=RETAINED) as outbox:
        taker = await replayable(outbox)
        await replay(outbox, taker.feed, 1)
        await (await Informed().begin(outbox)).exports(outbox, "added shop/new")
        await taker.feed.compact()
        replayed = await taker.rest()

    assert {record.delivery_id.rpartition("/replay/")[2] for record in replayed} == {"1"}


async def test_a_replay_of_a_rebuilt_database_has_a_fresh_number(tmp_path: Path) -> None:
    async with opened(tmp_path, retention=RETAINED) as outbox:
        taker = await replayable(outbox)
        for _ in range(3):
            await replay(outbox, taker.feed, 1)
            await taker.rest()
    (tmp_path / f"{FILE}.damaged").write_text("of old age")
    async with opened(tmp_path, retention=RETAINED) as outbox:
        taker = Taker(outbox)
        [gap] = await taker.rest()
        await replay(outbox, taker.feed, 1)
        [again] = await taker.rest()

    assert isinstance(gap, Gap)
    assert again.id == gap.id
    assert int(again.delivery_id.rpartition("/replay/")[2]) > 1_000_000


async def test_during_a_backfill_a_replay_is_refused(tmp_path: Path) -> None:
    async with opened(tmp_path, retention=RETAINED) as outbox:
        taker = await replayable(outbox)
        await replay(outbox, taker.feed, 1)
        await taker.take(2)
        with pytest.raises(UnknownTarget, match=r"still gets a replay, 6 records to go: ask again after it"):
            await replay(outbox, taker.feed, 1)
        await taker.rest()
        assert (await replay(outbox, taker.feed, 6)).records == 1


async def test_a_replay_whose_caller_is_gone_is_reported_all_the_same(tmp_path: Path) -> None:
    async with opened(tmp_path, retention=RETAINED) as outbox:
        taker = await replayable(outbox)
        async with asyncio.TaskGroup() as tasks:
            asking = tasks.create_task(replay(outbox, taker.feed, 5))
            await asyncio.sleep(0)
            asking.cancel()
        await outbox.sinks.dead_letters["audit"].add_dead_letters([])  # Behind it.

        assert await taker.delivered() == ["added shopping/d", "deleted shop/a"]


async def test_a_replay_of_an_unknown_sink_is_refused(tmp_path: Path) -> None:
    async with opened(tmp_path) as outbox:
        with pytest.raises(UnknownTarget, match=r"there is no sink live; there are: audit"):
            await outbox.sinks.replay("live", which=condition(1, None, None), taken=0)


async def test_records_that_left_the_log_are_not_replayed(tmp_path: Path) -> None:
    async with opened(tmp_path) as outbox:
        taker = await replayable(outbox)  # Without retention.

        assert await replay(outbox, taker.feed, BEGINNING) == Replayed(0, 0, 0)
        assert taker.feed.exhausted


async def test_replayed_records_stay_until_they_are_delivered(tmp_path: Path) -> None:
    async with opened(tmp_path, retention=Retention(retain_age=3600.0)) as outbox:
        taker = await replayable(outbox)
        await replay(outbox, taker.feed, 1)
    async with opened(tmp_path) as outbox:  # Without retention from now on.
        await outbox.maintain()
        assert (await outbox.check()).problems == []
        records = await Taker(outbox).delivered()
        assert len(records) == 6
        await outbox.maintain()
        report = await outbox.check()
        assert (report.records, report.objects, report.problems) == (0, 3, [])


# ── Memory ───────────────────────────────────────────────────────────────────


async def test_reading_log_and_backfill_is_bounded_by_unpacked_bytes(tmp_path: Path) -> None:
    added = [f"added shop/p{number}" for number in range(25)]
    async with opened(tmp_path) as outbox:
        await (await Informed(padding=MOST_BYTES // 10).begin(outbox)).exports(outbox, *added)

        assert len((await outbox.read(0, 1000)).items) == 10
        assert story(await everything(outbox)) == added
    async with opened(tmp_path, WITH_LATE) as outbox:
        taker = Taker(outbox, "late")
        assert len(await taker.take(1000)) == 11  # With the notice.
        taker.settle()
        assert await taker.delivered() == [*added[10:], "snapshot"]


# ── Several at once ──────────────────────────────────────────────────────────


async def test_a_delete_behind_a_replay_is_delivered_after_compaction(tmp_path: Path) -> None:
    async with opened(tmp_path, retention=RETAINED) as outbox:
        taker, informer = Taker(outbox), await Informed().begin(outbox)
        await informer.exports(outbox, "added shop/a")
        assert await taker.delivered() == ["added shop/a"]
        await replay(outbox, taker.feed, 1)
        await informer.exports(outbox, "deleted shop/a")
        await taker.feed.compact()
        delivered = await taker.delivered()
    assert delivered[-1:] == ["deleted shop/a"], "the sink has the object since before the replay"


async def test_a_drop_of_what_was_handed_out_disturbs_nobody(tmp_path: Path) -> None:
    async with opened(tmp_path) as outbox:
        taker = Taker(outbox)
        await (await Informed().begin(outbox)).exports(outbox, "added shop/a", "updated shop/a")
        await taker.take()
        async with asyncio.TaskGroup() as tasks:
            taking = tasks.create_task(taker.take())
            for _ in range(3):
                assert await taker.feed.drop(2) == (0, 0)
            assert not taking.done(), "lanes would remember each empty fetch as long as something in front is stuck"
            taking.cancel()


async def test_a_backlog_is_compacted_while_a_snapshot_object_is_stuck(tmp_path: Path) -> None:
    sinks = {"other": StartPolicy.NOW}
    async with opened(tmp_path, sinks) as outbox:
        await (await Informed().begin(outbox)).exports(outbox, "added shop/a", "added shop/b")
    begun = ["snapshot", "added shop/a", "added shop/b", "snapshot"]
    async with opened(tmp_path, sinks | AUDIT) as outbox:
        taker, informer = Taker(outbox), await Informed().begin(outbox)
        assert story(await taker.take()) == begun
        await informer.exports(
            outbox, "updated shop/a", "updated shop/a", "added shop/c", "deleted shop/c", "deleted shop/b"
        )
        assert await taker.feed.compact() == (5, 2)
        assert await taker.feed.drop(outbox.last) == (0, 0), "all of it is in the backfill"
        assert story(await taker.take()) == ["updated shop/a", "deleted shop/b"]
    async with opened(tmp_path, sinks | AUDIT) as outbox:
        assert await Taker(outbox).delivered() == [*begun, "updated shop/a", "deleted shop/b"]


async def test_records_behind_a_backfill_wait_until_it_is_settled(tmp_path: Path) -> None:
    async with opened(tmp_path, retention=RETAINED) as outbox:
        taker, informer = Taker(outbox), await Informed().begin(outbox)
        await informer.exports(outbox, "added shop/a", "updated shop/a")
        await taker.rest()
        await replay(outbox, taker.feed, 1)
        await informer.exports(outbox, "updated shop/a")
        for _ in range(2):
            await taker.take(1)
        async with asyncio.TaskGroup() as tasks:
            taking = tasks.create_task(some_items(taker.feed))
            for _ in range(20):  # What stands in the window is handed out in fewer turns of the loop.
                await asyncio.sleep(0)
            assert not taking.done()
            taker.settle()
    assert story(taking.result()) == ["updated shop/a"]


async def some_items(feed: SinkFeed) -> Sequence[Record]:
    """What comes next. Who was woken takes nothing, and takes again."""
    while not (taken := await feed.take(10)).items:
        pass
    return taken.items


async def test_a_replay_in_lanes_ends_and_what_is_behind_it_follows(tmp_path: Path) -> None:
    sink = RecordingSink()
    async with opened(tmp_path, retention=RETAINED) as outbox:
        feed, informer = Taker(outbox).feed, await Informed().begin(outbox)
        await informer.exports(outbox, "added shop/a", "added shop/b", "updated shop/a")
        settings = WorkerSettings(
            save_pause=never_gone,
            name="audit",
            make_sink=lambda: sink,
            pending=feed,
            dead_letters=outbox.sinks.dead_letters["audit"],
            report=discard,
            now=lambda: TIME,
            max_batch=2,
        )
        worker = LaneWorker(settings, Lanes(concurrency=4))
        async with asyncio.timeout(10 * BUSY), asyncio.TaskGroup() as tasks:
            working = tasks.create_task(worker.run())
            await worker.wait_idle()
            await replay(outbox, feed, 1)
            await informer.exports(outbox, "updated shop/b")
            await sink.until(lambda sink: len(sink.records) == 7)
            await worker.wait_idle()
            assert outbox.sinks.backlog_records("audit") == 0
            working.cancel()
    assert sorted(sink.delivered()[3:6]) == ["added shop/a", "added shop/b", "updated shop/a"]
    assert sink.delivered()[6:] == ["updated shop/b"]
