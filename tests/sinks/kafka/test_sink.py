"""The Kafka sink against a real broker. What every sink must do is examined in tests/contracts."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from config.values import Duration
from sinks import registry
from sinks.base import ALL_STORED, SinkContext, SinkUnavailable
from sinks.kafka.options import KafkaOptions
from sinks.kafka.sink import KafkaSink
from tests.cluster.fixtures import MakeTopic, fresh_name
from tests.cluster.servers import Kafka, KafkaRecord
from tests.cluster.servers.ports import reserve_port
from tests.kit.records import DEPLOYMENTS, PODS, a_delta, changes, ids_of
from tests.kit.sinks import ALONE, failure_of, opened_sink, until_stored


def the_sink(server: Kafka, topic: str, **options: Any) -> KafkaSink:
    settings = {"bootstrap_servers": server.bootstrap, "topic": topic, **options}
    sink = registry.create("audit", "kafka", KafkaOptions.model_validate(settings), "prod")
    assert isinstance(sink, KafkaSink)
    return sink


@asynccontextmanager
async def opened(
    server: Kafka, topic: str, context: SinkContext = ALONE, /, **options: Any
) -> AsyncIterator[KafkaSink]:
    sink = the_sink(server, topic, **options)
    async with opened_sink(sink, context):
        yield sink


async def read(server: Kafka, topic: str) -> list[KafkaRecord]:
    return await asyncio.to_thread(server.read_all, topic)


def ids(records: Sequence[KafkaRecord]) -> list[str]:
    return [dict(record.headers)["ce_id"].decode() for record in records]  # type: ignore[union-attr]


def incompressible(size: int) -> bytes:
    return b'"' + os.urandom(size // 2).hex().encode() + b'"'


async def test_a_record_too_large_to_send_is_rejected_alone(kafka: Kafka, kafka_topic: MakeTopic) -> None:
    topic = kafka_topic()
    batch = [a_delta(1), a_delta(2, body=incompressible(20_000)), a_delta(3, key="shop/web-2"), a_delta(4)]
    async with opened(kafka, topic, max_message_bytes=10_000) as sink:
        receipt = await sink.deliver(batch)

    assert list(receipt.rejected) == [1]
    assert "see max_message_bytes" in receipt.rejected[1]
    assert (receipt.pending, receipt.failure) == ([3], None), "of the same object, and so not sent"
    stored = await read(kafka, topic)
    assert sorted(ids(stored)) == sorted(ids_of([batch[0], batch[2]]))


async def test_a_batch_that_is_too_large_only_as_a_whole_is_stored(kafka: Kafka, kafka_topic: MakeTopic) -> None:
    topic = kafka_topic(max_message_bytes="20000")
    batch = [a_delta(n, body=incompressible(800)) for n in range(1, 101)]
    async with opened(kafka, topic) as sink:
        assert await sink.deliver(batch) == ALL_STORED

    assert ids(await read(kafka, topic)) == ids_of(batch)


async def test_a_missing_topic_holds_up_only_its_own_records(kafka: Kafka, kafka_topic: MakeTopic) -> None:
    prefix = fresh_name("own")
    kafka_topic(name=f"{prefix}.pods")
    batch = [a_delta(n, resource=DEPLOYMENTS if n % 2 else PODS) for n in range(1, 9)]
    async with opened(kafka, f"{prefix}.{{resource}}") as sink:
        receipt = await sink.deliver(batch)
        assert list(receipt.pending) == [0, 2, 4, 6]
        assert failure_of(receipt) == f"topic {prefix}.deployments does not exist; create it, or set create_topics"

        kafka_topic(name=f"{prefix}.deployments")
        assert await sink.deliver([batch[place] for place in receipt.pending]) == ALL_STORED

    assert ids(await read(kafka, f"{prefix}.pods")) == ids_of(batch[1::2])
    assert ids(await read(kafka, f"{prefix}.deployments")) == ids_of(batch[0::2])


async def missing_places(server: Kafka, topic: str, **options: Any) -> Sequence[str]:
    sink = the_sink(server, topic, **options)
    try:
        return await sink.check_destinations([PODS, DEPLOYMENTS])
    finally:
        await sink.close()


async def test_a_check_names_topics_that_nobody_makes_and_makes_none(kafka: Kafka, kafka_topic: MakeTopic) -> None:
    prefix = fresh_name("asked")
    kafka_topic(name=f"{prefix}.pods")
    received = (
        f"no topic {prefix}.deployments, {prefix}.notice, and brokers create none: create them, or set create_topics"
    )

    assert await missing_places(kafka, f"{prefix}.{{resource}}") == [received]
    assert await missing_places(kafka, f"{prefix}.{{resource}}") == [received], "being asked made none of them"
    assert await missing_places(kafka, f"{prefix}.{{resource}}", create_topics={"partitions": 1}) == []
    assert await missing_places(kafka, f"{prefix}.pods") == []
    by_namespace = await missing_places(kafka, f"{prefix}.{{resource}}.{{namespace}}")
    assert by_namespace == [f"no topic {prefix}.notice._, and brokers create none: create them, or set create_topics"]


async def test_a_frozen_broker_with_a_full_queue_fails_undoubled(kafka: Kafka, kafka_topic: MakeTopic) -> None:
    topic = kafka_topic()
    batch = [a_delta(n, key=f"shop/web-{n % 5}", body=incompressible(400_000)) for n in range(1, 31)]
    properties = {"queue.buffering.max.kbytes": 4096}
    async with opened(kafka, topic, ack_timeout=0.5, properties=properties) as sink:
        await until_stored(sink, batch[:1])
        kafka.pause()
        receipt = await sink.deliver(batch[1:])
        # Another batch size, as a worker may choose it after its back-off.
        assert list((await sink.deliver(batch[1:11])).pending) == list(range(10))
        kafka.resume()
        assert list(receipt.pending) == list(range(29))
        assert failure_of(receipt).startswith("no acknowledgement within 0.5 s")
        await until_stored(sink, batch[1:])

    assert ids(await read(kafka, topic)) == ids_of(batch)


async def test_a_cancelled_deliver_doubles_nothing_and_the_sink_works(kafka: Kafka, kafka_topic: MakeTopic) -> None:
    topic = kafka_topic()
    batch = changes(1000)
    async with opened(kafka, topic, properties={"linger.ms": 100}) as sink:
        for pause in (0.0, 0.001, 0.003, 0.01, 0.03):
            with suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await sink.deliver(batch)
        assert await sink.deliver(batch) == ALL_STORED
        assert not sink._writer._sender.in_flight.records

    assert ids(await read(kafka, topic)) == ids_of(batch)


@pytest.mark.parametrize("_round", range(3))
async def test_what_is_acknowledged_is_there_however_new_the_topic_is(
    kafka: Kafka, kafka_topic: MakeTopic, _round: int
) -> None:
    """The partitions of a topic that was made a moment ago take records one after another."""
    topic = kafka_topic(partitions=12)
    batch = [a_delta(n, key=f"shop/web-{n % 300}", body=incompressible(3_000)) for n in range(1, 1001)]
    async with opened(kafka, topic, properties={"batch.size": 15_000}) as sink:
        receipt = await sink.deliver(batch)
    acknowledged = {record.id for record in batch} - {batch[place].id for place in receipt.pending}

    assert acknowledged - set(ids(await read(kafka, topic))) == set()


async def test_a_topic_deleted_in_use_is_a_failure_until_it_is_back(kafka: Kafka, kafka_topic: MakeTopic) -> None:
    topic = fresh_name("gone")
    await asyncio.to_thread(kafka.create_topic, topic)
    properties = {"topic.metadata.propagation.max.ms": 1000, "topic.metadata.refresh.interval.ms": 500}
    async with opened(kafka, topic, ack_timeout=5, properties=properties) as sink:
        await until_stored(sink, changes(5))
        await asyncio.to_thread(kafka.delete_topic, topic)

        receipt = await sink.deliver(changes(5, first=6))
        assert list(receipt.pending) == [0, 1, 2, 3, 4]

        kafka_topic(name=topic)
        await until_stored(sink, changes(5, first=6))

    assert ids(await read(kafka, topic)) == ids_of(changes(5, first=6))


async def test_what_close_dropped_is_stored_in_order_by_the_next_sink(kafka: Kafka, kafka_topic: MakeTopic) -> None:
    topic = kafka_topic()
    first, batch = changes(1), changes(500, first=2)
    async with opened(kafka, topic, properties={"linger.ms": 500}) as sink:
        await until_stored(sink, first)
        with pytest.raises(TimeoutError):
            # The topic is known by now, so that all records are with the producer before the first wait.
            async with asyncio.timeout(0):
                await sink.deliver(batch)
    sent = len(ids(await read(kafka, topic))) - len(first)
    async with opened(kafka, topic) as following:
        await until_stored(following, batch)

    assert ids(await read(kafka, topic)) == ids_of([*first, *batch[:sent], *batch])


async def test_nobody_listening_is_reported() -> None:
    options = KafkaOptions(bootstrap_servers=f"127.0.0.1:{reserve_port()}", connect_timeout=Duration(1))
    sink = KafkaSink("audit", options, cluster="prod")

    with pytest.raises(SinkUnavailable, match=r"cannot reach 127\.0\.0\.1:\d+: .*Connection refused"):
        await sink.open(SinkContext())
    await sink.close()


async def test_settings_that_librdkafka_does_not_take_are_reported(tmp_path: Path) -> None:
    options = KafkaOptions(bootstrap_servers="127.0.0.1:1", properties={"lingerms": 5})

    with pytest.raises(SinkUnavailable, match='No such configuration property: "lingerms"'):
        await KafkaSink("audit", options, cluster="prod").open(SinkContext())


async def test_check_says_who_answers(kafka: Kafka) -> None:
    found = await the_sink(kafka, "k8s.pods").check()

    assert found.startswith(f"{kafka.bootstrap}, cluster ")
    assert found.endswith(" of 1 brokers")
