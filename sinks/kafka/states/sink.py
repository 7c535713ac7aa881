"""A Kafka sink with state topics."""

from __future__ import annotations

from collections.abc import Sequence

from bridge.model.record import Record
from bridge.model.resource import Resource
from sinks.kafka.options import KafkaOptions
from sinks.kafka.parts import Parts
from sinks.kafka.sink import KafkaSink
from sinks.kafka.states.topic import StateTopic
from sinks.receipt import Receipt
from sinks.state import StateBesideHistory


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
