"""State topics: beside the history, a compacted topic has the newest record of each object, and a
record without a value after a delete.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence

import msgspec

from bridge.model.change import Op
from bridge.model.record import Delta, Record
from bridge.model.resource import Resource
from sinks.kafka.delivery import Brokers, sender
from sinks.kafka.encode import KafkaMessage, checked_topic, topic_part
from sinks.kafka.options import KafkaOptions, RecordKey
from sinks.receipt import BatchResult, Receipt
from sinks.template import Template


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
