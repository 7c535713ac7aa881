"""Records of Kafka topics: ``KafkaSource`` joins no group and commits no offset.

It assigns itself every partition of its topics, or the one that it is for, and asks the brokers for their ends when a
``read`` begins: such a read is done when the position of each partition has come to its end. A position also moves at
the event of an end (``enable.partition.eof``), since the last offsets of a partition may be markers of transactions or
compacted away, and have no record. Partitions stay assigned between two reads, and keep what was fetched ahead.

Calls of librdkafka block, so they run on the single thread of the source.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, TypeAlias, TypeVar, cast

import msgspec
from confluent_kafka import (
    OFFSET_BEGINNING,
    OFFSET_END,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition,
)

from kubedelta_reader.events import Record
from kubedelta_reader.sources.source import NOT_THERE, NoDestination, Source, Unavailable, place_in

T = TypeVar("T")
_Partition: TypeAlias = tuple[str, int]

_BATCH = 1000
_WAIT = 0.25
"""Seconds that the thread waits for the first record of a batch."""
_IDLE_TIMEOUT = 30.0
"""Seconds without a new record before the brokers count as unavailable."""
_FINAL = {
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError._UNKNOWN_TOPIC,
    KafkaError._UNKNOWN_PARTITION,
}
"""Errors of a partition that remain however often it is asked: it was removed, or the right to read it is missing."""
_PASSING = {
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.FENCED_LEADER_EPOCH,
    KafkaError.UNKNOWN_LEADER_EPOCH,
    KafkaError.OFFSET_NOT_AVAILABLE,
}
"""Errors of a partition whose leader is made or moves."""
_RETRY = 0.1
"""Seconds between two requests for offsets, the first of which failed by a passing error."""
_DEFAULTS = {
    "group.id": "kubedelta-reader",  # The client asks for a name; no broker ever hears of it.
    "isolation.level": "read_committed",
}
_REQUIRED = {"enable.auto.commit": False, "auto.offset.reset": "earliest", "enable.partition.eof": True}


class KafkaSource(Source):
    """See Source. Records of an object come in their order, because the sink puts them into the same partition. Topics
    and partitions that appear later are read from their beginning."""

    partitioned = True

    def __init__(
        self,
        config: Mapping[str, Any] | Callable[[], Mapping[str, Any]],
        topics: re.Pattern[str],
        *,
        partition: int | None = None,
        named: str = "",
        look_every: float = 10.0,
        timeout: float = 10.0,
    ) -> None:
        """``config``: properties of librdkafka's consumer, or what returns them: ``open`` calls it in a thread.
        ``topics``: matches the whole names; it may be replaced between two reads. ``partition``: of each topic; None
        for all. ``named``: the topics, in errors. ``look_every``: seconds between two looks for new topics and
        partitions. ``timeout``: seconds for an answer of the brokers."""
        self.topics = topics
        self._config = config
        self._partition = partition
        self._named = named or topics.pattern
        self._look_every = look_every
        self._timeout = timeout
        self._servers = ""
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="read-kafka")
        self._consumer: Any = None
        self._next: dict[_Partition, int] = {}
        """Each assigned partition → the offset of the next record to read."""
        self._ends: dict[_Partition, int] = {}
        """The end of each partition, for partitions that are not read to their end."""
        self._looked_at: float | None = None
        self._moved_at = 0.0
        self._removed: list[str] = []
        self._failure = ""
        """Of a topic, behind records that were fetched before it."""
        self._last_error = ""

    async def open(self) -> str:
        return await self._in_thread(self._open)

    async def resume(self, position: bytes) -> None:
        if position:
            await self._in_thread(partial(self._go_on, _partitions_in(position)))

    async def read(self) -> AsyncGenerator[Sequence[Record]]:
        await self._in_thread(self._note_ends)
        while self._ends:
            messages = await self._in_thread(self._messages)
            if messages:
                yield [record_of(each) for each in messages]

    @property
    def position(self) -> bytes:
        return msgspec.json.encode({f"{topic}/{number}": offset for (topic, number), offset in self._next.items()})

    @property
    def lost(self) -> bool:
        return bool(self._removed)

    @property
    def notes(self) -> Sequence[str]:
        return [f"records of {name} were removed before they were read" for name in self._removed]

    @property
    def left(self) -> int | None:
        return sum(end - self._next[partition] for partition, end in self._ends.items())

    async def close(self) -> None:
        if self._consumer is not None:
            await self._in_thread(self._consumer.close)
        self._thread.shutdown(wait=False)

    async def _in_thread(self, work: Callable[[], T]) -> T:
        """Raises Unavailable."""
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, work)
        except KafkaException as error:
            raise Unavailable(f"cannot read from {self._servers}: {self._last_error or error.args[0].str()}") from error

    # ── Partitions, in the thread ────────────────────────────────────────────

    def _open(self) -> str:
        if self._consumer is None:
            config = self._config() if callable(self._config) else self._config
            self._servers = config["bootstrap.servers"]
            self._consumer = Consumer(_DEFAULTS | dict(config) | _REQUIRED | {"error_cb": self._on_error})
        found = self._consumer.list_topics(timeout=self._timeout)
        self._matching(found.topics)
        return f"{self._servers}, cluster {found.cluster_id} of {len(found.brokers)} brokers"

    def _go_on(self, offsets: Mapping[_Partition, int]) -> None:
        partitions = self._existing()
        lows = self._offsets(partitions, OFFSET_BEGINNING)
        highs = self._offsets(partitions, OFFSET_END)
        starts = lows | {each: offset for each, offset in offsets.items() if each in lows}
        # Retention removed records, or the topic is another one of the name.
        gone = [each for each in partitions if not lows[each] <= starts[each] <= highs[each]]
        self._removed += [f"{topic}/{number}" for topic, number in [*gone, *(offsets.keys() - lows.keys())]]
        self._assign(starts | {each: lows[each] for each in gone})

    def _note_ends(self) -> None:
        """Notes the present end of each partition, and assigns those that are new."""
        if self._looked_at is None or time.monotonic() - self._looked_at >= self._look_every:
            starts = self._offsets((each for each in self._existing() if each not in self._next), OFFSET_BEGINNING)
            self._consumer.incremental_assign([TopicPartition(*each, offset) for each, offset in starts.items()])
            self._next |= starts
        ends = self._offsets(self._next, OFFSET_END)
        self._ends = {each: end for each, end in ends.items() if self._next[each] < end}
        self._moved_at = time.monotonic()

    def _existing(self) -> list[_Partition]:
        topics = self._consumer.list_topics(timeout=self._timeout).topics
        self._looked_at = time.monotonic()
        return [
            (name, number)
            for name in self._matching(topics)
            for number in topics[name].partitions
            if self._partition in (None, number)
        ]

    def _matching(self, topics: Iterable[str]) -> list[str]:
        """Raises NoDestination."""
        if names := [name for name in topics if self.topics.fullmatch(name)]:
            return names
        raise NoDestination(f"{self._servers} shows no topic like {self._named}: {NOT_THERE}")

    def _offsets(self, partitions: Iterable[_Partition], moment: int) -> dict[_Partition, int]:
        """``moment``: milliseconds since 1970, or OFFSET_BEGINNING or OFFSET_END, for which brokers have the same
        numbers in a request for offsets (ListOffsets). One request to each broker, however many partitions it has.
        Where a leader is made or moves, it is asked again for ``timeout`` seconds."""
        asked = [TopicPartition(*each, moment) for each in partitions]
        deadline = time.monotonic() + self._timeout
        while asked:
            try:
                found = self._consumer.offsets_for_times(asked, timeout=self._timeout)
                for each in found:
                    if each.error is not None:
                        raise KafkaException(each.error)
                return {(each.topic, each.partition): each.offset for each in found}
            except KafkaException as error:
                if error.args[0].code() not in _PASSING or time.monotonic() > deadline:
                    raise
            time.sleep(_RETRY)
        return {}

    def _assign(self, starts: Mapping[_Partition, int]) -> None:
        self._next = dict(starts)
        self._ends = {}
        self._consumer.assign([TopicPartition(*each, offset) for each, offset in starts.items()])

    # ── Messages ─────────────────────────────────────────────────────────────

    def _messages(self) -> list[Message]:
        """Those that are there, in the thread; waits a moment for the first. Raises Unavailable when a topic cannot be
        read, and when none came for long."""
        found: list[Message] = []
        if self._failure:
            failure, self._failure = self._failure, ""
            raise Unavailable(failure)
        # ``consume`` alone would wait until its batch is full.
        first = self._consumer.poll(_WAIT)
        for message in () if first is None else (first, *self._consumer.consume(_BATCH, timeout=0)):
            partition, error = (message.topic(), message.partition()), message.error()
            if error is None:
                found.append(message)
                self._came_to(partition, message.offset() + 1)
            elif error.code() == KafkaError._PARTITION_EOF:
                self._came_to(partition, message.offset())
            elif error.code() in _FINAL:
                self._failure = f"topic {partition[0]} was removed, or the right to read it is missing: {error.str()}"
            else:
                self._last_error = error.str()
        if time.monotonic() - self._moved_at > _IDLE_TIMEOUT:
            reason = self._last_error or "no answer"
            raise Unavailable(f"{self._servers}: no record came for {_IDLE_TIMEOUT:g} s: {reason}")
        return found

    def _came_to(self, partition: _Partition, offset: int) -> None:
        self._next[partition] = offset
        self._moved_at = time.monotonic()
        if partition in self._ends and offset >= self._ends[partition]:
            del self._ends[partition]

    def _on_error(self, error: KafkaError) -> None:
        self._last_error = error.str()


def record_of(message: Message) -> Record:
    headers = cast("list[tuple[str, bytes | None]]", message.headers() or [])
    known = {name: content for name, content in headers if content is not None}
    return Record(message.value(), known, message.key() or b"", f"{message.topic()}/{message.partition()}")


def _partitions_in(position: bytes) -> dict[_Partition, int]:
    """Raises ValueError."""
    parts = {name.rpartition("/"): offset for name, offset in place_in(position, dict[str, int]).items()}
    return {(topic, int(number)): offset for (topic, _, number), offset in parts.items()}
