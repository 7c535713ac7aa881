"""A topic that refuses the time of records: its limit, or a clock, is to blame, and either is set right one day."""

from __future__ import annotations

import asyncio

import pytest

from sinks.base import ALL_STORED
from tests.cluster.fixtures import MakeTopic
from tests.cluster.servers import Kafka
from tests.kit.deadlines import BUSY
from tests.kit.records import changes, ids_of
from tests.kit.sinks import failure_of, until_stored
from tests.sinks.kafka.test_sink import ids, opened, read

pytestmark = pytest.mark.java


async def test_records_wait_until_their_time_is_taken(kafka: Kafka, kafka_topic: MakeTopic) -> None:
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
