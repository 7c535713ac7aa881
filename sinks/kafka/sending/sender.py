"""Attempts to store the messages of a batch, until each is stored or rejected, or brokers take no more now."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

from bridge.model.record import Record
from sinks.errors import NotLeading, SinkUnavailable
from sinks.kafka.client.producer import InFlight, KafkaProducer
from sinks.kafka.client.producers import Producers
from sinks.kafka.encode import KafkaMessage
from sinks.kafka.options import KafkaOptions
from sinks.kafka.sending.delivery import (
    Count,
    DeliveryOutcome,
    InFlightRecords,
    KafkaDelivery,
    RecordId,
    record_id,
)
from sinks.kafka.sending.oversize import TrimmedForms
from sinks.kafka.topics.topics import Topics
from sinks.receipt import ALL_STORED, WITHHELD, BatchResult, Receipt, RetryLater


class Sender(Protocol):
    """Stores the messages of a batch, or says what is left."""

    in_flight: InFlightRecords

    @property
    def refused_together(self) -> Collection[object]:
        """Not empty while records of an earlier batch need care: then every batch goes through ``send``."""
        ...

    async def send(
        self, result: BatchResult, messages: dict[int, KafkaMessage], sent: Mapping[int, InFlight] | None = None
    ) -> Receipt:
        """``messages``: by index in the batch of ``result``. ``sent``: records that are with the producer already, by
        index."""
        ...


class BatchSender:
    """Remembers between two batches which records are in flight, and which were refused together. Each kind of message
    of a record has a sender of its own, because a record's messages have the same id."""

    def __init__(
        self,
        options: KafkaOptions,
        producers: Producers,
        topics: Topics,
        trimmed: TrimmedForms | None,
        count: Count | None = None,
    ) -> None:
        """``trimmed``: smaller forms of records that are too large; None if these are rejected. ``count``: see
        Count."""
        self._options = options
        self._producers = producers
        self._topics = topics
        self._trimmed = trimmed
        self._count = count
        self.in_flight = InFlightRecords()
        self.refused_together: set[RecordId] = set()
        """Records of a batch that was refused because of one of them."""

    async def send(
        self, result: BatchResult, messages: dict[int, KafkaMessage], sent: Mapping[int, InFlight] | None = None
    ) -> Receipt:
        """See Sender."""
        batch = result.batch
        if self.in_flight.records:
            self.in_flight.forget_before(batch[0].sequence)
        pending, failure = list(messages), None
        while pending and failure is None:
            now, later = self._split_behind_refused(batch, pending) if self.refused_together else (pending, [])
            try:
                outcome = await self._attempt(result, {index: messages[index] for index in now}, sent)
            except NotLeading:  # Records that were produced before stay in flight.
                outcome = DeliveryOutcome(now, failure=WITHHELD)
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
        batch, one_by_one = result.batch, bool(self.refused_together)
        # The producer that has the records stays, even if it broke: its reports say what became of them.
        present = self._producers.present
        producer = present if sent and present else await self._producers.current(gapless=not one_by_one)
        topics = {each.topic for each in messages.values()}
        delivery = KafkaDelivery(
            producer,
            messages,
            result,
            unusable_topics={} if topics <= self._topics.usable else await self._topics.unusable(producer, topics),
            in_flight=self.in_flight,
            idle_timeout=self._options.ack_timeout,
            count=self._count,
            sent=sent,
            trimmed=self._trimmed,
        )
        outcome = await delivery.run(one_by_one=one_by_one)
        self.refused_together = {record_id(batch[index]) for index in outcome.refused_together}
        if outcome.pending:
            await self._judge(outcome, delivery, producer, messages)
        elif self._topics.held:
            self._topics.release(topics)
        return outcome

    async def _judge(
        self,
        outcome: DeliveryOutcome,
        delivery: KafkaDelivery,
        producer: KafkaProducer,
        messages: Mapping[int, KafkaMessage],
    ) -> None:
        """Finds the topics that take no records now, and lets the records of others go on without them."""
        found = delivery.failed_topics()
        for topic, error in found.items():
            self._topics.refused(topic, error)
        if outcome.failure is None:
            return
        short = await self._topics.short_of_replicas(producer, delivery.silent_topics())
        if short:
            producer.give_up(next(iter(short.values())))
        refused = {topic: f"topic {topic}: {error.str()}" for topic, error in found.items()}
        away, waiting = delivery.unusable_topics | refused | short, {messages[index].topic for index in outcome.pending}
        if waiting <= away.keys():
            outcome.failure = RetryLater("; ".join(away[topic] for topic in sorted(waiting)), partly=True)
        elif found or short:
            # A producer stops at a refusal, and takes the records of other topics with it: they are sent again at once.
            outcome.failure = None

    def _split_behind_refused(self, batch: Sequence[Record], indexes: list[int]) -> tuple[list[int], list[int]]:
        """The indexes up to the last record of the refused batch, which are sent one by one, and the indexes behind."""
        counts = [count for count, index in enumerate(indexes, 1) if record_id(batch[index]) in self.refused_together]
        if not counts:
            self.refused_together = set()
            return indexes, []
        return indexes[: counts[-1]], indexes[counts[-1] :]
