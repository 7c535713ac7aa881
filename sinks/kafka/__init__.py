"""Deltas as records of Kafka topics.

options          the options of the sink
option_sections  those that are mappings
option_types     brokers, topics, settings of librdkafka and protocols, as types of options
auth             how the sink proves itself to brokers
client           the clients of librdkafka
topics           topics: names, existence, partitions, cleanup policy
states           the newest record of each object, in compacted topics
encode           a record as a message: topic, key, value, headers; a notice as a marker
sending          batches, in attempts until they are stored
verdicts         whose fault an error of librdkafka is
notices          gaps and ends of snapshots as markers in partitions
memory           state that survives a restart: the newest gap, counts of a snapshot
parts            the parts that know the brokers
sink             KafkaSink, which joins them
transactions     exactly once: its deliveries as transactions
readback         reads the topics for ``kubedelta verify``
follower         reads them for ``kubedelta tail``
examine          checks options before the bridge runs; claims on state topics
"""

from collections.abc import Sequence

from bridge.model.formats.definitions import Definitions
from bridge.model.versions.followed_record import RecordFollower
from bridge.model.versions.stored_version import SinkReader
from sinks.base import Channel, Claim, Sink, SinkType, Transactions, WrongOption
from sinks.kafka.options import KafkaOptions


def _load() -> type[Sink]:
    from sinks.kafka.sink import KafkaSink

    return KafkaSink


def _load_for(options: KafkaOptions) -> type[Sink]:
    if options.exactly_once:
        from sinks.kafka.transactions.sink import ExactlyOnceKafkaSink

        return ExactlyOnceKafkaSink
    if options.state_topic is None:
        return _load()
    from sinks.kafka.states.sink import KafkaSinkWithState

    return KafkaSinkWithState


def _load_read_back() -> type[SinkReader]:
    from sinks.kafka.readback import KafkaReadBack

    return KafkaReadBack


def _load_follow() -> type[RecordFollower]:
    from sinks.kafka.follower import KafkaFollower

    return KafkaFollower


def _examine(options: KafkaOptions) -> Sequence[WrongOption]:
    from sinks.kafka.examine import examine

    return examine(options)


def _transactions(options: KafkaOptions) -> Transactions | None:
    return Transactions(records=2000, seconds=0.1) if options.exactly_once else None


def _claims(options: KafkaOptions) -> Sequence[Claim]:
    from sinks.kafka.examine import claims

    return claims(options)


def _channels(options: KafkaOptions, cluster: str, definitions: Definitions) -> Sequence[Channel]:
    from sinks.kafka.encode import channels

    return channels(options, cluster, definitions)


TYPE = SinkType(
    name="kafka",
    options=KafkaOptions,
    load=_load,
    load_for=_load_for,
    transactions=_transactions,
    max_batch=1000,
    summary="CloudEvents in Kafka topics, keyed by object, by an idempotent producer",
    read_back=_load_read_back,
    follow=_load_follow,
    examine=_examine,
    claims=_claims,
    channels=_channels,
)
