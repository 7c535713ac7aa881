"""Makes an Event of a record, in each form that sinks send: CloudEvents in the structured form (webhooks, files) and in
the binary form (headers and a payload: Kafka, NATS, webhooks), envelopes, and rows.

Only what the rules need is decoded; the state of an object stays the bytes that came. What has none of these forms
raises NotAnEvent: a reader passes it over, or stops, as it likes."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any
from urllib.parse import unquote

import msgspec
from msgspec.structs import replace

CHANGES = ("added", "updated", "deleted", "sync")
_MARKER = re.compile(r"/p[0-9]+$")
_LARGEST = 2**62
"""Of every number: readers keep them in 64 bits."""
_LONGEST = 1024
"""Characters of what a reader notes: ids, and names of snapshots and gaps."""


class NotAnEvent(Exception):
    """A record of another program, or one that cannot be read. The message says what is missing."""


class _Attributes(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """What an Event has of a CloudEvent, under its names there."""

    type: str
    """``kubedelta.object.updated.v1``; of a notice ``kubedelta.gap.v1`` and the like."""
    id: str
    source: str = ""
    """With ``id`` the identity of the event. Empty where the form has only the id, which then names the epoch."""
    key: str = msgspec.field(name="partitionkey", default="")
    """``<cluster>/<group>/<resource>/<namespace>/<name>``; of a notice the cluster."""
    uid: str = ""
    version: str = msgspec.field(name="resourceversion", default="")
    """resourceVersion."""
    op: str = ""
    """One of CHANGES; empty for a notice, and for an op of a later version."""
    evidence: str = ""
    epoch: int = 1
    time: str = ""
    """RFC 3339: when the bridge saw the change."""
    snapshot: str = ""
    """The name of the snapshot that the record belongs to."""
    term: int = 0


class Event(_Attributes, frozen=True, kw_only=True):
    """A record of a stream: a change of an object, or a notice about the stream."""

    sequence: int
    gap: str = ""
    """The id of the stream's newest gap, where records name it."""
    data: bytes = b""
    """The state of the object after the change, JSON; of a deleted object the last known one. Of a notice its data.
    Empty if the record has none."""
    managers: bytes = b""
    """The field managers that made the change, as a JSON list; empty where the record does not tell them."""

    @property
    def resource(self) -> str:
        """``<group>/<resource>`` of the key."""
        return "/".join(self.key.split("/")[1:3])


class Record(msgspec.Struct, frozen=True, gc=False):
    """A record as it stands at its destination: a line of a file, or a message of a topic or a stream."""

    data: bytes | None
    """The line, or the payload of the message. None for a line that is too long or damaged, and for a message without a
    payload (Kafka's tombstone)."""
    headers: Mapping[str, str | bytes] | None = None
    """Of a message, as they came. None for a line."""
    key: bytes = b""
    """Of a record of Kafka."""
    partition: str = ""
    """``<topic>/<number>`` of a record of Kafka, for ``Reader.apply``."""

    def event(self) -> Event:
        """Raises NotAnEvent. Lines of several formats may follow one another, since the option may have changed."""
        if self.headers is not None:
            return binary(self.headers, self.data)
        if self.data is None:
            raise NotAnEvent("the line is too long, or damaged")
        for form in (*_LIKELY.get(self.data[:4], ()), structured, row):
            try:
                return form(self.data)
            except NotAnEvent:
                continue
        return envelope(self.data)


class _Structured(_Attributes, frozen=True, kw_only=True):
    source: str
    sequence: str
    data: msgspec.Raw = msgspec.Raw()


class _EnvelopeSource(msgspec.Struct):
    db: str
    schema: str
    table: str
    namespace: str
    objectname: str
    uid: str
    resourceversion: str
    id: str
    sequence: str
    evidence: str
    epoch: int = 1
    snapshot: str = "false"
    gap: str | None = None
    term: int | None = None


class _Envelope(msgspec.Struct):
    op: str
    source: _EnvelopeSource
    ts_ms: int | None = None
    before: msgspec.Raw = msgspec.Raw()
    after: msgspec.Raw = msgspec.Raw()
    managers: msgspec.Raw = msgspec.Raw()


