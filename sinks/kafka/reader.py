"""Reads the topics of a sink again, for ``kubedelta verify``, ``tail`` and ``history build``."""

from __future__ import annotations

import heapq
import time
from collections import deque
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from datetime import datetime
from functools import partial

from confluent_kafka import OFFSET_BEGINNING, OFFSET_END
from kubedelta_reader import Record
from kubedelta_reader.events import attributes_of, notice_id
from kubedelta_reader.sources.kafka import KafkaSource, record_of

from bridge.model.formats.stored_record import is_notice
from sinks.kafka.config import ClientConfig
from sinks.kafka.options import KafkaOptions
from sinks.kafka.topics import topics_pattern
from sinks.reader import ANY_OBJECT, ReadFilter, ReadPurpose, look_backs

_LOOK_EVERY = 10.0
"""Seconds between two looks for new topics and partitions, but for ``ReadPurpose.VERIFY``."""


class KafkaReader(KafkaSource):
    """See RecordReader."""

    def __init__(self, name: str, options: KafkaOptions, *, cluster: str, purpose: ReadPurpose) -> None:
        self._is_tail = purpose is ReadPurpose.TAIL
        self._pattern = partial(topics_pattern, options.topic, cluster, notice_topic=options.notice_topic)
        self._notices: deque[str] = deque(maxlen=100)
        """Ids of notices that were given: their copies in other partitions are left out."""
        super().__init__(
            partial(ClientConfig(options).reader, purpose),
            self._pattern(ANY_OBJECT),
            named=options.topic,
            look_every=0.0 if purpose is ReadPurpose.VERIFY else _LOOK_EVERY,
            timeout=options.connect_timeout,
        )

    async def begin(self, since: datetime | None) -> None:
        await self._in_thread(partial(self._begin, since))

    def _begin(self, since: datetime | None) -> None:
        partitions = self._existing()
        found = self._offsets(partitions, OFFSET_BEGINNING if since is None else int(since.timestamp() * 1000))
        # A negative offset: the partition has no record of that time or later.
        found |= self._offsets([each for each in partitions if found[each] < 0], OFFSET_END)
        self._assign(found)

    async def last(self, count: int, accepts: Callable[[Record], bool]) -> Sequence[Record]:
        partitions = await self._in_thread(self._existing)
        lows = await self._in_thread(partial(self._offsets, partitions, OFFSET_BEGINNING))
        highs = await self._in_thread(partial(self._offsets, partitions, OFFSET_END))
        newest = [await self._last_of(each, lows[each], highs[each], count, accepts) for each in partitions]
        await self._in_thread(partial(self._assign, highs))
        self._notices.clear()
        found = [record for _, record in heapq.merge(*newest, key=lambda each: each[0])]
        return [record for record in found if not self._is_copy(record)][-count:]

    async def read(self, sought: Sequence[ReadFilter] = ANY_OBJECT) -> AsyncGenerator[Sequence[Record]]:
        self.topics = self._pattern(sought)
        async with aclosing(super().read()) as batches:
            async for batch in batches:
                yield [each for each in batch if not self._is_copy(each)] if self._is_tail else batch

    async def _last_of(
        self, partition: tuple[str, int], low: int, high: int, count: int, accepts: Callable[[Record], bool]
    ) -> Sequence[tuple[int, Record]]:
        """With their times, in milliseconds."""
        found: deque[tuple[int, Record]] = deque(maxlen=count)
        for start in look_backs(low, high, count):
            found.clear()
            await self._in_thread(partial(self._assign, {partition: start}))
            self._ends, self._moved_at = {partition: high}, time.monotonic()
            while self._ends:
                for message in await self._in_thread(self._messages):
                    if (message.offset() or 0) < high and accepts(record := record_of(message)):
                        found.append((message.timestamp()[1], record))
            if len(found) == count:
                break
        return found

    def _is_copy(self, record: Record) -> bool:
        try:
            attributes = attributes_of(record.headers or {})
        except UnicodeDecodeError:
            return False
        if not is_notice(attributes.get("type", "")):
            return False
        notice = notice_id(attributes.get("id", ""))
        if notice in self._notices:
            return True
        self._notices.append(notice)
        return False
