"""A Kafka sink with state topics: beside the history, a compacted topic has the newest record of each object, and a
record without a value after a delete.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence

import msgspec

from bridge.model.change import Op
from bridge.model.record import Delta, Record
from bridge.model.resource import Resource
from sinks.kafka.delivery import TrimmedForms
from sinks.kafka.encode import KafkaMessage, checked_topic, topic_part
from sinks.kafka.options import KafkaOptions, RecordKey, WhenTooLarge
from sinks.kafka.sink import KafkaSink, Parts
from sinks.receipt import BatchResult, Receipt
from sinks.state import StateBesideHistory
from sinks.template import Template


class StateTopic:
    """Key and form are those of the history. A compacted topic keeps the last record of each key, and forgets a key
    some time after a record without a value (``delete.retention.ms``)."""

    def __init__(
        self,
        options: KafkaOptions,
        cluster: str,
        encode: Callable[[Record], KafkaMessage],
        parts: Parts,
    ) -> None:
        """``encode``: a record as a message of the history."""
        self._encode_history = encode
        self._template = Template(options.state_topic or "", cluster, topic_part)
        self._by_uid = options.key is RecordKey.UID
        self._topics = parts.topics
        trimmed = None
        if options.too_large is WhenTooLarge.TRIM:
            trimmed = TrimmedForms(self._encode, includes=options.include is not None)
        self._sender = parts.sender(options, parts.producers, parts.topics, trimmed, None)

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


class KafkaSinkWithState(KafkaSink):
    """Both go through the same producer."""

    def __init__(self, name: str, options: KafkaOptions, *, cluster: str, parts: Parts | None = None) -> None:
        super().__init__(name, options, cluster=cluster, parts=parts)
        self._state = StateTopic(options, cluster, self._encoder.encode, self._parts)
        self._both = StateBesideHistory(super().deliver, self._state.deliver, self._state.key)

    async def deliver(self, batch: Sequence[Record]) -> Receipt:
        return await self._both.deliver(batch)

    async def check_destinations(self, resources: Sequence[Resource]) -> Sequence[str]:
        states = self._state.names(resources)
        self._topics.compact_only |= set(states)
        return await self._topics.mistakes([*self._encoder.topics_for(resources), *states])
