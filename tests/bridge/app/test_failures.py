"""Which exception a run ends with, where its tasks fail together."""

from __future__ import annotations

import asyncio

import pytest

from bridge.app.bridge import for_the_operator
from bridge.outbox import StateError

LOST = StateError("the disk is full")


async def fail(error: Exception) -> None:
    raise error


async def failed_with(*errors: Exception) -> BaseException:
    with pytest.raises(BaseExceptionGroup) as caught:
        await run(errors)
    return for_the_operator(caught.value)


async def run(errors: tuple[Exception, ...]) -> None:
    """An inner group fails while another task is about to make one more."""
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(late(tasks))
        tasks.create_task(inner(errors))


async def inner(errors: tuple[Exception, ...]) -> None:
    async with asyncio.TaskGroup() as tasks:
        for each in errors:
            tasks.create_task(fail(each))


async def late(tasks: asyncio.TaskGroup) -> None:
    try:
        await asyncio.Event().wait()
    finally:
        making = fail(KeyError("never begun"))
        try:
            tasks.create_task(making)
        finally:
            making.close()


async def test_an_error_for_the_operator_stands_alone() -> None:
    assert await failed_with(LOST) is LOST


async def test_a_fault_beside_it_is_shown_whole() -> None:
    assert isinstance(await failed_with(LOST, KeyError("a fault")), BaseExceptionGroup)
