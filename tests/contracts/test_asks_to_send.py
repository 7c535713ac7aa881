"""A sink whose destination has no fence begins no request without the Lease, and loses nothing by that."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from bridge.model.record import Record
from sinks.base import ALL_STORED, WITHHELD, Receipt, SinkContext
from tests.contracts.conftest import AT_MOST_ONCE, EVERY, EXACTLY_ONCE, KAFKA, NATS, STATES, WEBHOOK
from tests.contracts.destinations import Destination
from tests.contracts.rules import Results, assert_holds, deliver
from tests.kit.records import a_gap, changes

ASKS = [KAFKA, *STATES, *NATS, AT_MOST_ONCE, *WEBHOOK]
NEEDS_NOT = [EXACTLY_ONCE, "file", "file-rotated"]
"""Brokers fence transactions, and a delivery to a file is a single append."""


class Asked:
    """Says yes so many times, until it is asked by the next delivery."""

    def __init__(self, times: int) -> None:
        self._times = self._left = times

    @property
    def context(self) -> SinkContext:
        return SinkContext(may_send=self._may_send)

    def begin_anew(self) -> None:
        self._left = self._times

    def _may_send(self) -> bool:
        self._left -= 1
        return self._left >= 0


def test_every_sink_asks_or_needs_not() -> None:
    assert [kind for kind in EVERY if kind not in ASKS] == NEEDS_NOT


@pytest.mark.parametrize("kind", NEEDS_NOT, indirect=True)
async def test_a_sink_that_needs_not_ask_stores_its_batch(destination: Destination) -> None:
    async with destination.opened_patiently(Asked(0).context) as sink:
        assert await sink.deliver(changes(5)) == ALL_STORED


@pytest.mark.parametrize("kind", ASKS, indirect=True)
@pytest.mark.parametrize("batch", [changes(5), [a_gap()]], ids=["records", "a notice"])
async def test_nothing_is_sent_without_the_lease(destination: Destination, batch: Sequence[Record]) -> None:
    async with destination.opened_patiently(Asked(0).context) as sink:
        receipt = await sink.deliver(batch)
        found = await destination.stored()

    assert receipt == Receipt(list(range(len(batch))), WITHHELD)
    assert found == []


@pytest.mark.parametrize("kind", ASKS, indirect=True)
@pytest.mark.parametrize("times", [1, 2, 5])
async def test_what_is_withheld_comes_later(destination: Destination, times: int) -> None:
    """As often as the Lease is lost and confirmed within a delivery."""
    sent: list[Record] = [*changes(12, keys=3), a_gap(13, 15), *changes(4, keys=3, first=16)]
    results = Results()
    asked = Asked(times)
    async with destination.opened_patiently(asked.context) as sink:
        for batch in (sent[:12], sent[12:13], sent[13:]):
            left: Sequence[Record] = batch
            while left:
                asked.begin_anew()
                left = await deliver(sink, left, results)
        found = await destination.stored()

    assert set(results.failures) <= {WITHHELD.reason}
    assert results.stored == {record.id for record in sent}
    assert_holds(found, sent, results.stored)
