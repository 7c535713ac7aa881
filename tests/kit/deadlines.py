"""Deadlines of tests: a deadline bounds how long a failure takes, and a busy machine must not reach it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")

BUSY = 10
"""Times a deadline that suits a quiet machine: forty jobs on two cores take a second's work half a minute."""


async def until(holds: Callable[[], object]) -> None:
    """Returns once it holds: for what nothing announces. Raises TimeoutError."""
    async with asyncio.timeout(30 * BUSY):
        while not holds():  # noqa: ASYNC110
            await asyncio.sleep(0.01)


def run_bounded(runner: asyncio.Runner, what: Coroutine[Any, Any, T]) -> T:
    """A step of a state machine. Raises TimeoutError where it hangs."""

    async def bounded() -> T:
        async with asyncio.timeout(30 * BUSY):
            return await what

    return runner.get_loop().run_until_complete(bounded())
