"""Deltas as records of Kafka topics.

options          the options of the sink
option_sections  those that are mappings
option_types     brokers, topics, settings of librdkafka and protocols, as types of options
auth             how the sink proves itself to brokers
client           the clients of librdkafka
topics           topics: names, existence, partitions, cleanup policy
encode           a record as a message: topic, key, value, headers; a notice as a marker
oversize         smaller forms of a record that is too large
delivery         an attempt to store the records of a batch; records in flight
notices          gaps and ends of snapshots as markers in partitions
memory           state that survives a restart: the newest gap, counts of a snapshot
sink             KafkaSink, which joins them
readback         reads the topics for ``kubedelta verify``
follower         reads them for ``kubedelta tail``
examine          checks options before the bridge runs
"""

from collections.abc import Sequence

from bridge.model.formats.definitions import Definitions
from bridge.model.versions.followed_record import RecordFollower
from bridge.model.versions.stored_version import SinkReader
from sinks.base import Channel, Sink, SinkType, WrongOption
from sinks.kafka.options import KafkaOptions


def _load() -> type[Sink]:
    from sinks.kafka.sink import KafkaSink

    return KafkaSink


def _load_read_back() -> type[SinkReader]:
    from sinks.kafka.readback import KafkaReadBack

    return KafkaReadBack


def _load_follow() -> type[RecordFollower]:
    from sinks.kafka.follower import KafkaFollower

    return KafkaFollower


def _examine(options: KafkaOptions) -> Sequence[WrongOption]:
    from sinks.kafka.examine import examine

    return examine(options)


def _channels(options: KafkaOptions, cluster: str, definitions: Definitions) -> Sequence[Channel]:
    from sinks.kafka.encode import channels

    return channels(options, cluster, definitions)


TYPE = SinkType(
    name="kafka",
    options=KafkaOptions,
    load=_load,
    max_batch=1000,
    summary="CloudEvents in Kafka topics, keyed by object, by an idempotent producer",
    read_back=_load_read_back,
    follow=_load_follow,
    examine=_examine,
    channels=_channels,
)
