"""Exactly once (option ``exactly_once``): ``KafkaTransactions`` makes each delivery of a Kafka sink a transaction,
which stores records, markers, states and progress as a whole or not at all. ``ProgressTopic`` reads and writes the
topic which has the newest progress of each sink under its transactional id.

The last record of a transaction is the progress, and only readers of committed records see it when it ends. Whoever
begins to write (``init_transactions``) ends the transactions of every earlier writer with the same transactional id,
and then reads how far that writer came. So there is no moment at which a record could be delivered by two, or by
nobody.

The destination has records and progress together, so after a crash it alone knows how far it came: the sink ends the
transactions of its predecessor, reads the progress, and moves the cursor on disk forward to it, as Kafka Connect
(KIP-618) and Materialize do. Consumers who leave out known ids are served by every sink; those who count records need
this. An outcome that is unknown is never guessed. The price: 50 to 70 ms for each transaction, readers that must ask
for committed records, and a further topic; so it is an option. ``tests/sinks/kafka/test_exactly_once.py``

A fenced sink pauses until an operator resumes it: to open again at once would fence the other bridge, which would do
the same. Brokers report a transaction that they timed out in the same words as a takeover; the owner that each progress
names tells these apart.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from msgspec.structs import replace as replace_fields

from bridge.model.progress import Progress, decode_progress, encode_progress
from bridge.model.record import Record, split_at_notices
from sinks.base import SinkContext
from sinks.kafka.config import ClientConfig
from sinks.kafka.delivery import RecordId, Refusals, record_id
from sinks.kafka.encode import KafkaMessage
from sinks.kafka.options import KafkaOptions
from sinks.kafka.producer import TransactionalProducer, TransactionalProducers, TransactionFailed
from sinks.kafka.topics import Topics
from sinks.receipt import BatchResult, Receipt, RetryLater, SinkUnavailable

if TYPE_CHECKING:
    from sinks.kafka.sink import TopicWriter

_UNSHARDED = "0"
_ABORT_TIMEOUT = 2.0
"""Seconds."""


class KafkaTransactions:
    """A writer sends the records of a batch; around it, a transaction stores all of them with the progress, or nothing.

    **A transaction that fails** is aborted, and a new writer, with the memory of the last stored transaction, sends the
    batch again. If its end is unknown (a commit without an answer, a cancelled ``deliver``), a new producer takes
    the place of the old one, which ends what is open, and the progress tells whether the batch is stored.

    **A refused record** ends the transaction, too. It is found, and rejected before anything of its batch is stored: so
    it is a dead letter before the progress goes past it.

    **Another owner.** Brokers take nothing more from a producer after another one has taken its place, or when they
    timed its transaction out. If the newest progress then has another owner, deliveries end until an operator resumes
    them.
    """

    def __init__(
        self,
        options: KafkaOptions,
        ids: str,
        producers: TransactionalProducers,
        topics: Topics,
        refusals: Refusals,
        progress: ProgressTopic,
        make_writer: Callable[[], TopicWriter],
    ) -> None:
        """``ids``: the beginning of transactional ids."""
        self._options = options
        self._ids = ids
        self._producers = producers
        self._topics = topics
        self._refusals = refusals
        self._topic = progress
        self._make_writer = make_writer
        self._writer: TopicWriter | None = None
        """None while the end of the last transaction is unknown."""
        self._owner = uuid4().hex
        self._owns = False
        self._number = 0
        """Of the last transaction that was stored."""
        self._unknown: Sequence[Record] = ()
        """The records of the transaction behind it, if its end is unknown."""
        self._stored: frozenset[RecordId] = frozenset()
        """Records of a transaction that was stored and that no Receipt has reported."""
        self._context = SinkContext()
        self._memory = b""
        """Behind the last transaction that was stored."""
        self._committed: Progress | None = None
        """What the sink found when it took the topics over."""
        self._term = 0
        """In which this replica leads; 0 without an election."""
        self._in_doubt = 0
        """The newest later term that was found. The Lease was confirmed since."""

    async def open(self, context: SinkContext) -> Progress | None:
        self._context = context
        self._memory = context.memory
        self._term = 0 if context.term is None else context.term.term
        self._in_doubt = context.in_doubt
        shard = _UNSHARDED if context.shard is None else context.shard.name
        self._producers.transactional_id = self._topic.key = self._ids + shard
        await self._take_over()
        return self._committed

    async def deliver(self, batch: Sequence[Record]) -> Receipt:
        try:
            writer = self._writer
            if writer is None:
                writer = await self._take_over()
            left: Sequence[int] = range(len(batch))
            if self._stored:
                stored, self._stored = self._stored, frozenset()
                if not (left := [index for index in left if record_id(batch[index]) not in stored]):
                    return Receipt(memory=self._memory)
            receipt = Receipt(left).followed_by(await self._transact(writer, [batch[index] for index in left]))
            return replace(receipt, memory=self._memory)
        except SinkUnavailable as error:
            self._writer = None
            return Receipt(range(len(batch)), error.retry_later())
        except BaseException:  # Cancelled: whether the transaction was stored is unknown.
            self._writer = None
            raise

    async def close(self) -> None:
        if self._writer is None:
            # An open transaction would hold up readers until it times out.
            await self._end_open()
        await self._producers.close(0)

    # ── Transactions ─────────────────────────────────────────────────────────

    async def _transact(self, writer: TopicWriter, batch: Sequence[Record]) -> Receipt:
        """Raises SinkUnavailable if the end of the transaction is unknown."""
        if refused := self._refusals.take(batch):
            return nothing_stored(batch, Receipt(rejected=refused))
        producer = self._producers.transactional
        await producer.begin()
        self._writer = None
        receipt = await self._send(writer, batch)
        if receipt.pending or receipt.rejected:
            return await self._abort(producer, batch, receipt)
        number = self._number + 1
        self._unknown = batch
        memory = self._memory if receipt.memory is None else receipt.memory
        await self._store(producer, replace_fields(self._context.progress(), number=number), memory)
        await producer.commit()
        self._number, self._unknown, self._writer = number, (), writer
        self._refusals.clear()
        self._memory = memory
        return receipt

    async def _send(self, writer: TopicWriter, batch: Sequence[Record]) -> Receipt:
        """Ends with the first part that has a failure."""
        lost: list[str] = []
        changed: list[str] = []
        memory: bytes | None = None
        for where in split_at_notices(batch):
            receipt = await writer.deliver(batch[where])
            lost.append(receipt.lost)
            changed.append(receipt.changed)
            memory = memory if receipt.memory is None else receipt.memory
            if receipt.pending or receipt.rejected:
                return Receipt(range(where.start, where.stop)).followed_by(receipt)
        return Receipt(lost="; ".join(filter(None, lost)), changed="; ".join(filter(None, changed)), memory=memory)

    async def _abort(self, producer: TransactionalProducer, batch: Sequence[Record], receipt: Receipt) -> Receipt:
        await producer.abort()
        if self._refusals.suspects:
            if not await self._refusals.find(self._new_producer, self._options.ack_timeout):
                self._producers.halve_batches()
            return await self._transact(await self._take_over(), batch)
        # A message without an acknowledgement may be in the log. librdkafka gives its number to the next message of the
        # partition, which the broker then takes for the same one and leaves out. A new producer has another epoch.
        if receipt.failure is None:
            self._writer = await self._new_writer()
        return nothing_stored(batch, receipt)

    async def _store(self, producer: TransactionalProducer, progress: Progress, memory: bytes) -> None:
        message = self._topic.message(replace_fields(progress, owner=self._owner, term=self._term, memory=memory))
        if (error := await producer.store(message, self._options.ack_timeout)) is not None:
            raise TransactionFailed(f"topic {message.topic}: {error.str()}")

    # ── Taking over ──────────────────────────────────────────────────────────

    async def _take_over(self) -> TopicWriter:
        """Ends the transactions of earlier producers, and finds out what they stored. Raises SinkUnavailable."""
        producer, topic = await self._new_producer(), self._options.topic_of_progress
        if unusable := await self._topics.unusable(producer, [topic]):
            raise SinkUnavailable(unusable[topic])
        found = await self._topic.read()
        if found is not None and found.term > max(self._term, self._in_doubt):
            self._in_doubt = found.term
            raise SinkUnavailable(
                f"the leader of term {found.term} has taken the topics over, and this replica led in term {self._term}",
                fenced=True,
                in_doubt=found.term,
            )
        if found is None or found.owner != self._owner:
            # The memory is about the destination, so that of the last transaction counts, whoever stored it.
            self._committed, self._number = found, 0
            self._memory = self._memory if found is None else found.memory
            await producer.begin()
            await self._store(producer, replace_fields(found or Progress(), number=0), self._memory)
            await producer.commit()
            self._owns = True
        elif found.number > self._number:
            self._number, self._memory = found.number, found.memory
            self._stored = frozenset(map(record_id, self._unknown))
        self._unknown = ()
        self._writer = await self._new_writer()
        return self._writer

    async def _new_producer(self) -> TransactionalProducer:
        # librdkafka ends the process (an assertion about txn_req_cnt) where a producer is closed in the moment in which
        # it adds the first partitions to a transaction.
        await self._end_open()
        await self._producers.close(0)
        if self._owns:
            await self._look()
        await self._producers.open()
        return self._producers.transactional

    async def _end_open(self) -> None:
        """Of this sink's producer; as far as brokers answer."""
        with suppress(SinkUnavailable, TimeoutError):
            async with asyncio.timeout(_ABORT_TIMEOUT):
                await self._producers.transactional.abort(_ABORT_TIMEOUT)

    async def _look(self) -> None:
        """Raises SinkUnavailable if another process has stored progress since. The next call does not look."""
        # Whoever stores has fenced this process first: nobody has, if the newest record is its own, committed or not.
        # So it does not wait for the transaction that it left open, which the next producer ends.
        for committed in (False, True):
            found = await self._topic.read(committed=committed)
            if found is None or found.owner == self._owner:
                return
        self._owns = False
        raise SinkUnavailable(
            "another process uses the same transactional id, and has taken the topics over: a bridge with the same"
            " names of cluster and sink; end one of them, then resume the sink here",
            fenced=True,
        )

    async def _new_writer(self) -> TopicWriter:
        """Without what an aborted transaction left behind."""
        writer = self._make_writer()
        await writer.restore(replace(self._context, memory=self._memory))
        return writer


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


