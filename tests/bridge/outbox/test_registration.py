"""Sinks that come, change and go in an outbox that is open."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from bridge.model.policies import StartPolicy
from bridge.model.status import PauseCause
from bridge.outbox import Outbox, Retention, StateError
from tests.bridge.outbox.opened import AUDIT, Taker, crashed, feeds_of, opened
from tests.bridge.outbox.test_backfill import settled
from tests.kit.informed import Informed


async def begin(outbox: Outbox, sink: str, start: StartPolicy = StartPolicy.SNAPSHOT) -> Taker:
    """Begins a sink, or begins it anew; the feed before it has ended."""
    feeds_of(outbox).end(sink)
    await outbox.sinks.begin({sink: start}, [], before=False)
    return Taker(outbox, sink)


@pytest.mark.parametrize(
    ("start", "delivered"),
    [
        (StartPolicy.SNAPSHOT, ["snapshot", "added shop/b", "snapshot", "added shop/c"]),
        (StartPolicy.NOW, ["added shop/c"]),
        (StartPolicy.EARLIEST, ["added shop/a", "added shop/b", "deleted shop/a", "added shop/c"]),
    ],
)
async def test_a_new_sink_begins_by_its_start(tmp_path: Path, start: StartPolicy, delivered: list[str]) -> None:
    async with opened(tmp_path, retention=Retention(retain_age=3600.0)) as outbox:
        informer = await Informed().begin(outbox)
        await informer.exports(outbox, "added shop/a", "added shop/b", "deleted shop/a")
        late = await begin(outbox, "late", start)
        await informer.exports(outbox, "added shop/c")
        assert await late.delivered() == delivered
        assert outbox.sinks["late"].configured
        assert len(outbox.sinks.dead_letters["late"]) == 0
    async with opened(tmp_path, AUDIT | {"late": start}) as outbox:
        assert await Taker(outbox, "late").delivered() == [], "its cursor is on disk"


async def test_records_that_a_sink_had_not_settled_come_again(tmp_path: Path) -> None:
    async with opened(tmp_path) as outbox:
        informer = await Informed().begin(outbox)
        await informer.exports(outbox, "added shop/a", "added shop/b", "added shop/c")
        audit = Taker(outbox)
        await audit.take(1)
        audit.settle()
        await audit.take(2)
        again = await begin(outbox, "audit")
        await informer.exports(outbox, "deleted shop/a")
        assert await again.delivered() == ["added shop/b", "added shop/c", "deleted shop/a"]


async def test_items_of_a_backfill_that_were_not_settled_come_again(tmp_path: Path) -> None:
    async with opened(tmp_path) as outbox:
        informer = await Informed().begin(outbox)
        await informer.exports(outbox, "added shop/a", "added shop/b", "added shop/c")
        late = await begin(outbox, "late")
        await late.take(2)
        late.settle()
        await late.take(2)
        again = await begin(outbox, "late")
        assert await again.delivered() == ["added shop/b", "added shop/c", "snapshot"]


async def test_a_delete_is_kept_where_the_former_feed_sent_the_object(tmp_path: Path) -> None:
    """Compaction leaves out an object that came and went, unless the sink may have received it."""
    async with opened(tmp_path) as outbox:
        informer = await Informed().begin(outbox)
        audit = Taker(outbox)
        await informer.exports(outbox, "added shop/a")
        await audit.take()
        again = await begin(outbox, "audit")
        await informer.exports(outbox, "deleted shop/a", "added shop/b", "deleted shop/b")
        await again.feed.compact()
        assert await again.delivered() == ["deleted shop/a"]


async def test_a_sink_that_left_goes_on_when_it_returns(tmp_path: Path) -> None:
    async with opened(tmp_path, AUDIT | {"live": StartPolicy.SNAPSHOT}) as outbox:
        informer = await Informed().begin(outbox)
        await informer.exports(outbox, "added shop/a")
        await settled(outbox)
        outbox.sinks.end("audit")
        await informer.exports(outbox, "added shop/b")
        outbox.sinks["live"].settle(outbox.last)
        await outbox.maintain()
        await outbox.sinks.count_absence(50.0, 100.0)
        again = await begin(outbox, "audit")
        assert await again.delivered() == ["added shop/b"]
        await outbox.sinks.count_absence(70.0, 100.0)
        assert outbox.sinks["audit"].absent_seconds == 0
    async with opened(tmp_path, AUDIT) as outbox:
        assert await Taker(outbox).delivered() == []


async def test_a_kill_behind_a_change_loses_nothing(tmp_path: Path) -> None:
    async with opened(tmp_path) as outbox:
        informer = await Informed().begin(outbox)
        await informer.exports(outbox, "added shop/a", "added shop/b")
        await begin(outbox, "late")
        left = crashed(tmp_path, tmp_path / "left")
    async with opened(left, AUDIT | {"late": StartPolicy.SNAPSHOT}) as outbox:
        late = await Taker(outbox, "late").delivered()
    assert late == ["snapshot", "added shop/a", "added shop/b", "snapshot"]


async def test_a_pause_at_the_same_time_is_not_forgotten(tmp_path: Path) -> None:
    async with opened(tmp_path) as outbox:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(outbox.sinks.begin(AUDIT, [], before=False))
            tasks.create_task(outbox.sinks.pause("audit", PauseCause.OPERATOR))
        assert outbox.sinks["audit"].paused is PauseCause.OPERATOR


@pytest.mark.parametrize(
    ("later", "changed", "left"),
    [(PauseCause.OPERATOR, False, PauseCause.GONE), (PauseCause.NONE, True, PauseCause.NONE)],
)
async def test_a_pause_knows_of_the_one_under_way(
    tmp_path: Path, later: PauseCause, changed: bool, left: PauseCause
) -> None:
    """An operator asks while the worker saves that the destination is gone."""
    async with opened(tmp_path) as outbox:
        async with asyncio.TaskGroup() as tasks:
            first = tasks.create_task(outbox.sinks.pause("audit", PauseCause.GONE))
            second = tasks.create_task(outbox.sinks.pause("audit", later))
        assert (first.result(), second.result()) == (True, changed)
        assert outbox.sinks["audit"].paused is left
    async with opened(tmp_path) as outbox:
        assert outbox.sinks["audit"].paused is left


async def test_an_early_beginning_is_not_trimmed_away(tmp_path: Path) -> None:
    """The log is trimmed behind the cursors that were there a moment ago, while another begins at the first record."""
    async with opened(tmp_path) as outbox:
        informer = await Informed().begin(outbox)
        await informer.exports(outbox, "added shop/a", "updated shop/a")
        Taker(outbox).sinks["audit"].settle(outbox.last)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(outbox.maintain())
            await asyncio.sleep(0)  # It has looked at the cursors.
            tasks.create_task(begin(outbox, "late", StartPolicy.EARLIEST))
        assert outbox.sinks["late"].settled >= outbox.first - 1


async def test_too_many_selections_are_refused_before_they_begin(tmp_path: Path) -> None:
    names = {f"sink-{number}": StartPolicy.SNAPSHOT for number in range(61)}
    async with opened(tmp_path, names, selecting=names) as outbox:
        outbox.selections.expect_room(["sink-0", "sink-1"])
        outbox.selections.expect_room(["another"])
        with pytest.raises(StateError, match="at most 62"):
            outbox.selections.expect_room(["another", "and-one-more"])
