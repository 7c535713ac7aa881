"""Distribution to listeners that come and go."""

from __future__ import annotations

import asyncio

import pytest

from bridge.model.primitives.ring import Ring, Slice
from bridge.processor.listener import ListenerClosed, Taken
from bridge.processor.shared_processor import ListenerExists, SharedProcessor


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
    return SharedProcessor(log, targets=targets, window=10)


def tell(log: ALog, processor: SharedProcessor[str], *items: str) -> None:
    for item in items:
        log.append(item)
    processor.distribute(items, log.last)


async def test_every_listener_gets_everything_by_reference(log: ALog, processor: SharedProcessor[str]) -> None:
    audit, live = processor.add("audit"), processor.add("live")
    item = "".join(["a ", "pod"])
    tell(log, processor, item)

    for listener in (audit, live):
        assert (await listener.take(10)).items[0] is item


async def test_what_is_for_some_reaches_those_alone(log: ALog, processor: SharedProcessor[str]) -> None:
    audit, live, copy = processor.add("audit"), processor.add("live"), processor.add("copy")
    tell(log, processor, "audit,live: sync", "added")

    assert await audit.take(10) == Taken(["audit,live: sync", "added"], 2)
    assert await live.take(10) == Taken(["audit,live: sync", "added"], 2)
    assert await copy.take(10) == Taken(["added"], 2)


async def test_a_listener_gets_what_is_distributed_from_now_on(log: ALog, processor: SharedProcessor[str]) -> None:
    tell(log, processor, "before")
    listener = processor.add("audit")
    tell(log, processor, "after")

    assert await listener.take(10) == Taken(["after"], 2)


async def test_a_listener_may_begin_further_back(log: ALog, processor: SharedProcessor[str]) -> None:
    tell(log, processor, "one", "two", "three")

    assert await processor.add("audit", after=1).take(10) == Taken(["two", "three"], 3)


async def test_a_stuck_listener_blocks_nobody_and_its_window_bounded(
    log: ALog, processor: SharedProcessor[str]
) -> None:
    stuck, live = processor.add("stuck"), processor.add("live", window=3)
    for number in range(500):
        tell(log, processor, str(number))
        assert (await live.take(10)).items == [str(number)]

    assert stuck.in_memory == 10
    assert stuck.pending == 500


async def test_a_name_is_given_once(processor: SharedProcessor[str]) -> None:
    processor.add("audit")

    with pytest.raises(ListenerExists, match="audit"):
        processor.add("audit")


async def test_a_removed_listener_ends_and_its_name_is_free_again(log: ALog, processor: SharedProcessor[str]) -> None:
    listener = processor.add("audit")
    processor.remove("audit")
    processor.remove("audit")
    tell(log, processor, "after")

    with pytest.raises(ListenerClosed):
        await listener.take(10)
    assert processor.add("audit").pending == 0


async def test_only_listeners_with_a_period_are_resynced(processor: SharedProcessor[str]) -> None:
    processor.add("audit", resync=60)
    processor.add("live")
    processor.add("copy", resync=30)

    assert processor.resync_periods() == {"audit": 60, "copy": 30}


async def test_the_resync_planner_hears_of_joins_and_leaves(processor: SharedProcessor[str]) -> None:
    for change in (lambda: processor.add("audit", resync=60), lambda: processor.remove("audit")):
        async with asyncio.TaskGroup() as tasks:
            waiting = tasks.create_task(processor.wait_periods_changed())
            await asyncio.sleep(0)
            assert not waiting.done()
            change()
