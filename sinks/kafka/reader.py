"""Reads the topics of a sink again, for ``kubedelta verify`` and ``kubedelta tail``."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from functools import partial

from kubedelta_reader import Record
from kubedelta_reader.sources.kafka import KafkaSource

from sinks.kafka.config import ClientConfig
from sinks.kafka.options import KafkaOptions
from sinks.kafka.topics import topics_pattern
from sinks.reader import ANY_OBJECT, ReadFilter, ReadPurpose

_LOOK_EVERY = 10.0
"""Seconds between two looks for new topics and partitions, for ``ReadPurpose.TAIL``."""


class KafkaReader(KafkaSource):
    """See RecordReader."""

    def __init__(self, name: str, options: KafkaOptions, *, cluster: str, purpose: ReadPurpose) -> None:
        self._pattern = partial(topics_pattern, options.topic, cluster, notice_topic=options.notice_topic)
        is_tail = purpose is ReadPurpose.TAIL
        super().__init__(
            partial(ClientConfig(options).reader, purpose),
            self._pattern(ANY_OBJECT),
            named=options.topic,
            once=is_tail,
            look_every=_LOOK_EVERY if is_tail else 0.0,
            timeout=options.connect_timeout,
        )

    def read(self, sought: Sequence[ReadFilter] = ANY_OBJECT) -> AsyncGenerator[Sequence[Record]]:
        self.topics = self._pattern(sought)
        return super().read()
