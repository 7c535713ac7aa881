"""A bridge whose sinks see parts of the objects: each has a topic of its own, and a condition."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from benchmarks.contenders import Bridge, Place
from benchmarks.destinations import Destination, KafkaTopics
from benchmarks.load_records import OwnRecords
from benchmarks.servers import Load
from tests.cluster.servers import Kafka

PARTS = 10
THREE_PATHS = "object.metadata.name != '' && object.spec.nodeName != '' && object.status.phase != 'Failed'"
"""All pods meet it."""


class Tenth(KafkaTopics):
    """The pods whose names end in a digit."""

    def __init__(self, kafka: Kafka, load: Load, digit: int) -> None:
        super().__init__(kafka, load)
        self._digit = digit
        self._records = OwnRecords(load.pods, range(digit, load.pods, PARTS))

    def sink(self) -> dict[str, Any]:
        where = f"object.metadata.name.endsWith('{self._digit}') && object.status.phase == 'Running'"
        return super().sink() | {"select": [{"resource": "pods", "where": where}]}

    def arrived(self) -> int:
        """Records of all pods, up to the next that is for this view."""
        return self._records.through(super().arrived())


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
