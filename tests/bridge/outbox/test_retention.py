"""Retention, trimming, and a full disk."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from bridge.model.policies import StartPolicy
from bridge.model.record import Delta, NewDeadLetter
from bridge.outbox import Outbox, Retention
from bridge.outbox.errors import StateError
from bridge.outbox.storage.state_directory import StateDirectory
from bridge.outbox.writer import OutboxClosed
from bridge.telemetry.facts import Fact
from bridge.telemetry.facts.outbox import OutboxFull, OutboxHasRoom
from tests.bridge.outbox.opened import AUDIT, crashed, everything, look_for_room_often, opened, rows_of, story
from tests.kit.deadlines import BUSY, until
from tests.kit.informed import Informed
from tests.kit.records import a_delta
from tests.kit.small_disk import CannotMount, SmallDisk, mounted_small_disk

TWO = {"audit": StartPolicy.NOW, "live": StartPolicy.NOW}


class Clock:
    """That of the event loop, put forward."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._time = self._loop.time
        self.ahead = 0.0
        self._loop.time = lambda: self._time() + self.ahead  # type: ignore[method-assign]

    def stop(self) -> None:
        self._loop.time = self._time  # type: ignore[method-assign]


@pytest.fixture
async def clock() -> AsyncIterator[Clock]:
    clock = Clock()
    yield clock
    clock.stop()


async def filled(outbox: Outbox, count: int = 10) -> Informed:
    """That many records of one object, each in a transaction."""
    informer = await Informed(padding=100).begin(outbox)
    for number in range(count):
        await informer.exports(outbox, "updated shop/a" if number else "added shop/a")
    return informer


# ── Trimming ─────────────────────────────────────────────────────────────────


async def test_what_every_sink_settled_leaves_and_the_last_states_stay(tmp_path: Path) -> None:
    async with opened(tmp_path, TWO) as outbox:
        await filled(outbox)
        outbox.sinks["audit"].settle(10)
        outbox.sinks["live"].settle(4)
        await outbox.maintain()
        assert (outbox.first, outbox.last, outbox.records) == (5, 10, 6)
        outbox.sinks["live"].settle(10)
        await outbox.maintain()
        assert (outbox.first, outbox.last, outbox.records, outbox.size) == (11, 10, 0, 0)

    assert rows_of(tmp_path, "SELECT seq FROM log") == [(10,)]


async def test_a_sink_that_is_configured_no_more_is_waited_for(tmp_path: Path) -> None:
    async with opened(tmp_path, TWO) as outbox:
        await filled(outbox)
    async with opened(tmp_path, {"audit": StartPolicy.NOW}) as outbox:
        outbox.sinks["audit"].settle(10)
        await outbox.maintain()
        assert outbox.records == 10
        await outbox.sinks.count_absence(10.0, 5.0)
        await outbox.maintain()
        assert outbox.records == 0


async def test_records_settled_after_a_save_stay_until_the_next_save(
    tmp_path: Path,
) -> None:
    async with opened(tmp_path) as outbox:
        await filled(outbox)
        outbox.sinks["audit"].settle(4)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(outbox.maintain())
            await asyncio.sleep(0)
            outbox.sinks["audit"].settle(9)
        left = crashed(tmp_path, tmp_path / "left")

    async with opened(left) as outbox:
        assert outbox.sinks["audit"].settled >= outbox.first - 1
        assert (await outbox.check()).problems == []


async def test_cursors_are_saved_a_little_later_and_never_go_back(tmp_path: Path) -> None:
    async with opened(tmp_path) as outbox:
        await filled(outbox)
        outbox.sinks["audit"].settle(7)
        outbox.sinks["audit"].settle(5)
        before = crashed(tmp_path, tmp_path / "before")
        await outbox.maintain()
        after = crashed(tmp_path, tmp_path / "after")
    for left, settled in ((before, 0), (after, 7)):
        async with opened(left) as outbox:
            assert outbox.sinks["audit"].settled == settled


# ── Retention ────────────────────────────────────────────────────────────────


async def test_records_are_retained_for_their_age(tmp_path: Path, clock: Clock) -> None:
    async with opened(tmp_path, retention=Retention(retain_age=60.0)) as outbox:
        informer = await filled(outbox, 5)
        await outbox.maintain()  # As ``run`` does twice a second: commits in between have about one age.
        clock.ahead = 50.0
        await informer.exports(outbox, "updated shop/a")
        outbox.sinks["audit"].settle(6)
        await outbox.maintain()
        assert outbox.first == 1
        clock.ahead = 70.0
        await outbox.maintain()
        assert outbox.first == 6
        clock.ahead = 120.0
        await outbox.maintain()
        assert outbox.records == 0


