"""Follows the records of topics, for ``kubedelta tail``. Joins no group and commits no offsets."""

from __future__ import annotations

import heapq
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Any, TypeAlias, cast

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Message, TopicPartition
from msgspec.structs import replace

from bridge.model.versions.followed_record import FollowedRecord
from bridge.model.versions.record_forms import record_of
from bridge.model.versions.stored_version import ReadFilter
from sinks.errors import SinkUnavailable
from sinks.kafka.client.config import ClientConfig
from sinks.kafka.options import KafkaOptions
from sinks.kafka.readback import FINAL
from sinks.kafka.topics.names import topics_pattern

_Partition: TypeAlias = tuple[str, int]

_BATCH = 500
_WAIT = 0.25
"""Seconds that a look for records waits for the first of them."""
_LOOK_EVERY = 10.0
"""Seconds between two looks for new topics and partitions."""
_IDLE_TIMEOUT = 30.0
"""Seconds without a record, while some are known to be there, before the brokers count as unavailable."""
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
        return [each for each in (first, *self._consumer.consume(_BATCH, timeout=0)) if self._is_record(each)]

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
