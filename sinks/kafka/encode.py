"""Makes records Kafka messages: topic, key, value, headers. This is on the hot path: it runs for every record.

``TrimmedForms`` makes smaller forms of a record that is too large for its topic (option ``too_large``).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeAlias

import msgspec

from bridge.model.change import Op
from bridge.model.formats.cloudevent import GAP_HEADER, CloudEvents, HeaderNames, end_of_part
from bridge.model.formats.content import Content
from bridge.model.formats.definitions import Definitions
from bridge.model.formats.object_paths import ABSENT
from bridge.model.object import bare_body
from bridge.model.record import Delta, Gap, Notice, Record, Snapshot
from bridge.model.resource import Resource
from sinks.channels import Channel, SentMessage, notice_messages, object_messages
from sinks.kafka.options import KafkaOptions, RecordKey, SecurityProtocol, WhenTooLarge
from sinks.template import Template

Headers: TypeAlias = dict[str, bytes]
"""Values are bytes: librdkafka's binding takes twice as long for text."""

MAX_TOPIC_LENGTH = 249
"""Characters; Kafka's own limit (``org.apache.kafka.common.internals.Topic``)."""
_KAFKA = HeaderNames.prefixed("ce_", datacontenttype="content-type")
_KEY = "ce_partitionkey"
TRIMMED = "ce_trimmed"
"""A header: the parts that a record lacks because it was too large, separated by commas."""
_LACKS = {
    "type": "string",
    "pattern": r"^[a-z.]+(,[a-z.]+)*$",
    "description": "The parts that the record lacks because it was too large: include, metadata.annotations, status,"
    " object.",
}
_NOT_IN_A_TOPIC = re.compile(r"[^A-Za-z0-9._-]")


_KEYS = {
    RecordKey.OBJECT: "The attribute partitionkey",
    RecordKey.UID: "The uid of the object",
    RecordKey.NAMESPACE: "<cluster>/<namespace>, whose namespace is _ for an object without one",
}
"""The keys of records, in words for consumers."""


# gc=False: the collector would otherwise look at thousands of short-lived messages.
class KafkaMessage(msgspec.Struct, frozen=True, gc=False):
    """One record: one Kafka message, or two with a tombstone."""

    topic: str
    key: str | None
    values: tuple[bytes] | tuple[bytes, None] | tuple[None]
    """Two values make two messages with the same key and headers. A message without a value is a tombstone."""
    headers: Headers
    partition: int = -1
    """-1: the partitioner chooses by the key."""


class KafkaEncoder:
    """The binary form of CloudEvents for Kafka: the object is the value, the attributes are headers."""

    def __init__(self, events: CloudEvents, options: KafkaOptions, cluster: str) -> None:
        self._events = events
        self._cluster = cluster
        self._key = options.key
        self.topic = Template(options.topic, cluster, topic_part)
        self._tombstones = options.tombstones
        self._notice_topic = options.notice_topic
        self._last: tuple[Resource | None, str] = (None, "")
        """The resource of the last delta, and its topic, if the topic depends on the resource only."""

    def topics_for(self, resources: Iterable[Resource]) -> list[str]:
        """The topics of records of these resources, then the topic of notices. With ``{namespace}`` in the template the
        topics of records depend on the objects: then only the topic of notices is returned."""
        *topics, notices = self.topic.names(resources)
        return [*topics, self._notice_topic or notices]

    def encode(self, record: Record) -> KafkaMessage:
        """Raises ValueError when the topic would have more than 249 characters."""
        resource, topic = self._last
        if not isinstance(record, Delta) or record.resource is not resource:
            topic = self._topic_of(record)
        value = self._events.data(record)
        deleted = self._tombstones and isinstance(record, Delta) and record.op is Op.DELETED
        headers = self._events.headers(record, _KAFKA)
        key = headers[_KEY].decode() if self._key is RecordKey.OBJECT else self._other_key(record)
        return KafkaMessage(topic, key, (value, None) if deleted else (value,), headers)

    def _other_key(self, record: Record) -> str:
        """Deletes and tombstones have the key of the object's other records; notices have the cluster's name."""
        if not isinstance(record, Delta):
            return self._cluster
        if self._key is RecordKey.UID:
            return record.uid
        return f"{self._cluster}/{record.key.rpartition('/')[0] or ABSENT}"

    def _topic_of(self, record: Record) -> str:
        topic = self.topic.render(record)
        if self._notice_topic is not None and not isinstance(record, Delta):
            topic = self._notice_topic
        checked_topic(topic)
        if isinstance(record, Delta) and not self.topic.is_per_object:
            self._last = record.resource, topic
        return topic


def checked_topic(topic: str) -> str:
    """Returns the name. Raises ValueError when Kafka would not take it for its length."""
    if len(topic) > MAX_TOPIC_LENGTH:
        raise ValueError(f"its topic would have {len(topic)} letters; {MAX_TOPIC_LENGTH} are the most")
    return topic


def topic_part(value: str) -> str:
    """A value as part of a topic name: every character that Kafka forbids becomes ``_``."""
    return _NOT_IN_A_TOPIC.sub("_", value)


