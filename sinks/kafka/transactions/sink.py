"""A Kafka sink whose deliveries are transactions: ``ExactlyOnceKafkaSink`` begins one, has an inner Kafka sink send the
batch through a ``TransactionSender``, and stores the progress with it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from uuid import uuid4

from msgspec.structs import replace as replace_fields

from bridge.model.primitives.fetch import split_at_notices
from bridge.model.record import Record
from bridge.model.resource import Resource
from bridge.model.versions.progress import Progress
from sinks.base import SinkContext
from sinks.kafka.config import ClientConfig
from sinks.kafka.delivery import Count, InFlightRecords, KafkaDelivery, RecordId, TrimmedForms, record_id
from sinks.kafka.encode import KafkaMessage
from sinks.kafka.options import KafkaOptions
from sinks.kafka.producer import InFlight, Producers
from sinks.kafka.sink import KafkaSink, Parts, sink_threads
from sinks.kafka.state_topic import KafkaSinkWithState
from sinks.kafka.topics import Topics
from sinks.kafka.transactions.producer import (
    TransactionalProducer,
    TransactionalProducers,
    TransactionFailed,
    earlier_term,
    other_owner,
)
from sinks.kafka.transactions.progress import ProgressTopic
from sinks.kafka.transactions.refusals import Refusals, Suspect, nothing_stored
from sinks.receipt import ALL_STORED, BatchResult, Receipt, RetryLater, SinkUnavailable

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


_UNSHARDED = "0"
_ABORT_TIMEOUT = 2.0
"""Seconds."""


class ExactlyOnceKafkaSink:
    """Inside, a Kafka sink sends the records of a batch; around it, a transaction stores all of them with the progress,
    or nothing.

    **A transaction that fails** is aborted, and a new inner sink, with the memory of the last stored transaction, sends
    the batch again. If its end is unknown (a commit without an answer, a cancelled ``deliver``), a new producer takes
    the place of the old one, which ends what is open, and the progress tells whether the batch is stored.

    **A refused record** ends the transaction, too. It is found, and rejected before anything of its batch is stored: so
    it is a dead letter before the progress goes past it.

    **Another owner.** Brokers take nothing more from a producer after another one has taken its place, or when they
    timed its transaction out. If the newest progress then has another owner, deliveries end until an operator resumes
    them.
    """

    def __init__(self, name: str, options: KafkaOptions, *, cluster: str) -> None:
        self._options = options
        self._prefix = f"{cluster}/{name}/"
        # A call that outlives its ``deliver`` keeps a thread until its timeout.
        threads, config = sink_threads(name, most=4), ClientConfig(options)
        self._producers = TransactionalProducers(options, config, threads)
        self._checked = TransactionalProducers(options, config, threads, f"{self._prefix}check")
        topics = Topics(options, config, threads)
        topics.compact_only.add(options.topic_of_progress)
        topics.single, topics.unmarkable = options.topic_of_progress, set()
        self._refusals = Refusals()
        sender = partial(TransactionSender, refusals=self._refusals)
        self._parts = Parts(threads, config, self._producers, topics, sender)
        self._topic = ProgressTopic(options, config, threads)
        kind = KafkaSink if options.state_topic is None else KafkaSinkWithState
        self._make_inner = partial(kind, name, options, cluster=cluster, parts=self._parts)
        self._inner: KafkaSink | None = None
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
        self._producers.transactional_id = self._topic.key = self._prefix + shard
        await self._take_over()
        return self._committed

    async def deliver(self, batch: Sequence[Record]) -> Receipt:
        try:
            inner = self._inner
            if inner is None:
                inner = await self._take_over()
            left: Sequence[int] = range(len(batch))
            if self._stored:
                stored, self._stored = self._stored, frozenset()
                if not (left := [index for index in left if record_id(batch[index]) not in stored]):
                    return Receipt(memory=self._memory)
            receipt = Receipt(left).followed_by(await self._transact(inner, [batch[index] for index in left]))
            return replace(receipt, memory=self._memory)
        except SinkUnavailable as error:
            self._inner = None
            return Receipt(range(len(batch)), error.retry_later())
        except BaseException:  # Cancelled: whether the transaction was stored is unknown.
            self._inner = None
            raise

    async def check(self) -> str:
        """With a transactional id of its own: that of the sink would fence a running bridge."""
        try:
            return await self._checked.open()
        finally:
            await self._checked.close(0)

    async def check_destinations(self, resources: Sequence[Resource]) -> Sequence[str]:
        inner = self._make_inner()
        found = await inner.check_destinations(resources)
        return [*found, *await self._parts.topics.mistakes([self._options.topic_of_progress])]

    async def close(self) -> None:
        try:
            if self._inner is None:
                # An open transaction would hold up readers until it times out.
                await self._end_open()
            await self._producers.close(0)
        finally:
            self._parts.threads.shutdown(wait=False)

    # ── Transactions ─────────────────────────────────────────────────────────

    async def _transact(self, inner: KafkaSink, batch: Sequence[Record]) -> Receipt:
        """Raises SinkUnavailable if the end of the transaction is unknown."""
        if refused := self._refusals.take(batch):
            return nothing_stored(batch, Receipt(rejected=refused))
        producer = self._producers.transactional
        await producer.begin()
        self._inner = None
        receipt = await self._send(inner, batch)
        if receipt.pending or receipt.rejected:
            return await self._abort(producer, batch, receipt)
        number = self._number + 1
        self._unknown = batch
        memory = self._memory if receipt.memory is None else receipt.memory
        await self._store(producer, replace_fields(self._context.progress(), number=number), memory)
        await producer.commit()
        self._number, self._unknown, self._inner = number, (), inner
        self._refusals.clear()
        self._memory = memory
        return receipt

    async def _send(self, inner: KafkaSink, batch: Sequence[Record]) -> Receipt:
        """Ends with the first part that has a failure."""
        lost: list[str] = []
        changed: list[str] = []
        memory: bytes | None = None
        for where in split_at_notices(batch):
            receipt = await inner.deliver(batch[where])
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
            self._inner = await self._new_inner()
        return nothing_stored(batch, receipt)

    async def _store(self, producer: TransactionalProducer, progress: Progress, memory: bytes) -> None:
        message = self._topic.message(replace_fields(progress, owner=self._owner, term=self._term, memory=memory))
        if (error := await producer.store(message, self._options.ack_timeout)) is not None:
            raise TransactionFailed(f"topic {message.topic}: {error.str()}")

    # ── Taking over ──────────────────────────────────────────────────────────

    async def _take_over(self) -> KafkaSink:
        """Ends the transactions of earlier producers, and finds out what they stored. Raises SinkUnavailable."""
        producer, topic = await self._new_producer(), self._options.topic_of_progress
        if unusable := await self._parts.topics.unusable(producer, [topic]):
            raise SinkUnavailable(unusable[topic])
        found = await self._topic.read()
        if found is not None and found.term > max(self._term, self._in_doubt):
            self._in_doubt = found.term
            raise earlier_term(found.term, self._term)
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
        self._inner = await self._new_inner()
        return self._inner

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
        """Raises OtherOwner if another process has stored progress since. The next call does not look."""
        # Whoever stores has fenced this process first: nobody has, if the newest record is its own, committed or not.
        # So it does not wait for the transaction that it left open, which the next producer ends.
        for committed in (False, True):
            found = await self._topic.read(committed=committed)
            if found is None or found.owner == self._owner:
                return
        self._owns = False
        raise other_owner()

    async def _new_inner(self) -> KafkaSink:
        """Without what an aborted transaction left behind."""
        inner = self._make_inner()
        await inner.restore(replace(self._context, memory=self._memory))
        return inner
