"""Deltas as records of Kafka topics."""

from collections.abc import Sequence

from bridge.model.versions.stored_version import SinkReader
from sinks.base import Sink, SinkType, WrongOption
from sinks.kafka.options import KafkaOptions


def _load() -> type[Sink]:
    from sinks.kafka.sink import KafkaSink

    return KafkaSink


def _load_read_back() -> type[SinkReader]:
    from sinks.kafka.readback import KafkaReadBack

    return KafkaReadBack


def _examine(options: KafkaOptions) -> Sequence[WrongOption]:
    from sinks.kafka.examine import examine

    return examine(options)


TYPE = SinkType(
    name="kafka",
    options=KafkaOptions,
    load=_load,
    max_batch=1000,
    summary="CloudEvents in Kafka topics, keyed by object, by an idempotent producer",
    read_back=_load_read_back,
    examine=_examine,
)