async def test_records_are_retained_up_to_a_size(tmp_path: Path) -> None:
    async with opened(tmp_path) as outbox:
        await filled(outbox)
        outbox.sinks["audit"].settle(10)
        one = outbox.size // 10
    async with opened(tmp_path, retention=Retention(retain_bytes=3 * one)) as outbox:
        await received_more(outbox)
        await outbox.maintain()
        assert 3 <= outbox.records <= 5


async def received_more(outbox: Outbox) -> None:
    informer = await Informed(padding=100).begin(outbox)
    for _ in range(10):
        await informer.exports(outbox, "updated shop/a")
        await outbox.maintain()  # As ``run`` does twice a second.
    outbox.sinks["audit"].settle(outbox.last)


async def test_retained_records_and_their_age_survive_a_restart(tmp_path: Path, clock: Clock) -> None:
    retention = Retention(retain_age=60.0)
    async with opened(tmp_path, retention=retention, time="2026-11-21T09:00:00.000000Z") as outbox:
        await filled(outbox)
        outbox.sinks["audit"].settle(10)
    async with opened(tmp_path, retention=retention, time="2026-11-21T09:00:50.000000Z") as outbox:
        assert 49 < outbox.oldest_seconds < 52
        assert outbox.records == 10
        await outbox.maintain()
        assert outbox.records == 10
        clock.ahead = 20.0
        await outbox.maintain()
        assert outbox.records == 0


async def test_a_clock_that_is_set_back_changes_neither_order_nor_age(tmp_path: Path, clock: Clock) -> None:
    facts: list[Fact] = []
    retention = Retention(retain_age=60.0)
    times = iter(["2026-11-21T09:00:00.000000Z", "2026-11-21T09:00:00.000000Z", "2020-01-01T00:00:00.000000Z"])
    async with await Outbox.open(
        tmp_path, AUDIT, report=facts.append, retention=retention, clock=lambda: next(times)
    ) as outbox:
        informer = await Informed().begin(outbox)
        await informer.exports(outbox, "added shop/a")
        await informer.exports(outbox, "updated shop/a")
        first, second = await everything(outbox)
        assert isinstance(first, Delta)
        assert isinstance(second, Delta)
        assert (first.sequence, second.sequence, second.time[:4]) == (1, 2, "2020")
        assert outbox.oldest_seconds < 10
        outbox.sinks["audit"].settle(2)
        clock.ahead = 30.0
        await outbox.maintain()
        assert outbox.records == 2
        clock.ahead = 90.0
        await outbox.maintain()
        assert outbox.records == 0


async def test_a_clock_set_back_makes_no_record_younger_than_now(tmp_path: Path) -> None:
    async with opened(tmp_path, time="2026-11-21T09:00:00.000000Z") as outbox:
        await filled(outbox)
    async with opened(tmp_path, time="2026-01-01T00:00:00.000000Z") as outbox:
        assert 0 <= outbox.oldest_seconds < 5
        assert outbox.backlog_of("audit").records == 10
        assert (await everything(outbox))[0].sequence == 1


# ── The backlog ──────────────────────────────────────────────────────────────


async def test_how_far_each_sink_is_behind(tmp_path: Path, clock: Clock) -> None:
    async with opened(tmp_path, TWO) as outbox:
        await filled(outbox)
        outbox.sinks["audit"].settle(10)
        outbox.sinks["live"].settle(4)
        clock.ahead = 100.0

        assert outbox.backlog_of("audit") == type(outbox.backlog_of("audit"))(0, 0, 0.0)
        live = outbox.backlog_of("live")
        assert live.records == 6
        assert 100 <= live.age < 110
        assert 0 < live.bytes < outbox.size


# ── No room ──────────────────────────────────────────────────────────────────


class Free:
    """The free space that the disk reports."""

    bytes = 1 << 40


@pytest.fixture
def free(monkeypatch: pytest.MonkeyPatch) -> Free:
    free = Free()
    monkeypatch.setattr(StateDirectory, "free_bytes", lambda _: free.bytes)
    look_for_room_often(monkeypatch)
    return free


async def until_reported(facts: list[Fact], kind: type[Fact]) -> None:
    await until(lambda: any(isinstance(fact, kind) for fact in facts))


@asynccontextmanager
async def without_room(directory: Path, free: Free, facts: list[Fact]) -> AsyncIterator[tuple[Outbox, Informed]]:
    async with opened(directory, TWO, retention=Retention(min_free=1 << 30), facts=facts) as outbox:
        informer = await filled(outbox)
        free.bytes = 1000
        yield outbox, informer


