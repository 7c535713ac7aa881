"""The data that an expression makes, at every destination: a map, a list and a text, and a record without data."""

from __future__ import annotations

import json
from typing import Any

import pytest

from bridge.model.change import Op
from bridge.model.record import Delta, Record
from tests.contracts.conftest import EVERY, OVER_A_NETWORK
from tests.contracts.destinations import AFile, Destination
from tests.contracts.rules import Results, attributes_of, deliver_all
from tests.kit.records import a_delta, a_gap

DATA = (
    "op == 'deleted' ? dyn(object.name + ' is\\ngone') : op == 'added' ? dyn([object.name]) : dyn({'n': object.name})"
)
BODIES = [
    (Op.ADDED, b'{"name":"a"}'),
    (Op.UPDATED, b'{"name":"\xc3\xa9"}'),
    (Op.DELETED, b'{"name":"c"}'),
    (Op.UPDATED, b"{}"),
]
MADE: list[Any] = [["a"], {"n": "é"}, "c is\ngone"]


def records() -> list[Delta]:
    return [a_delta(n, key=f"shop/web-{n}", op=op, body=body) for n, (op, body) in enumerate(BODIES, 1)]


def _text(data: Any) -> str:
    return data if isinstance(data, str) else json.dumps(data, ensure_ascii=False, separators=(",", ":"))


@pytest.mark.parametrize("kind", OVER_A_NETWORK, indirect=True)
@pytest.mark.parametrize("form", ["cloudevents", "raw"])
async def test_data_takes_the_place_of_the_object(destination: Destination, form: str) -> None:
    sent: list[Record] = [*records(), a_gap(5, 9)]
    alone = {"batch": 1} if destination.kind == "webhook" else {}
    options = {**(destination.objects_alone if form == "raw" else {}), "format": form, "data": DATA, **alone}
    results = Results()
    async with destination.opened(**options) as sink:
        await deliver_all(sink, sent, 1, results)
    found = {each.id: each for each in await destination.stored() if "op" in each.attributes}

    assert results.rejected == {sent[3].id: 'data: the member "name" is missing'}
    assert found.keys() == {each.id for each in sent[:3]}
    for record, data in zip(sent[:3], MADE, strict=True):
        stored = found[record.id]
        is_text = isinstance(data, str)
        assert isinstance(record, Delta)
        assert stored.attributes == attributes_of(record) | {
            "type": f"kubedelta.data.{record.op}.v1",
            "datacontenttype": "text/plain;charset=utf-8" if is_text else "application/json",
        }
        structured = destination.kind == "webhook" and form == "cloudevents"
        assert stored.body.decode() == (json.dumps(data) if structured and is_text else _text(data))


@pytest.mark.parametrize("kind", EVERY[-1:], indirect=True)
@pytest.mark.parametrize("form", ["cloudevents", "raw"])
async def test_a_line_of_a_file_has_the_data(destination: Destination, form: str) -> None:
    assert isinstance(destination, AFile)
    async with destination.opened(format=form, data=DATA) as sink:
        await deliver_all(sink, records(), 4)
    lines = destination.path.read_bytes().decode().splitlines()

    if form == "raw":
        assert lines == [_text(data).replace("\n", " ") for data in MADE]
    else:
        assert [json.loads(line)["data"] for line in lines] == MADE
        for line in lines:
            destination.schemas.check(line.encode())
