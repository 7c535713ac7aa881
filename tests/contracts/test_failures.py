"""Destinations that are not there, or go and come back: never an exception, never silence, never a loss."""

from __future__ import annotations

import asyncio
import json
import random
import signal
from contextlib import suppress

import pytest

from sinks.base import SinkContext, SinkUnavailable
from tests.contracts import writer
from tests.contracts.conftest import EVERY
from tests.contracts.destinations import Destination
from tests.contracts.rules import (
    TIMELY,
    Results,
    assert_holds,
    deliver,
    deliver_all,
    repeats,
    say,
    the_loop_is_free,
    until,
    what_is_left,
)
from tests.kit.commands import child
from tests.kit.deadlines import BUSY
from tests.kit.records import changes
from tests.kit.sinks import opened_sink

pytestmark = pytest.mark.parametrize("kind", EVERY, indirect=True)


async def test_an_absent_destination_is_reported_in_time(destination: Destination) -> None:
    batch = changes(5)
    sink = destination.sink(**destination.nowhere())
    async with the_loop_is_free():
        if destination.kind == "webhook":  # It knows only when it posts.
            await sink.open(SinkContext())
            assert await deliver(sink, batch) == batch
        else:
            with pytest.raises(SinkUnavailable) as results:
                await asyncio.wait_for(sink.open(SinkContext()), TIMELY)
            assert str(results.value).strip()
        await asyncio.wait_for(sink.close(), TIMELY)

    async with destination.opened_patiently() as sink:
        assert await deliver(sink, batch) == []
    assert len(await destination.stored()) == len(batch)


async def test_sinks_that_came_and_went_leave_nothing_behind(destination: Destination) -> None:
    nowhere = destination.nowhere()  # Keeps a port reserved, by an open socket.

    async def come_and_go() -> None:
        async with destination.opened_patiently() as sink:
            await deliver(sink, changes(20))
        lost = destination.sink(**nowhere)
        with suppress(SinkUnavailable):
            await lost.open(SinkContext())
            await deliver(lost, changes(20))
        await lost.close()

    await come_and_go()
    before = what_is_left()
    await come_and_go()
    with suppress(TimeoutError):  # The other end of a connection is closed a moment later.
        await until(lambda: what_is_left() == before)

    assert what_is_left() == before


async def test_check_describes_the_destination_and_sends_no_record(destination: Destination) -> None:
    async with the_loop_is_free():
        good, bad = destination.sink(**destination.patience), destination.sink(**destination.nowhere())
        async with asyncio.timeout(TIMELY):
            found = await good.check()
            with pytest.raises(SinkUnavailable) as refused:
                await bad.check()
            await bad.close()

    assert found.strip()
    assert str(refused.value).strip()
    assert await destination.stored() == []
    async with opened_sink(good):
        assert await deliver(good, changes(5)) == [], "a sink that was checked can be opened"


async def test_a_restart_within_a_stream_loses_nothing_in_order(destination: Destination) -> None:
    sent = changes(1800, keys=13)
    results, fallen = Results(), asyncio.Event()

    async def deliver_the_rest() -> None:
        await deliver_all(sink, sent[600:1500], 20, results)
        await fallen.wait()  # Else all might be there before, where the fall takes long.
        await deliver_all(sink, sent[1500:], 20, results)

    async with destination.opened() as sink, the_loop_is_free():
        await deliver_all(sink, sent[:600], 20, results)
        async with asyncio.TaskGroup() as group:
            group.create_task(deliver_the_rest())
            await destination.fall()
            fallen.set()
            await until(lambda: bool(results.failures))
            acknowledged = set(results.stored)
            await destination.rise()
            at_once = {each.id for each in await destination.stored()}
    found = await destination.stored()

    assert acknowledged <= at_once
    assert results.stored == {record.id for record in sent}
    assert_holds(found, sent, results.stored)
    say(destination.way, "a restart in the middle", found, results)
    assert not destination.stores_once or repeats(found) == 0


async def test_a_cancelled_delivery_can_be_repeated_by_a_new_sink(
    destination: Destination,
) -> None:
    sent = changes(240, keys=9)
    rng = random.Random(1)
    results = Results()
    for start in range(0, len(sent), 40):
        batch = sent[start : start + 40]
        async with destination.opened() as sink:
            delivering = asyncio.get_running_loop().create_task(sink.deliver(batch))
            for _ in range(rng.randrange(12)):
                await asyncio.sleep(0)
            delivering.cancel()
            await asyncio.wait({delivering}, timeout=TIMELY)
            assert delivering.done()
        async with destination.opened() as sink:
            await deliver_all(sink, batch, 40, results)
    found = await destination.stored()

    assert_holds(found, sent, results.stored)
    say(destination.way, "six cancelled deliveries", found, results)
    assert not destination.knows_ids or repeats(found) == 0


async def test_a_killed_bridge_loses_nothing_that_was_acknowledged(destination: Destination) -> None:
    sent = writer.RECORDS
    options = json.dumps(destination.options())
    code = f"import sys; from {writer.__name__} import main; main(*sys.argv[1:])"
    acknowledged = 0
    with child(code, destination.kind, options, modules=[writer.__name__]) as writing:
        async with asyncio.timeout(30 * BUSY):
            while line := await asyncio.to_thread(writing.output.readline):
                acknowledged = int(line)
                if acknowledged == 5 * writer.BATCH:
                    # Not at once: it shall be in the middle of a batch.
                    asyncio.get_running_loop().call_later(random.uniform(0, 0.03), writing.process.kill)
        assert writing.process.wait(30 * BUSY) == -signal.SIGKILL
    at_once = await destination.stored_by_a_killed_writer()
    results = Results(stored={record.id for record in sent[:acknowledged]})
    async with destination.opened() as sink:
        await deliver_all(sink, sent[acknowledged : acknowledged + 1000], 100, results)
    found = await destination.stored()

    assert {record.id for record in sent[:acknowledged]} <= {each.id for each in at_once}
    assert_holds(found, sent, results.stored)
    say(destination.way, f"killed after {acknowledged}", found, results)
    assert not destination.knows_ids or repeats(found) == 0
