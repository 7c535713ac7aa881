"""Brokers that create topics themselves, as Kafka does by default: who names a topic gets one as brokers like it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import ConfigResource
from confluent_kafka.admin._resource import ResourceType

from sinks.base import ALL_STORED, SinkContext
from tests.cluster.fixtures import fresh_name
from tests.cluster.servers import Kafka, SecuredKafka
from tests.kit.deadlines import BUSY
from tests.kit.records import PODS, a_delta
from tests.kit.sinks import failure_of, opened_sink
from tests.sinks.kafka.test_sink import ids, missing_places, opened, read, the_sink

pytestmark = pytest.mark.java


async def topics_of(server: Kafka, prefix: str) -> Mapping[str, tuple[int, str]]:
    """Topic → partitions and cleanup policy."""

    def look() -> Mapping[str, tuple[int, str]]:
        admin = AdminClient({"bootstrap.servers": server.bootstrap, "log_level": 0})
        topics = admin.list_topics(timeout=10 * BUSY).topics
        counts = {name: len(topic.partitions) for name, topic in topics.items() if name.startswith(prefix)}
        asked = admin.describe_configs([ConfigResource(ResourceType.TOPIC, name) for name in counts]) if counts else {}
        policies = {each.name: found.result(10 * BUSY)["cleanup.policy"].value for each, found in asked.items()}
        return {name: (counts[name], str(policies[name])) for name in counts}

    return await asyncio.to_thread(look)


async def test_topics_are_made_as_configured(secured_kafka: SecuredKafka) -> None:
    """Those of states and of progress so that they keep what they have."""
    prefix, create = fresh_name("configured"), {"create_topics": {"partitions": 7}}
    state, progress = {"state_topic": f"{prefix}-state.{{resource}}"}, {"progress_topic": f"{prefix}-progress"}
    for options in (state, {"exactly_once": True, **progress}):
        async with opened(secured_kafka, f"{prefix}.{{resource}}", **create, **options) as sink:
            assert await sink.deliver([a_delta(1)]) == ALL_STORED

    assert await topics_of(secured_kafka, prefix) == {
        f"{prefix}.pods": (7, "delete"),
        f"{prefix}-state.pods": (7, "compact"),
        f"{prefix}-progress": (1, "compact"),
    }


async def test_brokers_make_topics_where_the_sink_may_not(secured_kafka: SecuredKafka) -> None:
    prefix = fresh_name("theirs")
    assert await missing_places(secured_kafka, f"{prefix}.{{resource}}") == []
    async with opened(secured_kafka, f"{prefix}.{{resource}}") as sink:
        assert await sink.deliver([a_delta(1)]) == ALL_STORED

    assert await topics_of(secured_kafka, prefix) == {f"{prefix}.pods": (1, "delete")}
    assert ids(await read(secured_kafka, f"{prefix}.pods")) == [a_delta(1).id]


async def test_brokers_make_no_topic_that_must_be_compacted(secured_kafka: SecuredKafka) -> None:
    prefix = fresh_name("state")
    async with opened(secured_kafka, f"{prefix}.{{resource}}", state_topic=f"{prefix}-state.{{resource}}") as sink:
        receipt = await sink.deliver([a_delta(1)])

    missing = f"topic {prefix}-state.pods does not exist; create it with cleanup.policy compact, or set create_topics"
    assert missing in failure_of(receipt)
    assert f"{prefix}-state.pods" not in await topics_of(secured_kafka, prefix)


async def test_a_check_names_a_topic_that_brokers_would_not_compact(secured_kafka: SecuredKafka) -> None:
    prefix = fresh_name("asked")
    found = await missing_places(secured_kafka, f"{prefix}.{{resource}}", state_topic=f"{prefix}-state.{{resource}}")

    missing = f"no topic {prefix}-state.pods, {prefix}-state.deployments, and brokers create none"
    assert found == [f"{missing}: create them, or set create_topics"]
    assert await topics_of(secured_kafka, prefix) == {}, "a check makes none"


async def test_a_topic_deleted_in_use_comes_back_as_configured(secured_kafka: SecuredKafka) -> None:
    prefix = fresh_name("again")
    options = {"ack_timeout": "5s", "create_topics": {"partitions": 7}}
    # The producer looks at its topics all the time, and would name the deleted one.
    properties = {"topic.metadata.propagation.max.ms": 1000, "topic.metadata.refresh.interval.ms": 100}
    sink = the_sink(secured_kafka, f"{prefix}.{{resource}}", **options, properties=properties)
    async with opened_sink(sink, SinkContext(watched=lambda: [PODS])), asyncio.timeout(60 * BUSY):
        assert await sink.deliver([a_delta(1)]) == ALL_STORED
        await asyncio.to_thread(secured_kafka.delete_topic, f"{prefix}.pods")
        batch, sequence = [a_delta(2)], 2
        while f"{prefix}.pods" not in await topics_of(secured_kafka, prefix) or batch:
            receipt = await sink.deliver(batch)
            batch = [batch[index] for index in receipt.pending]

    assert (await topics_of(secured_kafka, prefix))[f"{prefix}.pods"] == (7, "delete")
    assert ids(await read(secured_kafka, f"{prefix}.pods"))[-1] == a_delta(sequence).id
