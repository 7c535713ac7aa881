"""Sources of real servers go on from a saved position, and say what was removed meanwhile."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import nats
import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from kubedelta_reader.sources import NoDestination, Source, Unavailable
from kubedelta_reader.sources.kafka import KafkaSource
from kubedelta_reader.sources.nats import NatsSource

from tests.cluster.fixtures import MakeStream, MakeTopic
from tests.cluster.servers import Kafka, Nats


async def rest(made: Callable[[], Source], position: bytes = b"") -> tuple[list[bytes | None], bytes, bool]:
    """What is behind the position, the position behind that, and whether something was lost."""
    async with made() as source:
        await source.resume(position)
        found = [each.data async for batch in source.read() for each in batch]
        return found, source.position, source.lost


def of_topic(kafka: Kafka, topic: str, partition: int | None = None) -> partial[KafkaSource]:
    config = {"bootstrap.servers": kafka.bootstrap}
    return partial(KafkaSource, config, re.compile(re.escape(topic)), partition=partition)


def produce(kafka: Kafka, topic: str, values: Sequence[bytes], partition: int = 0) -> None:
    producer = Producer({"bootstrap.servers": kafka.bootstrap})
    for value in values:
        producer.produce(topic, value, partition=partition)
    producer.flush()


def remove_before(kafka: Kafka, topic: str, offset: int) -> None:
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
    for done in admin.delete_records([TopicPartition(topic, 0, offset)]).values():
        done.result()


async def test_a_source_of_kafka_goes_on_in_each_partition(kafka: Kafka, kafka_topic: MakeTopic) -> None:
    topic = kafka_topic(2)
    await asyncio.to_thread(produce, kafka, topic, [b"1", b"2"], 0)
    await asyncio.to_thread(produce, kafka, topic, [b"3"], 1)
    found, position, lost = await rest(of_topic(kafka, topic))
    assert (sorted(map(bytes, filter(None, found))), lost) == ([b"1", b"2", b"3"], False)

    await asyncio.to_thread(produce, kafka, topic, [b"4"], 1)
    assert (await rest(of_topic(kafka, topic), position))[0] == [b"4"]
    assert (await rest(of_topic(kafka, topic, partition=1)))[0] == [b"3", b"4"]


async def test_a_source_of_kafka_waits_for_a_leader_that_moves(
    kafka: Kafka, kafka_topic: MakeTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broker answers so between the election of a leader and the moment when it has heard of it."""
    topic, refusals = kafka_topic(), [KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError.LEADER_NOT_AVAILABLE]
    await asyncio.to_thread(produce, kafka, topic, [b"1"])

    class Electing(Consumer):
        def offsets_for_times(self, *asked: Any, **chosen: Any) -> list[TopicPartition]:
            if refusals:
                raise KafkaException(KafkaError(refusals.pop()))
            return super().offsets_for_times(*asked, **chosen)

    monkeypatch.setattr("kubedelta_reader.sources.kafka.Consumer", Electing)
    assert (await rest(of_topic(kafka, topic)))[0] == [b"1"]
    assert not refusals

    refusals.append(KafkaError.TOPIC_AUTHORIZATION_FAILED)
    with pytest.raises(Unavailable, match="Topic authorization failed"):
        await rest(of_topic(kafka, topic))


async def test_a_source_of_kafka_says_what_a_retention_removed(kafka: Kafka, kafka_topic: MakeTopic) -> None:
    topic = kafka_topic()
    await asyncio.to_thread(produce, kafka, topic, [b"1"])
    _, position, _ = await rest(of_topic(kafka, topic))
    await asyncio.to_thread(produce, kafka, topic, [b"2", b"3"])
    await asyncio.to_thread(remove_before, kafka, topic, 1)
    assert await rest(of_topic(kafka, topic), position) == ([b"2", b"3"], b'{"%s/0":3}' % topic.encode(), False)

    await asyncio.to_thread(remove_before, kafka, topic, 2)
    assert (await rest(of_topic(kafka, topic), position))[::2] == ([b"3"], True)


async def test_a_position_beyond_a_topic_is_of_another_one(kafka: Kafka, kafka_topic: MakeTopic) -> None:
    topic = kafka_topic()
    await asyncio.to_thread(produce, kafka, topic, [b"1"])

    assert (await rest(of_topic(kafka, topic), b'{"%s/0":9}' % topic.encode()))[::2] == ([b"1"], True)
    with pytest.raises(ValueError, match="no position"):
        await rest(of_topic(kafka, topic), b'{"stream":"2026","next":1}')


async def test_a_source_of_a_stream_goes_on(nats_server: Nats, nats_stream: MakeStream) -> None:
    stream = await nats_stream()
    made = partial(NatsSource, partial(nats.connect, nats_server.url), stream.name)
    async with await nats.connect(nats_server.url) as connection:
        jetstream = connection.jetstream()
        for value in (b"1", b"2"):
            await jetstream.publish(f"{stream.prefix}.a", value)
        found, position, lost = await rest(made)
        assert (found, lost) == ([b"1", b"2"], False)

        await jetstream.publish(f"{stream.prefix}.a", b"3")
        assert (await rest(made, position))[::2] == ([b"3"], False)
        await jetstream.purge_stream(stream.name)
        await jetstream.publish(f"{stream.prefix}.a", b"4")
        assert (await rest(made, position))[::2] == ([b"4"], True)

        config = (await jetstream.stream_info(stream.name)).config
        await jetstream.delete_stream(stream.name)
        await jetstream.add_stream(config)
        await jetstream.publish(f"{stream.prefix}.a", b"5")
        assert (await rest(made, position))[::2] == ([b"5"], True), "it is another stream of the name"


async def test_no_stream_is_no_destination(nats_server: Nats) -> None:
    with pytest.raises(NoDestination, match="has no stream nowhere"):
        await rest(partial(NatsSource, partial(nats.connect, nats_server.url), "nowhere"))
