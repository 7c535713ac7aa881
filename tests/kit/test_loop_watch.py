"""A watch that cannot notice a blocked loop would let every test pass."""

from __future__ import annotations

import asyncio
import threading
import time

from tests.kit.loop_watch import watched_loop


async def test_a_loop_that_sleeps_in_a_call_stands_still() -> None:
    async with watched_loop() as watch:
        await asyncio.sleep(0.05)
        time.sleep(0.5)  # noqa: ASYNC251 -- The fault that is looked for.
    assert watch.longest > 0.2


async def test_a_loop_that_computes_stands_still() -> None:
    async with watched_loop() as watch:
        until = time.thread_time() + 0.3
        while time.thread_time() < until:
            pass
    assert watch.longest >= 0.3


async def test_a_loop_that_awaits_is_free() -> None:
    async with watched_loop() as watch:
        await asyncio.to_thread(time.sleep, 0.5)
    assert watch.longest < 0.3


async def test_a_loop_that_waits_for_a_cpu_is_free() -> None:
    over = threading.Event()

    def compute() -> None:
        while not over.is_set():
            sum(range(1000))

    threads = [threading.Thread(target=compute) for _ in range(8)]
    for thread in threads:
        thread.start()
    try:
        async with watched_loop() as watch:
            await asyncio.sleep(0.5)
    finally:
        over.set()
        for thread in threads:
            thread.join()
    assert watch.longest < 0.8
