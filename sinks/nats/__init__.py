"""Deltas as messages of a JetStream stream."""

from sinks.base import Sink, SinkType
from sinks.nats.options import NatsOptions


def _load() -> type[Sink]:
    from sinks.nats.sink import NatsSink

    return NatsSink


TYPE = SinkType(
    name="nats",
    options=NatsOptions,
    load=_load,
    max_batch=500,
    summary="CloudEvents in a NATS JetStream stream, a subject for each object",
)
