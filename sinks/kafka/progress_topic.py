"""Reads and writes the progress topic, which has the newest progress of each sink under its transactional id."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from concurrent.futures import Executor
from contextlib import contextmanager
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from bridge.model.versions.progress import Progress, decode_progress, encode_progress
from sinks.kafka.config import ClientConfig
from sinks.kafka.encode import KafkaMessage
from sinks.kafka.options import KafkaOptions
from sinks.receipt import SinkUnavailable

_LOOK_BACK = 1000
"""Records in which the newest progress is sought first. Then ten times as many, and so on."""
_BATCH = 1000
_WAIT = 0.05


class ProgressTopic:
    """Blocking calls run in ``threads``."""

    def __init__(self, options: KafkaOptions, config: ClientConfig, threads: Executor) -> None:
        self._options = options
        self._config = config
        self._threads = threads
        self.key = ""
        """The transactional id, which is known when the sink is opened."""
        self._partition = (options.topic_of_progress, 0)
        self._last_error = ""

    def message(self, progress: Progress) -> KafkaMessage:
        topic, partition = self._partition
        return KafkaMessage(topic, self.key, (encode_progress(progress),), {}, partition)

    async def read(self, *, committed: bool = True) -> Progress | None:
        """The newest progress under the key; None if there is none. If ``committed``, waits for open transactions in
        front of the topic's end; otherwise also reads what they and aborted ones have. Raises SinkUnavailable."""
        loop = asyncio.get_running_loop()
        try:
            found = await loop.run_in_executor(self._threads, self._read, committed)
        except KafkaException as error:
            reason = self._last_error or (error.args[0].str() if error.args else "no answer")
            raise SinkUnavailable(f"cannot read the progress in topic {self._partition[0]}: {reason}") from error
        if found is None:
            return None
        try:
            return decode_progress(found)
        except ValueError as error:
            raise SinkUnavailable(
                f"topic {self._partition[0]} has a progress under {self.key} that cannot be read ({error}): run the"
                " kubedelta that wrote it, or set another progress_topic, and records may be delivered again"
            ) from error

    def _read(self, committed: bool) -> bytes | None:
        """The newest value under the key."""
        found: bytes | None = None
        with self._consumer(committed) as consumer:
            low, end = self._offsets(consumer)
            end = self._settled_end(consumer) if committed else end
            for start in _starts(low, end):
                for message in self._between(consumer, start, end):
                    key, value = bytes(message.key() or b"").decode(errors="replace"), message.value()
                    if value is not None and key == self.key:
                        found = bytes(value)
                if found is not None:
                    break
        return found

    @contextmanager
    def _consumer(self, committed: bool) -> Iterator[Consumer]:
        level = "read_committed" if committed else "read_uncommitted"
        # An end is reported with an answer to a fetch, which by default waits half a second for records.
        special = {"isolation.level": level, "fetch.wait.max.ms": 10, "error_cb": self._on_error}
        consumer = Consumer(self._config.reader("progress") | special)
        try:
            yield consumer
        finally:
            consumer.close()

    def _settled_end(self, consumer: Consumer) -> int:
        """The present end of the partition, once no open transaction stands in front of it."""
        with self._consumer(committed=False) as of_all:
            _, end = self._offsets(of_all)
        until = time.monotonic() + self._options.connect_timeout
        while self._offsets(consumer)[1] < end:
            if time.monotonic() > until:
                raise SinkUnavailable(
                    f"an open transaction of another producer hides the end of topic {self._partition[0]}: it ends"
                    " after its transaction.timeout.ms; kafka-transactions.sh find-hanging finds one that does not end"
                )
            time.sleep(_WAIT)
        return end

    def _offsets(self, consumer: Consumer) -> tuple[int, int]:
        """The first one, and the end at the consumer's isolation level. A consumer asks for them, because librdkafka's
        AdminClient takes three seconds now and then: it misses the first metadata, and waits before it asks again."""
        return consumer.get_watermark_offsets(self._at(0), timeout=self._options.connect_timeout)

    def _between(self, consumer: Any, start: int, end: int) -> Iterator[Any]:
        """The records from an offset to the end. Raises SinkUnavailable when none comes for a while."""
        consumer.assign([self._at(start)])
        until = time.monotonic() + self._options.connect_timeout
        while time.monotonic() < until:
            for message in consumer.consume(_BATCH, timeout=_WAIT):
                error = message.error()
                if error is None:
                    until = time.monotonic() + self._options.connect_timeout
                    if message.offset() < end:
                        yield message
                elif error.code() != KafkaError._PARTITION_EOF:
                    raise KafkaException(error)
                if (message.offset() or 0) >= end - (error is None):
                    return
        reason = self._last_error or "no answer"
        raise SinkUnavailable(f"cannot read the progress in topic {self._partition[0]}: {reason}")

    def _at(self, offset: int) -> TopicPartition:
        return TopicPartition(*self._partition, offset)

    def _on_error(self, error: KafkaError) -> None:
        self._last_error = error.str()


def _starts(low: int, end: int) -> Iterator[int]:
    """Offsets from which to read to the end, each further back than the one before; none for an empty partition."""
    back = _LOOK_BACK
    while low < end:
        start = max(low, end - back)
        yield start
        if start == low:
            return
        back *= 10
