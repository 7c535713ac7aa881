"""One listener's pending queue: a bounded window over the log."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from bridge.model.primitives.ring import Fetch, Missed, Ring, Slice
from bridge.processor.shared_processor import ListenerClosed, ProcessorListener
from tests.kit.deadlines import BUSY
from tests.kit.virtual_time import VirtualTimeLoop


class ALog(Ring[int]):
    """Items are their own sequence numbers. A read may be slow: it sees the log before it waits, as a disk does."""

    def __init__(self, max_items: int = 1000) -> None:
        super().__init__(max_items, 1 << 30)
        self.fast = asyncio.Event()
        self.fast.set()
        self.reads = 0

    def grow(self, count: int) -> list[int]:
        return [self.append(self.last + 1) for _ in range(count)]

    async def read(self, after: int, limit: int) -> Slice[int]:  # type: ignore[override]
        self.reads += 1
        found = super().read(after, limit)
        await self.fast.wait()
        return found


def a_listener(
    log: ALog,
    *,
    window: int = 10,
    after: int = 0,
    wanted: Callable[[int], bool] = lambda _: True,
    initial: Iterator[int] | None = None,
) -> ProcessorListener[int]:
    return ProcessorListener(
        "audit", log, window=window, after=after, targets=lambda item: None if wanted(item) else (), initial=initial
    )


def append(log: ALog, listener: ProcessorListener[int], count: int) -> None:
    items = log.grow(count)
    listener.offer(items, log.last)


async def would_wait(listener: ProcessorListener[int]) -> bool:
    try:
        async with asyncio.timeout(0.01):
            await listener.take(100)
    except TimeoutError:
        return True
    return False


# ── Large items ──────────────────────────────────────────────────────────────


def a_listener_of_large_items(log: ALog) -> ProcessorListener[int]:
    """Each item is as large as its number; 10 in all may be held."""
    return ProcessorListener(
        "audit", log, window=100, after=0, targets=lambda _: None, size=lambda item: item, max_bytes=10
    )


async def test_large_items_fill_the_window_before_its_count_does() -> None:
    log = ALog()
    listener = a_listener_of_large_items(log)
    for _ in range(6):
        append(log, listener, 1)
    assert listener.in_memory == 4  # 1 + 2 + 3 + 4

    assert (await listener.take(100)).items == [1, 2, 3, 4]
    assert (await listener.take(100)).items == [5]
    assert (await listener.take(100)).items == [6]
    append(log, listener, 2)
    assert (await listener.take(100)).items == [7]
    assert (await listener.take(100)) == Fetch([8], 8)


async def test_a_window_has_room_again_for_the_bytes_that_were_taken() -> None:
    log = ALog()
    listener = a_listener_of_large_items(log)
    append(log, listener, 4)
    assert (await listener.take(3)).items == [1, 2, 3]
    append(log, listener, 1)
    assert listener.in_memory == 2
    assert (await listener.take(100)).items == [4, 5]
    assert log.reads == 0


async def test_an_item_larger_than_the_bound_is_taken_alone() -> None:
    log = ALog()
    listener = a_listener_of_large_items(log)
    append(log, listener, 12)
    taken = [(await listener.take(100)).items for _ in range(9)]
    assert taken == [[1, 2, 3, 4], [5], [6], [7], [8], [9], [10], [11], [12]]


# ── The window ───────────────────────────────────────────────────────────────


async def test_a_listener_that_keeps_up_never_reads_the_log() -> None:
    log = ALog()
    listener = a_listener(log)
    for _ in range(20):
        append(log, listener, 10)
        assert (await listener.take(100)).through == log.last

    assert log.reads == 0


async def test_a_take_that_is_cancelled_while_it_reads_loses_nothing() -> None:
    log = ALog()
    listener = a_listener(log, window=2)
    append(log, listener, 5)
    log.fast.clear()
    assert await would_wait(listener)
    log.fast.set()

    assert (await listener.take(100)).items == [1, 2, 3, 4, 5]


# ── Missed ───────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("trimmed", "left"), [(0, [1, 2, 3, 4, 5]), (1, [2, 3, 4, 5]), (4, [5]), (5, [])])
async def test_what_the_log_lost_is_missed(trimmed: int, left: list[int]) -> None:
    log = ALog()
    listener = a_listener(log, window=2)
    append(log, listener, 5)
    log.trim(trimmed)

    assert await listener.take(10) == Fetch(left, 5, Missed(1, trimmed) if trimmed else None)
    assert await would_wait(listener)


# ── What comes first for a late listener ─────────────────────────────────────


async def test_stored_objects_come_first_in_parts_then_the_changes() -> None:
    log = ALog()
    log.grow(50)
    listener = a_listener(log, after=50, initial=iter([101, 102, 103]))
    append(log, listener, 2)

    assert await listener.take(2) == Fetch([101, 102], 50)
    assert listener.has_initial
    assert await listener.take(2) == Fetch([103], 50)
    assert not listener.has_initial
    assert await listener.take(2) == Fetch([51, 52], 52)


@pytest.mark.parametrize("already", [[], [101, 102]])
async def test_the_taker_learns_that_the_initial_objects_are_over(already: list[int]) -> None:
    """Else it would wait for the next change before it knew that it has come to the present."""
    listener = a_listener(ALog(), initial=iter(already))
    for _ in range(2):
        if listener.has_initial:
            async with asyncio.timeout(1 * BUSY):
                await listener.take(2)

    assert not listener.has_initial


# ── Closing ──────────────────────────────────────────────────────────────────


async def test_closing_ends_the_one_who_waits() -> None:
    listener = a_listener(ALog())
    async with asyncio.TaskGroup() as tasks:
        waiting = tasks.create_task(_ends(listener))
        await asyncio.sleep(0)
        listener.close()
    assert waiting.done()


async def _ends(listener: ProcessorListener[int]) -> None:
    with pytest.raises(ListenerClosed):
        await listener.take(10)


# ── Every interleaving ───────────────────────────────────────────────────────


class AnyInterleaving(RuleBasedStateMachine):
    """The log grows, loses its oldest items and is read slowly; what is in it is offered later, in order; takes begin
    and end at any moment. Every wanted item is taken exactly once and in order, or is missed exactly."""

    @initialize(window=st.integers(1, 6), kept=st.integers(3, 12), every=st.integers(1, 3))
    def begin(self, window: int, kept: int, every: int) -> None:
        self.runner = asyncio.Runner(loop_factory=VirtualTimeLoop)
        self.window, self.every = window, every
        self.taking: asyncio.Task[Fetch[int]] | None = None
        self.limit = 0
        self.offered = self.seen = 0
        self.runner.get_loop().run_until_complete(self._begin(window, kept))

    async def _begin(self, window: int, kept: int) -> None:
        self.log = ALog(max_items=kept)
        self.listener = a_listener(self.log, window=window, wanted=self.wanted)

    def wanted(self, item: int) -> bool:
        return item % self.every == 0

    @rule(count=st.integers(1, 8))
    def grow(self, count: int) -> None:
        self.log.grow(count)

    @precondition(lambda self: self.offered < self.log.last)
    @rule(count=st.integers(1, 8))
    def offer(self, count: int) -> None:
        last = min(self.offered + count, self.log.last)
        self.runner.get_loop().run_until_complete(self._offer(range(self.offered + 1, last + 1), last))
        self.offered = last

    async def _offer(self, items: range, last: int) -> None:
        self.listener.offer(items, last)
        await self._settle()

    @precondition(lambda self: self.taking is None)
    @rule(limit=st.integers(1, 7))
    def take(self, limit: int) -> None:
        self.limit = limit
        self.runner.get_loop().run_until_complete(self._take(limit))

    async def _take(self, limit: int) -> None:
        self.taking = asyncio.get_running_loop().create_task(self.listener.take(limit))
        await self._settle()

    @rule(fast=st.booleans())
    def set_speed_of_reading(self, fast: bool) -> None:
        self.runner.get_loop().run_until_complete(self._set_speed(fast))

    async def _set_speed(self, fast: bool) -> None:
        if fast:
            self.log.fast.set()
        else:
            self.log.fast.clear()
        await self._settle()

    async def _settle(self) -> None:
        for _ in range(5):
            await asyncio.sleep(0)
        if self.taking is not None and self.taking.done():
            self.check(self.taking.result())
            self.taking = None

    def check(self, taken: Fetch[int]) -> None:
        assert taken.through is not None
        after = self.seen
        if taken.missed is not None:
            assert taken.missed.first == after + 1
            assert taken.missed.last < self.log.first
            after = taken.missed.last
        assert list(taken.items) == [item for item in range(after + 1, taken.through + 1) if self.wanted(item)]
        assert len(taken.items) <= self.limit
        self.seen = taken.through

    @invariant()
    def bounded(self) -> None:
        if hasattr(self, "listener"):
            assert self.listener.in_memory <= self.window

    @invariant()
    def nobody_waits_for_what_was_offered(self) -> None:
        if hasattr(self, "log") and self.taking is not None and self.log.fast.is_set():
            assert self.seen >= self.offered

    def teardown(self) -> None:
        if not hasattr(self, "log"):
            return
        try:
            self.set_speed_of_reading(True)
            if self.offered < self.log.last:
                self.offer(self.log.last)
            for _ in range(self.log.last + 1):
                if self.taking is None and self.seen < self.log.last:
                    self.take(7)
            assert self.seen == self.log.last
        finally:
            self.runner.close()


TestAnyInterleaving = AnyInterleaving.TestCase
