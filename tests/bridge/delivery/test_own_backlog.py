"""The backlog of a sink with a selection: its own records, and no others."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from bridge.delivery import backpressure
from bridge.delivery.backpressure import Backpressure
from bridge.model.policies import BacklogBounds, WhenFull
from bridge.model.record import Gap
from bridge.outbox import why_full
from bridge.plan.plan import SinkPlan
from bridge.telemetry.facts import discard
from tests.bridge.delivery.chat import BIG, EVERY, put, started, taken
from tests.kit.deadlines import BUSY
from tests.kit.pipelines import without_worker
from tests.kit.sinks import RecordingSink

FOR_OTHERS = range(5)
BOUNDS = BacklogBounds(records=3, bytes=1000, age=0.0)


async def test_records_for_others_fill_no_backlog(tmp_path: Path) -> None:
    async with started(tmp_path, BIG) as (outbox, _):
        await put(outbox, *FOR_OTHERS, padding=1000)
        assert (outbox.last, outbox.backlog_of("chat").records) == (5, 0)
        assert why_full(BOUNDS, outbox.backlog_of("chat"), "max_backlog") == ""
        await put(outbox, 9, 1, padding=1000)
        size = outbox.backlog_of("chat")
        assert size.records == 1
        assert 0 < size.bytes < outbox.size


async def test_a_backlog_is_the_same_after_a_restart(tmp_path: Path) -> None:
    async with started(tmp_path, BIG) as (outbox, feed):
        await put(outbox, 9, *FOR_OTHERS, 8, 7, padding=500)
        feed.settle(await feed.take(1))
        before = outbox.backlog_of("chat")
    async with started(tmp_path, BIG) as (outbox, feed):
        after = outbox.backlog_of("chat")
        assert (after.records, after.bytes) == (before.records, before.bytes) == (2, before.bytes)
        assert await taken(feed) == ["added 8", "added 7"]
        assert outbox.backlog_of("chat").records == 0


async def test_a_drop_counts_the_records_of_the_sink(tmp_path: Path) -> None:
    async with started(tmp_path, BIG) as (outbox, feed):
        await put(outbox, 6, 1, 7, 2, 8, 3, 9, 4)
        sinks, now = outbox.sinks, asyncio.get_running_loop().time()
        bounds = BacklogBounds(records=3)
        through = sinks.backlogs.drop_through(sinks["chat"], bounds, outbox.sparse_index, now, 1)
        await feed.drop(through)
        fetch = await feed.take(10)
        [gap] = fetch.items
        assert isinstance(gap, Gap)
        assert (gap.first, gap.sequence, gap.count) == (1, 5, 3)
        feed.settle(fetch)
        assert await taken(feed) == ["added 9"]


@pytest.mark.parametrize("in_flight", [False, True])
async def test_the_log_leaves_behind_a_sink_that_stands_still(tmp_path: Path, in_flight: bool) -> None:
    async with started(tmp_path, BIG, retained=0) as (outbox, feed):
        await put(outbox, 6, *FOR_OTHERS, 7)
        fetch = await feed.take(1) if in_flight else None
        size = outbox.backlog_of("chat")
        await feed.extend()
        await outbox.maintain()
        assert outbox.first > 7, "the log is trimmed"
        assert outbox.backlog_of("chat").records == size.records == 2
        assert outbox.backlog_of("chat").bytes == size.bytes, "its own records still fill the disk"
        await put(outbox, 8)
        await feed.extend()
        if fetch is not None:
            feed.settle(fetch)
    async with started(tmp_path, BIG, retained=0) as (outbox, feed):
        assert await taken(feed) == ([] if in_flight else ["added 6"]) + ["added 7", "added 8"]
        assert outbox.backlog_of("chat").records == 0


async def test_a_stuck_sink_lets_go_of_the_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backpressure, "LET_GO", 100)
    for select, lets_go in ((BIG, True), (EVERY, False)):
        directory = tmp_path / str(lets_go)
        directory.mkdir()
        plan = SinkPlan(name="chat", type="fake", make=RecordingSink, max_batch=10, when_full=WhenFull.BLOCK)
        async with started(directory, select, retained=0) as (outbox, feed), asyncio.TaskGroup() as tasks:
            pipelines = {"chat": without_worker(plan, feed, outbox)}
            running = tasks.create_task(Backpressure(pipelines, outbox, discard).run())
            await put(outbox, 6, *FOR_OTHERS)
            async with asyncio.timeout(10 * BUSY):
                while lets_go and outbox.first == 1:
                    await outbox.maintain()
                    await asyncio.sleep(0.01)
            running.cancel()
            assert len(await taken(feed)) == (1 if lets_go else 6)
