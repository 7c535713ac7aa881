"""Following, on a real broker, the records that the Kafka sink wrote."""

from __future__ import annotations

import asyncio
from contextlib import AbstractAsyncContextManager
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from kubedelta_reader.sources import Unavailable

from bridge.model.change import Op
from bridge.model.record import Record
from sinks.base import ReadPurpose
from sinks.kafka import reader as follower
from sinks.kafka.options import KafkaOptions
from sinks.kafka.reader import KafkaReader
from tests.cluster.fixtures import MakeTopic, fresh_name
from tests.cluster.servers import Kafka
from tests.cluster.servers.ports import reserve_port
from tests.kit.deadlines import BUSY
from tests.kit.readers import is_there, last, news, opened, present, versions
from tests.kit.records import DEPLOYMENTS, TIME, a_delta, a_gap, changes
from tests.sinks.kafka.test_reading_for_verify import options, produce, write


def unopened(chosen: KafkaOptions) -> KafkaReader:
    return KafkaReader("audit", chosen, cluster="prod", purpose=ReadPurpose.TAIL)


def following(chosen: KafkaOptions) -> AbstractAsyncContextManager[KafkaReader]:
    return opened(unopened(chosen))


@pytest.mark.parametrize("further", [{}, {"format": "envelope"}, {"format": "row"}, {"format": "raw"}])
async def test_a_record_is_read_in_every_format(kafka: Kafka, kafka_topic: MakeTopic, further: dict[str, Any]) -> None:
    chosen = options(kafka, kafka_topic(), notice_topic=kafka_topic(), **further)
    delta = a_delta(1, resource=DEPLOYMENTS, key="shop/web")
    await write(chosen, [delta])

    async with following(chosen) as found:
        [record] = await last(found, 5)
    assert (record.op, record.resource, record.namespace, record.name) == (
        Op.UPDATED,
        "deployments.apps",
        "shop",
        "web",
    )
    assert (record.version, record.evidence, record.time, record.cluster) == ("1001", "watched", TIME, "prod")
    assert record.object == delta.body
    event = msgspec.json.decode(record.text)
    assert event["id"] == delta.id
    assert event["data"], "the text is the structured form of the event"


async def test_it_begins_with_the_last_records_and_goes_on(kafka: Kafka, kafka_topic: MakeTopic) -> None:
    chosen = options(kafka, kafka_topic(partitions=3))
    await write(chosen, changes(300))
    async with following(chosen) as found:
        assert len(await last(found, 10)) == 10
        assert await present(found) == []
        await write(chosen, changes(50, first=301))
        assert sorted(versions(await news(found, 50))) == list(range(301, 351))


async def test_the_last_records_are_those_that_were_chosen(
    kafka: Kafka, kafka_topic: MakeTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sinks.reader.FIRST_LOOK_BACK", 5)
    chosen = options(kafka, kafka_topic())
    await write(chosen, changes(100))
    async with following(chosen) as found:
        chosen_ones = await last(found, 2, lambda record: record.version in ("1003", "1007", "1098"))
        assert versions(chosen_ones) == [7, 98]


async def test_it_begins_with_the_oldest_or_at_a_time(kafka: Kafka, kafka_topic: MakeTopic) -> None:
    chosen = options(kafka, kafka_topic(partitions=2))
    await write(chosen, changes(20))
    async with following(chosen) as found:
        await found.begin(None)
        assert sorted(versions(await news(found, 20))) == list(range(1, 21))
        between = datetime.now(UTC)
        await write(chosen, changes(5, first=21))
        await found.begin(between)
        assert sorted(versions(await news(found, 5))) == list(range(21, 26))
        await found.begin(between + timedelta(days=1))
        await write(chosen, changes(2, first=26))
        assert sorted(versions(await news(found, 2))) == [26, 27]


async def test_topics_that_appear_later_are_followed(
    kafka: Kafka, kafka_topic: MakeTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follower, "_LOOK_EVERY", 0.0)
    prefix = fresh_name("k8s")
    chosen = options(kafka, f"{prefix}.{{resource}}")
    found = unopened(chosen)
    try:
        assert not await is_there(found)
        kafka_topic(name=f"{prefix}.pods")
        async with asyncio.timeout(30 * BUSY):
            while not await is_there(found):
                pass
        assert await last(found, 10) == []
        kafka_topic(name=f"{prefix}.deployments")
        await write(chosen, [a_delta(1), a_delta(2, resource=DEPLOYMENTS, key="shop/web")])
        assert sorted(versions(await news(found, 2))) == [1, 2]
    finally:
        await found.close()


async def test_copies_of_a_gap_are_left_out(kafka: Kafka, kafka_topic: MakeTopic) -> None:
    topic = kafka_topic(partitions=4)
    chosen = options(kafka, topic)
    records: list[Record] = [a_delta(1), a_gap(2, 3), a_delta(4)]
    await write(chosen, records)
    async with following(chosen) as found:
        assert [record.is_gap for record in await last(found, 10)].count(True) == 1


async def test_tombstones_and_records_of_others_are_named(kafka: Kafka, kafka_topic: MakeTopic) -> None:
    topic = kafka_topic()
    chosen = options(kafka, topic, tombstones=True)
    await write(chosen, [a_delta(1, op=Op.DELETED)])
    await asyncio.to_thread(produce, kafka, topic, b"prod/core/pods/shop/web-2", None)
    await asyncio.to_thread(produce, kafka, topic, None, b"\xff", [("ce_type", b"\xff"), ("other", None)])
    async with following(chosen) as found:
        deleted, tombstone, other_key, other = await last(found, 10)
    assert (deleted.op, tombstone.op, tombstone.evidence) == (Op.DELETED, Op.DELETED, "tombstone")
    assert (other_key.foreign, other_key.text) == (True, b"prod/core/pods/shop/web-2")
    assert (other.foreign, other.text) == (True, b"\xff")


async def test_no_group_is_left_at_the_brokers(kafka: Kafka, kafka_topic: MakeTopic) -> None:
    from confluent_kafka.admin import AdminClient

    chosen = options(kafka, kafka_topic(), client_id=fresh_name("client"))
    await write(chosen, changes(3))
    async with following(chosen) as found:
        await last(found, 3)
        admin = AdminClient({"bootstrap.servers": kafka.bootstrap})  # Held: a client that is collected gives no answer.
        groups = await asyncio.to_thread(admin.list_consumer_groups().result, 30 * BUSY)
    assert not [group for group in groups.valid if chosen.client_id in group.group_id]


async def test_brokers_that_cannot_be_reached_are_named() -> None:
    server = f"127.0.0.1:{reserve_port()}"
    chosen = KafkaOptions.model_validate({"bootstrap_servers": server, "connect_timeout": 0.5})
    with pytest.raises(Unavailable, match=f"cannot read from {server}"):
        async with following(chosen):
            pass
