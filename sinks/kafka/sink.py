"""Produces batches and waits until all in-sync replicas have them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from confluent_kafka import KafkaException

from bridge.model.record import Delta, Notice, Record
from bridge.model.resource import Resource
from sinks.errors import SinkUnavailable
from sinks.kafka.client_config import producer_config
from sinks.kafka.delivery import DeliveryOutcome, InFlightRecords, KafkaDelivery, RecordId, record_id
from sinks.kafka.encode import KafkaEncoder, KafkaMessage
from sinks.kafka.notices import NoticeMarkers
from sinks.kafka.options import KafkaOptions
from sinks.kafka.producer import InFlight, KafkaProducer
from sinks.kafka.topic_names import TopicNames
from sinks.kafka.topics import Topics, missing_topics
from sinks.receipt import ALL_STORED, BatchResult, Receipt, RetryLater

_CLOSE_TIMEOUT = 3.0
"""Seconds that ``close`` waits for the next delivery report."""


class KafkaSink:
    """A record is stored when its delivery report says so: acks=all, by an idempotent producer that never times out.

    **A broker that is down.** After ``ack_timeout`` without a delivery report ``deliver`` reports a failure, but the
    records stay in flight: the producer keeps trying. When the bridge delivers such a record again, the sink finds it
    by sequence number and id and waits for its report, instead of producing it twice. So an outage causes no duplicates
    and keeps the order. The same holds after a ``deliver`` that was cancelled.

    **A record that a broker refuses.** Brokers refuse a whole batch because of one record that is too large for its
    topic. The producer then stops before any later record is stored (``enable.gapless.guarantee``), and the sink waits
    for the answers to other batches, so that no record is sent twice. Another producer without that guarantee sends the
    records of the refused batch one by one; a record that is refused alone is the culprit and is rejected.

    **A gap, and the end of a snapshot**, are stored in their own topic, and as markers in every partition of the topics
    that they are about, in front of the records behind them (``notices``). Where markers are impossible, in compacted
    topics and among envelopes for instance, every later record names the newest gap in its headers (``memory``).

    **A producer that broke** is replaced. Records that it had sent, and that no broker answered for seconds, are sent
    again: such a record may be stored twice, with equal ids.
    """

    def __init__(self, name: str, options: KafkaOptions, *, cluster: str) -> None:
        self._options = options
        events = options.events(cluster)
        self._encoder = KafkaEncoder(
            events, options.topic, cluster, tombstones=options.tombstones, notice_topic=options.notice_topic
        )
        # Threads of the sink's own: a silent broker blocks calls of librdkafka, and must not use up shared threads.
        self._threads = ThreadPoolExecutor(max_workers=2, thread_name_prefix=f"sink-{name}")
        self._topics = Topics(options, self._threads)
        self._notices = NoticeMarkers(
            TopicNames(options.topic, cluster, self._encoder.topic),
            events,
            self._topics,
            partial(self._current_producer, gapless=True),
            marked=options.format.has_notices,
            idle_timeout=options.ack_timeout,
        )
        self.memory = b""
        self.watched: Callable[[], Sequence[Resource] | None] = tuple
        self._producer: KafkaProducer | None = None
        self._in_flight = InFlightRecords()
        self._refused_together: set[RecordId] = set()
        """Records of a batch that was refused because of one of them."""

    async def open(self) -> None:
        self._notices.restore(self.memory)
        producer = await self._new_producer(gapless=True)
        try:
            await self._ping(producer)
        except BaseException:
            await producer.close(0)
            raise
        self._producer = producer

    async def deliver(self, batch: Sequence[Record]) -> Receipt:
        """The hot path: a batch of which every message can be sent at once, to topics that exist. ``_deliver`` goes on
        wherever that fails."""
        if not isinstance(batch[0], Delta) or batch[0].snapshot is not None:
            return await self._deliver_and_remember(batch)
        producer = self._producer
        if producer is None or producer.fatal is not None or not producer.gapless:
            return await self._deliver(batch)
        if self._refused_together or self._in_flight.records:
            return await self._deliver(batch)
        try:
            messages = [self._encoder.encode(record) for record in batch]
        except ValueError:
            return await self._deliver(batch)
        if not {message.topic for message in messages} <= self._topics.usable:
            return await self._deliver(batch)
        if self._notices.memory.newest_gap:
            await self._notices.name_gap(messages)
        sent = producer.send(messages)
        try:
            if len(sent) == len(messages):
                await producer.wait(producer.produced, self._options.ack_timeout)
        except BaseException:  # Cancelled: the next deliver finds the records by their ids.
            self._in_flight.keep(zip(batch, sent, strict=True))
            raise
        if len(sent) == len(messages) and not any(each.unreported or each.error is not None for each in sent):
            return ALL_STORED
        return await self._deliver(batch, dict(enumerate(sent)))

    async def check(self) -> str:
        producer = await self._new_producer(gapless=True)
        try:
            return await self._ping(producer)
        finally:
            await producer.close(0)

    async def check_destinations(self, resources: Sequence[Resource]) -> Sequence[str]:
        missing = await asyncio.get_running_loop().run_in_executor(
            self._threads, missing_topics, self._options, self._encoder.topics_for(resources)
        )
        if not missing:
            return ()
        return [f"no topic {', '.join(missing)}, and brokers create none: create them, or set create_topics"]

    async def close(self) -> None:
        producer, self._producer = self._producer, None
        try:
            if producer is not None:
                await producer.close(_CLOSE_TIMEOUT)
        finally:
            # Not waited for: a call of librdkafka to a silent broker may still block there.
            self._threads.shutdown(wait=False)

    async def _deliver_and_remember(self, batch: Sequence[Record]) -> Receipt:
        """A notice, or records of a snapshot: both change the memory."""
        if isinstance(batch[0], Delta):
            receipt = await self._deliver(batch)
        else:
            receipt = await self._deliver_notice(batch[0])
        self.memory = self._notices.memory.saved()
        return receipt

    async def _deliver(self, batch: Sequence[Record], sent: Mapping[int, InFlight] | None = None) -> Receipt:
        """``sent``: records that are with the producer already, by index."""
        result = BatchResult(batch)
        messages = result.encode(self._encoder.encode)
        if self._notices.memory.newest_gap:
            await self._notices.name_gap(messages.values())
        if self._in_flight.records:
            self._in_flight.forget_before(batch[0].sequence)
        pending, failure = list(messages), None
        while pending and failure is None:
            now, later = self._split_behind_refused(batch, pending) if self._refused_together else (pending, [])
            try:
                outcome = await self._attempt(result, {index: messages[index] for index in now}, sent)
            except SinkUnavailable as error:
                outcome = DeliveryOutcome(now, failure=RetryLater(str(error), unavailable=True))
            sent = None
            # A later record may be pending already, behind a record of its object; or blocked by now.
            pending = result.sendable(sorted({*outcome.pending, *later})) if later else outcome.pending
            failure = outcome.failure
        return result.receipt(pending, failure) if pending or result.rejected else ALL_STORED

    async def _attempt(
        self, result: BatchResult, messages: dict[int, KafkaMessage], sent: Mapping[int, InFlight] | None
    ) -> DeliveryOutcome:
        """Raises SinkUnavailable."""
        batch, one_by_one = result.batch, bool(self._refused_together)
        # The producer that has the records stays, even if it broke: its reports say what became of them.
        producer = self._producer if sent and self._producer else await self._current_producer(gapless=not one_by_one)
        topics = {each.topic for each in messages.values()}
        counts = isinstance(batch[0], Delta) and batch[0].snapshot is not None
        delivery = KafkaDelivery(
            producer,
            messages,
            result,
            unusable_topics={} if topics <= self._topics.usable else await self._topics.unusable(producer, topics),
            in_flight=self._in_flight,
            idle_timeout=self._options.ack_timeout,
            count_partitions=counts,
            sent=sent,
        )
        outcome = await delivery.run(one_by_one=one_by_one)
        if counts:
            for index, partition in delivery.partitions():
                if (snapshot := batch[index].snapshot) is not None:
                    self._notices.memory.count(snapshot, messages[index].topic, partition)
        if outcome.pending:
            for topic in delivery.failed_topics():
                self._topics.forget(topic)
        self._refused_together = {record_id(batch[index]) for index in outcome.refused_together}
        return outcome

    def _split_behind_refused(self, batch: Sequence[Record], indexes: list[int]) -> tuple[list[int], list[int]]:
        """The indexes up to the last record of the refused batch, which are sent one by one, and the indexes behind."""
        counts = [count for count, index in enumerate(indexes, 1) if record_id(batch[index]) in self._refused_together]
        if not counts:
            self._refused_together = set()
            return indexes, []
        return indexes[: counts[-1]], indexes[counts[-1] :]

    async def _deliver_notice(self, notice: Notice) -> Receipt:
        """First to the topic of notices, then as markers. A failure is made up for by the next attempt, which does not
        repeat what is stored."""
        delivery = self._notices.begin(notice)
        receipt = ALL_STORED
        if not delivery.is_noticed:
            receipt = await self._deliver([notice])
            if receipt.pending:
                return receipt
            delivery.is_noticed = not receipt.rejected
        if reason := await self._notices.send(notice, delivery, self.watched()):
            return Receipt(pending=[0], failure=RetryLater(reason))
        return receipt

    async def _current_producer(self, *, gapless: bool) -> KafkaProducer:
        """The producer, replaced if it is failing or has the other guarantee. Raises SinkUnavailable."""
        producer, idle_timeout = self._producer, self._options.ack_timeout
        if producer is not None and (producer.fatal is not None or producer.gapless is not gapless):
            # Waits for answers first: a record that is dropped unanswered is sent again, and might be there twice.
            if not await producer.wait(producer.produced, idle_timeout):
                raise SinkUnavailable(f"no acknowledgement within {idle_timeout:g} s: {producer.last_error}")
            self._producer = None
            await producer.close(0)
        if self._producer is None:
            self._producer = await self._new_producer(gapless=gapless)
        return self._producer

    async def _new_producer(self, *, gapless: bool) -> KafkaProducer:
        config = producer_config(self._options, gapless=gapless)
        try:
            loop = asyncio.get_running_loop()
            return await loop.run_in_executor(self._threads, KafkaProducer, config, self._threads, loop)
        except KafkaException as error:
            raise SinkUnavailable(f"librdkafka does not take these settings: {error.args[0].str()}") from error

    async def _ping(self, producer: KafkaProducer) -> str:
        """Returns the address and the size of the cluster that answers. Raises SinkUnavailable."""
        servers, timeout = self._options.bootstrap_servers, self._options.connect_timeout
        try:
            cluster = await asyncio.get_running_loop().run_in_executor(self._threads, producer.metadata, None, timeout)
        except KafkaException as error:
            raise SinkUnavailable(f"cannot reach {servers}: {producer.last_error or error.args[0].str()}") from error
        return f"{servers}, cluster {cluster.cluster_id} of {len(cluster.brokers)} brokers"
