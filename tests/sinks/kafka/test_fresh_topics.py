"""A topic that was made a moment ago: its partitions take records one after another, and nothing is lost meanwhile."""

from __future__ import annotations

import pytest

from tests.cluster.fixtures import MakeTopic
from tests.cluster.servers import Kafka
from tests.kit.records import a_delta
from tests.sinks.kafka.test_sink import ids, incompressible, opened, read

pytestmark = pytest.mark.java


@pytest.mark.parametrize("_round", range(3))
async def test_what_is_acknowledged_is_there_however_new_the_topic_is(
    kafka: Kafka, kafka_topic: MakeTopic, _round: int
) -> None:
    topic = kafka_topic(partitions=12)
    batch = [a_delta(n, key=f"shop/web-{n % 300}", body=incompressible(3_000)) for n in range(1, 1001)]
    async with opened(kafka, topic, properties={"batch.size": 15_000}) as sink:
        receipt = await sink.deliver(batch)
    acknowledged = {record.id for record in batch} - {batch[place].id for place in receipt.pending}

    assert acknowledged - set(ids(await read(kafka, topic))) == set()
