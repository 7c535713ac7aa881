"""Our encoding, judged by the CloudEvents SDK."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from cloudevents.core.bindings import http, kafka
from cloudevents.core.formats.json import JSONFormat
from hypothesis import given
from hypothesis import strategies as st

from bridge.model.change import Evidence, Op
from bridge.model.formats.cloudevent import CloudEvents, HeaderNames, percent_encoded
from bridge.model.formats.envelope import Envelopes
from bridge.model.formats.object_paths import object_name, partition_key
from bridge.model.record import Record, SnapshotEdge, WatchedPart
from bridge.model.resource import Resource
from bridge.model.status import InformerState
from tests.kit.records import DEPLOYMENTS, a_delta, a_gap, a_snapshot

SDK = JSONFormat()
EVENTS = CloudEvents("prod-eu1")
KAFKA = HeaderNames.prefixed("ce_", datacontenttype="content-type")
HTTP = HeaderNames.prefixed("ce-", datacontenttype="content-type")


def read_structured(record: Record, events: CloudEvents = EVENTS) -> tuple[dict[str, Any], Any]:
    event = SDK.read(None, events.structured(record))
    return event.get_attributes(), event.get_data()


def read_binary(record: Record, events: CloudEvents = EVENTS) -> tuple[dict[str, Any], Any]:
    headers = events.headers(record, KAFKA)
    key = events.partition_key(record)
    event = kafka.from_binary(kafka.KafkaMessage(headers, key, events.data(record)), SDK)
    return event.get_attributes(), event.get_data()


def test_both_forms_have_the_changes_attributes_and_the_object() -> None:
    delta = a_delta(12, resource=DEPLOYMENTS, key="shop/web", op=Op.ADDED, evidence=Evidence.LISTED, uid="u-1")
    expected = {
        "specversion": "1.0",
        "id": "u-1/1012/added",
        "source": "/clusters/prod-eu1",
        "type": "kubedelta.object.added.v1",
        "subject": "/apis/apps/v1/namespaces/shop/deployments/web",
        "time": datetime(2026, 11, 21, 9, 0, 0, 123456, tzinfo=UTC),
        "datacontenttype": "application/json",
        "partitionkey": "prod-eu1/apps/deployments/shop/web",
        "sequence": "00000000000000000012",
        "uid": "u-1",
        "resourceversion": "1012",
        "op": "added",
        "evidence": "listed",
        "epoch": 1,
    }

    assert read_structured(delta) == (expected, json.loads(delta.body))
    assert read_binary(delta) == (expected | {"epoch": "1"}, json.loads(delta.body))


def test_the_objects_bytes_go_through_as_they_came() -> None:
    body = b'{ "z": 1.0,  "a":"\\u0041\xc2\x85\xe2\x80\xa8" }'

    assert EVENTS.data(a_delta(body=body)) is not None
    assert EVENTS.structured(a_delta(body=body)).endswith(b',"data":' + body + b"}")


def test_a_gap_says_which_records_will_never_come() -> None:
    expected = {
        "specversion": "1.0",
        "id": "gap/5/9",
        "source": "/clusters/prod-eu1",
        "type": "kubedelta.gap.v1",
        "time": datetime(2026, 11, 21, 9, 0, 0, 123456, tzinfo=UTC),
        "datacontenttype": "application/json",
        "partitionkey": "prod-eu1",
        "sequence": "00000000000000000009",
    }
    data = {"first": 5, "last": 9, "count": 5, "reason": "the outbox was full", "resources": None}

    assert read_structured(a_gap()) == (expected, data)
    assert read_binary(a_gap()) == (expected, data)


def test_a_gap_of_which_nobody_knows_how_many_it_holds_says_so() -> None:
    gap = msgspec.structs.replace(a_gap(), count=None)

    _, data = read_structured(gap)
    assert data == {"first": 5, "last": 9, "count": None, "reason": "the outbox was full", "resources": None}


@pytest.mark.parametrize("edge", SnapshotEdge)
def test_a_snapshots_notices_count_the_objects_between_them(edge: SnapshotEdge) -> None:
    expected = {
        "specversion": "1.0",
        "id": f"snapshot/audit/9/{edge}",
        "source": "/clusters/prod-eu1",
        "type": f"kubedelta.snapshot.{edge}.v1",
        "time": datetime(2026, 11, 21, 9, 0, 0, 123456, tzinfo=UTC),
        "datacontenttype": "application/json",
        "partitionkey": "prod-eu1",
        "sequence": "00000000000000000009",
        "snapshot": "snapshot/audit/9",
    }
    data = {"sink": "audit", "through": 9, "count": 4} | ({} if edge is SnapshotEdge.BEGAN else {"objects": 4})

    assert read_structured(a_snapshot(edge)) == (expected, data)
    assert read_binary(a_snapshot(edge)) == (expected, data)
    assert EVENTS.partition_key(a_snapshot(edge)) == "prod-eu1"


def test_the_end_of_a_snapshot_tells_the_watched_parts_as_far_as_a_message_has_room() -> None:
    ended = a_snapshot(SnapshotEdge.ENDED)
    some = tuple(WatchedPart("pods", InformerState.LIVE, f"team-{number}") for number in range(1000))
    too_many = tuple(WatchedPart("pods", InformerState.LIVE, f"team-{number}") for number in range(10_000))

    _, told = read_structured(msgspec.structs.replace(ended, watched=some))
    _, bare = read_structured(msgspec.structs.replace(ended, watched=too_many))
    assert told["watched"][999] == {"resource": "pods", "state": "live", "namespace": "team-999"}
    assert bare == read_structured(ended)[1]


def test_only_a_snapshots_record_names_it_in_every_form() -> None:
    encoded = a_delta(snapshot="snapshot/audit/9")

    assert read_structured(encoded)[0]["snapshot"] == read_binary(encoded)[0]["snapshot"] == "snapshot/audit/9"
    assert EVENTS.encoded_headers(encoded, HTTP)["ce-snapshot"] == "snapshot/audit/9"
    for other in (a_delta(), a_gap()):
        assert "snapshot" not in read_structured(other)[0]
        assert "snapshot" not in read_binary(other)[0]
        assert "ce-snapshot" not in EVENTS.encoded_headers(other, HTTP)


def test_an_id_reused_in_a_later_epoch_has_another_source() -> None:
    events = CloudEvents("prod-eu1")
    encoded = [read_structured(a_delta(epoch=epoch), events)[0] for epoch in (1, 2, 17, 2)]

    assert len({attributes["id"] for attributes in encoded}) == 1
    assert [attributes["source"] for attributes in encoded] == [
        "/clusters/prod-eu1",
        "/clusters/prod-eu1/epochs/2",
        "/clusters/prod-eu1/epochs/17",
        "/clusters/prod-eu1/epochs/2",
    ]
    assert [attributes["epoch"] for attributes in encoded] == [1, 2, 17, 2]


def test_an_envelope_as_data_is_said_in_the_type() -> None:
    events = CloudEvents("prod-eu1", Envelopes("prod-eu1"))

    attributes, data = read_structured(a_delta(op=Op.UPDATED), events)

    assert (attributes["type"], data["op"]) == ("kubedelta.envelope.updated.v1", "u")


ANY_TEXT = st.text(min_size=1)


@pytest.mark.parametrize(
    ("group", "key", "subject", "partition"),
    [
        ("", "shop/w", "/api/v1/namespaces/shop/widgets/w", "prod-eu1/core/widgets/shop/w"),
        ("acme.io", "shop/w", "/apis/acme.io/v1/namespaces/shop/widgets/w", "prod-eu1/acme.io/widgets/shop/w"),
        ("acme.io", "system:w", "/apis/acme.io/v1/widgets/system:w", "prod-eu1/acme.io/widgets/_/system:w"),
    ],
)
@pytest.mark.parametrize("namespaced", [False, True])
def test_a_subject_follows_the_key_whatever_the_scope_is_now(
    namespaced: bool, group: str, key: str, subject: str, partition: str
) -> None:
    """And no part of the partition key is empty."""
    delta = a_delta(key=key, resource=Resource(group, "v1", "widgets", "Widget", namespaced))
    attributes, _ = read_structured(delta)

    assert (attributes["subject"], attributes["partitionkey"]) == (subject, partition)
    assert EVENTS.partition_key(delta) == partition


@given(uid=ANY_TEXT, key=ANY_TEXT, version=ANY_TEXT, cluster=ANY_TEXT, namespaced=st.booleans())
def test_any_text_survives_both_forms(uid: str, key: str, version: str, cluster: str, namespaced: bool) -> None:
    resource = Resource("kubedelta.test", "v1", "widgets", "Widget", namespaced)
    delta = a_delta(key=key, uid=uid, resource=resource, body=b"{}")
    events = CloudEvents(cluster)

    structured, _ = read_structured(delta, events)
    binary, _ = read_binary(delta, events)
    over_http = events.encoded_headers(delta, HTTP)

    assert all(value.isascii() and value.isprintable() and " " not in value for value in over_http.values())
    from_http = http.from_binary(http.HTTPMessage(over_http, b"{}"), SDK).get_attributes()
    for attributes in (structured, binary, from_http):
        assert attributes["id"] == f"{uid}/1001/updated"
        assert attributes["uid"] == uid
        assert attributes["source"] == f"/clusters/{cluster}"
        assert attributes["subject"].endswith(key.partition("/")[2] if "/" in key else key)
        assert attributes["partitionkey"].endswith(f"/{key}")


def test_percent_encoding_is_that_of_the_http_binding() -> None:
    assert percent_encoded("system:node/é 100%\n") == "system:node/%C3%A9%20100%25%0A"
    assert percent_encoded("plain/id-1") == "plain/id-1"


@pytest.mark.parametrize(("group", "namespace"), [("", "shop"), ("apps", "shop"), ("", ""), ("apps", "")])
def test_a_partition_key_is_read_as_it_was_written(group: str, namespace: str) -> None:
    key = partition_key("prod", group, "things", namespace, "a")

    assert "" not in key.split("/")
    assert object_name(key) == ("prod", group, "things", namespace, "a")
    assert object_name("prod") is object_name(f"{key}/b") is None
