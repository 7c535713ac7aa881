"""Reads the topics of a sink again, for ``kubedelta verify`` (``KafkaReadBack``) and for ``kubedelta tail``
(``KafkaFollower``). Neither joins a group or commits an offset. The read-back goes from the beginning of the topics to
their present end. The follower goes on, also through topics and partitions that appear later.
"""

from __future__ import annotations

import asyncio
import heapq
import time
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import datetime
from typing import Any, TypeAlias, TypeVar, cast

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Message, TopicPartition
from msgspec.structs import replace

from bridge.model.change import Op
from bridge.model.versions.followed_record import FollowedRecord, record_of
from bridge.model.versions.stored_version import FOREIGN, ReadFilter, StoredKind, StoredVersion, stored_version_of
from sinks.kafka.config import ClientConfig
from sinks.kafka.options import KafkaOptions, RecordKey
from sinks.kafka.topics import topics_pattern
from sinks.receipt import SinkUnavailable

T = TypeVar("T")
_Partition: TypeAlias = tuple[str, int]


# ── For verify ───────────────────────────────────────────────────────────────

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
        self._next: dict[_Partition, int] = {}
        """Partition → the next offset to read."""
        self._ends: dict[_Partition, int] = {}
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

    def _came_to(self, partition: _Partition, offset: int) -> None:
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


# ── For tail ─────────────────────────────────────────────────────────────────

_FOLLOWED_BATCH = 500
_WAIT = 0.25
"""Seconds that a look for records waits for the first of them."""
_LOOK_EVERY = 10.0
"""Seconds between two looks for new topics and partitions."""
_FIRST_LOOK_BACK = 100
_LOOK_BACK = 100_000
"""Records of a partition in which the last records are sought."""


def followed(message: Message) -> FollowedRecord:
    """A tombstone has its key for a text, if nothing else is known of it."""
    headers = cast("list[tuple[str, bytes | None]]", message.headers() or [])
    value = message.value()
    try:
        attributes = {
            "datacontenttype" if name == "content-type" else name.removeprefix("ce_"): content.decode()
            for name, content in headers
            if content is not None and (name.startswith("ce_") or name == "content-type")
        }
    except UnicodeDecodeError:
        attributes = {}
    record = record_of(attributes, value)
    if value is not None:
        return record
    return replace(record, text=message.key() or b"") if record.foreign else replace(record, evidence="tombstone")


