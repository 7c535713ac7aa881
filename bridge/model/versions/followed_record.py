"""Shows a stored record to people, for ``kubedelta tail``: what happened to which object, with its states.

A record may have any format: a CloudEvent, an envelope, a row, or an object alone. A record that has none of these
forms is ``foreign``, and ends nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from kubedelta_reader import Record
from kubedelta_reader.events import attributes_of, rfc3339, state_in
from msgspec.structs import replace

from bridge.model.change import OP_OF_NAME, Op
from bridge.model.formats.cloudevent import GAP_TYPE, SNAPSHOT_TYPES, TERM_TYPE
from bridge.model.formats.envelope import OP_OF_CODE
from bridge.model.formats.notice import GapData, SnapshotData, TermData
from bridge.model.formats.object_paths import CORE, object_name
from bridge.model.record import SnapshotEdge
from bridge.model.versions.stored_version import StoredKind, stored_version_of


class FollowedRecord(msgspec.Struct, frozen=True, gc=False):
    """A record at the destination. Texts come as they are, and may have control characters."""

    text: bytes
    """The whole record as the destination has it; JSON, unless ``foreign``."""
    op: Op | None = None
    """None for a notice, and in a format that has no operations."""
    time: str = ""
    """RFC 3339; empty if the format has no time."""
    cluster: str = ""
    group: str = ""
    plural: str = ""
    """Empty if the format has only a kind."""
    kind: str = ""
    """Empty if the format has it in the object alone."""
    namespace: str = ""
    name: str = ""
    version: str = ""
    """resourceVersion."""
    evidence: str = ""
    object: bytes | None = None
    """The state after the change, JSON; of a deleted object the last known state. None if the format has none."""
    before: bytes | None = None
    """The state before the change, if the format has it."""
    notice: str = ""
    """A gap, the edge of a snapshot or the beginning of a term, in words."""
    is_gap: bool = False
    foreign: bool = False
    """A record of another program, or one that cannot be read."""

    @property
    def resource(self) -> str:
        """kubectl's name: ``deployments.apps``; with the kind where the plural is not known."""
        word = self.plural or self.kind
        return f"{word}.{self.group}" if self.group else word


# ── A line or a message into a record ────────────────────────────────────────

_UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, ValueError, OverflowError)
_NOTHING = msgspec.Raw()
_WITH_STATES = ("kubedelta.envelope.", "kubedelta.row.")
"""Types of events whose data has a form of its own."""
_ONE_LINE = bytes.maketrans(b"\r\n", b"  ")
"""In JSON these characters stand outside of strings alone, where a space means the same."""


class _Event(msgspec.Struct):
    """A CloudEvent."""

    type: str
    time: str = ""
    partitionkey: str = ""
    resourceversion: str = ""
    op: str = ""
    evidence: str = ""
    data: msgspec.Raw = _NOTHING


class _Source(msgspec.Struct):
    db: str
    schema: str
    table: str
    kind: str
    namespace: str
    objectname: str
    resourceversion: str
    evidence: str


class _Envelope(msgspec.Struct):
    op: str
    source: _Source
    ts_ms: int
    before: msgspec.Raw = _NOTHING
    after: msgspec.Raw = _NOTHING


class _Row(msgspec.Struct):
    cluster: str
    group: str
    resource: str
    kind: str
    namespace: str
    name: str
    resource_version: str
    op: str
    evidence: str
    time: str
    object: msgspec.Raw = _NOTHING
    before: msgspec.Raw = _NOTHING


class _Metadata(msgspec.Struct):
    name: str
    namespace: str = ""
    resourceVersion: str = ""


class _Object(msgspec.Struct):
    apiVersion: str
    kind: str
    metadata: _Metadata


_decode_event = msgspec.json.Decoder(_Event).decode
_decode_envelope = msgspec.json.Decoder(_Envelope).decode
_decode_row = msgspec.json.Decoder(_Row).decode
_decode_object = msgspec.json.Decoder(_Object).decode


def followed(record: Record) -> FollowedRecord:
    """``foreign`` for a record that cannot be read. A tombstone has its key for a text, if nothing else is known of
    it."""
    if record.headers is None:
        return FollowedRecord(b"", foreign=True) if record.data is None else record_in(record.data)
    found = _in_message(record.headers, record.data)
    if record.data is not None:
        return found
    return replace(found, text=record.key) if found.foreign else replace(found, evidence="tombstone")


def record_in(line: bytes) -> FollowedRecord:
    """Lines of several formats may follow one another, since the option may have changed. ``foreign`` for a line that
    has none of these forms."""
    for form in (_from_event, _from_envelope, _from_row, _from_object):
        try:
            return form(line)
        except _UNREADABLE:
            continue
    return FollowedRecord(line, foreign=True)


