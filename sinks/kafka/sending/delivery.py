"""One attempt to store records of a batch, and the records that stay in flight from one ``deliver`` to the next."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from confluent_kafka import KafkaError, KafkaException, Message

from bridge.model.formats.cloudevent import GAP_HEADER
from bridge.model.record import Delta, Record
from sinks.kafka.client.producer import InFlight, KafkaProducer
from sinks.kafka.encode import KafkaMessage
from sinks.kafka.sending.oversize import TrimmedForms
from sinks.kafka.verdicts import NEIGHBOURS, REFUSALS, TOO_LARGE, TOPIC_ERRORS
from sinks.receipt import BatchResult, RetryLater

RecordId: TypeAlias = tuple[int, str]
Count: TypeAlias = Callable[[str, str, int], None]
"""Called with snapshot, topic and partition of each stored record of a snapshot."""


def record_id(record: Record) -> RecordId:
    """The same when a record is delivered again. The sequence number is not enough: a gap may have the sequence number
    of a record that was in flight."""
    return (record.sequence, record.id)


class CountedInFlight(InFlight, gc=False, eq=False):
    """Also knows the partition, for records of a snapshot. A class of its own, because reading the partition costs
    time for every record."""

    partition: int = -1

    def report(self, error: KafkaError | None, message: Message) -> None:
        if error is None and (partition := message.partition()) is not None:
            self.partition = partition
        super().report(error, message)


class InFlightRecords:
    """Records in flight whose result no Receipt has reported, after Kafka's ``InFlightRequests``."""

    def __init__(self) -> None:
        self.records: dict[RecordId, InFlight] = {}
        """Nearly always empty: looked at before any method is called."""

    def keep(self, records: Iterable[tuple[Record, InFlight]]) -> None:
        self.records.update((record_id(record), in_flight) for record, in_flight in records)

    def take(self, record: Record) -> InFlight | None:
        """Removes and returns the record's entry; None when there is no entry, or its delivery failed."""
        in_flight = self.records.pop(record_id(record), None)
        return None if in_flight is None or (in_flight.reported and in_flight.error is not None) else in_flight

    def forget_before(self, sequence: int) -> None:
        """The batch begins at this sequence number: the bridge delivers earlier records again only where they wait for
        a part of the destination. Such a record may be stored twice then, with equal ids."""
        self.records = {
            name: record for name, record in self.records.items() if name[0] >= sequence or not record.reported
        }


@dataclass(slots=True)
class DeliveryOutcome:
    """The result of one attempt. Indexes are those of the batch."""

    pending: list[int] = field(default_factory=list)
    """Records that may not be stored, and all records behind them of the same object; no blocked records."""
    refused_together: list[int] = field(default_factory=list)
    """Pending records of a batch that the broker refused because of one record in it."""
    failure: RetryLater | None = None
    """None: the pending records can be tried again at once."""