class KafkaFollower:
    """See RecordFollower. Follows topics and partitions that appear later, from their beginning. Records of a partition
    come in their order."""

    def __init__(self, name: str, options: KafkaOptions, *, cluster: str) -> None:
        self._options = options
        self._topics = topics_pattern(options.topic, cluster, [ReadFilter()], options.notice_topic)
        self._consumer: Any = None
        self._assigned: set[_Partition] = set()
        self._behind: set[_Partition] = set()
        """Partitions whose end was not reached since they were assigned."""
        self._looked_at = 0.0
        self._markers: deque[tuple[str, str]] = deque(maxlen=100)
        """Notices that were returned: their copies in other partitions are left out."""
        self._last_error = ""

    def open(self) -> bool:
        with self._errors():
            if self._consumer is None:
                self._consumer = Consumer(ClientConfig(self._options).reader("tail") | {"error_cb": self._on_error})
            return bool(self._existing())

    def last(self, count: int, accepts: Callable[[FollowedRecord], bool]) -> Sequence[FollowedRecord]:
        with self._errors():
            bounds = {each: self._bounds(each) for each in self._existing()}
            newest = [self._last_of(each, *bounds[each], count, accepts) for each in bounds] if count else []
            self._assign(TopicPartition(*each, high) for each, (_, high) in bounds.items())
        found = [record for _, record in heapq.merge(*newest, key=lambda each: each[0])]
        self._markers.clear()
        return [record for record in found if not self._is_copy(record)][-count:] if count else []

    def begin(self, since: datetime | None) -> None:
        with self._errors():
            if since is None:
                self._assign(TopicPartition(*each, OFFSET_BEGINNING) for each in self._existing())
                return
            moment = int(since.timestamp() * 1000)
            sought = [TopicPartition(*each, moment) for each in self._existing()]
            found = self._consumer.offsets_for_times(sought, timeout=self._options.connect_timeout)
            for each in found:
                if each.error is not None:
                    raise KafkaException(each.error)
            # A negative offset: the partition has no record of that time or later.
            self._assign(
                TopicPartition(
                    each.topic,
                    each.partition,
                    each.offset if each.offset >= 0 else self._bounds((each.topic, each.partition))[1],
                )
                for each in found
            )

    def news(self) -> Iterator[FollowedRecord]:
        with self._errors():
            self._look_for_partitions()
            moved_at = time.monotonic()
            while True:
                messages = self._some()
                yield from (record for record in map(followed, messages) if not self._is_copy(record))
                if messages:
                    moved_at = time.monotonic()
                elif not self._behind:
                    return
                elif time.monotonic() - moved_at > _IDLE_TIMEOUT:
                    raise SinkUnavailable(self._silence())

    def close(self) -> None:
        if self._consumer is not None:
            self._consumer.close()

    # ── Partitions ───────────────────────────────────────────────────────────

    def _existing(self) -> list[_Partition]:
        topics = self._consumer.list_topics(timeout=self._options.connect_timeout).topics
        self._looked_at = time.monotonic()
        return [(name, number) for name in topics if self._topics.fullmatch(name) for number in topics[name].partitions]

    def _bounds(self, partition: _Partition) -> tuple[int, int]:
        low, high = self._consumer.get_watermark_offsets(
            TopicPartition(*partition), timeout=self._options.connect_timeout
        )
        return low, high

    def _assign(self, starts: Iterable[TopicPartition]) -> None:
        starts = list(starts)
        self._assigned = {(each.topic, each.partition) for each in starts}
        self._behind = set(self._assigned)
        self._consumer.assign(starts)

    def _look_for_partitions(self) -> None:
        if time.monotonic() - self._looked_at < _LOOK_EVERY:
            return
        if added := [each for each in self._existing() if each not in self._assigned]:
            self._consumer.incremental_assign([TopicPartition(*each, OFFSET_BEGINNING) for each in added])
            self._assigned.update(added)
            self._behind.update(added)

    # ── Messages ─────────────────────────────────────────────────────────────

    def _last_of(
        self, partition: _Partition, low: int, high: int, count: int, accepts: Callable[[FollowedRecord], bool]
    ) -> Sequence[tuple[int, FollowedRecord]]:
        """With their times, in milliseconds."""
        found: deque[tuple[int, FollowedRecord]] = deque(maxlen=count)
        back = max(count, _FIRST_LOOK_BACK)
        while low < high:
            found.clear()
            start = max(low, high - back)
            for message in self._between(partition, start, high):
                if accepts(record := followed(message)):
                    found.append((message.timestamp()[1], record))
            if len(found) == count or start == low or back >= _LOOK_BACK:
                break
            back = min(10 * back, _LOOK_BACK)
        return found

    def _between(self, partition: _Partition, start: int, end: int) -> Iterator[Message]:
        self._assign([TopicPartition(*partition, start)])
        moved_at = time.monotonic()
        while self._behind:
            messages = self._some()
            for message in messages:
                if (offset := message.offset() or 0) < end:
                    yield message
                if offset >= end - 1:
                    return
            if messages:
                moved_at = time.monotonic()
            elif time.monotonic() - moved_at > _IDLE_TIMEOUT:
                raise SinkUnavailable(self._silence())

    def _some(self) -> list[Message]:
        """Waits a moment for the first message. Raises SinkUnavailable for a topic that cannot be read."""
        first = self._consumer.poll(_WAIT)
        if first is None:
            return []
        return [each for each in (first, *self._consumer.consume(_FOLLOWED_BATCH, timeout=0)) if self._is_record(each)]

    def _is_record(self, message: Message) -> bool:
        error = message.error()
        if error is None:
            return True
        if error.code() == KafkaError._PARTITION_EOF:
            self._behind.discard((message.topic(), message.partition()))
        elif error.code() in FINAL:
            raise SinkUnavailable(f"cannot read topic {message.topic()}: {error.str()}")
        else:
            self._last_error = error.str()
        return False

    def _is_copy(self, record: FollowedRecord) -> bool:
        marker = record.time, record.notice
        if not record.notice:
            return False
        if marker in self._markers:
            return True
        self._markers.append(marker)
        return False

    # ── Errors ───────────────────────────────────────────────────────────────

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except KafkaException as error:
            servers = self._options.bootstrap_servers
            raise SinkUnavailable(f"cannot read from {servers}: {self._last_error or error.args[0].str()}") from error

    def _silence(self) -> str:
        reason = self._last_error or "no answer"
        return f"{self._options.bootstrap_servers}: no record came for {_IDLE_TIMEOUT:g} s: {reason}"

    def _on_error(self, error: KafkaError) -> None:
        self._last_error = error.str()
