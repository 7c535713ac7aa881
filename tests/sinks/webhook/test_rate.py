"""Requests in time, in virtual time and against a real receiver."""

from __future__ import annotations

import asyncio
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sinks.base import ALL_STORED, SinkContext
from sinks.webhook.connection import RateLimit
from tests.kit.records import changes
from tests.kit.virtual_time import run_in_virtual_time
from tests.kit.webhook_receiver import ACCEPTED, Answer, Posted, WebhookReceiver
from tests.sinks.webhook.test_sink import a_sink


def begun(rate: float, burst: int, pauses: list[float], *, at_once: int = 1, bound: float | None = None) -> list[float]:
    """When requests begin, in seconds. After each pause ``at_once`` callers wait for their turn."""

    async def run() -> list[float]:
        limit = RateLimit(rate, burst)
        if bound is not None:
            limit.bound(bound)
        now, found = asyncio.get_running_loop().time, []

        async def call() -> None:
            await limit.wait()
            found.append(now() - 1000)

        for pause in pauses:
            await asyncio.sleep(pause)
            await asyncio.gather(*(call() for _ in range(at_once)))
        return found

    return run_in_virtual_time(run())


def test_a_quiet_time_saves_a_burst_and_no_more() -> None:
    assert begun(1, 3, [0, 100], at_once=5) == pytest.approx([0, 0, 0, 1, 2, 102, 102, 102, 103, 104])


def test_a_lower_bound_holds_and_a_higher_one_does_not() -> None:
    assert begun(10, 1, [0], at_once=3, bound=0.5) == pytest.approx([0, 2, 4])
    assert begun(10, 1, [0], at_once=3, bound=50) == pytest.approx([0, 0.1, 0.2])


@given(
    rate=st.floats(0.01, 1000),
    burst=st.integers(1, 20),
    pauses=st.lists(st.floats(0, 50), min_size=1, max_size=10),
    at_once=st.integers(1, 20),
)
def test_no_span_has_more_than_its_tokens(rate: float, burst: int, pauses: list[float], at_once: int) -> None:
    times = begun(rate, burst, pauses, at_once=at_once)

    assert times == sorted(times)
    for first, start in enumerate(times):
        for last, end in enumerate(times[first:], first):
            assert last - first + 1 <= burst + (end - start) * rate + 1e-6


def test_a_cancelled_caller_makes_no_room() -> None:
    async def run() -> float:
        limit, now = RateLimit(1), asyncio.get_running_loop().time
        await limit.wait()
        async with asyncio.TaskGroup() as group:
            waiting = group.create_task(limit.wait())
            await asyncio.sleep(0.1)
            waiting.cancel()
        await limit.wait()
        return now() - 1000

    assert run_in_virtual_time(run()) == pytest.approx(2)


async def test_a_sink_sends_no_faster_than_its_rate(receiver: WebhookReceiver) -> None:
    arrived: list[float] = []

    def answer(posted: Posted) -> Answer:
        arrived.append(time.monotonic())
        return ACCEPTED

    receiver.answer = answer
    sink = a_sink(receiver.url, rate={"requests": 100, "per": "2s"})
    await sink.open(SinkContext())
    lanes = [changes(5, keys=1, first=1 + 5 * lane) for lane in range(4)]
    began = time.monotonic()
    assert await asyncio.gather(*map(sink.deliver, lanes)) == [ALL_STORED] * 4
    await sink.close()

    assert len(arrived) == 20
    for number, when in enumerate(sorted(arrived)):
        assert when - began >= number * 0.02 - 0.002, "a busy machine can only make it later"
