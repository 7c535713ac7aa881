"""Networks that cut, lose, hold up and refuse, between a sink and a destination that is well."""

from __future__ import annotations

import asyncio
import random

import pytest

from bridge.model.record import Delta, Record
from tests.contracts.conftest import OVER_A_NETWORK
from tests.contracts.destinations import Destination
from tests.contracts.rules import (
    CLOSES_IN,
    Results,
    assert_holds,
    deliver,
    deliver_all,
    repeats,
    say,
    the_loop_is_free,
    until,
)
from tests.kit.records import a_delta, changes
from tests.kit.tcp_line import Line

pytestmark = pytest.mark.parametrize("kind", OVER_A_NETWORK, indirect=True)


def heavy(count: int, first: int = 1) -> list[Delta]:
    """Of some 4 KB, which no compression makes much smaller."""
    rng = random.Random(first)
    return [
        a_delta(n, key=f"shop/web-{n % 5}", body=b'{"noise":"%s"}' % rng.randbytes(2000).hex().encode())
        for n in range(first, first + count)
    ]


async def test_a_line_cut_anywhere_loses_nothing_and_keeps_the_order(destination: Destination, line: Line) -> None:
    sent: list[Record] = []
    results = Results()
    rng = random.Random(3)
    async with destination.opened() as sink, the_loop_is_free():
        for start in range(1, 401, 40):
            batch = heavy(40, start)
            sent += batch
            if start % 3:
                line.cut_after(rng.randrange(1, 120_000))
            else:
                line.cut_after(rng.randrange(1, 1_000), back=True)
            await deliver_all(sink, batch, 40, results)
    found = await destination.stored()

    assert line.cuts > 5
    assert results.stored == {record.id for record in sent}
    assert_holds(found, sent, results.stored)
    say(destination.way, f"{line.cuts} cuts", found, results)
    assert not destination.stores_once or repeats(found) == 0


async def test_acknowledgements_that_get_lost_lose_nothing_else(destination: Destination, line: Line) -> None:
    sent = changes(200, keys=9)
    results = Results()
    async with destination.opened() as sink, the_loop_is_free():
        await deliver_all(sink, sent[:40], 40, results)
        for start in range(40, 200, 40):
            line.swallowing = True
            before = line.sent
            delivering = asyncio.get_running_loop().create_task(deliver(sink, sent[start : start + 40], results))
            await until(lambda: line.sent > before)  # noqa: B023 (awaited here)
            line.cut()
            line.swallowing = False
            left = await delivering
            if left:
                await deliver_all(sink, left, 40, results)
    found = await destination.stored()

    assert results.stored == {record.id for record in sent}
    assert_holds(found, sent, results.stored)
    say(destination.way, "lost acknowledgements", found, results)
    assert not destination.stores_once or repeats(found) == 0


async def test_cancelled_deliveries_are_repeated_by_new_sinks(destination: Destination, line: Line) -> None:
    sent: list[Record] = []
    results = Results()
    rng = random.Random(5)
    for start in range(1, 241, 40):
        batch = heavy(40, start)
        sent += batch
        async with destination.opened() as sink:
            before, enough = line.sent, rng.randrange(1_000, 100_000)
            delivering = asyncio.get_running_loop().create_task(sink.deliver(batch))
            await until(lambda: line.sent - before > enough or delivering.done())  # noqa: B023
            delivering.cancel()
            await asyncio.wait({delivering}, timeout=CLOSES_IN)
            assert delivering.done()
        async with destination.opened() as sink:
            await deliver_all(sink, batch, 40, results)
    found = await destination.stored()

    assert_holds(found, sent, results.stored)
    say(destination.way, "six cancelled deliveries", found, results)
    assert not destination.knows_ids or repeats(found) == 0


async def test_a_slow_line_is_no_lasting_failure(destination: Destination, line: Line) -> None:
    sent = heavy(200)
    results = Results()
    async with destination.opened() as sink, the_loop_is_free():
        line.rate = 600_000
        await deliver_all(sink, sent, 200, results)
    found = await destination.stored()

    assert_holds(found, sent, results.stored)
    say(destination.way, "a slow line", found, results)
    assert not destination.stores_once or repeats(found) == 0
