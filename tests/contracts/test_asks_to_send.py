"""A sink whose destination has no fence begins no request without the Lease, and loses nothing by that."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from bridge.model.record import Record
from sinks.base import WITHHELD, AsksToSend, Receipt, Sink, always
from tests.contracts.conftest import AT_MOST_ONCE, EVERY, KAFKA, NATS, STATES, WEBHOOK
from tests.contracts.destinations import Destination
from tests.contracts.rules import Results, assert_holds, deliver
from tests.kit.records import a_gap, changes

ASKS = [KAFKA, *STATES, *NATS, AT_MOST_ONCE, *WEBHOOK]
NEEDS_NOT = {
    "file": "a delivery is a single append",
    "file-rotated": "a delivery is a single append",
    "kafka-exactly-once": "brokers fence its transactions",
}


class Asked:
    """Says yes so many times, until it is asked by the next delivery."""

    def __init__(self, times: int) -> None:
        self._times = self._left = times

    def join(self, sink: Sink) -> None:
        assert isinstance(sink, AsksToSend)
        assert sink.may_send is always, "as it is without an election"
        sink.may_send = self._may_send

    def begin_anew(self) -> None:
        self._left = self._times

    def _may_send(self) -> bool:
        self._left -= 1
        return self._left >= 0


@pytest.mark.parametrize("kind", EVERY, indirect=True)
async def test_a_sink_asks_or_needs_not(kind: str, destination: Destination) -> None:
    assert isinstance(destination.sink(), AsksToSend) == (kind not in NEEDS_NOT)


@pytest.mark.parametrize("kind", ASKS, indirect=True)
@pytest.mark.parametrize("batch", [changes(5), [a_gap()]], ids=["records", "a notice"])
async def test_nothing_is_sent_without_the_lease(destination: Destination, batch: Sequence[Record]) -> None:
    async with destination.opened_patiently(Asked(0).join) as sink:
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
    async with destination.opened_patiently(asked.join) as sink:
        for batch in (sent[:12], sent[12:13], sent[13:]):
            left: Sequence[Record] = batch
            while left:
                asked.begin_anew()
                left = await deliver(sink, left, results)
        found = await destination.stored()

    assert set(results.failures) <= {WITHHELD.reason}
    assert results.stored == {record.id for record in sent}
    assert_holds(found, sent, results.stored)
