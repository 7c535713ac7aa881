"""Work whose length others choose leaves the event loop to everything else in between."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.outbox.appender import MOST_AT_ONCE
from tests.kit.counted_work import CountedWork

long = st.floats(0, 0.2)


@given(st.lists(st.lists(long, max_size=20), min_size=1, max_size=6))
def test_everything_else_has_its_turn_after_two_parts(batches: list[list[float]]) -> None:
    async def all_of_them() -> Sequence[list[float]]:
        return await asyncio.gather(*(work.turns.map(work.step, each) for each in batches))

    async def main() -> None:
        assert await work.beside(all_of_them()) == batches

    work = CountedWork()
    asyncio.run(main())
    slowest = max((seconds for batch in batches for seconds in batch), default=0.0)
    assert work.longest <= 2 * (MOST_AT_ONCE + slowest) + 1e-9, "one before it in its round, and one behind"


async def test_a_short_batch_waits_for_two_parts_of_a_long_one() -> None:
    work, done = CountedWork(), list[str]()

    async def batch(name: str, *seconds: float) -> None:
        await work.turns.map(work.step, seconds)
        done.append(f"{name} at {work.now:.2f}")

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(batch("long", *[0.05] * 100))
        tasks.create_task(batch("short", 0.0, 0.0))

    assert done == ["short at 0.10", "long at 5.00"]


async def test_what_is_done_within_a_part_waits_for_nothing() -> None:
    work = CountedWork()
    steps = work.turns.map(work.step, [MOST_AT_ONCE / 4] * 3)

    assert without_a_wait(steps.send) == [MOST_AT_ONCE / 4] * 3


def without_a_wait(resume: Callable[[None], object]) -> object:
    try:
        resume(None)
    except StopIteration as end:
        return end.value
    raise AssertionError("it waited")


async def test_an_error_of_a_step_gives_the_turn_back() -> None:
    work = CountedWork()

    def fails(_: object) -> None:
        raise ValueError("a bug")

    with pytest.raises(ValueError, match="a bug"):
        await work.turns.map(fails, [1])
    assert await work.turns.map(work.step, [0.0]) == [0.0]
