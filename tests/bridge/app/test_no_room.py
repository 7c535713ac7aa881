"""What goes on while the disk has no room, so that there is some again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from bridge.model.policies import StartPolicy
from bridge.model.record import NewDeadLetter
from bridge.outbox import Retention
from bridge.outbox.storage.state_directory import StateDirectory
from bridge.outbox.writer import OutboxClosed
from bridge.plan.plan import SinkPlan
from bridge.telemetry.facts import Fact
from bridge.telemetry.facts.outbox import OutboxFull
from tests.bridge.outbox.opened import AUDIT, Bench, bench, look_for_room_often
from tests.kit.bridges import a_bridge, a_config_map
from tests.kit.deadlines import BUSY, until
from tests.kit.pipelines import replay
from tests.kit.playground import Playground
from tests.kit.sinks import StuckSink
from tests.kit.virtual_time import settled

MIN_FREE = 1 << 20
GRACE = 100_000.0
"""Seconds: longer than any test."""
RETAINED = Retention(min_free=MIN_FREE, retain_bytes=1 << 30)


class Disk:
    free = 10 * MIN_FREE


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    disk = Disk()
    monkeypatch.setattr(StateDirectory, "free_bytes", lambda _: disk.free)
    look_for_room_often(monkeypatch)
    return disk


@asynccontextmanager
async def no_room(disk: Disk, it: Bench) -> AsyncIterator[None]:
    """Something waits to be appended, inside; it is, afterwards."""
    disk.free = MIN_FREE - 1
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(it.exports("updated shop/a"))
        await until(lambda: it.outbox.no_room)
        async with asyncio.timeout(10 * BUSY):
            yield
        disk.free = 10 * MIN_FREE


async def test_a_backlog_is_compacted_and_its_sink_goes_on(tmp_path: Path, disk: Disk) -> None:
    async with bench(tmp_path, retention=RETAINED) as it:
        await it.exports("added shop/a", "updated shop/a")
        async with no_room(disk, it):
            assert await it.feed.compact() == (2, 1)
            assert await it.delivered() == ["added shop/a"]
        assert await it.delivered() == ["updated shop/a"]


async def test_a_backlog_is_dropped_and_its_sink_goes_on(tmp_path: Path, disk: Disk) -> None:
    async with bench(tmp_path, retention=RETAINED) as it:
        await it.exports("added shop/a", "updated shop/a")
        async with no_room(disk, it):
            await it.feed.drop(1)
            assert await it.delivered() == ["gap", "updated shop/a"]


async def test_a_replay_does_not_hold_up_its_sink(tmp_path: Path, disk: Disk) -> None:
    async with bench(tmp_path, retention=RETAINED) as it:
        await it.exports("added shop/a")
        await it.rest()
        async with no_room(disk, it):
            await replay(it.outbox, it.feed, 1)
            assert await it.delivered() == ["added shop/a"]


async def test_a_rejected_record_is_a_dead_letter_and_is_retried(tmp_path: Path, disk: Disk) -> None:
    async with bench(tmp_path, retention=RETAINED) as it:
        await it.exports("added shop/a")
        dead_letters = it.outbox.sinks.dead_letters["audit"]
        async with no_room(disk, it):
            [record, *_] = await it.take(10)
            await dead_letters.add_dead_letters([NewDeadLetter(record, "too large", parked=False)])
            assert await dead_letters.retry(None) == 1


async def test_absence_is_counted_until_a_removed_sink_is_forgotten(tmp_path: Path, disk: Disk) -> None:
    async with bench(tmp_path, AUDIT | {"gone": StartPolicy.NOW}, retention=RETAINED):
        pass
    async with bench(tmp_path, retention=RETAINED) as it:
        await it.exports("added shop/a")
        async with no_room(disk, it):
            await it.outbox.sinks.count_absence(60.0, 30.0)
            assert [cursor.sink for cursor in it.outbox.sinks.all] == ["audit"]


async def test_what_sinks_settled_is_saved_by_a_bridge_that_ends(tmp_path: Path, disk: Disk) -> None:
    async with asyncio.TaskGroup() as tasks, bench(tmp_path, retention=RETAINED) as it:
        await it.exports("added shop/a")
        disk.free = MIN_FREE - 1
        tasks.create_task(is_not_appended(it))
        await it.rest()
    async with bench(tmp_path, retention=Retention()) as it:
        assert await it.delivered() == [], "reported by the one before it"


async def is_not_appended(it: Bench) -> None:
    with pytest.raises(OutboxClosed):
        await it.exports("updated shop/a")


async def test_pages_that_are_free_inside_the_file_are_room(tmp_path: Path, disk: Disk) -> None:
    async with bench(tmp_path, retention=Retention(min_free=MIN_FREE)) as it, asyncio.timeout(20 * BUSY):
        it.informer.noise = 16_000
        for _ in range(2):  # Half of the file, of which nothing is given back; a dictionary would take a smaller rest.
            await it.exports(*[f"updated shop/{number}" for number in range(64)])
        await it.rest()
        await it.outbox.maintain()
        disk.free = MIN_FREE - 1
        it.informer.noise = 0
        await it.exports("added shop/a")


async def test_what_was_trimmed_is_given_back_to_the_disk(tmp_path: Path) -> None:
    async with bench(tmp_path) as it:
        await fill(it, megabytes=32)
        before = it.outbox.disk().file
        await it.rest(1000)
        for _ in range(10):
            await fill(it, megabytes=1)
            await it.rest(1000)
            await it.outbox.maintain()
    assert (tmp_path / "outbox.db").stat().st_size < before / 2


async def fill(it: Bench, *, megabytes: int) -> None:
    it.informer.noise = 16_000
    for _ in range(megabytes):
        await it.exports(*["updated shop/x"] * 64)


async def test_a_full_disk_and_a_stuck_sink_end_within_one_grace(
    tmp_path: Path, disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not one grace after the other: a clock that jumps over one ends both."""
    sink, facts, loop = StuckSink(), list[Fact](), asyncio.get_running_loop()
    async with Playground() as cluster:
        cluster.create("configmaps", a_config_map("a"))
        stuck = SinkPlan(name="stuck", type="memory", make=lambda: sink, max_batch=1)
        retention = Retention(min_free=MIN_FREE)
        bridge = a_bridge(cluster, facts, tmp_path, [stuck], retention=retention, grace_seconds=GRACE)
        async with asyncio.TaskGroup() as tasks:
            running = tasks.create_task(bridge.run())
            await sink.holding.wait()
            disk.free = MIN_FREE - 1
            cluster.create("configmaps", a_config_map("b"))
            await until(lambda: any(isinstance(fact, OutboxFull) for fact in facts))
            bridge.stop()
            await settled()
            clock = loop.time
            monkeypatch.setattr(loop, "time", lambda: clock() + GRACE)
            async with asyncio.timeout(30 * BUSY):
                await running
