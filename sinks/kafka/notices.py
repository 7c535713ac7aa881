"""Notices (gaps, edges of a snapshot) as markers in the partitions that they are about.

A gap in a topic of its own would have no order relative to any object, so each partition with missing records has a
marker. A marker has no key, since a record with a key is a row to every reader of tables; so a compacted topic refuses
markers. There, among envelopes, and beyond 1,000 partitions, a header on every later record has the same information.

The contents of a dropped backlog are read at the drop, by resource and namespace, and beyond 1,000 pairs by resource.
Those of a rebuilt database are unknown, so its gap waits until discovery has answered with the watched resources.
Objects of a snapshot are counted by acknowledgement, and each partition learns how many records the whole snapshot
lacks: expected objects per partition would need the partitioner, and parked records never reach the sink. The price: a
rejected object makes the part of every partition incomplete.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from functools import partial
from typing import TypeAlias

from confluent_kafka import KafkaError, KafkaException

from bridge.model.formats.cloudevent import GAP_HEADER, CloudEvents
from bridge.model.record import Gap, Notice, Snapshot, SnapshotEdge
from bridge.model.resource import Resource
from sinks.kafka.encode import KafkaMessage, MarkerEncoder
from sinks.kafka.memory import KafkaMemory
from sinks.kafka.producer import InFlight, KafkaProducer
from sinks.kafka.topics import MarkedTopics, TopicNames, Topics, within_bound
from sinks.receipt import NotLeading, SinkUnavailable

Partition: TypeAlias = tuple[str, int]
"""A topic and the number of a partition."""

_NEEDS_A_KEY = KafkaError.INVALID_RECORD
"""A compacted topic refuses a record without a key with this error."""
_NO_MARKERS = {
    KafkaError.MSG_SIZE_TOO_LARGE,
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError._UNKNOWN_TOPIC,
    KafkaError._UNKNOWN_PARTITION,
}
"""With these errors a topic gets no markers; after any other error the marker is sent again."""


class MarkerDelivery:
    """The markers of a notice. ``send`` may be called repeatedly, with a new producer each time: a stored marker is
    not sent again in the same run. After a crash all markers are sent again, with the same ids."""

    def __init__(self, notice: str) -> None:
        self.notice = notice
        """The id of the notice."""
        self.is_noticed = False
        """The notice itself is stored in its own topic, or is a dead letter."""
        self.refused: dict[str, bool] = {}
        """Topics that take no markers → whether because the topic is compacted."""
        self._in_flight: dict[Partition, InFlight] = {}

    async def send(
        self,
        markers: Mapping[Partition, KafkaMessage],
        producer: Callable[[], Awaitable[KafkaProducer]],
        idle_timeout: float,
    ) -> str:
        """Returns why some markers are not stored; empty when all are. Raises SinkUnavailable if ``producer`` does."""
        while left := [partition for partition in markers if self._is_left(partition)]:
            current = await producer()
            if reason := await self._send(current, {partition: markers[partition] for partition in left}, idle_timeout):
                return reason
            for partition in left:
                # A refusal makes the markers behind it fail too, each with an error of its own.
                error = self._error(partition)
                if error is not None and (error.code() == _NEEDS_A_KEY or error.code() in _NO_MARKERS):
                    self.refused[partition[0]] = error.code() == _NEEDS_A_KEY
            again = [partition for partition in left if self._is_left(partition)]
            # No marker was stored in this round, so that another round at once would not help either.
            if again and again == left:
                errors = (error.str() for error in map(self._error, again) if error is not None)
                return next(errors, current.last_error)
        return ""

    def _is_left(self, partition: Partition) -> bool:
        if partition[0] in self.refused:
            return False
        record = self._in_flight.get(partition)
        return record is None or not record.acknowledged

    def _error(self, partition: Partition) -> KafkaError | None:
        record = self._in_flight.get(partition)
        return None if record is None or not record.reported else record.error

    async def _send(
        self, producer: KafkaProducer, markers: Mapping[Partition, KafkaMessage], idle_timeout: float
    ) -> str:
        for partition, marker in markers.items():
            earlier = self._in_flight.get(partition)
            # In this order: the report may come between the two looks.
            if earlier is not None and (not earlier.reported or earlier.acknowledged):
                continue
            record = InFlight(producer, 1)
            try:
                while not producer.produce(record, marker, marker.values[0]):
                    if not await producer.wait(producer.reported + 1, idle_timeout):
                        return f"no acknowledgement within {idle_timeout:g} s: {producer.last_error}"
            except KafkaException as error:
                if error.args[0].code() not in _NO_MARKERS:
                    return str(error.args[0].str())
                self.refused[marker.topic] = False
            else:
                self._in_flight[partition] = record
        if not await producer.wait(producer.produced, idle_timeout):
            return f"no acknowledgement within {idle_timeout:g} s: {producer.last_error}"
        return ""


class NoticeMarkers:
    """Decides which partitions get a marker of a notice, sends the markers, and keeps the sink's memory.

    A gap belongs into every partition of the topics that it is about, between the records before and behind it. The end
    of a snapshot, or its cancellation, belongs into every partition with a record of the snapshot. Compacted topics and
    formats whose readers expect objects alone (not ``marked``) get no markers: their records name the newest gap
    instead.
    """

    def __init__(
        self,
        names: TopicNames,
        events: CloudEvents,
        topics: Topics,
        producer: Callable[[], Awaitable[KafkaProducer]],
        *,
        marked: bool,
        idle_timeout: float,
    ) -> None:
        self.memory = KafkaMemory()
        self.names = names
        self._events = events
        self._markers = MarkerEncoder(events)
        self._topics = topics
        self._producer = producer
        self._marked = marked
        self._idle_timeout = idle_timeout
        self._current: MarkerDelivery | None = None

    def restore(self, saved: bytes) -> None:
        self.memory = KafkaMemory.read(saved)
        self._events.note_gap(self.memory.newest_gap)

    async def name_gap(self, messages: Collection[KafkaMessage]) -> None:
        """Adds a header: the newest gap in topics without markers, elsewhere the newest gap that lacks a marker. In
        formats that have no markers anywhere, the encoder names the gap."""
        if not self._marked:
            return
        newest, unmarked = self.memory.newest_gap.encode(), self.memory.unmarked_gap.encode()
        without_markers: Collection[str] = ()
        if newest != unmarked:
            compacted = await self._topics.compacted(message.topic for message in messages)
            without_markers = {topic for topic, is_compacted in compacted.items() if is_compacted is not False}
        for message in messages:
            if gap := newest if message.topic in without_markers else unmarked:
                message.headers[GAP_HEADER] = gap

    def begin(self, notice: Notice) -> MarkerDelivery:
        """Returns the delivery that an earlier attempt at this notice began, or a new delivery."""
        if self._current is None or self._current.notice != notice.id:
            self._current = MarkerDelivery(notice.id)
        return self._current

    async def send(self, notice: Notice, delivery: MarkerDelivery, watched: Sequence[Resource] | None) -> str:
        """Returns why some markers are not stored; empty when the notice is done and the memory has it. Raises
        NotLeading."""
        if not (isinstance(notice, Snapshot) and notice.edge is SnapshotEdge.BEGAN):
            complete = False
            if self._marked:
                if watched is None and isinstance(notice, Gap) and not notice.only:
                    return "a gap is marked in topics of watched resources, and discovery has not named them yet"
                try:
                    complete, reason = await self._mark(notice, delivery, watched or ())
                except NotLeading:
                    raise
                except SinkUnavailable as error:
                    return str(error)
                if reason:
                    return reason
            self._remember(notice, marked=complete)
        self._current = None
        return ""

    async def _mark(self, notice: Notice, delivery: MarkerDelivery, watched: Sequence[Resource]) -> tuple[bool, str]:
        """Returns whether every partition where the notice belongs has its marker, and why some markers are still to be
        sent. Raises SinkUnavailable."""
        partition_counts = await self._topics.partition_counts(await self._producer())
        marked, encode = self._markers_of(notice, watched, partition_counts)
        # Unknown policies (None) count as not compacted: the answer to the first marker shows the policy.
        compacted = await self._topics.compacted(marked.names)
        unmarkable = self._topics.unmarkable
        topics = [topic for topic in marked.names if not compacted[topic] and topic not in (unmarkable or ())]
        partitions = [(topic, number) for topic in topics for number in range(partition_counts.get(topic, 0))]
        markers = {partition: encode(*partition) for partition in partitions}
        reason = await delivery.send(markers, self._producer, self._idle_timeout)
        for topic in topics if not reason else delivery.refused:
            if delivery.refused.get(topic, True):
                # The broker has shown by its answer how the topic is kept, where asking is not permitted.
                self._topics.set_compacted(topic, topic in delivery.refused)
            elif unmarkable is not None:
                unmarkable.add(topic)
        complete = marked.complete and not (unmarkable and unmarkable.intersection(marked.names))
        return complete and all(delivery.refused.values()), reason

    def _markers_of(
        self, notice: Notice, watched: Sequence[Resource], partition_counts: Mapping[str, int]
    ) -> tuple[MarkedTopics, Callable[[str, int], KafkaMessage]]:
        """The topics that get markers, and the encoder of the marker for a partition."""
        if isinstance(notice, Gap):
            topics = self.names.topics_of_gap(notice, watched, partition_counts)
            return topics, partial(self._markers.gap, notice)
        counts = self.memory.counts_of(notice.snapshot)
        found = Counter({(topic, part): n for topic, parts in (counts or {}).items() for part, n in parts.items()})
        dead_letters = max(0, notice.count - found.total())

        def ended(topic: str, partition: int) -> KafkaMessage:
            return self._markers.ended(notice, topic, partition, found[topic, partition], dead_letters)

        return within_bound(counts or (), partition_counts, complete=counts is not None), ended

    def _remember(self, notice: Notice, *, marked: bool) -> None:
        if isinstance(notice, Gap):
            self.memory.add_gap(notice.id, marked=marked)
            self._events.note_gap(self.memory.newest_gap)
        else:
            self.memory.end_snapshot()