class _Row(msgspec.Struct):
    cluster: str
    group: str
    resource: str
    namespace: str
    name: str
    uid: str
    resource_version: str
    op: str
    evidence: str
    time: str
    epoch: int
    sequence: str
    id: str
    snapshot: str | None = None
    gap: str | None = None
    object: msgspec.Raw = msgspec.Raw()
    managers: msgspec.Raw = msgspec.Raw()


_structured = msgspec.json.Decoder(_Structured)
_envelope = msgspec.json.Decoder(_Envelope)
_row = msgspec.json.Decoder(_Row)
_managers = msgspec.json.Decoder(list[dict[str, Any]])
_OPS = {"c": "added", "u": "updated", "d": "deleted", "r": "sync"}
_UNREADABLE = (msgspec.MsgspecError, ValueError, UnicodeDecodeError, RecursionError)


def structured(line: bytes) -> Event:
    """A CloudEvent in the structured form. Raises NotAnEvent."""
    try:
        found = _structured.decode(line)
        sequence = int(found.sequence)
    except _UNREADABLE as error:
        raise NotAnEvent(f"no CloudEvent of kubedelta: {error}") from error
    return _event(found, sequence, bytes(found.data), "")


def binary(headers: Mapping[str, str | bytes], payload: bytes | None) -> Event:
    """A CloudEvent in the binary form. ``headers``: with the prefix ``ce_`` (Kafka) or ``ce-`` (NATS and HTTP, whose
    values are percent-encoded), in any case. ``payload`` None: a tombstone of Kafka, whose headers are those of its
    delete. Raises NotAnEvent."""
    try:
        attributes = attributes_of(headers)
        found = msgspec.convert(attributes, _Structured, strict=False)
        sequence = int(found.sequence)
        gap = next((_text(value) for name, value in headers.items() if name.lower() == "kubedelta-gap"), "")
    except _UNREADABLE as error:
        raise NotAnEvent(f"no CloudEvent of kubedelta: {error}") from error
    return _event(found, sequence, payload or b"", gap)


def attributes_of(headers: Mapping[str, str | bytes]) -> dict[str, str]:
    """The attributes of a CloudEvent in the headers of a message; few or none for a message of another program. Raises
    UnicodeDecodeError."""
    found: dict[str, str] = {}
    for name, value in headers.items():
        folded = name.lower()
        if folded.startswith("ce_"):
            found[folded[3:]] = _text(value)
        elif folded.startswith("ce-"):
            found[folded[3:]] = unquote(_text(value), errors="strict")
        elif folded == "content-type":
            found.setdefault("datacontenttype", _text(value))
    found.pop("data", None)  # No attribute of a CloudEvent has this name.
    return found


def notice_id(id: str) -> str:
    """The id of a notice without what a marker, its copy in a partition of Kafka, has behind it."""
    return _MARKER.sub("", id)


def _text(value: object) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


def _event(found: _Structured, sequence: int, data: bytes, gap: str) -> Event:
    """Raises NotAnEvent."""
    inner = _inside(found.type, data)
    return _checked(
        Event(
            type=found.type,
            id=found.id,
            source=found.source,
            sequence=sequence,
            key=found.key,
            uid=found.uid,
            version=found.version,
            op=found.op,
            evidence=found.evidence,
            epoch=found.epoch,
            time=found.time,
            snapshot=found.snapshot,
            term=found.term,
            gap=gap,
            data=data if inner is None else inner.data,
            managers=b"" if inner is None else inner.managers,
        )
    )


