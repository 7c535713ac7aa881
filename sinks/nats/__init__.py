"""Deltas as messages of a JetStream stream, or of a server without one.

bucket       finds, creates and verifies the bucket; the newest record of an object as an entry: its key, its
             headers; takes the bucket over for the leader of a term; NatsSink with a bucket
connection   a connection, which is never reconnected
delivery     hands messages to the server, which keeps none; publishes the messages of a batch, in exchanges, until
             all are answered
encode       a record as a message: subject, headers, payload
examine      checks options before the bridge runs
exchange     the server's answer to a published message; which number of the last message each message names; which
             messages are sent again; the messages of an exchange that are in flight
leading      takes the stream over for the leader of a term
memory       state that survives a restart: the newest gap, the stream as it was last seen
options      the options of the sink
places       the subjects of messages, for schemas
readers      reads the stream for ``kubedelta verify``; reads the stream, or the subjects, for ``kubedelta tail``
sink         NatsSink, which joins them
stream       whether the stream has lost messages that the sink had stored; finds or creates the stream; finds lost
             messages
verdicts     whose fault an error of JetStream is
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
    from sinks.nats.bucket import NatsSinkWithState

    return NatsSinkWithState


def _load_read_back() -> type[SinkReader]:
    from sinks.nats.readers import NatsReadBack

    return NatsReadBack


def _load_follow() -> type[RecordFollower]:
    from sinks.nats.readers import NatsFollower

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
