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
