"""What a broker refuses costs other objects nothing: not even a repetition."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence

import pytest

from bridge.model.record import Record
from sinks.kafka.sink import KafkaSink
from tests.cluster.fixtures import MakeTopic
from tests.cluster.servers import Kafka
from tests.kit.deadlines import BUSY
from tests.kit.records import a_delta, ids_of
from tests.kit.sinks import until_stored
from tests.sinks.kafka.test_sink import ids, incompressible, opened, read

pytestmark = pytest.mark.java


@pytest.mark.parametrize("large", [{60}, {150, 155, 900}, {3, 999}])
async def test_a_refused_record_makes_no_other_come_twice(
    kafka: Kafka, kafka_topic: MakeTopic, large: set[int]
) -> None:
    """Many batches to many partitions are under way while one of them is refused."""
    topic = kafka_topic(partitions=12, max_message_bytes="20000")
    batch = [a_delta(n, key=f"shop/web-{n % 300}", body=incompressible(3_000)) for n in range(1, 1001)]
    for place in large:
        batch[place] = a_delta(place + 1, key=f"shop/large-{place}", body=incompressible(30_000))
    first = [a_delta(n, key=f"shop/web-{n % 300}") for n in range(2001, 2101)]
    async with opened(kafka, topic, properties={"batch.size": 15_000}) as sink:
        # A partition that was made a moment ago may not take its first batch at once: that is another story.
        for record in first:
            await until_stored(sink, [record])
        receipt = await sink.deliver(batch)
    found = ids(await read(kafka, topic))

    assert set(receipt.rejected) == large
    assert not receipt.pending
    assert [name for name, count in Counter(found).items() if count > 1] == []
    assert set(found) == set(ids_of([*first, *batch])) - {batch[place].id for place in large}


async def test_a_refusal_is_no_loss_where_the_broker_freezes_meanwhile(kafka: Kafka, kafka_topic: MakeTopic) -> None:
    """It freezes for longer than ``ack_timeout``: the sink waits for the answers, wherever the refusal came in
    between."""
    topic = kafka_topic(partitions=6, max_message_bytes="20000")
    batch = [a_delta(n, key=f"shop/web-{n % 60}", body=incompressible(3_000)) for n in range(1, 301)]
    batch[40] = a_delta(41, key="shop/large", body=incompressible(30_000))
    rejected: set[str] = set()

    async def deliver_all(sink: KafkaSink) -> None:
        left: Sequence[Record] = batch
        while left:
            receipt = await sink.deliver(left)
            rejected.update(left[place].id for place in receipt.rejected)
            left = [left[place] for place in receipt.pending]

    properties = {"batch.size": 15_000}
    async with opened(kafka, topic, ack_timeout=0.4, properties=properties) as sink:
        await until_stored(sink, [a_delta(1000)])
        async with asyncio.timeout(60 * BUSY), asyncio.TaskGroup() as tasks:
            delivering = tasks.create_task(deliver_all(sink))
            await asyncio.sleep(0.02)
            kafka.pause()
            await asyncio.wait([delivering], timeout=1.5)
            kafka.resume()
    found = ids(await read(kafka, topic))

    assert rejected == {batch[40].id}
    assert [name for name, count in Counter(found).items() if count > 1] == []
    assert set(found) == set(ids_of(batch)) - rejected | {a_delta(1000).id}
