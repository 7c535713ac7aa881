"""Stores the messages of a batch, or says what is left of it.

``KafkaDelivery`` is one attempt: it produces, waits for the reports, and puts each error with a record, a topic or the
brokers. A ``Sender`` decides what follows an attempt. ``BatchSender`` makes further attempts until each record is
stored or rejected, or brokers take no more now: it decides which records go, whether one by one, and what the refusals
of an attempt say about topics. ``TransactionSender`` makes one attempt, since a record that fails ends the transaction,
and ``Refusals`` finds out afterwards which record it was. ``InFlightRecords`` holds the records that stay in flight
from one ``deliver`` to the next, so that none is produced twice.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from typing import TypeAlias

from confluent_kafka import KafkaError, KafkaException, Message

from bridge.model.record import Delta, Record
from sinks.kafka.encode import KafkaMessage, TrimmedForms
from sinks.kafka.options import KafkaOptions, WhenTooLarge
from sinks.kafka.producer import InFlight, KafkaProducer, Producers, TransactionalProducer, TransactionFailed
from sinks.kafka.topics import Topics
from sinks.kafka.verdicts import NEIGHBOURS, REFUSALS, TOO_LARGE, TOPIC_ERRORS
from sinks.receipt import ALL_STORED, BatchResult, Receipt, RetryLater, SinkUnavailable

# ── Senders ──────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Brokers:
    """What knows the brokers. It outlives what a writer remembers of its records."""

    threads: Executor
    """Threads of the sink's own: a silent broker blocks calls of librdkafka, and must not use up shared threads."""
    producers: Producers
    topics: Topics
    refusals: Refusals
    """What is known of refused records, for a sink with transactions."""


class Sender(ABC):
    """Stores the messages of a batch, or says what is left. Each kind of message of a record has a sender of its own,
    because a record's messages have the same id."""

    def __init__(
        self,
        options: KafkaOptions,
        brokers: Brokers,
        encode: Callable[[Record], KafkaMessage],
        count: Count | None,
    ) -> None:
        """``encode``: makes the messages that it sends, for their smaller forms. ``count``: see Count."""
        self._options = options
        self._producers = brokers.producers
        self._topics = brokers.topics
        self._refusals = brokers.refusals
        self._trimmed: TrimmedForms | None = None
        """Smaller forms of records that are too large; None if these are rejected."""
        if options.too_large is WhenTooLarge.TRIM:
            self._trimmed = TrimmedForms(encode, includes=options.include is not None)
        self._count = count
        self.refused_together: Collection[object] = self._refusals.smaller
        """Not empty while records of an earlier batch need care: then every batch goes through ``send``. With
        transactions, what ``Refusals`` knows, which outlives this sender; else ``BatchSender`` sets ids of its own."""
        self.in_flight = InFlightRecords()

    @abstractmethod
    async def send(
        self, result: BatchResult, messages: dict[int, KafkaMessage], sent: Mapping[int, InFlight] | None = None
    ) -> Receipt:
        """``messages``: by index in the batch of ``result``. ``sent``: records that are with the producer already, by
        index."""
        ...

    def _delivery(
        self,
        producer: KafkaProducer,
        result: BatchResult,
        messages: Mapping[int, KafkaMessage],
        sent: Mapping[int, InFlight] | None,
        unusable_topics: dict[str, str],
    ) -> KafkaDelivery:
        return KafkaDelivery(
            producer,
            messages,
            result,
            unusable_topics=unusable_topics,
            in_flight=self.in_flight,
            idle_timeout=self._options.ack_timeout,
            count=self._count,
            sent=sent,
            trimmed=self._trimmed,
        )


def sender(
    options: KafkaOptions,
    brokers: Brokers,
    encode: Callable[[Record], KafkaMessage],
    count: Count | None = None,
) -> Sender:
    """See Sender."""
    kind = TransactionSender if options.exactly_once else BatchSender
    return kind(options, brokers, encode, count)


class BatchSender(Sender):
    """Remembers between two batches which records are in flight, and which were refused together because of one of
    them."""

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
            except SinkUnavailable as error:  # Records that were produced before stay in flight.
                outcome = DeliveryOutcome(now, failure=error.retry_later())
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
        unusable = {} if topics <= self._topics.usable else await self._topics.unusable(producer, topics)
        delivery = self._delivery(producer, result, messages, sent, unusable)
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
            self._producers.set_aside(next(iter(short.values())))
        refused = {topic: f"topic {topic}: {error.str()}" for topic, error in found.items()}
        away = delivery.unusable_topics | refused | short
        # Records of the batch that wait behind those of this attempt are pending, too.
        waiting = {messages[index].topic for index in outcome.pending if index in messages}
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


# ── Records in flight ────────────────────────────────────────────────────────

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


# ── One attempt ──────────────────────────────────────────────────────────────


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
        if record is not None and record.producer is not self._producer and not record.reported:
            # What this producer sends could overtake it.
            self._earlier.keep([(self._batch[index], record)])
            self.unusable_topics[message.topic] = f"topic {message.topic}: {self._silence()}"
            return True
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
        """Why the batch is not stored. A topic that takes no records is no reason for those of another, which are
        without an answer."""
        errors = [record.error for record in self._in_flight.values() if record.reported and record.error is not None]
        # Errors of neighbours say nothing: another record has the reason.
        errors.sort(key=lambda error: error.code() in NEIGHBOURS)
        topics = [] if self._unreported else self.unusable_topics.values()
        reasons = [*topics, *(error.str() for error in errors)]
        reason = next((reason for reason in reasons if reason), self._producer.broken)
        return self._silence() if reason is None else reason

    def _silence(self) -> str:
        timeout = f"no acknowledgement within {self._idle_timeout:g} s"
        return f"{timeout}: {self._producer.last_error}" if self._producer.last_error else timeout

    def _error_of(self, index: int) -> str:
        record = self._in_flight[index]
        return record.error.str() if record.reported and record.error is not None else ""


# ── In transactions ──────────────────────────────────────────────────────────

_REFUSED = "a broker refused a batch for a record in it, and so the transaction was aborted"


class TransactionSender(Sender):
    """Makes a single attempt: if a record fails, the whole transaction is aborted, and the next one has another sender.
    So nothing stays in flight."""

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
            return result.receipt(list(messages), error.retry_later())
        delivery = self._delivery(producer, result, messages, sent, {})
        outcome = await delivery.run(one_by_one=False)
        for topic in delivery.failed_topics():
            self._topics.forget(topic)
        for index in outcome.refused_together:
            self._refusals.suspects.append(Suspect(batch[index], delivery.message(index), self._trimmed))
        if not (outcome.pending or result.rejected):
            return ALL_STORED
        failure = outcome.failure or RetryLater(_REFUSED)
        return result.receipt(outcome.pending, failure if outcome.pending else None)


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
        else:
            self.smaller[smaller.topic, record_id(suspect.record)] = smaller
