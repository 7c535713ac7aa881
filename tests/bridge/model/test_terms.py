"""Records as they leave under a leader."""

from __future__ import annotations

import json

from msgspec.structs import replace

from bridge.model.formats.cloudevent import CloudEvents, HeaderNames
from bridge.model.formats.envelope import Envelopes
from bridge.model.primitives.shard import Shard
from bridge.model.record import Delta, Snapshot, SnapshotEdge, gap_in_shard, in_term, overrun_gap, snapshot_id
from tests.kit.records import TIME, a_delta

NAMES = HeaderNames.prefixed("ce_", datacontenttype="content-type")


def test_numbers_grow_and_ids_stay() -> None:
    record = a_delta(42)
    led = in_term(record, 7, 1_000)
    assert isinstance(led, Delta)
    assert (led.sequence, led.term, led.id, led.body) == (1_042, 7, record.id, record.body)


def test_a_gap_is_about_the_numbers_that_leave() -> None:
    gap = in_term(overrun_gap(5, 9, TIME), 7, 1_000)
    assert (gap.id, gap.sequence, gap.term) == ("gap/1005/1009", 1_009, 7)


def test_a_gap_of_a_shard_has_an_id_of_its_own() -> None:
    assert gap_in_shard(overrun_gap(5, 9, TIME), Shard(4, 2)).id == "gap/2-of-4/5/9"
    assert gap_in_shard(a_delta(42), Shard(4, 2)) == a_delta(42)


def test_records_of_a_snapshot_keep_its_name() -> None:
    for number in (0, 3):
        edge = in_term(Snapshot(SnapshotEdge.BEGAN, 42, "audit", 1, TIME, number), 7, 1_000)
        record = replace(a_delta(12, snapshot=snapshot_id("audit", 42, number)), replay=number)
        assert in_term(record, 7, 1_000).snapshot == edge.snapshot == snapshot_id("audit", 1_042, number)


def test_the_term_is_an_attribute() -> None:
    record = in_term(a_delta(42), 7, 0)
    events = CloudEvents("prod")
    assert events.headers(record, NAMES)["ce_term"] == b"7"
    assert events.encoded_headers(record, NAMES)["ce_term"] == "7"
    assert json.loads(events.structured(record))["term"] == 7
    assert isinstance(record, Delta)
    assert json.loads(Envelopes("prod")(record))["source"]["term"] == 7
    gap = in_term(overrun_gap(5, 9, TIME), 7, 0)
    assert json.loads(events.structured(gap))["term"] == 7
    assert events.headers(gap, NAMES)["ce_term"] == b"7"


def test_without_an_election_there_is_no_term() -> None:
    record = a_delta(42)
    events = CloudEvents("prod")
    assert "ce_term" not in events.headers(record, NAMES)
    assert "term" not in json.loads(events.structured(record))
    assert "term" not in json.loads(Envelopes("prod")(record))["source"]
