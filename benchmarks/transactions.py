"""Kafka topics as readers of committed records see them, with and without transactions of the bridge."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from typing import Any

from confluent_kafka import Consumer, TopicPartition

from benchmarks.arrivals import latency_ms
from benchmarks.contenders import Bridge, Place
from benchmarks.destinations import PARTITIONS, Destination, KafkaTopics
from benchmarks.servers import Load
from tests.cluster.servers import Kafka


class ReadTopics(KafkaTopics):
    """Counts what a reader gets: the offsets of a topic with transactions count their control records, too."""

    def __init__(self, kafka: Kafka, load: Load, *, exactly_once: bool) -> None:
        super().__init__(kafka, load)
        self._once = {"exactly_once": True, "progress_topic": f"{self.prefix}.progress"} if exactly_once else {}
        if exactly_once:
            kafka.create_topic(f"{self.prefix}.progress", cleanup_policy="compact")
        settings = {"group.id": "reader", "enable.auto.commit": False, "isolation.level": "read_committed"}
        self._consumer = Consumer({"bootstrap.servers": kafka.bootstrap, "log_level": 0, **settings})
        self._consumer.assign([TopicPartition(topic, each, 0) for topic in self.topics for each in range(PARTITIONS)])
        self._count = 0
        self._found: list[tuple[int, bytes]] | None = None
        """When each record was read, in nanoseconds since 1970, and its value; None while nobody asks."""
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._read, name="reader", daemon=True)
        self._thread.start()

    def sink(self) -> dict[str, Any]:
        return super().sink() | self._once

    def arrived(self) -> int:
        return self._count

    def follow(self) -> None:
        self._found = []

    def latencies(self, since_ns: int) -> Sequence[float]:
        """Until a reader of committed records has it."""
        found = (latency_ms(value, arrived_ns, since_ns) for arrived_ns, value in self._found or ())
        return [each for each in found if each is not None]

    def close(self) -> None:
        self._over.set()
        self._thread.join()
        self._consumer.close()
        super().close()
        if self._once:
            self.kafka.delete_topic(f"{self.prefix}.progress")

    def _read(self) -> None:
        while not self._over.is_set():
            first = self._consumer.poll(0.1)
            messages = [] if first is None else [first, *self._consumer.consume(10_000, timeout=0)]
            now = time.time_ns()
            if self._found is not None:
                self._found += [(now, each.value() or b"") for each in messages]
            self._count += len(messages)


class ReadBridge(Bridge):
    """A single Kafka sink."""

    def __init__(self, *, exactly_once: bool) -> None:
        super().__init__("kafka")
        self._exactly_once = exactly_once

    def destinations(self, place: Place) -> Sequence[Destination]:
        return [ReadTopics(place.brokers.kafka, place.server.load, exactly_once=self._exactly_once)]
