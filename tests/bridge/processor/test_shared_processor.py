"""Distribution to listeners that come and go."""

from __future__ import annotations

import asyncio

import pytest

from bridge.model.primitives.ring import Fetch, Ring, Slice
from bridge.processor.shared_processor import ListenerClosed, ListenerExists, SharedProcessor


class ALog(Ring[str]):
    async def read(self, after: int, limit: int) -> Slice[str]:  # type: ignore[override]
        return super().read(after, limit)


def targets(item: str) -> tuple[str, ...] | None:
    """``audit,live: text`` is for two, ``text`` for all."""
    names, mark, _ = item.partition(": ")
    return tuple(names.split(",")) if mark else None


@pytest.fixture
def log() -> ALog:
    return ALog(1000, 1 << 20)


@pytest.fixture
def processor(log: ALog) -> SharedProcessor[str]:
    return SharedProcessor(targets=targets, window=10)


def append(log: ALog, processor: SharedProcessor[str], *items: str) -> None:
    for item in items:
        log.append(item)
    processor.distribute(items, log.last)


async def test_every_listener_gets_everything_by_reference(log: ALog, processor: SharedProcessor[str]) -> None:
    audit, live = processor.add("audit", log), processor.add("live", log)
    item = "".join(["a ", "pod"])
    append(log, processor, item)

    for listener in (audit, live):
        assert (await listener.take(10)).items[0] is item


async def test_what_is_for_some_reaches_those_alone(log: ALog, processor: SharedProcessor[str]) -> None:
    audit, live, copy = processor.add("audit", log), processor.add("live", log), processor.add("copy", log)
    append(log, processor, "audit,live: sync", "added")

    assert await audit.take(10) == Fetch(["audit,live: sync", "added"], 2)
    assert await live.take(10) == Fetch(["audit,live: sync", "added"], 2)
    assert await copy.take(10) == Fetch(["added"], 2)


async def test_a_listener_gets_what_is_distributed_from_now_on(log: ALog, processor: SharedProcessor[str]) -> None:
    append(log, processor, "before")
    listener = processor.add("audit", log)
    append(log, processor, "after")

    assert await listener.take(10) == Fetch(["after"], 2)


async def test_a_listener_may_begin_further_back(log: ALog, processor: SharedProcessor[str]) -> None:
    append(log, processor, "one", "two", "three")

    assert await processor.add("audit", log, after=1).take(10) == Fetch(["two", "three"], 3)


async def test_a_stuck_listener_blocks_nobody_and_its_window_bounded(
    log: ALog, processor: SharedProcessor[str]
) -> None:
    stuck, live = processor.add("stuck", log), processor.add("live", log, window=3)
    for number in range(500):
        append(log, processor, str(number))
        assert (await live.take(10)).items == [str(number)]

    assert stuck.in_memory == 10
    assert stuck.pending == 500


async def test_a_name_is_given_once(log: ALog, processor: SharedProcessor[str]) -> None:
    processor.add("audit", log)

    with pytest.raises(ListenerExists, match="audit"):
        processor.add("audit", log)


async def test_a_removed_listener_ends_and_its_name_is_free_again(log: ALog, processor: SharedProcessor[str]) -> None:
    listener = processor.add("audit", log)
    processor.remove("audit")
    processor.remove("audit")
    append(log, processor, "after")

    with pytest.raises(ListenerClosed):
        await listener.take(10)
    assert processor.add("audit", log).pending == 0


async def test_only_listeners_with_a_period_are_resynced(log: ALog, processor: SharedProcessor[str]) -> None:
    processor.add("audit", log, resync=60)
    processor.add("live", log)
    processor.add("copy", log, resync=30)

    assert processor.resync_periods() == {"audit": 60, "copy": 30}


async def test_the_resync_planner_hears_of_joins_and_leaves(log: ALog, processor: SharedProcessor[str]) -> None:
    for change in (lambda: processor.add("audit", log, resync=60), lambda: processor.remove("audit")):
        async with asyncio.TaskGroup() as tasks:
            waiting = tasks.create_task(processor.wait_periods_changed())
            await asyncio.sleep(0)
            assert not waiting.done()
            change()
