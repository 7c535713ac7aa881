"""A replica leads again behind another one that has delivered less: its own cursors are further than the sinks."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from bridge.model.versions.frontier import Frontier
from tests.bridge.outbox.opened import crashed, feeds_of, joined, opened
from tests.bridge.outbox.test_standby import SINKS, Side, all_see, published, replicas

STEPS = "added shop/a", "updated shop/a", "deleted shop/a"


async def led_by_another(sides: list[Side]) -> Frontier:
    """The first replica delivers three steps of an object, and publishes none of them; then the other one delivers the
    first, and publishes that. Returns what the Lease has."""
    first, second = sides
    await first.standby.take_over(1, None)
    found = published(first)
    for step, position in zip(STEPS, ("110", "120", "130"), strict=True):
        await all_see(sides, step, position=position)
    for sink in SINKS:
        assert await first.delivers(sink) == [*STEPS]
    await first.outbox.maintain()
    first.standby.step_down()
    await second.standby.take_over(2, found)
    for sink in SINKS:
        assert await second.delivers(sink, 1) == [STEPS[0]]
    return published(second)


@asynccontextmanager
async def begun_anew(directory: Path) -> AsyncIterator[Side]:
    """The replica of this state directory."""
    async with opened(directory, SINKS) as outbox:
        again = Side(outbox, await joined(outbox))
        await again.pods.begin(outbox)
        yield again


@pytest.mark.parametrize("reads", [True, False], ids=["read", "unread"])
async def test_a_former_leader_delivers_again_what_another_left(tmp_path: Path, reads: bool) -> None:
    async with replicas(tmp_path) as [first, second]:
        found = await led_by_another([first, second])
        if reads:
            first.standby.observe(found)
        await first.outbox.maintain()
        await first.standby.take_over(3, found)
        assert not first.standby.owed
        for sink in SINKS:
            assert await first.delivers(sink) == [*STEPS[1:]], "the sinks have the oldest state"
        published(first)
        await first.outbox.maintain()
        assert first.outbox.records == 0


async def test_it_does_so_after_a_restart(tmp_path: Path) -> None:
    async with replicas(tmp_path) as [first, second]:
        found = await led_by_another([first, second])
        directory = crashed(tmp_path / "0", tmp_path / "copy")
    async with begun_anew(directory) as again:
        await again.standby.take_over(3, found)
        for sink in SINKS:
            assert await again.delivers(sink) == [*STEPS[1:]]
        directory = crashed(directory, tmp_path / "later")
        assert {sink: again.outbox.sinks[sink].settled for sink in SINKS} == dict.fromkeys(SINKS, 3)


async def test_cursors_that_went_back_are_saved(tmp_path: Path) -> None:
    async with replicas(tmp_path) as [first, second]:
        await first.standby.take_over(3, await led_by_another([first, second]))
        directory = crashed(tmp_path / "0", tmp_path / "copy")
    async with begun_anew(directory) as again:
        await again.standby.take_over(4, None)
        for sink in SINKS:
            assert await again.delivers(sink) == [*STEPS[1:]]


async def test_nobody_else_has_led(tmp_path: Path) -> None:
    """A leader that takes the Lease again goes on where it was."""
    async with replicas(tmp_path) as [first, second]:
        await first.standby.take_over(1, None)
        found = published(first)
        await all_see([first, second], *STEPS, position="130")
        for sink in SINKS:
            await first.delivers(sink)
        first.standby.step_down()
        await first.standby.take_over(2, found)
        for sink in SINKS:
            assert not await first.delivers(sink)


async def test_the_log_stays_until_the_lease_is_renewed(tmp_path: Path) -> None:
    async with replicas(tmp_path) as [first, second]:
        await first.standby.take_over(1, None)
        await all_see([first, second], *STEPS, position="130")
        for sink in SINKS:
            await first.delivers(sink)
        await first.outbox.maintain()
        assert first.outbox.first == 1
        first.standby.published()
        await first.outbox.maintain()
        assert first.outbox.first == 1, "the renewal may fail"
        first.standby.renewed()
        await first.outbox.maintain()
        assert first.outbox.first == 4


async def test_a_compacted_backlog_that_is_gone_makes_a_gap(tmp_path: Path) -> None:
    """Compaction is there to free the log, also before the Lease knows of it."""
    async with replicas(tmp_path) as [first, second]:
        await first.standby.take_over(1, None)
        found = published(first)
        for step, position in zip(STEPS[:2], ("110", "120"), strict=True):
            await all_see([first, second], step, position=position)
        for sink in SINKS:
            await feeds_of(first.outbox).feed(sink).compact()
            feeds_of(first.outbox).end(sink)
        await first.outbox.maintain()
        assert first.outbox.first == 3
        for sink in SINKS:
            assert (await first.delivers(sink))[-1] == "updated shop/a"
        first.standby.step_down()
        await second.standby.take_over(2, found)
        for sink in SINKS:
            assert await second.delivers(sink, 1) == ["added shop/a"]
        await first.standby.take_over(3, published(second))
        for sink in SINKS:
            assert await first.delivers(sink) == ["gap"]
        assert first.standby.owed.keys() == SINKS.keys(), "a snapshot follows"
