"""Content that takes long to make is made beside the event loop."""

from __future__ import annotations

import asyncio
import threading
from functools import partial

from bridge.delivery.sink_pipeline import FEW, SHORT, ContentThread
from bridge.model.formats.content import Include
from bridge.model.record import Record
from bridge.telemetry.facts import Fact
from bridge.telemetry.facts.delivery import StatesNotCompared
from tests.kit.content import with_content
from tests.kit.records import a_delta


async def test_long_content_is_made_beside_the_event_loop() -> None:
    gate, began, loop = threading.Event(), asyncio.Event(), asyncio.get_running_loop()
    thread, made, turns = ContentThread(lambda _: None), list[tuple[int, bool]](), list[int]()

    def make(record: Record) -> Record:
        turns.append(record.sequence)
        assert len(turns) == 1, "one at a time, since the sinks share values"
        if record.sequence == 1:
            loop.call_soon_threadsafe(began.set)
            gate.wait()
        made.append((turns.pop(), threading.current_thread() is threading.main_thread()))
        return record

    async with asyncio.TaskGroup() as tasks:
        await thread.made("one", make, [a_delta(0)])
        tasks.create_task(thread.made("one", make, [a_delta(1, body=b"x" * SHORT + b"x")]))
        await began.wait()
        behind = tasks.create_task(thread.made("two", make, [a_delta(2)]))
        await asyncio.sleep(0)
        assert not behind.done()
        gate.set()
    await thread.made("two", make, [a_delta(3)])

    assert made == [(0, True), (1, False), (2, False), (3, True)]


async def test_many_short_records_are_made_beside_it_too() -> None:
    """An expression may be some milliseconds of work on each of them."""
    there = list[bool]()

    def make(record: Record) -> Record:
        there.append(threading.current_thread() is threading.main_thread())
        return record

    await ContentThread(lambda _: None).made("one", make, [a_delta(each) for each in range(FEW + 1)])

    assert there == [False] * (FEW + 1)


async def test_states_that_are_not_compared_are_reported() -> None:
    facts: list[Fact] = []
    records = [a_delta(1, before=b"{}"), a_delta(2, key="shop/web", before=b"{")]

    await ContentThread(facts.append).made("chat", partial(with_content, include=[Include.CHANGED]), records)

    assert facts == [StatesNotCompared("chat", "pods", "shop/web", "they cannot be read: DecodeError")]
