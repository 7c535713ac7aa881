"""Deltas as messages of a JetStream stream."""

from bridge.model.held import ReadBack
from sinks.base import Sink, SinkType
from sinks.nats.options import NatsOptions


def _load() -> type[Sink]:
    from sinks.nats.sink import NatsSink

    return NatsSink


def _load_read_back() -> type[ReadBack]:
    from sinks.nats.readback import NatsReadBack

    return NatsReadBack


TYPE = SinkType(
    name="nats",
    options=NatsOptions,
    load=_load,
    max_batch=500,
    summary="CloudEvents in a NATS JetStream stream, a subject for each object",
    read_back=_load_read_back,
)
