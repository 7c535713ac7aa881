"""A topic that takes no records, although it can be described, holds up no other topic of its sink."""

from __future__ import annotations

import asyncio

import pytest
from confluent_kafka.admin._acl import AclOperation

from sinks.base import ALL_STORED
from sinks.kafka.options import KafkaOptions
from sinks.kafka.sink import KafkaSink
from tests.cluster.fixtures import MakeTopic, fresh_name
from tests.cluster.servers import AuthorizingKafka, Kafka, KafkaCluster
from tests.kit.deadlines import BUSY
from tests.kit.records import DEPLOYMENTS, PODS, a_delta, changes, ids_of
from tests.kit.sinks import failure_of, opened_sink, until_stored
from tests.sinks.kafka.test_sink import ids, opened, read

pytestmark = pytest.mark.java


async def test_a_topic_that_may_not_be_written_waits_alone(authorizing_kafka: AuthorizingKafka) -> None:
    prefix = fresh_name("denied")
    denied, free = f"{prefix}.deployments", f"{prefix}.pods"
    for topic in (denied, free):
        await asyncio.to_thread(authorizing_kafka.create_topic, topic)
    await asyncio.to_thread(authorizing_kafka.forbid, denied, AclOperation.WRITE)
    batch = [a_delta(n, key=f"shop/web-{n % 3}", resource=DEPLOYMENTS if n % 2 else PODS) for n in range(1, 41)]
    async with opened(authorizing_kafka, f"{prefix}.{{resource}}") as sink, asyncio.timeout(120 * BUSY):
        receipt = await sink.deliver(batch)
        waiting = [batch[index] for index in receipt.pending]
        assert waiting == batch[0::2]
        assert receipt.failure is not None
        assert receipt.failure.partly
        assert failure_of(receipt) == f"topic {denied}: Broker: Topic authorization failed"
        assert not receipt.rejected

        later = [a_delta(n, key=f"shop/web-{n % 3}") for n in range(41, 61)]
        assert await sink.deliver(later) == ALL_STORED
        mixed = await sink.deliver([*waiting, a_delta(61)])
        assert list(mixed.pending) == list(range(len(waiting)))

        await asyncio.to_thread(authorizing_kafka.permit, denied)
        await until_stored(sink, waiting)

    assert ids(await read(authorizing_kafka, free)) == ids_of([*batch[1::2], *later, a_delta(61)])
    assert ids(await read(authorizing_kafka, denied)) == ids_of(waiting)


async def test_a_topic_short_of_replicas_waits_alone(three_brokers: KafkaCluster) -> None:
    """Also while its leader holds records that it took when all replicas were in sync: it answers when they are again,
    or after half a minute."""
    prefix = fresh_name("short")
    short, free = f"{prefix}.deployments", f"{prefix}.pods"
    await asyncio.to_thread(three_brokers.create_topic, short, min_insync_replicas="3")
    await asyncio.to_thread(three_brokers.create_topic, free, min_insync_replicas="2")
    options = KafkaOptions.model_validate(
        {"bootstrap_servers": three_brokers.bootstrap, "topic": f"{prefix}.{{resource}}", "ack_timeout": "5s"}
    )
    batch = [a_delta(n, resource=DEPLOYMENTS if n % 2 else PODS) for n in range(1, 11)]
    await asyncio.to_thread(three_brokers.until_whole)
    spared = (three_brokers.controller(), await asyncio.to_thread(three_brokers.leader, short))
    dead = next(node for node in three_brokers.nodes.values() if node not in spared)
    async with opened_sink(KafkaSink("audit", options, cluster="prod")) as sink, asyncio.timeout(300 * BUSY):
        await asyncio.to_thread(dead.kill9)
        waiting, failure = batch, ""
        # First, the others notice that it is dead, and the other topic has a leader.
        while waiting != batch[0::2] or "replicas in sync" not in failure:
            receipt = await sink.deliver(waiting)
            assert not receipt.rejected
            waiting, failure = [waiting[index] for index in receipt.pending], failure_of(receipt)
        assert failure.endswith("a partition has 2 replicas in sync, min.insync.replicas is 3")
        assert receipt.failure is not None
        assert receipt.failure.partly
        assert await sink.deliver([a_delta(11)]) == ALL_STORED

        await asyncio.to_thread(dead.start)
        await until_stored(sink, waiting)

    for topic, stored in ((free, [*batch[1::2], a_delta(11)]), (short, batch[0::2])):
        found = await asyncio.to_thread(three_brokers.read_all, topic)
        assert list(dict.fromkeys(ids(found))) == ids_of(stored)


async def test_records_wait_until_their_time_is_taken(kafka: Kafka, kafka_topic: MakeTopic) -> None:
    """The limit of the topic, or a clock, is to blame, and either is set right one day."""
    # A record is always some milliseconds old when it arrives, as with clocks that are an hour apart.
    topic, batch = kafka_topic(message_timestamp_before_max_ms="0"), changes(5)
    async with opened(kafka, topic) as sink, asyncio.timeout(60 * BUSY):
        receipt = await sink.deliver(batch)
        while receipt == ALL_STORED:  # Within the same millisecond.
            receipt = await sink.deliver(batch)
        assert "timestamp" in failure_of(receipt).lower()
        assert not receipt.rejected
        left = [batch[index] for index in receipt.pending]
        assert left

        await asyncio.to_thread(kafka.configure_topic, topic, message_timestamp_before_max_ms="9223372036854775807")
        await until_stored(sink, left)

    assert set(ids(await read(kafka, topic))) == set(ids_of(batch))
