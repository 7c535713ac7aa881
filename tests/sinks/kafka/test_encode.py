"""Topics, keys, headers."""

from __future__ import annotations

from typing import Any

import pytest
from cloudevents.core.bindings import kafka
from cloudevents.core.formats.json import JSONFormat

from bridge.model.change import Op
from bridge.model.formats.cloudevent import CloudEvents
from bridge.model.record import Record
from bridge.model.resource import Resource
from sinks.kafka.encode import KafkaEncoder, KafkaMessage
from sinks.kafka.options import KafkaOptions
from tests.kit.records import DEPLOYMENTS, NODES, PODS, a_delta, a_gap, a_snapshot


def encoded(record: Record, topic: str = "k8s.{resource}", **options: Any) -> KafkaMessage:
    chosen = KafkaOptions.model_validate({"bootstrap_servers": "127.0.0.1:1", "topic": topic, **options})
    return KafkaEncoder(CloudEvents("eu:1"), chosen, "eu:1").encode(record)


@pytest.mark.parametrize(
    ("template", "record", "topic"),
    [
        ("k8s.{resource}", a_delta(resource=PODS), "k8s.pods"),
        ("k8s.{resource}", a_gap(), "k8s.notice"),
        ("k8s.{resource}", a_snapshot(), "k8s.notice"),
        ("{cluster}.{group}.{version}.{kind}.{namespace}", a_snapshot(), "eu_1._._._._"),
        ("{cluster}.{group}.{version}.{kind}", a_delta(resource=DEPLOYMENTS), "eu_1.apps.v1.Deployment"),
        ("{group}.{namespace}", a_delta(resource=PODS), "core.shop"),
        ("{group}.{namespace}", a_delta(resource=NODES, key="node-1"), "core._"),
        ("all", a_delta(), "all"),
    ],
)
def test_the_topic_is_made_of_what_the_record_is_about(template: str, record: Record, topic: str) -> None:
    assert encoded(record, template).topic == topic


def test_key_value_and_headers_are_those_of_the_binary_form() -> None:
    delta = a_delta(7, key="shop/ä")
    message = encoded(delta)

    event = kafka.from_binary(kafka.KafkaMessage(message.headers, message.key, message.values[0] or b""), JSONFormat())

    assert event.get_id() == delta.id
    assert message.key == event.get_extension("partitionkey") == "eu:1/core/pods/shop/ä"
    assert message.values == (delta.body,)
    assert message.values[0] is delta.body


def test_a_tombstone_follows_a_delete_when_asked_for() -> None:
    deleted = a_delta(op=Op.DELETED)

    assert encoded(deleted, tombstones=True).values == (deleted.body, None)
    assert encoded(deleted).values == (deleted.body,)
    assert len(encoded(a_delta(), tombstones=True).values) == 1
    assert len(encoded(a_gap(), tombstones=True).values) == 1
    assert len(encoded(a_snapshot(), tombstones=True).values) == 1


@pytest.mark.parametrize("op", Op)
@pytest.mark.parametrize(
    ("key", "pod", "node"),
    [
        ("object", "eu:1/core/pods/shop/web", "eu:1/core/nodes/_/n1"),
        ("uid", "uid-of-shop/web", "uid-of-n1"),
        ("namespace", "eu:1/shop", "eu:1/_"),
    ],
)
def test_every_record_of_an_object_has_its_key(key: str, pod: str, node: str, op: Op) -> None:
    options: dict[str, Any] = {"key": key, "tombstones": key != "namespace"}

    assert encoded(a_delta(1, key="shop/web", op=op), **options).key == pod
    assert encoded(a_delta(2, resource=NODES, key="n1", op=op), **options).key == node
    assert encoded(a_gap(), **options).key == encoded(a_snapshot(), **options).key == "eu:1"
    assert encoded(a_delta(1, key="shop/web"), **options).headers["ce_partitionkey"] == b"eu:1/core/pods/shop/web"


def test_a_topic_that_would_be_too_long_is_no_topic() -> None:
    long = Resource("g" * 220 + ".test", "v1", "widgets", "Widget", True)

    with pytest.raises(ValueError, match=r"its topic would have 2\d\d letters; 249 are the most"):
        encoded(a_delta(resource=long), "{group}.{resource}.{namespace}.and-a-long-tail-behind-all-of-it")
