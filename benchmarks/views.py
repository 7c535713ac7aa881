"""A bridge whose sinks see parts of the objects: each has a topic of its own, and a condition."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from benchmarks.contenders import Bridge, Place
from benchmarks.destinations import Destination, KafkaTopics
from benchmarks.servers import Load
from tests.cluster.servers import Kafka

PARTS = 10
THREE_PATHS = "object.metadata.name != '' && object.spec.nodeName != '' && object.status.phase != 'Failed'"
"""All pods meet it."""
_64_BITS = (1 << 64) - 1


class Tenth(KafkaTopics):
    """The pods whose names end in a digit."""

    def __init__(self, kafka: Kafka, load: Load, digit: int) -> None:
        super().__init__(kafka, load)
        self._digit = digit
        self._places = places(load.pods, digit)
        self._own, self._next = 0, next(self._places)

    def sink(self) -> dict[str, Any]:
        where = f"object.metadata.name.endsWith('{self._digit}') && object.status.phase == 'Running'"
        return super().sink() | {"select": [{"resource": "pods", "where": where}]}

    def arrived(self) -> int:
        """Records of all pods, up to the next that is for this view."""
        own = super().arrived()
        while self._own < own:
            self._own, self._next = self._own + 1, next(self._places)
        return self._next


class Conditional(KafkaTopics):
    """All pods, by a condition that reads three paths."""

    def sink(self) -> dict[str, Any]:
        return super().sink() | {"select": [{"resource": "pods", "where": THREE_PATHS}]}


class SixViews(Bridge):
    """Six Kafka sinks, each with a tenth of the pods."""

    def __init__(self) -> None:
        super().__init__(*(f"view-{digit}" for digit in range(6)))

    def destinations(self, place: Place) -> Sequence[Destination]:
        return [Tenth(place.brokers.kafka, place.server.load, digit) for digit in range(6)]


class ConditionalBridge(Bridge):
    """A single Kafka sink with a condition."""

    def __init__(self) -> None:
        super().__init__("kafka")

    def destinations(self, place: Place) -> Sequence[Destination]:
        return [Conditional(place.brokers.kafka, place.server.load)]


def places(pods: int, digit: int) -> Iterator[int]:
    """The numbers of the records, from 0, that concern a pod whose name ends in the digit: first the list, then one
    event after the other, as `load/cluster.go` spreads them."""
    yield from range(digit, pods, PARTS)
    event = 0
    while True:
        if mixed(event) % pods % PARTS == digit:
            yield pods + event
        event += 1


def mixed(seed: int) -> int:
    """SplitMix64, as `load/template.go` has it."""
    seed = (seed + 0x9E3779B97F4A7C15) & _64_BITS
    seed = ((seed ^ seed >> 30) * 0xBF58476D1CE4E5B9) & _64_BITS
    seed = ((seed ^ seed >> 27) * 0x94D049BB133111EB) & _64_BITS
    return seed ^ seed >> 31
