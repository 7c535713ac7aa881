"""Finds the records that a broker refused: which of a refused batch it was, and smaller forms of them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass

from bridge.model.formats.cloudevent import GAP_HEADER
from bridge.model.record import Record
from sinks.kafka.delivery import RecordId, TrimmedForms, record_id
from sinks.kafka.encode import KafkaMessage
from sinks.kafka.transactions.producer import TransactionalProducer, TransactionFailed
from sinks.kafka.verdicts import REFUSALS
from sinks.receipt import BatchResult, Receipt, RetryLater


@dataclass(frozen=True, slots=True)
class Suspect:
    """A record of a batch that a broker refused, as it was sent."""

    record: Record
    message: KafkaMessage
    trimmed: TrimmedForms | None


class Refusals:
    """Brokers refuse a whole batch for one record in it, and that ends the transaction. What is known of it outlives
    the transaction."""

    def __init__(self) -> None:
        self.suspects: list[Suspect] = []
        """Of the transaction that failed."""
        self.refused: dict[RecordId, str] = {}
        """Records that are to be rejected → why."""
        self.smaller: dict[tuple[str, RecordId], KafkaMessage] = {}
        """Topic and record → the form that is sent in place of one that was too large."""
        self._taken_alone: set[RecordId] = set()

    def replaced(self, batch: Sequence[Record], messages: Mapping[int, KafkaMessage]) -> dict[int, KafkaMessage]:
        """The messages, by index in the batch, in the forms that are sent."""
        smaller = self.smaller
        return {
            index: smaller.get((message.topic, record_id(batch[index])), message) for index, message in messages.items()
        }

    async def find(self, renew: Callable[[], Awaitable[TransactionalProducer]], idle_timeout: float) -> bool:
        """Sends the suspects one by one, in transactions that are aborted: a record that is refused alone is refused.
        Returns False if each of them is taken alone, so that only smaller batches help. ``renew`` makes a new producer:
        librdkafka's would purge the messages behind a refused one, in the next transaction as well. Raises
        SinkUnavailable."""
        suspects, self.suspects = self.suspects, []
        if len(suspects) == 1:
            self._refuse(suspects[0], "the broker refuses it; see max_message_bytes and too_large")
            return True
        producer: TransactionalProducer | None = None
        found = False
        for suspect in suspects:
            if record_id(suspect.record) in self._taken_alone:
                continue
            if producer is None:
                producer = await renew()
                await producer.begin()
            error = await producer.store(suspect.message, idle_timeout)
            if error is None:
                self._taken_alone.add(record_id(suspect.record))
                continue
            if error.code() not in REFUSALS:
                raise TransactionFailed(error.str())
            self._refuse(suspect, error.str())
            await producer.abort()
            producer, found = None, True
        if producer is not None:
            await producer.abort()
        return found

    def take(self, batch: Sequence[Record]) -> dict[int, str]:
        """The first record of each object that brokers refused, by its index. They are sent again if they come
        again."""
        refused, self.refused = self.refused, {}
        if not refused:
            return {}
        result = BatchResult(batch)
        for index, each in enumerate(batch):
            if (reason := refused.get(record_id(each))) is not None and result.sendable([index]):
                result.reject(index, reason)
        return result.rejected

    def clear(self) -> None:
        """The batch is stored."""
        self.smaller.clear()
        self._taken_alone.clear()

    def _refuse(self, suspect: Suspect, reason: str) -> None:
        smaller = None if suspect.trimmed is None else suspect.trimmed.next(suspect.record, suspect.message)
        if smaller is None:
            self.refused[record_id(suspect.record)] = reason
            return
        if gap := suspect.message.headers.get(GAP_HEADER):
            smaller.headers[GAP_HEADER] = gap
        self.smaller[smaller.topic, record_id(suspect.record)] = smaller


def nothing_stored(batch: Sequence[Record], receipt: Receipt) -> Receipt:
    """``receipt``: of the records that ended the transaction."""
    result = BatchResult(batch)
    for index, reason in receipt.rejected.items():
        result.reject(index, reason)
    left = [index for index in range(len(batch)) if index not in receipt.rejected]
    aborted = RetryLater("the transaction was aborted, because a record of it was rejected")
    # Records behind a rejected one of their object wait for no other reason.
    failure = (receipt.failure or aborted) if result.sendable(left) else None
    return Receipt(left, failure, receipt.rejected, receipt.answers)
