"""What cannot be read raises NotAnEvent, and nothing else."""

from __future__ import annotations

import json

import pytest
from kubedelta_reader import NotAnEvent, Record

from tests.reader.test_vectors import READER, read


@pytest.mark.parametrize(
    ("vector", "members"),
    [("31-encoded-rows", ["object", "managers"]), ("32-encoded-envelopes", ["after", "managers"])],
)
def test_a_text_that_is_not_utf_8_is_no_event(vector: str, members: list[str]) -> None:
    line = json.dumps(read(READER / f"vectors/{vector}.json")["given"][0]["record"]).encode()
    assert Record(line).event().op

    for member in members:
        with pytest.raises(NotAnEvent):
            Record(b'%s,"%s":"\xff"}' % (line[:-1], member.encode())).event()


@pytest.mark.parametrize(
    "members",
    [{"sequence": str(2**63)}, {"sequence": "-1"}, {"epoch": 2**63}, {"epoch": -1}]
    + [{name: "x" * 2000} for name in ("id", "snapshot", "gap")],
)
def test_a_number_or_a_name_that_no_bridge_has_is_no_event(members: dict[str, object]) -> None:
    record = read(READER / "vectors/31-encoded-rows.json")["given"][0]["record"]
    assert Record(json.dumps(record).encode()).event().op

    with pytest.raises(NotAnEvent):
        Record(json.dumps(record | members).encode()).event()


@pytest.mark.parametrize("managers", [5, "[", [1], {"manager": "a"}])
def test_managers_that_are_no_list_of_managers_are_no_event(managers: object) -> None:
    record = read(READER / "vectors/31-encoded-rows.json")["given"][0]["record"]

    with pytest.raises(NotAnEvent):
        Record(json.dumps(record | {"managers": managers}).encode()).event()