async def test_without_room_sinks_go_on_and_new_records_wait(tmp_path: Path, free: Free) -> None:
    facts: list[Fact] = []
    async with without_room(tmp_path, free, facts) as (outbox, informer), asyncio.TaskGroup() as tasks:
        waiting = tasks.create_task(informer.exports(outbox, "updated shop/a"))
        await until_reported(facts, OutboxFull)
        assert "min_free_bytes" in outbox.no_room
        for sink in TWO:
            outbox.sinks[sink].settle(10)
        await outbox.maintain()
        await outbox.sinks.dead_letters["audit"].add_dead_letters(
            [NewDeadLetter(a_delta(3), "too large", parked=False)]
        )
        await outbox.sinks.count_absence(60.0, 3600.0)
        assert (outbox.records, len(outbox.sinks.dead_letters["audit"]), waiting.done()) == (0, 1, False)
        left = crashed(tmp_path, tmp_path / "left")
        free.bytes = 1 << 40
        await waiting
        assert outbox.last == 11
        await until_reported(facts, OutboxHasRoom)
        assert not outbox.no_room
    async with opened(left, TWO) as outbox:
        assert {cursor.settled for cursor in outbox.sinks.all} == {10}


async def test_closing_without_room_is_quick_and_keeps_the_settled(tmp_path: Path, free: Free) -> None:
    facts: list[Fact] = []
    async with (
        asyncio.timeout(10 * BUSY),
        asyncio.TaskGroup() as tasks,
        without_room(tmp_path, free, facts) as (outbox, informer),
    ):
        tasks.create_task(refused(informer.exports(outbox, "updated shop/a")))
        await until_reported(facts, OutboxFull)
        outbox.sinks["audit"].settle(8)
    async with opened(tmp_path, TWO) as outbox:
        assert outbox.last == 10
        assert outbox.sinks["audit"].settled == 8


async def refused(call: object) -> None:
    with pytest.raises(OutboxClosed):
        await call  # type: ignore[misc]


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[SmallDisk]:
    try:
        with mounted_small_disk(tmp_path / "disk") as disk:
            yield disk
    except CannotMount as error:
        pytest.skip(f"no small disk can be mounted here: {error}")


@pytest.mark.parametrize("min_free", [0, 4 << 20])
async def test_a_disk_that_is_full_is_waited_out_and_loses_nothing(small_disk: SmallDisk, min_free: int) -> None:
    """Sinks settle the records: free pages inside the file are reused, and then the disk has more space."""
    directory = small_disk.folder / "state"
    directory.mkdir()
    facts: list[Fact] = []
    acknowledged: list[Delta] = []
    async with opened(directory, retention=Retention(min_free=min_free), facts=facts) as outbox:
        informer = await Informed(padding=0).begin(outbox)
        await informer.exports(outbox, *(f"added shop/p{number}" for number in range(20)))
        small_disk.fill(leave=2 << 20)

        async def export() -> None:
            for number in range(600):
                change = [informer.change(f"updated shop/p{(number + each) % 20}") for each in range(20)]
                batch = informer.batch(change, "7")
                deltas = await outbox.append(batch)
                informer.offload(batch, deltas)
                acknowledged.extend(deltas)

        async with asyncio.TaskGroup() as tasks:
            exporting = tasks.create_task(export())
            await until_reported(facts, OutboxFull)
            outbox.sinks["audit"].settle(10)
            small_disk.make_room()
            await until_reported(facts, OutboxHasRoom)
            await exporting
        assert (await outbox.check()).problems == []
    async with opened(directory) as outbox:
        assert list(await everything(outbox))[20:] == acknowledged


async def test_a_killed_bridge_starts_and_delivers_on_a_full_disk(small_disk: SmallDisk) -> None:
    directory = small_disk.folder / "state"
    directory.mkdir()
    async with opened(directory) as outbox:
        await filled(outbox)
        left = crashed(directory, small_disk.folder / "left")
    small_disk.fill(leave=64 << 10)
    try:
        async with opened(left) as outbox:
            assert len(story(await everything(outbox))) == 10
        small_disk.fill()
        with suppress(StateError):  # It may need a page for itself; that is said, and no bug.
            async with opened(left) as outbox:
                assert len(story(await everything(outbox))) == 10
    finally:
        small_disk.make_room()
    async with opened(left) as outbox:
        assert (await outbox.check()).problems == []
