"""Reading back from a real broker what the Kafka sink wrote."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest
from confluent_kafka import Producer
from kubedelta_reader.sources import Unavailable
from kubedelta_reader.sources import kafka as readback

from bridge.model.change import Op
from bridge.model.formats.stored_record import FOREIGN, StoredVersion
from bridge.model.record import Record, split_at_notices
from sinks.base import ALL_STORED, ReadPurpose
from sinks.kafka.options import KafkaOptions
from sinks.kafka.reader import KafkaReader
from sinks.kafka.sink import KafkaSink
from sinks.kafka.topics import topics_pattern
from sinks.reader import ReadFilter
from tests.cluster.fixtures import MakeTopic, fresh_name
from tests.cluster.servers import Kafka
from tests.kit.readers import opened, rest
from tests.kit.records import CLUSTER_ROLES, DEPLOYMENTS, a_delta, a_gap, as_stored, changes
from tests.kit.sinks import opened_sink

PODS = ReadFilter("", "v1", "pods", "Pod", None)


def options(server: Kafka, topic: str, **further: Any) -> KafkaOptions:
    return KafkaOptions.model_validate({"bootstrap_servers": server.bootstrap, "topic": topic, **further})


async def write(chosen: KafkaOptions, records: Sequence[Record]) -> None:
    sink = KafkaSink("audit", chosen, cluster="prod")
    async with opened_sink(sink):
        for where in split_at_notices(records):
            assert await sink.deliver(records[where]) == ALL_STORED


def reading(chosen: KafkaOptions) -> AbstractAsyncContextManager[KafkaReader]:
    return opened(KafkaReader("audit", chosen, cluster="prod", purpose=ReadPurpose.VERIFY))


def by_key(held: Sequence[StoredVersion]) -> dict[str, list[StoredVersion]]:
    found: dict[str, list[StoredVersion]] = {}
    for each in held:
        found.setdefault(each.partition_key, []).append(each)
    return found


@pytest.mark.parametrize("form", ["cloudevents", "envelope"])
async def test_every_record_is_read_and_reported_by_what_it_is(kafka: Kafka, kafka_topic: MakeTopic, form: str) -> None:
    topic = kafka_topic()
    chosen = options(kafka, topic, format=form, notice_topic=topic)
    records: list[Record] = [
        a_delta(1),
        a_gap(2, 3),
        a_delta(4, resource=CLUSTER_ROLES, key="admin"),
        a_delta(5, op=Op.DELETED),
    ]
    await write(chosen, records)

    async with reading(chosen) as reader:
        assert await rest(reader) == as_stored(records)


async def test_of_several_partitions_each_object_keeps_its_order(kafka: Kafka, kafka_topic: MakeTopic) -> None:
    chosen = options(kafka, kafka_topic(partitions=4))
    for first in range(1, 3000, 1000):
        await write(chosen, changes(1000, keys=37, first=first))

    async with reading(chosen) as reader:
        found = await rest(reader)
    assert by_key(found) == by_key(as_stored(changes(3000, keys=37)))


async def test_another_read_gives_only_what_came_since(kafka: Kafka, kafka_topic: MakeTopic) -> None:
    chosen = options(kafka, kafka_topic(partitions=2))
    await write(chosen, changes(50))
    async with reading(chosen) as reader:
        assert len(await rest(reader)) == 50
        assert await rest(reader) == []
        await write(chosen, changes(7, first=51))
        assert by_key(await rest(reader)) == by_key(as_stored(changes(7, first=51)))


async def test_a_tombstone_is_a_delete_with_its_headers_or_without(kafka: Kafka, kafka_topic: MakeTopic) -> None:
    topic = kafka_topic()
    chosen = options(kafka, topic, tombstones=True)
    await write(chosen, [a_delta(1), a_delta(2, op=Op.DELETED)])
    await asyncio.to_thread(produce, kafka, topic, b"prod/core/pods/shop/web-2", None)

    async with reading(chosen) as reader:
        found = await rest(reader)
    assert [each.op for each in found] == [Op.UPDATED, Op.DELETED, Op.DELETED, Op.DELETED]
    assert [each.partition_key for each in found][2:] == ["prod/core/pods/shop/web-1", "prod/core/pods/shop/web-2"]


async def test_records_of_others_are_foreign(kafka: Kafka, kafka_topic: MakeTopic) -> None:
    topic = kafka_topic()
    await asyncio.to_thread(produce, kafka, topic, b"prod/core/pods/shop/web-1", b"{}")
    await asyncio.to_thread(produce, kafka, topic, None, b"\xff", [("ce_type", b"\xff"), ("other", None)])

    async with reading(options(kafka, topic)) as reader:
        assert await rest(reader) == [FOREIGN, FOREIGN]


def produce(server: Kafka, topic: str, key: bytes | None, value: bytes | None, headers: Any = None) -> None:
    producer = Producer({"bootstrap.servers": server.bootstrap, "log_level": 0})
    producer.produce(topic, value, key, headers=headers)
    assert producer.flush(20) == 0


async def test_topics_by_template_are_found_and_others_are_left_alone(kafka: Kafka, kafka_topic: MakeTopic) -> None:
    prefix = fresh_name("k8s")
    chosen = options(kafka, f"{prefix}.{{resource}}")
    for name in ("pods", "deployments", "notice", "secrets"):
        kafka_topic(name=f"{prefix}.{name}")
    pods, deployment, gap = changes(5), a_delta(6, resource=DEPLOYMENTS, key="shop/web"), a_gap(7, 8)
    await write(chosen, [*pods, deployment, gap])
    await asyncio.to_thread(produce, kafka, f"{prefix}.secrets", b"key", b"another's")

    async with reading(chosen) as reader:
        found = await rest(reader, [PODS, ReadFilter("apps", "v1", "deployments", "Deployment", None)])
    assert by_key(found) == by_key(as_stored([*pods, deployment, gap]))


async def test_no_topic_at_all_is_named(kafka: Kafka) -> None:
    with pytest.raises(Unavailable, match=r"no topic like nowhere\.\{resource\}"):
        async with reading(options(kafka, "nowhere.{resource}")):
            pass


async def test_a_silent_broker_is_not_waited_for_without_end(
    kafka: Kafka, kafka_topic: MakeTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(readback, "_IDLE_TIMEOUT", 0.0)
    chosen = options(kafka, kafka_topic())
    await write(chosen, changes(10))
    async with reading(chosen) as reader:
        with pytest.raises(Unavailable, match="no record came for 0 s"):
            await rest(reader)


# ── Which topics ─────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("template", "found", "left"),
    [
        ("k8s.{resource}", ["k8s.pods", "k8s.clusterroles", "k8s.notice"], ["k8s.secrets", "k8s_pods", "k8s.pods.x"]),
        ("all", ["all"], ["all.pods"]),
        ("{cluster}-{group}-{kind}", ["prod_eu-core-Pod", "prod_eu-_-_"], ["prod_eu--Pod", "prod-core-Pod"]),
        ("{namespace}.{resource}", ["shop.pods", "a.b.pods", "_.clusterroles", "_.notice"], ["x.clusterroles"]),
        ("{resource}.{version}", ["pods.v1", "clusterroles.v1", "notice._"], ["pods.v2"]),
    ],
)
def test_a_template_says_which_topics_are_read(template: str, found: list[str], left: list[str]) -> None:
    roles = ReadFilter("rbac.authorization.k8s.io", "v1", "clusterroles", "ClusterRole", "")
    wanted = topics_pattern(template, "prod eu", [PODS, roles])

    assert [name for name in found if not wanted.fullmatch(name)] == []
    assert [name for name in left if wanted.fullmatch(name)] == []
