"""Deltas as messages of a JetStream stream, or of a server without one.

options        the options of the sink
encode         a record as a message: subject, headers, payload
connection     a connection, which is never reconnected
jetstream      a stream and its answers
delivery       publishes the messages of a batch, in exchanges, until all are answered
leading        takes the stream over for the leader of a term
core_delivery  hands messages to the server, which keeps none
memory         state that survives a restart: the newest gap, the stream as it was last seen
sink           NatsSink, which joins them
states         the newest record of each object, in a key-value bucket
places         the subjects of messages, for schemas
readback       reads the stream for ``kubedelta verify``
follower       reads the stream, or the subjects, for ``kubedelta tail``
examine        checks options before the bridge runs
"""

from collections.abc import Sequence

from bridge.model.formats.definitions import Definitions
from bridge.model.versions.followed_record import RecordFollower
from bridge.model.versions.stored_version import SinkReader
from sinks.base import Channel, Claim, Sink, SinkType, WrongOption
from sinks.nats.options import NatsOptions


def _load() -> type[Sink]:
    from sinks.nats.sink import NatsSink

    return NatsSink


def _load_for(options: NatsOptions) -> type[Sink]:
    if options.state is None:
        return _load()
    from sinks.nats.states.sink import NatsSinkWithState

    return NatsSinkWithState


def _load_read_back() -> type[SinkReader]:
    from sinks.nats.readback import NatsReadBack

    return NatsReadBack


def _load_follow() -> type[RecordFollower]:
    from sinks.nats.follower import NatsFollower

    return NatsFollower


def _examine(options: NatsOptions) -> Sequence[WrongOption]:
    from sinks.nats.examine import examine

    return examine(options)


def _claims(options: NatsOptions) -> Sequence[Claim]:
    from sinks.nats.examine import claims

    return claims(options)


def _channels(options: NatsOptions, cluster: str, definitions: Definitions) -> Sequence[Channel]:
    from sinks.nats.places import channels

    return channels(options, cluster, definitions)


TYPE = SinkType(
    name="nats",
    options=NatsOptions,
    load=_load,
    load_for=_load_for,
    max_batch=500,
    summary="CloudEvents in a NATS JetStream stream, a subject for each object",
    read_back=_load_read_back,
    follow=_load_follow,
    examine=_examine,
    claims=_claims,
    channels=_channels,
)
