"""A takeover by a replica that lacks something: its records leave above all numbers that anybody has given, and each
sink gets a Gap, and behind it a snapshot."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from itertools import count
from pathlib import Path

import pytest

from bridge.delivery.backfills import SnapshotSchedule
from bridge.delivery.sink_feed import Feeds, SinkFeed
from bridge.model.policies import StartPolicy
from bridge.model.record import TAKEN_OVER, Delta, Gap, Record, Snapshot, SnapshotEdge, in_term
from bridge.outbox import Capture, Damaged, Outbox
from bridge.outbox.commits import Frame, Point
from bridge.outbox.opening import number_of_now
from bridge.outbox.storage.directory_lock import FILE
from bridge.plan.plan import SinkPlan
from bridge.telemetry.facts import Fact, discard
from bridge.telemetry.facts.outbox import ReplicasLeft
from tests.bridge.outbox.opened import alter, crashed
from tests.kit.copied_states import history_in
from tests.kit.informed import Informed
from tests.kit.pipelines import opened_feeds, without_worker
from tests.kit.sinks import RecordingSink

DAMAGED = "UPDATE meta SET cleaner_checkpoint = last + 1000"
HOUR = 3600 * 1_000_000
SINKS = {"audit": StartPolicy.SNAPSHOT, "other": StartPolicy.NOW}


@pytest.fixture(autouse=True)
def numbers_of_a_bridge(monkeypatch: pytest.MonkeyPatch) -> None:
    """An hour passes before each start."""
    starts = count()

    def first_behind() -> int:
        return number_of_now() + next(starts) * HOUR

    defaults = Outbox.open.__func__.__kwdefaults__  # type: ignore[attr-defined]
    monkeypatch.setitem(defaults, "first_behind", first_behind)


class NoReplicas:
    """A leader without followers: everything counts as done at once."""

    def committed(self, frame: Frame | None, finish: Callable[[], None]) -> None:
        del frame
        finish()


class Leader:
    """In its term."""

    left = False
    """It was a replica before, and says so."""

    def __init__(self, feeds: Feeds, informer: Informed, term: int) -> None:
        self.outbox = feeds.outbox
        self.feeds: dict[str, SinkFeed] = {sink: feeds.feed(sink) for sink in SINKS}
        self.informer = informer
        self.term = term
        plans = [SinkPlan(name=sink, type="fake", make=RecordingSink, max_batch=10) for sink in SINKS]
        pipelines = {each.name: without_worker(each, self.feeds[each.name], self.outbox) for each in plans}
        self.schedule = SnapshotSchedule(pipelines, self.outbox, "test", discard)

    async def exports(self, *steps: str) -> None:
        await self.informer.exports(self.outbox, *steps)

    async def delivered(self, sink: str) -> list[Record]:
        """Everything that waits for a sink, as it leaves."""
        found: list[Record] = []
        while not self.feeds[sink].exhausted:
            fetch = await self.feeds[sink].take(100)
            found += [in_term(each, self.term, self.outbox.ahead) for each in fetch.items]
            self.feeds[sink].settle(fetch)
        return found


@asynccontextmanager
async def leading(directory: Path, term: int, *, lacking: bool = False) -> AsyncIterator[Leader]:
    await asyncio.to_thread(directory.mkdir, exist_ok=True)
    capture = Capture(term, NoReplicas(), directory)
    feeds = await opened_feeds(directory, SINKS, report=discard, capture=capture, lacking=lacking)
    async with feeds.outbox as outbox:
        yield Leader(feeds, await Informed().begin(outbox), term)


def numbers(records: Sequence[Record]) -> list[int]:
    return [each.sequence for each in records]


def story(records: Sequence[Record]) -> list[str]:
    return [
        f"{each.op} {each.key}" if isinstance(each, Delta) else each.edge if isinstance(each, Snapshot) else "gap"
        for each in records
    ]


async def copied_and_taken_over(folder: Path, *, lacking: bool = False) -> tuple[Path, list[int]]:
    """A leader delivers what its copy does not have. Returns the copy, and the numbers that have left."""
    async with leading(folder / "a", 1, lacking=lacking) as leader:
        await leader.exports("added shop/a", "added shop/gone")
        left = await leader.delivered("audit")
        await leader.outbox.maintain()
        copy = crashed(folder / "a", folder / "b")
        await leader.exports("deleted shop/gone", *(f"added shop/{number}" for number in range(30)))
        left += await leader.delivered("audit")
    return copy, numbers(left)


async def test_numbers_ascend_behind_those_never_seen_here(tmp_path: Path) -> None:
    copy, left = await copied_and_taken_over(tmp_path)
    async with leading(copy, 2, lacking=True) as successor:
        await successor.exports("updated shop/a", "added shop/new")
        after = numbers(await successor.delivered("audit"))
    assert after == sorted(set(after))
    assert left == sorted(set(left))
    assert after[0] > left[-1]
    assert after[-1] < 2**53


async def test_numbers_ascend_over_several_such_takeovers(tmp_path: Path) -> None:
    copy, left = await copied_and_taken_over(tmp_path)
    async with leading(copy, 2, lacking=True) as leader:
        await leader.exports("updated shop/a")
        left += numbers(await leader.delivered("audit"))
    async with leading(copy, 3) as leader:  # A restart, which lacks nothing.
        assert await leader.delivered("audit") == []
        again = crashed(copy, tmp_path / "c")
        await leader.exports("updated shop/a", "deleted shop/a")
        left += numbers(await leader.delivered("audit"))
    async with leading(again, 4, lacking=True) as leader:
        left += numbers(await leader.delivered("audit"))
    assert left == sorted(set(left))


async def test_a_new_state_that_lacks_everything_begins_behind_all(tmp_path: Path) -> None:
    _, left = await copied_and_taken_over(tmp_path)
    async with leading(tmp_path / "empty", 2, lacking=True) as successor:
        assert min(numbers(await successor.delivered("audit"))) > left[-1]


async def test_a_state_damaged_behind_it_leaves_no_number_twice(tmp_path: Path) -> None:
    copy, left = await copied_and_taken_over(tmp_path)
    async with leading(copy, 2, lacking=True) as leader:
        await leader.exports("updated shop/a")
        left += numbers(await leader.delivered("audit"))
    alter(copy, DAMAGED)
    async with leading(copy, 3) as leader:
        after = await leader.delivered("audit")
    assert story(after) == ["gap"]
    assert after[0].sequence > left[-1]


async def test_a_takeover_with_a_damaged_state_leaves_no_number_twice(tmp_path: Path) -> None:
    """That of a former leader, which took over so itself, and which this replica has never followed."""
    copy, left = await copied_and_taken_over(tmp_path)
    async with leading(crashed(copy, tmp_path / "c"), 2, lacking=True) as leader:
        left += numbers(await leader.delivered("audit"))
    alter(copy, DAMAGED)
    async with leading(copy, 3, lacking=True) as leader:
        after = await leader.delivered("audit")
    assert story(after) == ["gap"]
    assert after[0].sequence > left[-1]


async def test_a_state_without_its_files_leaves_no_number_twice(tmp_path: Path) -> None:
    copy, left = await copied_and_taken_over(tmp_path)
    with suppress(Damaged):
        async with leading(copy, 2, lacking=True) as leader:
            await leader.exports("updated shop/a")
            left += numbers(await leader.delivered("audit"))
            (copy / FILE).unlink()
    async with leading(copy, 3) as leader:
        assert numbers(await leader.delivered("audit"))[0] > left[-1]


@pytest.mark.parametrize("sink", SINKS)
async def test_each_sink_gets_a_gap_and_behind_it_a_snapshot(tmp_path: Path, sink: str) -> None:
    copy, _ = await copied_and_taken_over(tmp_path)
    async with leading(copy, 2, lacking=True) as successor:
        owed = successor.outbox.sinks[sink].owes_snapshot
        await successor.schedule.look()
        assert successor.feeds[sink].backfill is None, "the Gap comes first"
        gap = (await successor.delivered(sink))[-1]
        assert isinstance(gap, Gap)
        assert (gap.reason, gap.count, gap.sequence) == (TAKEN_OVER, None, owed + successor.outbox.ahead)
        await successor.schedule.look()
        assert not successor.outbox.sinks[sink].owes_snapshot
        snapshot = await successor.delivered(sink)
    assert story(snapshot) == [SnapshotEdge.BEGAN, "sync shop/a", "sync shop/gone", SnapshotEdge.ENDED]


async def test_the_snapshot_is_owed_until_it_begins_whoever_restarts(tmp_path: Path) -> None:
    copy, _ = await copied_and_taken_over(tmp_path)
    async with leading(copy, 2, lacking=True) as successor:
        await successor.delivered("audit")
        await successor.outbox.maintain()
    async with leading(copy, 3) as again:
        assert all(again.outbox.sinks[sink].owes_snapshot for sink in SINKS)
        await again.schedule.look()
        assert story(await again.delivered("audit"))[:2] == [SnapshotEdge.BEGAN, "sync shop/a"]
    async with leading(copy, 4) as again:
        assert not again.outbox.sinks["audit"].owes_snapshot
        assert again.outbox.sinks["other"].owes_snapshot


# ── Without an election ──────────────────────────────────────────────────────


@asynccontextmanager
async def alone(directory: Path) -> AsyncIterator[Leader]:
    facts: list[Fact] = []
    feeds = await opened_feeds(directory, SINKS, report=facts.append)
    async with feeds.outbox as outbox:
        leader = Leader(feeds, await Informed().begin(outbox), 0)
        yield leader
    assert any(isinstance(each, ReplicasLeft) for each in facts) is bool(leader.left)


async def test_a_state_of_a_replica_lacks_what_another_has(tmp_path: Path) -> None:
    copy, left = await copied_and_taken_over(tmp_path)
    async with alone(copy) as bridge:
        bridge.left = True
        after = await bridge.delivered("audit")
        assert isinstance(after[-1], Gap)
        assert after[-1].reason == TAKEN_OVER
        assert after[-1].sequence > left[-1]
        assert all(bridge.outbox.sinks[sink].owes_snapshot for sink in SINKS)
        await bridge.outbox.maintain()
    async with alone(copy) as again:  # An ordinary start.
        assert await again.delivered("audit") == []


async def test_a_command_leaves_that_to_the_next_start(tmp_path: Path) -> None:
    copy, _ = await copied_and_taken_over(tmp_path)
    newest = history_in(copy)
    for _ in range(2):
        outbox = await Outbox.open(copy, SINKS, report=discard, only_existing=True)
        assert not any(outbox.sinks[sink].owes_snapshot for sink in SINKS)
        await outbox.close()
        assert history_in(copy).point is None, "it may have written what no replica has"
        assert newest.point is not None
        assert not history_in(copy).contains(newest.point)
    async with alone(copy) as bridge:
        bridge.left = True
        assert isinstance((await bridge.delivered("audit"))[-1], Gap)


async def test_a_replica_goes_on_behind_a_command(tmp_path: Path) -> None:
    copy, _ = await copied_and_taken_over(tmp_path)
    outbox = await Outbox.open(copy, SINKS, report=discard, only_existing=True)
    await outbox.close()
    async with leading(copy, 2) as leader:
        assert not any(isinstance(each, Gap) for each in await leader.delivered("audit"))
    history = history_in(copy)
    assert history.point == Point(2, history.terms[-1].mark, history.commit)


async def test_a_damaged_state_of_a_replica_leaves_no_number_twice(tmp_path: Path) -> None:
    copy, left = await copied_and_taken_over(tmp_path)
    alter(copy, DAMAGED)
    async with alone(copy) as bridge:
        after = await bridge.delivered("audit")
    assert after[0].sequence > left[-1]
