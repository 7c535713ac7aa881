"""Records as Kafka has them: topic, key, value, headers. Hot."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TypeAlias

import msgspec

from bridge.model.change import Op
from bridge.model.formats.cloudevent import CloudEvents, HeaderNames
from bridge.model.record import Delta, Gap, Notice, Record, Snapshot
from bridge.model.resource import Resource
from sinks.template import Template

Headers: TypeAlias = dict[str, bytes]
"""As bytes: text takes librdkafka's binding twice as long."""

LONGEST_TOPIC = 249
_KAFKA = HeaderNames.prefixed("ce_", datacontenttype="content-type")
_NOT_IN_A_TOPIC = re.compile(r"[^A-Za-z0-9._-]")


class Parcel(msgspec.Struct, frozen=True, gc=False):
    """One record on its way: a message, or two, the second of them a tombstone."""

    topic: str
    key: str | None
    values: tuple[bytes] | tuple[bytes, None]
    headers: Headers
    partition: int = -1
    """-1 for the one that the key leads to."""


class ParcelEncoder:
    def __init__(
        self, events: CloudEvents, topic: str, cluster: str, *, tombstones: bool, notice_topic: str | None = None
    ) -> None:
        self._events = events
        self.topic = Template(topic, cluster, topic_part)
        self._tombstones = tombstones
        self._notice_topic = notice_topic

    def topics_for(self, resources: Iterable[Resource]) -> list[str]:
        """Topics of these resources' records, and of notices, as far as no object has to be known for it."""
        *topics, notices = self.topic.places(resources)
        return [*topics, self._notice_topic or notices]

    def parcel(self, record: Record) -> Parcel:
        """Raises ValueError for a record that has no such form."""
        topic = self.topic.render(record)
        if self._notice_topic is not None and not isinstance(record, Delta):
            topic = self._notice_topic
        if len(topic) > LONGEST_TOPIC:
            raise ValueError(f"its topic would have {len(topic)} letters; {LONGEST_TOPIC} are the most")
        value = self._events.data(record)
        deleted = self._tombstones and isinstance(record, Delta) and record.op is Op.DELETED
        headers = self._events.headers(record, _KAFKA)
        return Parcel(topic, self._events.partition_key(record), (value, None) if deleted else (value,), headers)


def topic_part(value: str) -> str:
    """A value as it stands in the name of a topic."""
    return _NOT_IN_A_TOPIC.sub("_", value)


class MarkerEncoder:
    """Notices as they are told in every partition that they belong to: without a key, which would make them a row of a
    table, and with an id that says which partition it is."""

    def __init__(self, events: CloudEvents) -> None:
        self._events = events

    def gap(self, gap: Gap, topic: str, partition: int) -> Parcel:
        return self._marker(gap, self._events.data(gap), topic, partition)

    def ended(self, ended: Snapshot, topic: str, partition: int, objects: int, dead_letters: int) -> Parcel:
        return self._marker(ended, self._events.end_of_part(ended, objects, dead_letters), topic, partition)

    def _marker(self, notice: Notice, data: bytes, topic: str, partition: int) -> Parcel:
        headers = self._events.headers(notice, _KAFKA)
        headers["ce_id"] += b"/p%d" % partition
        return Parcel(topic, None, (data,), headers, partition)