def _in_message(headers: Mapping[str, str | bytes], data: bytes | None) -> FollowedRecord:
    """A message in the binary form of CloudEvents. Its text is the structured form. ``data``: None for Kafka's
    tombstone. ``foreign`` for a message without these attributes."""
    try:
        attributes = attributes_of(headers)
        if stored_version_of(attributes).kind is not StoredKind.FOREIGN:
            return _from_event(_structured(attributes, data))
    except _UNREADABLE:
        pass
    return FollowedRecord(data or b"", foreign=True)


def _structured(attributes: Mapping[str, str], data: bytes | None) -> bytes:
    """In one line."""
    content: Any = None
    if data is not None:
        try:
            content = msgspec.json.decode(data, type=msgspec.Raw)
        except _UNREADABLE:  # ``data`` of a sink may make a text.
            content = data.decode(errors="replace")
    return msgspec.json.encode({**attributes, "data": content}).translate(_ONE_LINE)


def _from_event(line: bytes) -> FollowedRecord:
    event = _decode_event(line)
    data = bytes(event.data)
    if event.type == GAP_TYPE:
        return FollowedRecord(line, time=event.time, notice=_gap_in_words(data), is_gap=True)
    if event.type == TERM_TYPE:
        term = msgspec.json.decode(data, type=TermData).term
        return FollowedRecord(line, time=event.time, notice=f"the leader of term {term} delivers from here on")
    for edge, kind in SNAPSHOT_TYPES.items():
        if event.type == kind:
            return FollowedRecord(line, time=event.time, notice=_edge_in_words(edge, data))
    if (key := object_name(event.partitionkey)) is None:
        raise ValueError("no key of an object")
    states = FollowedRecord(b"")
    if event.type.startswith(_WITH_STATES):
        states = record_in(data)
    elif event.type.startswith("kubedelta.object."):
        states = FollowedRecord(b"", object=state_in(event.data) or None)
    return FollowedRecord(
        line,
        op=OP_OF_NAME.get(event.op),
        time=event.time,
        cluster=key.cluster,
        group=key.group,
        plural=key.plural,
        namespace=key.namespace,
        name=key.name,
        version=event.resourceversion,
        evidence=event.evidence,
        kind=states.kind,
        object=states.object,
        before=states.before,
    )


def _from_envelope(line: bytes) -> FollowedRecord:
    envelope = _decode_envelope(line)
    source, op = envelope.source, OP_OF_CODE.get(envelope.op)
    before, after = state_in(envelope.before) or None, state_in(envelope.after) or None
    return FollowedRecord(
        line,
        op=op,
        time=rfc3339(envelope.ts_ms),
        cluster=source.db,
        group="" if source.schema == CORE else source.schema,
        plural=source.table,
        kind=source.kind,
        namespace=source.namespace,
        name=source.objectname,
        version=source.resourceversion,
        evidence=source.evidence,
        # Debezium sends the last state of a deleted object as ``before``.
        object=before if op is Op.DELETED else after,
        before=None if op is Op.DELETED else before,
    )


def _from_row(line: bytes) -> FollowedRecord:
    row = _decode_row(line)
    return FollowedRecord(
        line,
        op=OP_OF_NAME.get(row.op),
        time=row.time,
        cluster=row.cluster,
        group=row.group,
        plural=row.resource,
        kind=row.kind,
        namespace=row.namespace,
        name=row.name,
        version=row.resource_version,
        evidence=row.evidence,
        object=state_in(row.object) or None,
        before=state_in(row.before) or None,
    )


def _from_object(line: bytes) -> FollowedRecord:
    found = _decode_object(line)
    group, slash, _ = found.apiVersion.partition("/")
    return FollowedRecord(
        line,
        group=group if slash else "",
        kind=found.kind,
        namespace=found.metadata.namespace,
        name=found.metadata.name,
        version=found.metadata.resourceVersion,
        object=line,
    )


def _gap_in_words(data: bytes) -> str:
    gap = msgspec.json.decode(data, type=GapData)
    count = "an unknown number of records" if gap.count is None else f"{gap.count} records"
    about = f" of {', '.join(gap.resources)}" if gap.resources else ""
    return f"gap: {count}{about} from {gap.first} to {gap.last} will never come: {gap.reason}"


def _edge_in_words(edge: SnapshotEdge, data: bytes) -> str:
    return f"snapshot {edge}: {msgspec.json.decode(data, type=SnapshotData).count} objects"
