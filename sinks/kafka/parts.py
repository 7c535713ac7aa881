"""The parts of a Kafka sink that know the brokers."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeAlias

from sinks.kafka.client.config import ClientConfig
from sinks.kafka.client.producers import Producers
from sinks.kafka.options import KafkaOptions
from sinks.kafka.sending.delivery import Count
from sinks.kafka.sending.oversize import TrimmedForms
from sinks.kafka.sending.sender import BatchSender, Sender
from sinks.kafka.topics.topics import Topics

MakeSender: TypeAlias = Callable[[KafkaOptions, Producers, Topics, TrimmedForms | None, Count | None], Sender]


@dataclass(frozen=True, slots=True)
class Parts:
    """They outlive what a sink remembers of its records."""

    threads: ThreadPoolExecutor
    """Threads of the sink's own: a silent broker blocks calls of librdkafka, and must not use up shared threads."""
    config: ClientConfig
    producers: Producers
    topics: Topics
    sender: MakeSender = BatchSender

    @classmethod
    def of(cls, name: str, options: KafkaOptions) -> Parts:
        """Of a sink without transactions."""
        threads, config = sink_threads(name), ClientConfig(options)
        return cls(threads, config, Producers(options, config, threads), Topics(options, config, threads))


def sink_threads(name: str, most: int = 2) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(max_workers=most, thread_name_prefix=f"sink-{name}")
