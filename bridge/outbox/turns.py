"""Turns of the event loop, for work whose length others choose."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from time import perf_counter
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")

MOST_AT_ONCE = 0.01
"""Seconds."""


class Turns:
    """Divides the evaluations of selections into parts, so that they never hold up the rest of the bridge for long.

    Whoever may write objects decides how long an expression takes on each, up to the budget of one evaluation
    (``selection.language.cost``), and how many objects come at once. So in a round of the event loop, evaluations end
    with the item during which ``MOST_AT_ONCE`` passes, however many informers wait. These take turns: a short batch
    waits for no more than two parts of each long one. A batch for which there is time is done without a wait.
    """

    def __init__(self, clock: Callable[[], float] = perf_counter) -> None:
        self._clock = clock
        self._turn = asyncio.Lock()
        self._until: float | None = None
        """The end of this round's time; None before its first part."""

    async def map(self, step: Callable[[T], R], items: Iterable[T]) -> list[R]:
        """The values of ``step`` for the items, in their order."""
        found: list[R] = []
        left = iter(items)
        clock = self._clock
        while True:
            async with self._turn:
                while self._until is not None and clock() >= self._until:  # noqa: ASYNC110  # the end of a round
                    await asyncio.sleep(0)
                if (until := self._until) is None:
                    until = self._until = clock() + MOST_AT_ONCE
                    asyncio.get_running_loop().call_soon(self._end_round)
                while clock() < until:
                    try:
                        item = next(left)
                    except StopIteration:
                        return found
                    found.append(step(item))

    def _end_round(self) -> None:
        self._until = None