class KafkaDelivery:
    """Produces the messages and waits for their delivery reports."""

    def __init__(
        self,
        producer: KafkaProducer,
        messages: Mapping[int, KafkaMessage],
        result: BatchResult,
        *,
        unusable_topics: dict[str, str],
        in_flight: InFlightRecords,
        idle_timeout: float,
        count: Count | None = None,
        sent: Mapping[int, InFlight] | None = None,
        trimmed: TrimmedForms | None = None,
    ) -> None:
        """``messages``: by index in the batch of ``result``. ``unusable_topics``: topic → reason. ``idle_timeout``:
        seconds without any delivery report. ``sent``: messages that are with the producer already, by index; if these
        are all messages, their reports were waited for. ``count``: see Count. ``trimmed``: smaller forms of records
        that are too large; None if these are rejected."""
        self._producer = producer
        self._batch = result.batch
        self._messages = dict(messages)
        self._result = result
        self.unusable_topics = unusable_topics
        """Topic → reason, also of those that refuse a message before it is sent."""
        self._earlier = in_flight
        self._idle_timeout = idle_timeout
        first = result.batch[0]
        self._count = count if isinstance(first, Delta) and first.snapshot is not None else None
        self._new_in_flight = InFlight if self._count is None else CountedInFlight
        self._in_flight: dict[int, InFlight] = dict(sent or {})
        self._unreported: set[int] = set()
        """When the attempt ended. Their reports may come at any moment, and count in the next attempt."""
        self._trimmed = trimmed

    async def run(self, *, one_by_one: bool) -> DeliveryOutcome:
        """With ``one_by_one`` each record waits for the record before it, and the first failure ends the attempt.
        Rejected records are reported to the BatchResult."""
        try:
            left = [index for index in self._messages if index not in self._in_flight]
            for index in left:
                if not await self._produce(index):
                    break
                if one_by_one and not await self._await_report(index):
                    break
            else:
                if left:
                    await self._producer.wait(self._producer.produced, self._idle_timeout)
        except BaseException:  # Cancelled: the next deliver finds the records by their ids.
            self._earlier.keep((self._batch[index], record) for index, record in self._in_flight.items())
            raise
        self._unreported = {index for index, record in self._in_flight.items() if not record.reported}
        if self._count is not None:
            self._count_stored(self._count)
        unstored = [index for index in self._messages if not self._is_acknowledged(index)]
        return self._outcome(unstored, alone=one_by_one) if unstored else DeliveryOutcome()

    def _count_stored(self, count: Count) -> None:
        for index, record in self._in_flight.items():
            snapshot = self._batch[index].snapshot
            if snapshot is not None and self._is_acknowledged(index) and isinstance(record, CountedInFlight):
                count(snapshot, self._messages[index].topic, record.partition)

    def message(self, index: int) -> KafkaMessage:
        """The form in which the record was sent."""
        return self._messages[index]

    def failed_topics(self) -> dict[str, KafkaError]:
        """Topics whose records failed with an error about the topic."""
        errors = ((index, self._in_flight[index].error) for index in self._failed_with(TOPIC_ERRORS))
        return {self._messages[index].topic: error for index, error in errors if error is not None}

    def silent_topics(self) -> set[str]:
        """Topics with records without a delivery report."""
        return {self._messages[index].topic for index in self._unreported}

    async def _produce(self, index: int) -> bool:
        """Returns False when no delivery report came for ``idle_timeout``."""
        message = self._messages[index]
        if message.topic in self.unusable_topics or not self._result.sendable([index]):
            return True
        # The producer may have the record since an earlier deliver: then producing it again would store it twice.
        record = self._earlier.take(self._batch[index])
        if record is None:
            record = self._new_in_flight(self._producer, len(message.values))
            try:
                for value in message.values:
                    while not self._producer.produce(record, message, value):
                        if not await self._producer.wait(self._producer.reported + 1, self._idle_timeout):
                            return False
            except KafkaException as error:
                if self._trim(index, error.args[0]):
                    return await self._produce(index)
                self._refused_by_producer(index, message, error.args[0])
                return True
        self._in_flight[index] = record
        return True

    def _trim(self, index: int, error: KafkaError | None) -> bool:
        """Replaces a message that is too large by a smaller form. Returns False if there is none."""
        if self._trimmed is None or error is None or error.code() not in TOO_LARGE:
            return False
        smaller = self._trimmed.next(self._batch[index], self._messages[index])
        if smaller is None:
            return False
        if gap := self._messages[index].headers.get(GAP_HEADER):
            smaller.headers[GAP_HEADER] = gap
        self._messages[index] = smaller
        self._in_flight.pop(index, None)
        return True

    def _refused_by_producer(self, index: int, message: KafkaMessage, error: KafkaError) -> None:
        if error.code() in REFUSALS:
            size = sum(len(value) for value in message.values if value is not None)
            self._result.reject(index, f"{error.str()}: {size} bytes; see max_message_bytes and too_large")
        elif error.code() != KafkaError._FATAL:  # A fatal error is reported by the producer's ``broken``.
            self.unusable_topics[message.topic] = error.str()

    async def _await_report(self, index: int) -> bool:
        """Returns False when the attempt has to end."""
        record = self._in_flight.get(index)
        if record is None:
            return True
        if not await self._producer.wait(self._producer.produced, self._idle_timeout):
            return False
        if record.reported and record.error is not None and record.error.code() in REFUSALS:
            # Alone in its batch, so it is the culprit.
            if self._trim(index, record.error):
                return await self._produce(index) and await self._await_report(index)
            self._result.reject(index, record.error.str())
            return True
        return record.error is None

    def _is_acknowledged(self, index: int) -> bool:
        record = self._in_flight.get(index)
        return record is not None and index not in self._unreported and record.acknowledged

    def _outcome(self, unstored: list[int], *, alone: bool) -> DeliveryOutcome:
        self._earlier.keep((self._batch[at], self._in_flight[at]) for at in self._unreported)
        refused = [] if alone else list(self._failed_with(REFUSALS))
        refused_together = refused
        if len(refused) == 1 and not self._earlier.records and self._trimmed is None:
            # A single refused record is the culprit. Of several, all but one may be fine.
            self._result.reject(refused[0], self._error_of(refused[0]))
            refused_together = []
        # The receipt adds the records behind an unstored record, stored or not: they are stored again in their order.
        receipt = self._result.receipt(self._result.sendable(unstored))
        pending = self._result.sendable(receipt.pending)
        failure = RetryLater(self._reason()) if pending and not refused else None
        return DeliveryOutcome(pending, refused_together, failure)

    def _failed_with(self, codes: Collection[int]) -> Iterator[int]:
        for index, record in self._in_flight.items():
            if index not in self._unreported and record.error is not None and record.error.code() in codes:
                yield index

    def _reason(self) -> str:
        errors = [record.error for record in self._in_flight.values() if record.reported and record.error is not None]
        # Errors of neighbours say nothing: another record has the reason.
        errors.sort(key=lambda error: error.code() in NEIGHBOURS)
        reasons = [*self.unusable_topics.values(), *(error.str() for error in errors)]
        reason = next((reason for reason in reasons if reason), self._producer.broken)
        if reason is not None:
            return reason
        timeout = f"no acknowledgement within {self._idle_timeout:g} s"
        return f"{timeout}: {self._producer.last_error}" if self._producer.last_error else timeout

    def _error_of(self, index: int) -> str:
        record = self._in_flight[index]
        return record.error.str() if record.reported and record.error is not None else ""
