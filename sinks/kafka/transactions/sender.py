"""The messages of a batch, in the open transaction."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from sinks.errors import SinkUnavailable
from sinks.kafka.client.producer import InFlight
from sinks.kafka.client.producers import Producers
from sinks.kafka.encode import KafkaMessage
from sinks.kafka.options import KafkaOptions
from sinks.kafka.sending.delivery import Count, InFlightRecords, KafkaDelivery
from sinks.kafka.sending.oversize import TrimmedForms
from sinks.kafka.topics.topics import Topics
from sinks.kafka.transactions.refusals import Refusals, Suspect
from sinks.receipt import ALL_STORED, BatchResult, Receipt, RetryLater

_REFUSED = "a broker refused a batch for a record in it, and so the transaction was aborted"


class TransactionSender:
    """A Sender with a single attempt: if a record fails, the whole transaction is aborted, and nothing stays in
    flight."""

    def __init__(
        self,
        options: KafkaOptions,
        producers: Producers,
        topics: Topics,
        trimmed: TrimmedForms | None,
        count: Count | None = None,
        *,
        refusals: Refusals,
    ) -> None:
        """See BatchSender."""
        self._options = options
        self._producers = producers
        self._topics = topics
        self._trimmed = trimmed
        self._count = count
        self._refusals = refusals
        self.in_flight = InFlightRecords()

    @property
    def refused_together(self) -> Collection[object]:
        return self._refusals.smaller

    async def send(
        self, result: BatchResult, messages: dict[int, KafkaMessage], sent: Mapping[int, InFlight] | None = None
    ) -> Receipt:
        """See Sender."""
        batch = result.batch
        if not messages:
            return result.receipt()
        if self._refusals.smaller:
            messages = self._refusals.replaced(batch, messages)
        topics = {message.topic for message in messages.values()}
        try:
            producer = await self._producers.current(gapless=True)
            if unusable := {} if topics <= self._topics.usable else await self._topics.unusable(producer, topics):
                return result.receipt(list(messages), RetryLater("; ".join(unusable.values())))
        except SinkUnavailable as error:
            return result.receipt(list(messages), RetryLater(str(error), unavailable=True))
        delivery = KafkaDelivery(
            producer,
            messages,
            result,
            unusable_topics={},
            in_flight=InFlightRecords(),
            idle_timeout=self._options.ack_timeout,
            count=self._count,
            sent=sent,
            trimmed=self._trimmed,
        )
        outcome = await delivery.run(one_by_one=False)
        for topic in delivery.failed_topics():
            self._topics.forget(topic)
        for index in outcome.refused_together:
            self._refusals.suspects.append(Suspect(batch[index], delivery.message(index), self._trimmed))
        if not (outcome.pending or result.rejected):
            return ALL_STORED
        failure = outcome.failure or RetryLater(_REFUSED)
        return result.receipt(outcome.pending, failure if outcome.pending else None)
