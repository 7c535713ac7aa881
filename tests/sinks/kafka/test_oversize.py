"""Records that are too large: trimmed until they fit, or compressed, instead of rejected."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from bridge.model.formats.content import Content
from bridge.model.record import Delta, Record
from sinks.base import ALL_STORED
from sinks.kafka.encode import TRIMMED, KafkaEncoder, KafkaMessage, TrimmedForms
from sinks.kafka.options import KafkaOptions
from tests.cluster.fixtures import MakeTopic
from tests.cluster.servers import Kafka, KafkaRecord
from tests.kit.records import a_delta, a_gap, changes, ids_of
from tests.sinks.kafka.test_sink import ids, incompressible, opened, read

LIMIT = 20_000
"""Bytes."""
LARGE = incompressible(30_000).decode()[1:-1]
SMALL = {"name": "web", "namespace": "shop", "uid": "u1", "resourceVersion": "1001"}


def a_pod(sequence: int = 1, *, metadata: str = "", status: str = "", spec: str = "", **more: Any) -> Delta:
    """Its parts are as large as these texts."""
    body = {"kind": "Pod", "apiVersion": "v1", "metadata": SMALL | {"labels": {"app": "web"}}, "spec": {"x": spec}}
    if metadata:
        body["metadata"] = SMALL | {"labels": {"app": "web"}, "annotations": {"x": metadata}}
    if status:
        body["status"] = {"x": status}
    return a_delta(sequence, key="shop/web", uid="u1", body=json.dumps(body).encode(), **more)


def trimmed_as(record: KafkaRecord) -> str:
    return (dict(record.headers).get(TRIMMED) or b"").decode()


@pytest.mark.parametrize(
    ("record", "trimmed", "left"),
    [
        (a_pod(spec="s"), "", {"metadata", "spec"}),
        (a_pod(metadata=LARGE, status="s"), "metadata.annotations", {"metadata", "spec", "status"}),
        (a_pod(status=LARGE), "status", {"metadata", "spec"}),
        (a_pod(metadata="m", status=LARGE), "metadata.annotations,status", {"metadata", "spec"}),
        (a_pod(spec=LARGE), "object", {"metadata"}),
        (a_pod(metadata=LARGE, status=LARGE, spec=LARGE), "metadata.annotations,status,object", {"metadata"}),
    ],
)
@pytest.mark.parametrize("refused_by", ["producer", "broker"])
async def test_a_record_loses_parts_until_it_fits(
    kafka: Kafka, kafka_topic: MakeTopic, record: Delta, trimmed: str, left: set[str], refused_by: str
) -> None:
    topic = kafka_topic(max_message_bytes=str(LIMIT if refused_by == "broker" else 1 << 20))
    limit = {"max_message_bytes": LIMIT} if refused_by == "producer" else {}
    async with opened(kafka, topic, too_large="trim", **limit) as sink:
        assert await sink.deliver([record]) == ALL_STORED

    [found] = await read(kafka, topic)
    body = json.loads(found.value or b"")
    assert trimmed_as(found) == trimmed
    assert body.keys() == {"kind", "apiVersion", *left}
    assert SMALL.items() <= body["metadata"].items()


@pytest.mark.parametrize("refused_by", ["producer", "broker"])
async def test_trimmed_records_keep_their_place(kafka: Kafka, kafka_topic: MakeTopic, refused_by: str) -> None:
    topic = kafka_topic(max_message_bytes=str(LIMIT if refused_by == "broker" else 1 << 20))
    limit = {"max_message_bytes": LIMIT} if refused_by == "producer" else {}
    batch = [a_pod(n, spec=LARGE if n in (2, 3, 7) else "") for n in range(1, 10)]
    async with opened(kafka, topic, too_large="trim", **limit) as sink:
        assert await sink.deliver(batch) == ALL_STORED
        assert await sink.deliver(changes(5, first=101)) == ALL_STORED

    found = await read(kafka, topic)
    assert ids(found) == ids_of([*batch, *changes(5, first=101)])
    assert [at + 1 for at, each in enumerate(found) if trimmed_as(each)] == [2, 3, 7]


async def test_an_envelope_first_loses_the_state_before(kafka: Kafka, kafka_topic: MakeTopic) -> None:
    topic = kafka_topic()
    now, before = a_pod(2, spec="now"), a_pod(1, spec=LARGE).body
    envelopes = {"format": "envelope", "include": ["before", "patch"], "notice_topic": topic}
    content = Content(patch=b'{"spec":{"x":"now"}}')
    async with opened(kafka, topic, too_large="trim", max_message_bytes=LIMIT, **envelopes) as sink:
        assert await sink.deliver([msgspec.structs.replace(now, before=before, content=content)]) == ALL_STORED

    [found] = await read(kafka, topic)
    envelope = json.loads(found.value or b"")
    assert trimmed_as(found) == "include"
    assert (envelope["before"], envelope["patch"], envelope["after"]["spec"]) == (None, None, {"x": "now"})


async def test_a_record_without_smaller_forms_is_rejected(kafka: Kafka, kafka_topic: MakeTopic) -> None:
    topic = kafka_topic()
    long = a_delta(1, key=f"shop/{'n' * 2000}", uid="u" * 2000)
    async with opened(kafka, topic, too_large="trim", max_message_bytes=2000) as sink:
        receipt = await sink.deliver([long, a_delta(2)])

    assert list(receipt.rejected) == [0]
    assert ids(await read(kafka, topic)) == ids_of([a_delta(2)])


async def test_a_record_that_fits_when_compressed_is_stored_whole(kafka: Kafka, kafka_topic: MakeTopic) -> None:
    topic = kafka_topic(max_message_bytes=str(LIMIT))
    large = a_delta(2, key="shop/large", body=b'{"x":"%s"}' % (b"kubedelta " * 300_000))
    batch = [a_delta(1), large, a_delta(3), a_delta(4, key="shop/random", body=incompressible(30_000))]
    async with opened(kafka, topic, too_large="compress") as sink:
        receipt = await sink.deliver(batch)
    async with opened(kafka, topic) as sink:
        assert list((await sink.deliver([large])).rejected) == [0], "3 MB, without the option"

    assert list(receipt.rejected) == [3]
    found = await read(kafka, topic)
    assert ids(found) == ids_of(batch[:3])
    assert found[1].value == large.body


def forms(record: Record) -> list[KafkaMessage]:
    chosen = KafkaOptions.model_validate({"bootstrap_servers": "127.0.0.1:1", "topic": "k8s"})
    encode = KafkaEncoder(chosen.events("prod"), chosen, "prod").encode
    trimmed, found = TrimmedForms(encode, includes=False), [encode(record)]
    while (smaller := trimmed.next(record, found[-1])) is not None:
        found.append(smaller)
    return found


def sizes(messages: Sequence[KafkaMessage]) -> list[int]:
    return [sum(len(value or b"") for value in message.values) for message in messages]


def test_each_form_is_smaller_and_of_the_same_record() -> None:
    record = a_pod(1, metadata="m" * 50, status="s" * 50, spec="t" * 500)
    found = forms(record)

    assert sizes(found) == sorted(sizes(found), reverse=True)
    assert [message.headers.get(TRIMMED) for message in found] == [
        None, b"metadata.annotations", b"metadata.annotations,status", b"metadata.annotations,status,object",
    ]  # fmt: skip
    assert len({(message.key, message.headers["ce_id"], message.topic) for message in found}) == 1


def test_what_a_record_lacks_is_not_trimmed() -> None:
    assert [message.headers.get(TRIMMED) for message in forms(a_pod(spec="s"))] == [None, b"object"]
    assert [message.headers.get(TRIMMED) for message in forms(a_delta(1, body=b"[" * 3000))] == [None, b"object"]


def test_members_that_stay_keep_their_bytes() -> None:
    body = b'{"kind":"Pod","status":{},"spec":{"a":1.10,"b":12345678901234567890}}'
    assert forms(a_delta(1, body=body))[1].values == (b'{"kind":"Pod","spec":{"a":1.10,"b":12345678901234567890}}',)


def test_a_notice_has_no_smaller_form() -> None:
    assert len(forms(a_gap())) == 1
