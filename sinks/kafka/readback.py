"""Reads topics from their beginning to their present end. Joins no group and commits no offsets."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar, cast

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from bridge.model.change import Op
from bridge.model.versions.stored_version import FOREIGN, ReadFilter, StoredKind, StoredVersion, stored_version_of
from sinks.errors import SinkUnavailable
from sinks.kafka.client.config import ClientConfig
from sinks.kafka.option_types import RecordKey
from sinks.kafka.options import KafkaOptions
from sinks.kafka.topics.names import topics_pattern

T = TypeVar("T")

_BATCH = 1000
_IDLE_TIMEOUT = 30.0
"""Seconds without a new record before the brokers count as unavailable."""
FINAL = {
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError._UNKNOWN_TOPIC,
    KafkaError._UNKNOWN_PARTITION,
}
"""Errors of a partition that remain however often it is asked."""


def version_in(message: Message, key_of: RecordKey = RecordKey.OBJECT) -> StoredVersion:
    """Reads the headers, which all formats have. A tombstone (a record without a value) of another program means that
    the object of its key is deleted, if keys are those of objects."""
    try:
        headers = cast("list[tuple[str, bytes | None]]", message.headers() or [])
        ours = [(name.removeprefix("ce_"), value) for name, value in headers if name.startswith("ce_") and value]
        held = stored_version_of({name: value.decode() for name, value in ours})
        foreign_tombstone = held is FOREIGN and message.value() is None and key_of is RecordKey.OBJECT
        if foreign_tombstone and (key := message.key()) is not None:
            return StoredVersion(StoredKind.OBJECT, key.decode(), Op.DELETED)
    except UnicodeDecodeError:
        return FOREIGN
    return held


class KafkaReadBack:
    """Reads every existing topic that matches the ``topic`` template and may hold the objects sought. Records of an
    object come in their order, because the sink puts them into the same partition."""

    def __init__(self, name: str, options: KafkaOptions, *, cluster: str) -> None:
        self._options = options
        self._cluster = cluster
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix=f"read-{name}")
        self._consumer: Any = None
        self._next: dict[tuple[str, int], int] = {}
        """Partition → the next offset to read."""
        self._ends: dict[tuple[str, int], int] = {}
        """Partition → its end, for partitions that are not read to their end."""
        self._moved_at = 0.0
        self._last_error = ""

    async def open(self) -> str:
        return await self._in_thread(self._open)

    async def read(self, sought: Sequence[ReadFilter]) -> AsyncGenerator[Sequence[StoredVersion]]:
        await self._in_thread(lambda: self._begin(sought))
        while self._ends:
            if batch := await self._in_thread(self._more):
                yield batch

    @property
    def notes(self) -> Sequence[str]:
        return ()

    @property
    def left(self) -> int | None:
        return sum(max(0, end - self._next.get(partition, 0)) for partition, end in self._ends.items())

    async def close(self) -> None:
        if self._consumer is not None:
            await self._in_thread(self._consumer.close)
        self._thread.shutdown(wait=False)

    async def _in_thread(self, work: Callable[[], T]) -> T:
        """Raises SinkUnavailable."""
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, work)
        except KafkaException as error:
            servers = self._options.bootstrap_servers
            raise SinkUnavailable(f"cannot read from {servers}: {self._last_error or error.args[0].str()}") from error

    def _open(self) -> str:
        self._consumer = Consumer(ClientConfig(self._options).reader("verify") | {"error_cb": self._on_error})
        found = self._consumer.list_topics(timeout=self._options.connect_timeout)
        return f"{self._options.bootstrap_servers}, cluster {found.cluster_id} of {len(found.brokers)} brokers"

    def _begin(self, sought: Sequence[ReadFilter]) -> None:
        """Notes the present end of each partition, and seeks to the offset where the last ``read`` stopped."""
        timeout = self._options.connect_timeout
        wanted = topics_pattern(self._options.topic, self._cluster, sought, self._options.notice_topic)
        topics = self._consumer.list_topics(timeout=timeout).topics
        names = [name for name in topics if wanted.fullmatch(name)]
        if not names:
            raise SinkUnavailable(f"{self._options.bootstrap_servers} shows no topic like {self._options.topic}")
        self._ends = {}
        starts = []
        for partition in ((name, number) for name in names for number in topics[name].partitions):
            low, high = self._consumer.get_watermark_offsets(TopicPartition(*partition), timeout=timeout)
            # Retention may have deleted records that were not read yet: then the next record is the first that is left.
            start = max(low, self._next.get(partition, low))
            if start < high:
                starts.append(TopicPartition(*partition, start))
                self._next[partition] = start
                self._ends[partition] = high
        self._consumer.assign(starts)
        self._moved_at = time.monotonic()

    def _more(self) -> list[StoredVersion]:
        found = []
        for message in self._consumer.consume(_BATCH, timeout=1.0):
            partition = (message.topic(), message.partition())
            error = message.error()
            if partition not in self._ends:
                self._note(error)
            elif error is None:
                found.append(version_in(message, self._options.key))
                self._came_to(partition, message.offset() + 1)
            elif error.code() == KafkaError._PARTITION_EOF:
                self._came_to(partition, message.offset())
            elif error.code() in FINAL:
                raise SinkUnavailable(f"cannot read topic {partition[0]}: {error.str()}")
            else:
                self._note(error)
        if time.monotonic() - self._moved_at > _IDLE_TIMEOUT:
            servers, reason = self._options.bootstrap_servers, self._last_error or "no answer"
            raise SinkUnavailable(f"{servers}: no record came for {_IDLE_TIMEOUT:g} s: {reason}")
        return found

    def _came_to(self, partition: tuple[str, int], offset: int) -> None:
        self._next[partition] = offset
        self._moved_at = time.monotonic()
        if offset >= self._ends[partition]:
            # The next read begins here, with records that arrived behind the end.
            del self._ends[partition]

    def _note(self, error: KafkaError | None) -> None:
        if error is not None and error.code() != KafkaError._PARTITION_EOF:
            self._last_error = error.str()

    def _on_error(self, error: KafkaError) -> None:
        self._last_error = error.str()