class MarkerEncoder:
    """Notices as markers: one copy for each partition. A marker has no key, because a key would make the marker a row
    of a table, and its id ends with the number of the partition."""

    def __init__(self, events: CloudEvents) -> None:
        self._events = events

    def gap(self, gap: Gap, topic: str, partition: int) -> KafkaMessage:
        return self._marker(gap, self._events.data(gap), topic, partition)

    def ended(self, ended: Snapshot, topic: str, partition: int, objects: int, dead_letters: int) -> KafkaMessage:
        """``objects``: records of the snapshot in this partition. ``dead_letters``: records of the snapshot that no
        partition has."""
        return self._marker(ended, end_of_part(ended, objects, dead_letters), topic, partition)

    def _marker(self, notice: Notice, data: bytes, topic: str, partition: int) -> KafkaMessage:
        headers = self._events.headers(notice, _KAFKA)
        headers["ce_id"] += b"/p%d" % partition
        return KafkaMessage(topic, None, (data,), headers, partition)


def channels(options: KafkaOptions, cluster: str, definitions: Definitions) -> Sequence[Channel]:
    """The topics of objects, with markers of notices where the format has them, and the topic of notices."""
    trimmed = {TRIMMED: _LACKS} if options.too_large is WhenTooLarge.TRIM else {}
    objects = object_messages(options, cluster, definitions, _KAFKA, trimmed)
    notices = notice_messages(definitions, _KAFKA)
    tombstones = (_tombstone(objects),) if options.tombstones else ()
    template = Template(options.topic, cluster, topic_part)
    plain = options.security_protocol in (SecurityProtocol.PLAINTEXT, SecurityProtocol.SASL_PLAINTEXT)
    protocol, host = "kafka" if plain else "kafka-secure", options.bootstrap_servers.partition(",")[0]
    return [
        Channel(
            name="objects",
            address=template.of_cluster(),
            messages=(*objects, *tombstones, *(notices if options.format.has_notices else ())),
            protocol=protocol,
            host=host,
            key={"type": ["string", "null"], "description": f"{_KEYS[options.key]}; null for a marker."},
            parameters=template.parameters(),
        ),
        *_state_channel(options, cluster, objects, protocol, host),
        Channel(
            name="notices",
            address=options.notice_topic or template.of_notices(),
            messages=notices,
            protocol=protocol,
            host=host,
            key={"type": "string", "description": "The name of the cluster."},
        ),
    ]


def _state_channel(
    options: KafkaOptions, cluster: str, objects: Sequence[SentMessage], protocol: str, host: str
) -> Iterator[Channel]:
    if options.state_topic is not None:
        template = Template(options.state_topic, cluster, topic_part)
        yield Channel(
            name="state",
            address=template.of_cluster(),
            messages=(*objects, _tombstone(objects)),
            protocol=protocol,
            host=host,
            key={"type": "string", "description": f"{_KEYS[options.key]}."},
            parameters=template.parameters(),
        )


def _tombstone(objects: Sequence[SentMessage]) -> SentMessage:
    return SentMessage("Tombstone", {"type": "null"}, objects[0].headers)


# ── Smaller forms ────────────────────────────────────────────────────────────

_INCLUDED = "include"
_ANNOTATIONS = "metadata.annotations"
_STATUS = "status"
_BARE = "object"

_read = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_write = msgspec.json.Encoder().encode
_UNREADABLE = (msgspec.DecodeError, RecursionError, UnicodeDecodeError)


class TrimmedForms:
    """The forms of a record, each smaller than the one before: without what the option ``include`` adds, without
    annotations, without the status, and the bare object. Parts that a record lacks anyway make no form."""

    def __init__(self, encode: Callable[[Record], KafkaMessage], *, includes: bool) -> None:
        """``includes``: records have what ``include`` adds."""
        self._encode = encode
        self._parts = ([_INCLUDED] if includes else []) + [_ANNOTATIONS, _STATUS, _BARE]

    def next(self, record: Record, message: KafkaMessage) -> KafkaMessage | None:
        """The form after ``message``, which is the record as it was encoded, or a form of it; both name the same gap.
        None behind the bare object, and for a notice. Raises ValueError as ``encode`` does."""
        if not isinstance(record, Delta):
            return None
        had = message.headers.get(TRIMMED, b"").decode().split(",")
        gone = [part for part in had if part]
        if _BARE in gone:
            return None
        trimmed = record
        for part in self._parts:
            smaller = _without(trimmed, part)
            if part not in gone and smaller is not trimmed:
                again = self._encode(smaller)
                again.headers[TRIMMED] = ",".join([*gone, part]).encode()
                if gap := message.headers.get(GAP_HEADER):
                    again.headers[GAP_HEADER] = gap
                return again
            trimmed = smaller
        return None


def _without(delta: Delta, part: str) -> Delta:
    """The same delta if it lacks the part."""
    if part in (_INCLUDED, _BARE):
        if part == _INCLUDED and delta.before is None:
            return delta
        body = bare_body(delta.resource, delta.key, delta.uid, delta.resource_version) if part == _BARE else delta.body
        return msgspec.structs.replace(delta, body=body, before=None, content=delta.content and Content())
    smaller = _body_without(delta.body, part)
    return delta if smaller is None else msgspec.structs.replace(delta, body=smaller)


def _body_without(body: bytes, part: str) -> bytes | None:
    """None if the object lacks the part, or cannot be read. Every other member keeps its bytes."""
    *parents, member = part.split(".")
    try:
        found = _read(body)
        if parents:
            inner = _body_without(bytes(found[parents[0]]), member)
            return None if inner is None else _write(found | {parents[0]: msgspec.Raw(inner)})
        return None if found.pop(member, None) is None else _write(found)
    except (KeyError, *_UNREADABLE):
        return None
