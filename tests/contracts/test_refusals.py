"""A rejected record is distinguished from a failed delivery, and costs other records nothing."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import compress

import pytest

from bridge.model.record import Delta, Record
from tests.contracts.conftest import OVER_A_NETWORK
from tests.contracts.destinations import Destination
from tests.contracts.rules import (
    Results,
    assert_holds,
    assert_in_order,
    deliver,
    deliver_all,
    repeats,
    say,
    the_loop_is_free,
)
from tests.kit.records import a_delta, changes
from tests.kit.tcp_line import Line

LIMIT = 60_000
"""Bytes."""

pytestmark = [
    pytest.mark.parametrize("limit", [LIMIT]),
    pytest.mark.parametrize("kind", OVER_A_NETWORK, indirect=True),
]


def of_size(sequence: int, size: int, key: str = "shop/web-1") -> Delta:
    """With a body of so many bytes, which no compression makes much smaller."""
    text = random.Random(size).randbytes(size // 2).hex().encode()
    return a_delta(sequence, key=key, body=b'{"":"' + text.ljust(size - 7, b"x")[: size - 7] + b'"}')


def with_large_ones(count: int, indexes: set[int], first: int = 1) -> list[Delta]:
    sent = changes(count, keys=3, first=first)
    return [of_size(each.sequence, 2 * LIMIT, each.key) if n in indexes else each for n, each in enumerate(sent)]


async def test_too_large_records_are_rejected_others_stored_in_order(destination: Destination) -> None:
    indexes = {0, 13, 14, 15, 39}
    sent = with_large_ones(40, indexes)
    results = Results()
    async with destination.opened_patiently() as sink, the_loop_is_free():
        await deliver_all(sink, sent, len(sent), results)
    found = await destination.stored()

    assert results.rejected.keys() == {sent[index].id for index in indexes}
    assert_holds(found, sent, results.stored)
    assert len(found) == len(results.stored) == 35


async def test_nothing_of_an_object_is_sent_behind_its_rejected_record(destination: Destination) -> None:
    """The bridge may have to park it. Other objects are not held up, wherever they stand."""
    indexes = {4, 14, 26}
    sent = [
        *changes(30, keys=3),
        *(of_size(n, 2 * LIMIT, "shop/last") if n == 31 else a_delta(n, key="shop/last") for n in (31, 32)),
    ]
    for index in indexes:
        sent[index] = of_size(index + 1, 2 * LIMIT, sent[index].key)
    rejected = {"shop/last": 30} | {sent[index].key: index for index in sorted(indexes, reverse=True)}
    behind = [index for index, record in enumerate(sent) if index > rejected.get(record.key, len(sent))]
    results = Results()
    async with destination.opened() as sink:
        left: Sequence[Record] = sent
        parked: list[Record] = []
        while left:  # A busy machine may take too long for some of them: these are delivered again.
            results.failures.clear()
            pending = await deliver(sink, left, results)
            first = {record.ordering_key: record.sequence for record in sent if record.id in results.rejected}
            waits = [record.sequence > first.get(record.ordering_key, record.sequence) for record in pending]
            parked += compress(pending, waits)
            left = [record for record, blocked in zip(pending, waits, strict=True) if not blocked]
        found = await destination.stored()

    assert results.rejected.keys() == {sent[index].id for index in rejected.values()}
    assert sorted(parked, key=lambda record: record.sequence) == [sent[index] for index in behind]
    assert results.failures == []
    assert (
        {each.id for each in found}
        == results.stored
        == {record.id for record in sent} - results.rejected.keys() - {record.id for record in parked}
    )
    assert_in_order(found, sent)


async def test_nothing_but_what_is_too_large_is_rejected_all(destination: Destination) -> None:
    sent = with_large_ones(4, {0, 1, 2, 3})
    results = Results()
    async with destination.opened_patiently() as sink:
        await deliver_all(sink, sent, 4, results)
        await deliver_all(sink, changes(3, first=5), 3, results)

    assert len(results.rejected) == 4
    assert len(await destination.stored()) == 3


async def test_one_byte_separates_stored_from_rejected_records(destination: Destination) -> None:
    fits, too_large, sequence = LIMIT - 1000, LIMIT + 100, 0
    async with destination.opened(**destination.uncompressed) as sink:
        while too_large - fits > 1:
            size = (fits + too_large) // 2
            sequence += 1
            results = Results()
            await deliver_all(sink, [of_size(sequence, size)], 1, results)
            fits, too_large = (size, too_large) if results.stored else (fits, size)
        results = Results()
        sizes = [fits, too_large, fits, too_large, fits]
        edge = [of_size(1000 + n, size, f"shop/web-{n}") for n, size in enumerate(sizes)]
        await deliver_all(sink, edge, len(edge), results)

    print(f"\n{destination.way}: a body of {fits} bytes fits into {LIMIT}", end="")
    assert results.stored == {edge[index].id for index in (0, 2, 4)}
    assert fits > LIMIT - 1000


async def test_a_line_that_is_cut_does_not_turn_refusals_into_losses(destination: Destination, line: Line) -> None:
    rng = random.Random(7)
    sent: list[Delta] = []
    results = Results()
    async with destination.opened() as sink:
        for start in range(1, 81, 20):
            batch = with_large_ones(20, {rng.randrange(20)}, start)
            sent += batch
            line.cut_after(rng.randrange(1, 2 * LIMIT))
            await deliver_all(sink, batch, 20, results)
    found = await destination.stored()

    assert len(results.rejected) == 4
    assert results.stored == {record.id for record in sent} - results.rejected.keys()
    assert_holds(found, sent, results.stored)
    say(destination.way, f"refusals and {line.cuts} cuts", found, results)
    assert not destination.knows_ids or repeats(found) == 0
