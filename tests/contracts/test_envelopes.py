"""The other form in which changes leave. Lines of it in a file have no attributes: see tests/sinks/file."""

from __future__ import annotations

import json

import pytest

from bridge.model.change import Op
from bridge.model.record import Delta, Record
from tests.contracts.conftest import OVER_A_NETWORK
from tests.contracts.destinations import Destination
from tests.contracts.rules import Results, assert_in_order, attributes_of, deliver, deliver_all
from tests.kit.records import a_delta, a_gap, a_snapshot, changes

pytestmark = pytest.mark.parametrize("kind", OVER_A_NETWORK, indirect=True)


async def test_an_unencodable_record_is_rejected_and_others_are_stored(destination: Destination) -> None:
    sent: list[Delta] = changes(30, keys=3)
    damaged = {0, 13, 14, 29}
    for index in damaged:
        sent[index] = a_delta(index + 1, key=sent[index].key, managers=b"damaged")
    results = Results()
    async with destination.opened(**destination.envelopes) as sink:
        await deliver_all(sink, sent, len(sent), results)
        only_damaged = await deliver(sink, [sent[13]], results)
    found = await destination.stored()

    assert only_damaged == []
    assert results.rejected.keys() == {sent[index].id for index in damaged}
    assert results.stored == {record.id for record in sent} - results.rejected.keys()
    assert_in_order(found, sent)
    assert {each.id for each in found} == results.stored


async def test_an_envelope_has_the_state_before_and_event_attributes(destination: Destination) -> None:
    sent: list[Record] = [
        a_delta(1, op=Op.ADDED, body=b'{"a":1}'),
        a_delta(2, op=Op.UPDATED, body='{"a":"\u2028"}'.encode(), before=b'{"a":1}'),
        a_delta(3, op=Op.DELETED, body='{"a":"\u2028"}'.encode()),
        a_gap(4, 9),
        a_snapshot(through=9),
        a_delta(10, op=Op.SYNC, body=b'{"a":2}', epoch=2),
    ]
    async with destination.opened(**destination.envelopes) as sink:
        await deliver_all(sink, sent, 1)
    found = {each.id: each for each in await destination.stored()}

    for record in sent:
        wanted = attributes_of(record)
        assert found[record.id].attributes == wanted | {"type": wanted["type"].replace("object", "envelope")}
    bodies = [json.loads(found[record.id].body) for record in sent if isinstance(record, Delta)]
    assert [(body["op"], body["before"], body["after"]) for body in bodies] == [
        ("c", None, {"a": 1}),
        ("u", {"a": 1}, {"a": "\u2028"}),
        ("d", {"a": "\u2028"}, None),
        ("r", None, {"a": 2}),
    ]
    assert [body["source"].get("gap") for body in bodies] == [None, None, None, "gap/4/9"]
    for notice in (record for record in sent if not isinstance(record, Delta)):
        assert "op" not in json.loads(found[notice.id].body), "a reader of envelopes knows none but c, u, d and r"
