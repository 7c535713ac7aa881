"""The Kafka sink produces deltas as records of topics, keyed by object. A record is stored when its delivery report
says so: acks=all, by an idempotent producer that never times out.

config           makes librdkafka's properties of the options, checks these before the bridge runs, and tells which
                 option a refusal is about
delivery         produces the messages of a batch until each is stored, rejected or left; in transactions, too
encode           makes a record a message: topic, key, value, headers; a notice a marker; and smaller forms; describes
                 them for schemas
exactly_once     KafkaTransactions: makes each delivery a transaction that stores the progress with the records;
                 ProgressTopic: reads and writes that progress
memory           keeps what survives a restart: the newest gap, counts of a snapshot, topics as last seen
notices          puts gaps and ends of snapshots as markers into the partitions that they are about
options          declares the options of the sink, and the rules between them; names the claims on topics
producer         runs a producer and its poll thread, and replaces it when it fails; its variant with transactions
reader           makes the library's source of topics of the options, for ``kubedelta verify``, ``tail`` and ``history
                 build``
sink             KafkaSink: connects, checks and closes; TopicWriter: sends a batch, on the short way where possible;
                 StateTopic: keeps the newest record of each object
tokens           runs the command that prints tokens for OAUTHBEARER, with bounds on its time and output
topic_watch      notices topics that were created again or have more partitions, and changed options
topics           knows names of topics, and what brokers say of topics; creates missing ones
verdicts         judges an error of librdkafka: whose fault it is, and for how long

There is one way to the brokers. ``sink`` encodes a batch and hands its messages to the present producer; nearly every
batch ends there. Whatever stands in the way (an unknown topic, a full queue, an error of a record, records in flight
from an earlier ``deliver``) goes to a ``Sender`` in ``delivery``, which makes attempts until the brokers take no more,
or a single one in a transaction. ``topics`` answers whether a topic can be written to, ``verdicts`` whether an error is
the record's, the topic's or the brokers' fault. Notices go to their topic, and through ``notices`` in front of the
records that they are about. Calls of librdkafka that may block run in threads of the sink.

A transaction is a frame around that way: ``exactly_once`` begins one, has a writer write the batch, and ends it with
the progress. What an aborted transaction left behind is forgotten as a whole, with its writer.

Invariants, each with its test:

- A record that is in flight is found again by its sequence number and id, and waited for: an outage of brokers causes
  no duplicates, and keeps the order. ``tests/sinks/kafka/test_in_flight.py``
- A record is rejected only for a fault of its own; each code of librdkafka has a verdict.
  ``tests/sinks/kafka/test_verdicts.py``
- A topic that refuses waits alone: records of other topics pass it. ``tests/sinks/kafka/test_topics_that_refuse.py``
- Brokers create a topic only where the sink asks them to, and none that must be compacted.
  ``tests/sinks/kafka/test_brokers_that_create_topics.py``
- With transactions, readers of committed records see each record once, whatever is killed, and two owners never write
  at once. ``tests/sinks/kafka/test_exactly_once.py``
"""

from collections.abc import Sequence

from sinks.base import RecordReader, Sink, SinkType, Transactions, WrongOption
from sinks.kafka.encode import channels
from sinks.kafka.options import KafkaOptions, claims


def _load() -> type[Sink]:
    from sinks.kafka.sink import KafkaSink

    return KafkaSink


def _load_reader() -> type[RecordReader]:
    from sinks.kafka.reader import KafkaReader

    return KafkaReader


def _examine(options: KafkaOptions) -> Sequence[WrongOption]:
    from sinks.kafka.config import examine

    return examine(options)


def _transactions(options: KafkaOptions) -> Transactions | None:
    return Transactions(records=2000, seconds=0.1) if options.exactly_once else None


TYPE = SinkType(
    name="kafka",
    options=KafkaOptions,
    load=_load,
    transactions=_transactions,
    max_batch=1000,
    summary="CloudEvents in Kafka topics, keyed by object, by an idempotent producer",
    reader=_load_reader,
    examine=_examine,
    claims=claims,
    channels=channels,
)
