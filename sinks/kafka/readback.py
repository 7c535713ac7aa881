"""Reads topics from their beginning to where they end now. Joins no group and commits nothing."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar, cast

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from bridge.model.change import Op
from bridge.model.versions.stored_version import FOREIGN, ReadFilter, StoredKind, StoredVersion, stored_version_of
from sinks.base import SinkUnavailable
from sinks.kafka.names import topics_for
from sinks.kafka.options import KafkaOptions
from sinks.kafka.settings import connection_settings

T = TypeVar("T")

_BATCH = 1000
_PATIENCE = 30.0
"""Seconds without anything new before the brokers count as away."""
_FINAL = {
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError._UNKNOWN_TOPIC,
    KafkaError._UNKNOWN_PARTITION,
}
"""Trouble with a partition that asking again does not mend."""


def held_in(message: Message) -> StoredVersion:
    """By its headers, which both formats have. A record without a value says by its key that the object is gone."""
    try:
        headers = cast("list[tuple[str, bytes | None]]", message.headers() or [])
        told = {name.removeprefix("ce_"): value.decode() for name, value in headers if name.startswith("ce_") and value}
        held = stored_version_of(told)
        if held is FOREIGN and message.value() is None and (key := message.key()) is not None:
            return StoredVersion(StoredKind.OBJECT, key.decode(), Op.DELETED)
    except UnicodeDecodeError:
        return FOREIGN
    return held


class KafkaReadBack:
    """Which topics are read follows from the template: those that exist and may hold what is sought. Two records of
    one object come in their order as long as they are in one partition, as the sink sees to."""

    def __init__(self, name: str, options: KafkaOptions, *, cluster: str) -> None:
        self._options = options
        self._cluster = cluster
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix=f"read-{name}")
        self._consumer: Any = None
        self._next: dict[tuple[str, int], int] = {}
        """Of each partition, the offset that comes next."""
        self._ends: dict[tuple[str, int], int] = {}
        """Of each partition that is not read to its end, that end."""
        self._moved_at = 0.0
        self._trouble = ""

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
            raise SinkUnavailable(f"cannot read from {servers}: {self._trouble or error.args[0].str()}") from error

    def _open(self) -> str:
        defaults = {"group.id": f"{self._options.client_id}-verify", "queued.max.messages.kbytes": 32 * 1024}
        promised = {
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "enable.partition.eof": True,
            "isolation.level": "read_uncommitted",  # Another's open transaction would keep the end from us.
            "error_cb": self._on_error,
        }
        self._consumer = Consumer({"log_level": 0} | defaults | connection_settings(self._options) | promised)
        found = self._consumer.list_topics(timeout=self._options.connect_timeout)
        return f"{self._options.bootstrap_servers}, cluster {found.cluster_id} of {len(found.brokers)} brokers"

    def _begin(self, sought: Sequence[ReadFilter]) -> None:
        """Look where the partitions end now, and go to where they were left."""
        patience = self._options.connect_timeout
        wanted = topics_for(self._options.topic, self._cluster, sought, self._options.notice_topic)
        topics = self._consumer.list_topics(timeout=patience).topics
        names = [name for name in topics if wanted.fullmatch(name)]
        if not names:
            raise SinkUnavailable(f"{self._options.bootstrap_servers} shows no topic like {self._options.topic}")
        self._ends = {}
        starts = []
        for place in ((name, partition) for name in names for partition in topics[name].partitions):
            low, high = self._consumer.get_watermark_offsets(TopicPartition(*place), timeout=patience)
            start = max(low, self._next.get(place, low))
            if start < high:
                starts.append(TopicPartition(*place, start))
                self._ends[place] = high
        self._consumer.assign(starts)
        self._moved_at = time.monotonic()

    def _more(self) -> list[StoredVersion]:
        found = []
        for message in self._consumer.consume(_BATCH, timeout=1.0):
            place = (message.topic(), message.partition())
            error = message.error()
            if place not in self._ends:
                self._note(error)
            elif error is None:
                found.append(held_in(message))
                self._came_to(place, message.offset() + 1)
            elif error.code() == KafkaError._PARTITION_EOF:
                self._came_to(place, message.offset())
            elif error.code() in _FINAL:
                raise SinkUnavailable(f"cannot read topic {place[0]}: {error.str()}")
            else:
                self._note(error)
        if time.monotonic() - self._moved_at > _PATIENCE:
            raise SinkUnavailable(
                f"{self._options.bootstrap_servers}: nothing came for {_PATIENCE:g} s: {self._trouble or 'no answer'}"
            )
        return found

    def _came_to(self, place: tuple[str, int], offset: int) -> None:
        self._next[place] = offset
        self._moved_at = time.monotonic()
        if offset >= self._ends[place]:
            # What comes behind the end is for the next read, which begins there.
            del self._ends[place]

    def _note(self, error: KafkaError | None) -> None:
        if error is not None and error.code() != KafkaError._PARTITION_EOF:
            self._trouble = error.str()

    def _on_error(self, error: KafkaError) -> None:
        self._trouble = error.str()
