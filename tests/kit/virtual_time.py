"""An event loop whose clock jumps to the next timer as soon as nothing else can happen: hours pass in milliseconds.

For code that waits for timers and for other tasks, but for no socket and no thread. Where every task waits for
another one and no timer is set, nothing will ever happen, and the loop says so instead of hanging.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

T = TypeVar("T")


class NothingCanHappen(Exception):
    """Every task waits for another one, and no timer is set."""


class _Jumping(selectors.DefaultSelector):
    """Instead of waiting for a timer, moves the clock to it."""

    now = 1000.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if ready := super().select(0):
            return ready
        if timeout is None:
            raise NothingCanHappen
        self.now += max(timeout, 0.0)
        return []


class Inline(ThreadPoolExecutor):
    """Works at once, in the thread of the event loop: virtual time waits for no other."""

    def submit(self, work: Callable[..., Any], /, *arguments: Any, **more: Any) -> Future[Any]:
        done: Future[Any] = Future()
        try:
            done.set_result(work(*arguments, **more))
        except BaseException as error:
            done.set_exception(error)
        return done


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """Its clock starts at 1000 s."""

    def __init__(self) -> None:
        self._jumping = _Jumping()
        super().__init__(self._jumping)
        self.set_default_executor(Inline(1))

    def time(self) -> float:
        return self._jumping.now

    async def shutdown_default_executor(self, timeout: float | None = None) -> None:
        """Nothing: asyncio's own waits for a thread, and what stands for an executor here has none."""


class StandingClock:
    """Stands until a test moves it."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


async def settled() -> None:
    """Everything that can happen without a timer has happened."""
    for _ in range(20):
        await asyncio.sleep(0)


def run_in_virtual_time(main: Coroutine[Any, Any, T]) -> T:
    """As asyncio.run."""
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        return runner.get_loop().run_until_complete(main)  # Without Ctrl-C's handler: it takes longer than most tests.
