"""Topics that get more partitions, or are deleted and created again, under a sink or between two runs of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from bridge.model.record import Concern, Record
from bridge.model.resource import Resource
from sinks.base import ALL_STORED, Receipt, SinkContext
from sinks.kafka.encode import topic_part
from sinks.kafka.memory import TopicState
from sinks.kafka.sink import KafkaSink
from sinks.kafka.topic_watch import TopicChanges, changes_between
from sinks.kafka.topics import TopicNames
from sinks.template import Template
from tests.cluster.fixtures import fresh_name
from tests.cluster.servers import Kafka, KafkaRecord
from tests.kit.deadlines import BUSY
from tests.kit.records import DEPLOYMENTS, NODES, PODS, a_delta, changes
from tests.kit.sinks import opened_sink, until_stored
from tests.sinks.kafka.test_sink import ids, read, the_sink

SOON = {"properties": {"topic.metadata.refresh.interval.ms": 200, "topic.metadata.propagation.max.ms": 1000}}


@asynccontextmanager
async def running(sink: KafkaSink, memory: bytes = b"") -> AsyncIterator[KafkaSink]:
    """As the bridge opens it."""
    async with opened_sink(sink, SinkContext(memory=memory, watched=lambda: [PODS])):
        yield sink


async def remembered(sink: KafkaSink, first: int = 1) -> bytes:
    """Delivers until the memory knows the topic, and returns it."""
    memory = b""
    async with asyncio.timeout(30 * BUSY):
        while b'"topics":{"' not in memory:
            receipt = await sink.deliver([a_delta(first)])
            assert receipt == ALL_STORED
            memory = memory if receipt.memory is None else receipt.memory
            first += 1
            await asyncio.sleep(0.01)  # The brokers are asked meanwhile.
    return memory


async def until_reported(sink: KafkaSink, first: int) -> Receipt:
    """Delivers one record after another, and what is pending again, until a receipt has reported a change: a topic may
    be missing for a while."""
    reported, left = None, list[Record]()
    async with asyncio.timeout(60 * BUSY):
        while reported is None or left:
            left = left or [a_delta(first, key=f"shop/late-{first}")]
            receipt = await sink.deliver(left)
            if receipt.changed or receipt.lost:
                reported = receipt
            left = [left[place] for place in receipt.pending]
            first += 1
            await asyncio.sleep(0.05)  # Topics are looked at every 200 ms.
    return reported


async def create_again(server: Kafka, topic: str, partitions: int = 1) -> None:
    await asyncio.to_thread(server.delete_topic, topic)
    await asyncio.to_thread(server.create_topic, topic, partitions)


@pytest.fixture
async def topics(kafka: Kafka) -> AsyncIterator[str]:
    """A prefix, below which the topics ``pods`` (of 2 partitions) and ``notice`` exist."""
    prefix = fresh_name("changing")
    await asyncio.to_thread(kafka.create_topic, f"{prefix}.pods", 2)
    await asyncio.to_thread(kafka.create_topic, f"{prefix}.notice")
    yield prefix
    for name in ("pods", "notice"):
        await asyncio.to_thread(kafka.delete_topic, f"{prefix}.{name}")


def the_sink_below(server: Kafka, prefix: str, **options: Any) -> KafkaSink:
    return the_sink(server, f"{prefix}.{{resource}}", **SOON, **options)


async def test_added_partitions_are_reported_once_and_also_behind_a_restart(kafka: Kafka, topics: str) -> None:
    async with running(the_sink_below(kafka, topics)) as sink:
        await remembered(sink)
        await asyncio.to_thread(kafka.add_partitions, f"{topics}.pods", 5)
        receipt = await until_reported(sink, 1001)
    assert receipt.changed.startswith(f"topic {topics}.pods has 5 partitions, it had 2: ")
    assert (receipt.lost, receipt.pending) == ("", ())

    await asyncio.to_thread(kafka.add_partitions, f"{topics}.pods", 6)
    async with running(the_sink_below(kafka, topics), receipt.memory or b"") as sink:
        between = await sink.deliver([a_delta(2001)])
        assert "has 6 partitions, it had 5" in between.changed
    async with running(the_sink_below(kafka, topics), between.memory or b"") as sink:
        assert await sink.deliver([a_delta(3001)]) == ALL_STORED


async def test_another_key_is_reported_once(kafka: Kafka, topics: str) -> None:
    async with running(the_sink_below(kafka, topics)) as sink:
        memory = await remembered(sink)
    async with running(the_sink_below(kafka, topics, key="uid"), memory) as sink:
        receipt = await sink.deliver([a_delta(1001)])
        assert receipt.changed.startswith("key is uid, it was object: records in the topics keep their former keys")
        assert await sink.deliver([a_delta(1002)]) == ALL_STORED
    async with running(the_sink_below(kafka, topics, key="uid"), receipt.memory or b"") as sink:
        assert await sink.deliver([a_delta(1003)]) == ALL_STORED

    assert {each.key for each in await read(kafka, f"{topics}.pods")} >= {
        b"prod/core/pods/shop/web-1",
        b"uid-of-shop/web-1",
    }


def kinds(records: Sequence[KafkaRecord]) -> list[str]:
    return [(dict(record.headers)["ce_type"] or b"").decode() for record in records]


async def test_a_topic_created_again_between_runs_begins_with_a_gap(kafka: Kafka, topics: str) -> None:
    async with running(the_sink_below(kafka, topics)) as sink:
        memory = await remembered(sink)
    await create_again(kafka, f"{topics}.pods", partitions=2)

    async with running(the_sink_below(kafka, topics), memory) as sink:
        receipt = await sink.deliver([a_delta(n, key=f"shop/web-{n}") for n in range(1001, 1031)])
        assert await sink.deliver([a_delta(1031)]) == ALL_STORED
    assert receipt.lost == f"created again, and so empty: {topics}.pods"
    found = await read(kafka, f"{topics}.pods")
    for partition in (0, 1):
        here = kinds([each for each in found if each.partition == partition])
        assert here[0] == "kubedelta.gap.v1"
        assert set(here[1:]) == {"kubedelta.object.updated.v1"}
    [notice] = await read(kafka, f"{topics}.notice")
    assert b'"first":1,"last":1000,"count":null' in (notice.value or b"")
    assert b'"resources":["pods"]' in (notice.value or b"")

    async with running(the_sink_below(kafka, topics), receipt.memory or b"") as sink:
        assert await sink.deliver([a_delta(2001)]) == ALL_STORED


async def test_a_topic_created_again_under_a_sink_is_noticed(kafka: Kafka, topics: str) -> None:
    async with running(the_sink_below(kafka, topics)) as sink:
        await remembered(sink)
        await create_again(kafka, f"{topics}.pods")
        receipt = await until_reported(sink, 1001)

    assert receipt.lost == f"created again, and so empty: {topics}.pods"
    assert "kubedelta.gap.v1" in kinds(await read(kafka, f"{topics}.pods"))


async def test_a_topic_that_the_sink_creates_again_begins_with_a_gap(kafka: Kafka, topics: str) -> None:
    async with running(the_sink_below(kafka, topics)) as sink:
        memory = await remembered(sink)
    await asyncio.to_thread(kafka.delete_topic, f"{topics}.pods")

    async with running(the_sink_below(kafka, topics, create_topics={"partitions": 1}), memory) as sink:
        receipt = await until_reported(sink, 1001)
    assert receipt.lost
    found = await read(kafka, f"{topics}.pods")
    assert kinds(found)[0] == "kubedelta.gap.v1"
    assert ids(found)[1:] == [a_delta(1001, key="shop/late-1001").id]


async def test_topics_that_stay_as_they_are_are_not_reported(kafka: Kafka, topics: str) -> None:
    async with running(the_sink_below(kafka, topics)) as sink:
        memory = await remembered(sink)
        await until_stored(sink, changes(20, first=101))
    async with running(the_sink_below(kafka, topics), memory) as sink:
        for batch in (changes(20, first=201), changes(20, first=301)):
            assert await sink.deliver(batch) == ALL_STORED


def test_a_change_is_a_new_id_or_a_larger_number() -> None:
    known = {name: TopicState("id", 3) for name in ("same", "missing", "again", "more", "both", "idless")}
    found = {
        "same": TopicState("id", 3),
        "again": TopicState("other", 3),
        "more": TopicState("id", 4),
        "both": TopicState("other", 9),
        "idless": TopicState("", 3),
        "new": TopicState("id", 1),
    }
    assert changes_between(known, found) == TopicChanges(created_again=("again", "both"), grown=("more",))


@pytest.mark.parametrize(
    ("template", "topic", "concerns"),
    [
        ("k8s.{resource}", "k8s.pods", [Concern(PODS)]),
        ("k8s.{resource}", "k8s.nodes", [Concern(NODES)]),
        ("k8s.{resource}", "k8s.notice", []),
        ("k8s.{namespace}", "k8s.shop", [Concern(PODS, "shop"), Concern(DEPLOYMENTS, "shop")]),
        ("k8s.{namespace}", "k8s._", [Concern(NODES)]),
        ("{namespace}.{resource}.{namespace}", "shop.pods.shop", [Concern(PODS, "shop")]),
        ("{namespace}.{resource}.{namespace}", "shop.pods.other", []),
        ("all", "all", [Concern(PODS), Concern(DEPLOYMENTS), Concern(NODES)]),
    ],
)
def test_the_objects_of_a_topic_follow_from_its_name(template: str, topic: str, concerns: list[Concern]) -> None:
    watched: list[Resource] = [PODS, DEPLOYMENTS, NODES]
    names = TopicNames(template, "prod", Template(template, "prod", topic_part))

    assert list(names.concerns_of([topic], watched)) == concerns
