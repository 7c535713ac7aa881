"""What Kafka's clients do to topics, of one broker or of several, and read of them."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

from confluent_kafka import Consumer, IsolationLevel, KafkaError, KafkaException, Message, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource
from confluent_kafka.admin._listoffsets import OffsetSpec
from confluent_kafka.cimpl import NewPartitions, NewTopic

from tests.cluster.servers.process import ServerFailed
from tests.kit.deadlines import BUSY

_SILENT = {"log_level": 0, "socket.timeout.ms": 10_000}
_NOT_YET = {
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError.UNKNOWN_LEADER_EPOCH,
}
"""A broker that has just started leads its partitions a moment later, and so does one that follows a dead one."""
_NOT_YET_READ = {
    *_NOT_YET,
    KafkaError.OFFSET_NOT_AVAILABLE,
    KafkaError._DESTROY_BROKER,  # librdkafka's word for a leader that died meanwhile
}


@dataclass(frozen=True, slots=True)
class KafkaRecord:
    """One record as it lies in the broker."""

    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


class KafkaTopics(ABC):
    """All methods block."""

    bootstrap: str
    """Addresses of brokers, with commas between them."""

    copies = 1
    """Of each partition of a topic that is made: brokers that have it."""

    @abstractmethod
    def log_tail(self, lines: int = 30) -> str:
        """The last lines of the brokers' logs."""

    def create_topic(self, name: str, partitions: int = 1, **config: str) -> None:
        """Make a topic and wait until every partition's leader answers. Settings are written with `_` for `.`."""
        admin = self._admin()
        settings = {key.replace("_", "."): value for key, value in config.items()}
        admin.create_topics([NewTopic(name, partitions, self.copies, config=settings)])[name].result(timeout=30 * BUSY)
        deadline = time.monotonic() + 30 * BUSY
        while not self._has_leaders(admin, name, partitions):
            if time.monotonic() > deadline:
                raise ServerFailed(f"{self}: topic {name} has no leader\n{self.log_tail()}")

    def configure_topic(self, topic: str, **config: str) -> None:
        """Settings are written with `_` for `.`."""
        entries = [
            ConfigEntry(key.replace("_", "."), value, incremental_operation=AlterConfigOpType.SET)
            for key, value in config.items()
        ]
        resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=entries)
        admin = self._admin()
        admin.incremental_alter_configs([resource])[resource].result(timeout=30 * BUSY)

    def add_partitions(self, topic: str, total: int) -> None:
        admin = self._admin()
        admin.create_partitions([NewPartitions(topic, total)])[topic].result(timeout=30 * BUSY)
        deadline = time.monotonic() + 30 * BUSY
        while not self._has_leaders(admin, topic, total):
            if time.monotonic() > deadline:
                raise ServerFailed(f"{self}: topic {topic} has not {total} partitions\n{self.log_tail()}")

    def delete_topic(self, name: str) -> None:
        admin = self._admin()  # Held until the answer: a client that is collected gives up what it asked.
        admin.delete_topics([name])[name].result(timeout=30 * BUSY)

    def read_all(self, topic: str, timeout: float = 30, *, committed: bool = True) -> list[KafkaRecord]:
        """Every record that the topic holds now, by partition and offset; unless ``committed``, also those of open and
        aborted transactions. Raises TimeoutError (seconds)."""
        settings = {"bootstrap.servers": self.bootstrap, "group.id": "read-all", "enable.auto.commit": False}
        # An end is reported with an answer to a fetch, which otherwise waits half a second for records.
        reported: dict[str, Any] = {"enable.partition.eof": True, "fetch.wait.max.ms": 10}
        if not committed:
            reported["isolation.level"] = "read_uncommitted"
        consumer = Consumer({**_SILENT, **settings, **reported})
        try:
            deadline = time.monotonic() + timeout * BUSY
            partitions = consumer.list_topics(topic, timeout=10 * BUSY).topics[topic].partitions
            # Offsets asked for by number: librdkafka takes half a second to find out what OFFSET_BEGINNING is.
            consumer.assign([_beginning(consumer, TopicPartition(topic, each), deadline) for each in partitions])
            return _read_to_the_end(consumer, set(partitions), deadline)
        finally:
            consumer.close()

    def settle_transactions(self, topic: str) -> None:
        """Wait until no transaction is open in the topic, at most five seconds: brokers write the end of a
        transaction into its partitions a moment after they have answered."""
        admin, deadline = self._admin(), time.monotonic() + 5
        partitions = [
            TopicPartition(topic, each) for each in admin.list_topics(topic, timeout=10 * BUSY).topics[topic].partitions
        ]
        while time.monotonic() < deadline:
            ends = [_ends(admin, partitions, level) for level in IsolationLevel]
            if ends[0] == ends[1]:
                return
            time.sleep(0.02)

    def _admin(self) -> AdminClient:
        return AdminClient({**_SILENT, "bootstrap.servers": self.bootstrap})

    @staticmethod
    def _has_leaders(admin: AdminClient, topic: str, partitions: int) -> bool:
        found = admin.list_topics(topic, timeout=10 * BUSY).topics[topic].partitions.values()
        return len(found) == partitions and all(each.leader >= 0 for each in found) and _lead(admin, topic, partitions)


def _lead(admin: AdminClient, topic: str, partitions: int) -> bool:
    """A busy broker names itself as leader in the metadata before it takes a request for the partition."""
    ends = {TopicPartition(topic, each): OffsetSpec.latest() for each in range(partitions)}  # type: ignore[no-untyped-call]
    try:
        for end in admin.list_offsets(ends, request_timeout=10 * BUSY).values():
            end.result(timeout=30 * BUSY)
    except KafkaException as error:
        if error.args[0].code() not in _NOT_YET:
            raise
        return False
    return True


def _ends(admin: AdminClient, partitions: Sequence[TopicPartition], level: IsolationLevel) -> list[int]:
    latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]
    found = admin.list_offsets(dict.fromkeys(partitions, latest), isolation_level=level, request_timeout=10 * BUSY)
    return [found[each].result(timeout=30 * BUSY).offset for each in partitions]


def _beginning(consumer: Consumer, partition: TopicPartition, deadline: float) -> TopicPartition:
    while True:
        try:
            low, _ = consumer.get_watermark_offsets(partition, timeout=10 * BUSY)
        except KafkaException as error:
            if error.args[0].code() not in _NOT_YET_READ or time.monotonic() > deadline:
                raise
            time.sleep(0.05)
        else:
            return TopicPartition(partition.topic, partition.partition, low)


def _read_to_the_end(consumer: Consumer, unfinished: set[int], deadline: float) -> list[KafkaRecord]:
    records: list[KafkaRecord] = []
    while unfinished:
        if time.monotonic() > deadline:
            raise TimeoutError(f"partitions {sorted(unfinished)} not read to their end; {len(records)} records so far")
        message = consumer.poll(1)
        if message is None:
            continue
        error = message.error()
        if error is None:
            records.append(record_of(message))
        elif error.code() == KafkaError._PARTITION_EOF:
            unfinished.discard(cast("int", message.partition()))
        else:
            raise KafkaException(error)
    return sorted(records, key=lambda record: (record.partition, record.offset))


def record_of(message: Message) -> KafkaRecord:
    place = cast("tuple[int, int]", (message.partition(), message.offset()))  # What was consumed has a place.
    headers = cast("list[tuple[str, bytes | None]]", message.headers() or [])
    return KafkaRecord(*place, message.key(), message.value(), tuple(headers))
