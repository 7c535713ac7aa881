"""Deltas as records of Kafka topics.

config         which option a refusal is about; the options as configuration properties
delivery       smaller forms of a record that is too large; attempts until each record is stored or rejected; an
               attempt to store the records of a batch; records in flight
encode         a record as a message: topic, key, value, headers; a notice as a marker
examine        checks options before the bridge runs; claims on state topics
memory         topics that were created again, or have more partitions; state that survives a restart: the newest
               gap, counts of a snapshot
notices        gaps and ends of snapshots as markers in partitions
options        brokers, topics, settings of librdkafka and protocols, as types of options; those that are mappings;
               the options; the options of the sink
producer       a producer and its poll thread; the present producer, replaced when it fails
readers        reads the topics for ``kubedelta verify``; reads them for ``kubedelta tail``
sink           the parts that know the brokers; KafkaSink, which joins them
state_topic    the newest record of each object, as a record of a compacted topic; KafkaSink with such topics
tokens         runs a command with bounds on its time and output; tokens that a command prints, for OAUTHBEARER
topic_watch    notices these changes, and changes of options that concern readers
topics         topics that nobody creates; which topics hold the records of a resource; as the brokers know them:
               existence, partitions, cleanup policy
transactions   exactly once: its deliveries as transactions
verdicts       whose fault an error of librdkafka is
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
    from sinks.kafka.state_topic import KafkaSinkWithState

    return KafkaSinkWithState


def _load_read_back() -> type[SinkReader]:
    from sinks.kafka.readers import KafkaReadBack

    return KafkaReadBack


def _load_follow() -> type[RecordFollower]:
    from sinks.kafka.readers import KafkaFollower

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