def envelope(line: bytes) -> Event:
    """An envelope, in the form of Debezium. Raises NotAnEvent."""
    try:
        found = _envelope.decode(line)
        source = found.source
        sequence = int(source.sequence)
        op = _OPS[found.op]
        time = "" if found.ts_ms is None else rfc3339(found.ts_ms)
        state = state_in(found.before if op == "deleted" else found.after)
        managers = _managers_in(found.managers)
    except (*_UNREADABLE, KeyError, OverflowError, OSError) as error:
        raise NotAnEvent(f"no envelope of kubedelta: {error}") from error
    return _checked(
        Event(
            type=f"kubedelta.envelope.{op}.v1",
            id=source.id,
            source=_source_of(source.db, source.epoch),
            sequence=sequence,
            key=_key_of(source.db, source.schema, source.table, source.namespace, source.objectname),
            uid=source.uid,
            version=source.resourceversion,
            op=op,
            evidence=source.evidence,
            epoch=source.epoch,
            time=time,
            snapshot="" if source.snapshot == "false" else "snapshot",
            term=source.term or 0,
            gap=source.gap or "",
            data=state,
            managers=managers,
        )
    )


def row(line: bytes) -> Event:
    """A row. Raises NotAnEvent."""
    try:
        found = _row.decode(line)
        sequence = int(found.sequence)
        state = state_in(found.object)
        managers = _managers_in(found.managers)
    except _UNREADABLE as error:
        raise NotAnEvent(f"no row of kubedelta: {error}") from error
    return _checked(
        Event(
            type=f"kubedelta.row.{found.op}.v1",
            id=found.id,
            source=_source_of(found.cluster, found.epoch),
            sequence=sequence,
            key=_key_of(found.cluster, found.group, found.resource, found.namespace, found.name),
            uid=found.uid,
            version=found.resource_version,
            op=found.op,
            evidence=found.evidence,
            epoch=found.epoch,
            time=found.time,
            snapshot=found.snapshot or "",
            gap=found.gap or "",
            data=state,
            managers=managers,
        )
    )


_LIKELY: Mapping[bytes, tuple[Callable[[bytes], Event], ...]] = {b'{"op': (envelope,), b'{"cl': (row,)}
"""How a line begins → its likely form: each form that a line has not costs a decoding of all of it."""


def _checked(event: Event) -> Event:
    if not event.type.startswith("kubedelta."):
        raise NotAnEvent(f"the type is {event.type[:100]!r}, and no type of kubedelta")
    if not all(0 <= number <= _LARGEST for number in (event.sequence, event.epoch, event.term)):
        raise NotAnEvent("its sequence, epoch or term is no number of a bridge")
    if any(len(text) > _LONGEST for text in (event.id, event.snapshot, event.gap)):
        raise NotAnEvent("its id, snapshot or gap is too long for one of a bridge")
    if event.op not in CHANGES:
        return replace(event, op="")
    if event.key.count("/") != 4:
        raise NotAnEvent(f"the partition key is {event.key[:300]!r}, and names no object")
    return event


def _inside(kind: str, data: bytes) -> Event | None:
    """The envelope or the row that is the data of an event. Raises NotAnEvent."""
    if data and kind.startswith("kubedelta.envelope."):
        return envelope(data)
    if data and kind.startswith("kubedelta.row."):
        return row(data)
    return None


def _source_of(cluster: str, epoch: int) -> str:
    return f"/clusters/{cluster}" if epoch == 1 else f"/clusters/{cluster}/epochs/{epoch}"


def _key_of(cluster: str, group: str, resource: str, namespace: str, name: str) -> str:
    return f"{cluster}/{group or 'core'}/{resource}/{namespace or '_'}/{name}"


def rfc3339(milliseconds: int) -> str:
    """Raises ValueError and OverflowError for a time that no calendar has."""
    return f"{datetime.fromtimestamp(milliseconds / 1000, UTC):%Y-%m-%dT%H:%M:%S}.{milliseconds % 1000:03}Z"


def state_in(raw: msgspec.Raw) -> bytes:
    """JSON of a state or a list, which a row may have as a text; empty for none."""
    content = bytes(raw)
    if content in (b"", b"null"):
        return b""
    return msgspec.json.decode(content, type=str).encode() if content.startswith(b'"') else content


def _managers_in(raw: msgspec.Raw) -> bytes:
    """Raises MsgspecError and UnicodeDecodeError for what is no list of managers."""
    managers = state_in(raw)
    _managers.decode(managers or b"[]")
    return managers
