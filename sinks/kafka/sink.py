"""The Kafka sink: ``KafkaSink`` connects, checks and closes. A ``TopicWriter`` encodes its batches, hands them to the
present producer, and waits until all in-sync replicas have them. With ``exactly_once`` each batch is a transaction, and
behind one that is aborted there is another writer: what this one remembers is worth nothing then. A ``StateTopic``
keeps the newest record of each object beside the history: a compacted topic, with a record without a value after a
delete.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Hashable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from functools import partial
from time import monotonic
from typing import Any

import msgspec

from bridge.model.change import Op
from bridge.model.progress import Progress
from bridge.model.record import Delta, Notice, Record
from bridge.model.resource import Resource
from sinks.base import SinkContext
from sinks.gaps import gap_before
from sinks.kafka.config import ClientConfig
from sinks.kafka.delivery import Brokers, Refusals, sender
from sinks.kafka.encode import KafkaEncoder, KafkaMessage, checked_topic, topic_part
from sinks.kafka.exactly_once import KafkaTransactions, ProgressTopic
from sinks.kafka.notices import NoticeMarkers
from sinks.kafka.options import KafkaOptions, RecordKey
from sinks.kafka.producer import InFlight, Producers, TransactionalProducers
from sinks.kafka.topic_watch import TopicWatch
from sinks.kafka.topics import TopicNames, Topics
from sinks.receipt import ALL_STORED, WITHHELD, BatchResult, NotLeading, Receipt, RetryLater, SinkUnavailable
from sinks.state import StateBesideHistory
from sinks.template import Template

_CLOSE_TIMEOUT = 3.0
"""Seconds that ``close`` waits for delivery reports. Shorter than the time between the moment when a leader loses its
Lease and the moment when another replica may take it: 5 s by default."""


class KafkaSink:
    """See Sink. How a record is stored: see TopicWriter, and KafkaTransactions."""

    def __init__(self, name: str, options: KafkaOptions, *, cluster: str) -> None:
        self._options = options
        # A call that outlives its transaction keeps a thread until its timeout.
        workers = 4 if options.exactly_once else 2
        self._threads = threads = ThreadPoolExecutor(max_workers=workers, thread_name_prefix=f"sink-{name}")
        config = ClientConfig(options)
        self._topics = topics = Topics(options, config, threads)
        refusals = Refusals()
        make_writer = partial(TopicWriter if options.state_topic is None else TopicWriterWithState, options, cluster)
        self._transactions: KafkaTransactions | None = None
        self._producers: Producers
        self._checked: Producers
        """Those of ``check``. With a transactional id of their own: that of the sink would fence a running bridge."""
        if options.exactly_once:
            ids = f"{cluster}/{name}/"
            self._producers = producers = TransactionalProducers(options, config, threads)
            self._checked = TransactionalProducers(options, config, threads, f"{ids}check")
            brokers = Brokers(threads, producers, topics, refusals)
            progress = ProgressTopic(options, config, threads)
            self._transactions = KafkaTransactions(
                options, ids, producers, topics, refusals, progress, partial(make_writer, brokers)
            )
        else:
            self._producers = self._checked = Producers(options, config, threads)
            brokers = Brokers(threads, self._producers, topics, refusals)
        self._writer = make_writer(brokers)
        self.deliver: Callable[[Sequence[Record]], Coroutine[Any, Any, Receipt]]
        """See Sink. The one that delivers: a batch takes no further step on its way."""
        self.deliver = self._writer.deliver if self._transactions is None else self._transactions.deliver

    async def open(self, context: SinkContext) -> Progress | None:
        if self._transactions is not None:
            return await self._transactions.open(context)
        await self._producers.open(context.may_send)
        await self._writer.restore(context)
        return None

    async def check(self) -> str:
        try:
            return await self._checked.open()
        finally:
            await self._checked.close(0)

    async def check_destinations(self, resources: Sequence[Resource]) -> Sequence[str]:
        found = await self._writer.check_destinations(resources)
        if self._transactions is None:
            return found
        return [*found, *await self._topics.mistakes([self._options.topic_of_progress])]

    async def close(self) -> None:
        try:
            if self._transactions is not None:
                await self._transactions.close()
            else:
                await self._producers.close(_CLOSE_TIMEOUT)
        finally:
            # Not waited for: a call of librdkafka to a silent broker may still block there.
            self._threads.shutdown(wait=False)


# ── Batches ──────────────────────────────────────────────────────────────────


class TopicWriter:
    """A record is stored when its delivery report says so: acks=all, by an idempotent producer that never times out.

    **A broker that is down.** After ``ack_timeout`` without a delivery report ``deliver`` reports a failure, but the
    records stay in flight: the producer keeps trying. When the bridge delivers such a record again, the sink finds it
    by sequence number and id and waits for its report, instead of producing it twice. So an outage causes no duplicates
    and keeps the order. The same holds after a ``deliver`` that was cancelled.

    **A record that a broker refuses.** Brokers refuse a whole batch because of one record that is too large for its
    topic. The producer then stops before any later record is stored (``enable.gapless.guarantee``), and the sink waits
    for the answers to other batches, so that no record is sent twice. The first batch of a producer in a partition is
    an exception: a broker that knows nothing of the producer there stores the batches behind it, and these records are
    stored again in their order. Another producer without that guarantee sends the records of the refused batch one by
    one; a record that is refused alone is the culprit and is rejected.

    **A gap, and the end of a snapshot**, are stored in their own topic, and as markers in every partition of the topics
    that they are about, in front of the records behind them (``notices``). Where markers are impossible, in compacted
    topics and among envelopes for instance, every later record names the newest gap in its headers (``memory``).

    **A producer that broke** is replaced. Records that it had sent, and that no broker answered for seconds, are sent
    again: such a record may be stored twice, with equal ids. Where a topic is short of replicas, its producer is set
    aside to wait for these answers, and another one takes the records of other topics at once.
    """

    def __init__(self, options: KafkaOptions, cluster: str, brokers: Brokers) -> None:
        self._options = options
        events = options.events(cluster)
        self._encoder = KafkaEncoder(events, options, cluster)
        self._producers = brokers.producers
        self._topics = brokers.topics
        self._notices = NoticeMarkers(
            TopicNames(options.topic, cluster, self._encoder.topic),
            events,
            self._topics,
            partial(self._producers.current, gapless=True),
            marked=options.format.has_notices,
            idle_timeout=options.ack_timeout,
        )
        self._watch = TopicWatch(options, self._topics, brokers.threads)
        self._context = SinkContext()
        self._memory = b""
        """As the bridge has it."""
        self._sender = sender(options, brokers, self._encoder.encode, self._count)

    async def restore(self, context: SinkContext) -> None:
        """Goes on with the memory. The brokers can be reached."""
        self._context = context
        self._memory = context.memory
        self._notices.restore(context.memory)
        await self._watch.open(self._notices.memory)

    async def deliver(self, batch: Sequence[Record]) -> Receipt:
        """The hot path: a batch of which every message can be sent at once, to topics that exist. ``_deliver`` goes on
        wherever that fails."""
        if self._watch.at <= monotonic():
            self._watch.turn()
            return self._remembered(await TopicWriter.deliver(self, batch))
        if self._watch.has_changes:
            return await self._deliver_behind_changes(batch)
        if not isinstance(batch[0], Delta) or batch[0].snapshot is not None:
            return await self._deliver_and_remember(batch)
        producer = self._producers.present
        if producer is None or producer.fatal is not None or not producer.gapless:
            return await self._deliver(batch)
        if self._sender.refused_together or self._sender.in_flight.records:
            return await self._deliver(batch)
        try:
            messages = [self._encoder.encode(record) for record in batch]
        except Exception:  # Of one record: the others are sent.
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
            self._sender.in_flight.keep(zip(batch, sent, strict=True))
            raise
        if len(sent) == len(messages) and not any(each.unreported or each.error is not None for each in sent):
            return ALL_STORED
        return await self._deliver(batch, dict(enumerate(sent)))

    async def check_destinations(self, resources: Sequence[Resource]) -> Sequence[str]:
        return await self._topics.mistakes(self._encoder.topics_for(resources))

    async def _deliver_behind_changes(self, batch: Sequence[Record]) -> Receipt:
        """Reports changes of topics, and puts a Gap in front of the batch for a topic that was created again."""
        reason = ""
        if topics := self._watch.changes.created_again:
            reason = f"created again, and so empty: {', '.join(topics)}"
            watched = self._context.watched()
            if watched is None:
                waits = f"{reason}; discovery has not said yet which resources are concerned"
                return Receipt(pending=range(len(batch)), failure=RetryLater(waits))
            if concerns := self._notices.names.concerns_of(topics, watched):
                receipt = await self._deliver_notice(gap_before(batch, reason, concerns))
                if receipt.pending:
                    return Receipt(pending=range(len(batch)), failure=receipt.failure)
        changed = self._watch.settle()
        receipt = replace(await TopicWriter.deliver(self, batch), lost=reason, changed=changed)
        return self._remembered(receipt)

    async def _came_back(self, messages: Iterable[KafkaMessage]) -> bool:
        """Whether a topic of these messages that had been missing was created again. Creates it if the options say so:
        the Gap must be in front of the first record."""
        if not (topics := self._topics.forgotten & {message.topic for message in messages}):
            return False
        with suppress(SinkUnavailable):
            await self._topics.unusable(await self._producers.current(gapless=True), topics)
            await self._watch.look(topics & self._notices.memory.topics.keys())
        return self._watch.has_changes

    async def _deliver_and_remember(self, batch: Sequence[Record]) -> Receipt:
        """A notice, or records of a snapshot: both change the memory."""
        if isinstance(batch[0], Delta):
            receipt = await self._deliver(batch)
        else:
            receipt = await self._deliver_notice(batch[0])
        return self._remembered(receipt)

    def _remembered(self, receipt: Receipt) -> Receipt:
        """The receipt of a ``deliver`` that may have changed the memory. Its bytes are the same object until then."""
        memory = self._notices.memory.saved()
        if memory != self._memory:
            self._memory = memory
        return replace(receipt, memory=self._memory)

    async def _deliver(self, batch: Sequence[Record], sent: Mapping[int, InFlight] | None = None) -> Receipt:
        """``sent``: records that are with the producer already, by index."""
        result = BatchResult(batch)
        messages = result.encode(self._encoder.encode)
        if self._topics.forgotten and isinstance(batch[0], Delta) and await self._came_back(messages.values()):
            return await self._deliver_behind_changes(batch)
        if self._notices.memory.newest_gap:
            await self._notices.name_gap(messages.values())
        return await self._sender.send(result, messages, sent)

    def _count(self, snapshot: str, topic: str, partition: int) -> None:
        self._notices.memory.count(snapshot, topic, partition)

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
        try:
            reason = await self._notices.send(notice, delivery, self._context.watched())
        except NotLeading:
            return Receipt(pending=[0], failure=WITHHELD)
        return Receipt(pending=[0], failure=RetryLater(reason)) if reason else receipt


class TopicWriterWithState(TopicWriter):
    """Both go through the same producer."""

    def __init__(self, options: KafkaOptions, cluster: str, brokers: Brokers) -> None:
        super().__init__(options, cluster, brokers)
        self._state = StateTopic(options, cluster, self._encoder.encode, brokers)
        self._both = StateBesideHistory(super().deliver, self._state.deliver, self._state.key)

    async def deliver(self, batch: Sequence[Record]) -> Receipt:
        return await self._both.deliver(batch)

    async def check_destinations(self, resources: Sequence[Resource]) -> Sequence[str]:
        states = self._state.names(resources)
        self._topics.compact_only |= set(states)
        return await self._topics.mistakes([*self._encoder.topics_for(resources), *states])


# ── State topics ─────────────────────────────────────────────────────────────


class StateTopic:
    """Key and form are those of the history. A compacted topic keeps the last record of each key, and forgets a key
    some time after a record without a value (``delete.retention.ms``)."""

    def __init__(
        self,
        options: KafkaOptions,
        cluster: str,
        encode: Callable[[Record], KafkaMessage],
        brokers: Brokers,
    ) -> None:
        """``encode``: a record as a message of the history."""
        self._encode_history = encode
        self._template = Template(options.state_topic or "", cluster, topic_part)
        self._by_uid = options.key is RecordKey.UID
        self._topics = brokers.topics
        self._sender = sender(options, brokers, self._encode)

    def key(self, delta: Delta) -> Hashable:
        """Equal for two records of which the topic keeps one."""
        return (delta.ordering_key, delta.uid) if self._by_uid else delta.ordering_key

    def names(self, resources: Iterable[Resource]) -> list[str]:
        """The topics for objects of these resources; none if they depend on the objects."""
        return self._template.names(resources)[:-1]

    async def deliver(self, batch: Sequence[Record]) -> Receipt:
        """Each record is the newest of its key."""
        result = BatchResult(batch)
        messages = result.encode(self._encode)
        self._topics.compact_only |= {message.topic for message in messages.values()}
        return await self._sender.send(result, messages)

    def _encode(self, record: Record) -> KafkaMessage:
        """Raises ValueError as the encoder of the history does, and when the topic's name would be too long."""
        message = self._encode_history(record)
        deleted = isinstance(record, Delta) and record.op is Op.DELETED
        topic = checked_topic(self._template.render(record))
        return msgspec.structs.replace(message, topic=topic, values=(None,) if deleted else message.values[:1])