# ── The topic of progress ────────────────────────────────────────────────────

_LOOK_BACK = 1000
"""Records in which the newest progress is sought first. Then ten times as many, and so on."""
_BATCH = 1000
_WAIT = 0.05


class ProgressTopic:
    """Blocking calls run in ``threads``."""

    def __init__(self, options: KafkaOptions, config: ClientConfig, threads: Executor) -> None:
        self._options = options
        self._config = config
        self._threads = threads
        self.key = ""
        """The transactional id, which is known when the sink is opened."""
        self._partition = (options.topic_of_progress, 0)
        self._last_error = ""

    def message(self, progress: Progress) -> KafkaMessage:
        topic, partition = self._partition
        return KafkaMessage(topic, self.key, (encode_progress(progress),), {}, partition)

    async def read(self, *, committed: bool = True) -> Progress | None:
        """The newest progress under the key; None if there is none. If ``committed``, waits for open transactions in
        front of the topic's end; otherwise also reads what they and aborted ones have. Raises SinkUnavailable."""
        loop = asyncio.get_running_loop()
        try:
            found = await loop.run_in_executor(self._threads, self._read, committed)
        except KafkaException as error:
            reason = self._last_error or (error.args[0].str() if error.args else "no answer")
            raise SinkUnavailable(f"cannot read the progress in topic {self._partition[0]}: {reason}") from error
        if found is None:
            return None
        try:
            return decode_progress(found)
        except ValueError as error:
            raise SinkUnavailable(
                f"topic {self._partition[0]} has a progress under {self.key} that cannot be read ({error}): run the"
                " kubedelta that wrote it, or set another progress_topic, and records may be delivered again"
            ) from error

    def _read(self, committed: bool) -> bytes | None:
        """The newest value under the key."""
        found: bytes | None = None
        with self._consumer(committed) as consumer:
            low, end = self._offsets(consumer)
            end = self._settled_end(consumer) if committed else end
            for start in _starts(low, end):
                for message in self._between(consumer, start, end):
                    key, value = bytes(message.key() or b"").decode(errors="replace"), message.value()
                    if value is not None and key == self.key:
                        found = bytes(value)
                if found is not None:
                    break
        return found

    @contextmanager
    def _consumer(self, committed: bool) -> Iterator[Consumer]:
        level = "read_committed" if committed else "read_uncommitted"
        # An end is reported with an answer to a fetch, which by default waits half a second for records.
        special = {"isolation.level": level, "fetch.wait.max.ms": 10, "error_cb": self._on_error}
        consumer = Consumer(self._config.reader("progress") | special)
        try:
            yield consumer
        finally:
            consumer.close()

    def _settled_end(self, consumer: Consumer) -> int:
        """The present end of the partition, once no open transaction stands in front of it."""
        with self._consumer(committed=False) as of_all:
            _, end = self._offsets(of_all)
        until = time.monotonic() + self._options.connect_timeout
        while self._offsets(consumer)[1] < end:
            if time.monotonic() > until:
                raise SinkUnavailable(
                    f"an open transaction of another producer hides the end of topic {self._partition[0]}: it ends"
                    " after its transaction.timeout.ms; kafka-transactions.sh find-hanging finds one that does not end"
                )
            time.sleep(_WAIT)
        return end

    def _offsets(self, consumer: Consumer) -> tuple[int, int]:
        """The first one, and the end at the consumer's isolation level. A consumer asks for them, because librdkafka's
        AdminClient takes three seconds now and then: it misses the first metadata, and waits before it asks again."""
        return consumer.get_watermark_offsets(self._at(0), timeout=self._options.connect_timeout)

    def _between(self, consumer: Any, start: int, end: int) -> Iterator[Any]:
        """The records from an offset to the end. Raises SinkUnavailable when none comes for a while."""
        consumer.assign([self._at(start)])
        until = time.monotonic() + self._options.connect_timeout
        while time.monotonic() < until:
            for message in consumer.consume(_BATCH, timeout=_WAIT):
                error = message.error()
                if error is None:
                    until = time.monotonic() + self._options.connect_timeout
                    if message.offset() < end:
                        yield message
                elif error.code() != KafkaError._PARTITION_EOF:
                    raise KafkaException(error)
                if (message.offset() or 0) >= end - (error is None):
                    return
        reason = self._last_error or "no answer"
        raise SinkUnavailable(f"cannot read the progress in topic {self._partition[0]}: {reason}")

    def _at(self, offset: int) -> TopicPartition:
        return TopicPartition(*self._partition, offset)

    def _on_error(self, error: KafkaError) -> None:
        self._last_error = error.str()


def _starts(low: int, end: int) -> Iterator[int]:
    """Offsets from which to read to the end, each further back than the one before; none for an empty partition."""
    back = _LOOK_BACK
    while low < end:
        start = max(low, end - back)
        yield start
        if start == low:
            return
        back *= 10
