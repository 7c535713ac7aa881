"""Records as Kafka has them: topic, key, value, headers. Hot."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TypeAlias

import msgspec

from bridge.model.change import Op
from bridge.model.cloudevent import CloudEvents, HeaderNames
from bridge.model.record import Delta, Record
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
    key: str
    values: tuple[bytes] | tuple[bytes, None]
    headers: Headers


class ParcelEncoder:
    def __init__(self, events: CloudEvents, topic: str, cluster: str, *, tombstones: bool) -> None:
        self._events = events
        self._topic = Template(topic, cluster, topic_part)
        self._tombstones = tombstones

    def topics_for(self, resources: Iterable[Resource]) -> list[str]:
        """Topics of these resources' records, and of notices, as far as no object has to be known for it."""
        return self._topic.places(resources)

    def parcel(self, record: Record) -> Parcel:
        """Raises ValueError for a record that has no such form."""
        topic = self._topic.render(record)
        if len(topic) > LONGEST_TOPIC:
            raise ValueError(f"its topic would have {len(topic)} letters; {LONGEST_TOPIC} are the most")
        value = self._events.data(record)
        deleted = self._tombstones and isinstance(record, Delta) and record.op is Op.DELETED
        headers = self._events.headers(record, _KAFKA)
        return Parcel(topic, self._events.partition_key(record), (value, None) if deleted else (value,), headers)


def topic_part(value: str) -> str:
    """A value as it stands in the name of a topic."""
    return _NOT_IN_A_TOPIC.sub("_", value)
