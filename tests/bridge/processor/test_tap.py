"""A tap on what is distributed: bounded, and never in the way."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis.strategies import integers, just, lists, one_of, tuples

from bridge.processor.shared_processor import ListenerClosed, SharedProcessor, Tap

STEPS = lists(one_of(integers(1, 7), tuples(just("take"), integers(1, 5))), max_size=40)
"""An offer of so many items, or a take of at most so many."""


def a_tap(most: int = 5, most_bytes: int = 1000) -> Tap[int]:
    return Tap(most=most, most_bytes=most_bytes, size=lambda _: 1)


@given(STEPS)
def test_every_item_is_taken_in_order_or_counted_in_its_place(steps: list[int | tuple[str, int]]) -> None:
    async def run() -> None:
        tap, offered, seen = a_tap(), 0, 0
        for step in [*steps, ("take", 5), ("take", 5)]:
            if isinstance(step, int):
                tap.offer(list(range(offered, offered + step)), offered + step)
                offered += step
                continue
            items, dropped = await tap.take(step[1], 0.0)
            assert list(items) == list(range(seen, seen + len(items)))
            seen += len(items) + dropped
        assert seen == offered

    asyncio.run(run())


async def test_an_item_larger_than_the_bound_is_taken_alone() -> None:
    tap = Tap[str](most=9, most_bytes=3, size=len)
    tap.offer(["large", "x"], 2)
    assert await tap.take(9, 0.0) == (["large"], 1)


async def test_a_take_without_items_ends_by_itself_and_at_close() -> None:
    tap = a_tap()
    assert await tap.take(9, 0.01) == ([], 0)
    tap.close()
    with pytest.raises(ListenerClosed):
        await tap.take(9, 60.0)


async def test_a_tap_sees_items_for_any_listener_while_it_is_there() -> None:
    processor = SharedProcessor[int](targets=lambda _: ("nobody",))
    tap = a_tap()
    processor.distribute([1], 1)
    processor.receivers.append(tap)
    processor.distribute([2, 3], 3)
    processor.receivers.remove(tap)
    processor.distribute([4], 4)
    assert await tap.take(9, 0.0) == ([2, 3], 0)
