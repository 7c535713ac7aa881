"""What a stored record is about: for ``kubedelta verify`` the version of an object, without its body, and for
``kubedelta tail`` what happened to which object, with its states.

``kubedelta_reader`` makes an Event of a record of any format. A record that has none of these forms is foreign, and
ends nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Any

import msgspec
from kubedelta_reader import Record
from kubedelta_reader.events import Event, NotAnEvent, attributes_of, notice_id, state_in
from msgspec.structs import replace

from bridge.model.change import OP_OF_NAME, Op
from bridge.model.formats.cloudevent import GAP_TYPE, SNAPSHOT_TYPES, TERM_TYPE, GapData, SnapshotData, TermData
from bridge.model.formats.object_paths import ObjectName
from bridge.model.record import SnapshotEdge

_OURS = "kubedelta."
_OF_STATE = "kubedelta.object."
_WITH_STATES = ("kubedelta.envelope.", "kubedelta.row.")
"""Types of events whose data has a form of its own."""
_UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, ValueError, OverflowError)


def is_notice(kind: str) -> bool:
    """``kind``: the type of an event."""
    return kind.startswith(_OURS) and not kind.startswith((_OF_STATE, *_WITH_STATES))


# ── For verify ───────────────────────────────────────────────────────────────


class StoredKind(StrEnum):
    OBJECT = "object"
    GAP = "gap"
    NOTICE = "notice"
    """A notice of the bridge other than a gap."""
    FOREIGN = "foreign"
    """A record of another program, or without the attributes of a CloudEvent."""


class StoredVersion(msgspec.Struct, frozen=True, gc=False):
    """What a record at the destination is about."""

    kind: StoredKind
    partition_key: str = ""
    """``<cluster>/<group>/<resource>/<namespace>/<name>``; for a gap or a notice, the cluster."""
    op: Op | None = None
    """None unless the record is about an object; so are the fields below empty."""
    uid: str = ""
    resource_version: str = ""


FOREIGN = StoredVersion(StoredKind.FOREIGN)


class StoredVersions:
    """Reads the versions in the records of a destination, which come in their order."""

    def __init__(self) -> None:
        self._gap = ""
        """The gap that the last envelope or row named."""

    def of(self, record: Record) -> Iterator[StoredVersion]:
        """One version, or two: a gap among envelopes or rows has no line, so a line that names another gap than the
        line before it gives that gap, too."""
        try:
            event = record.event()
        except NotAnEvent:
            yield _of_tombstone(record)
            return
        if record.headers is None and event.gap and event.gap != self._gap:
            self._gap = event.gap
            yield StoredVersion(StoredKind.GAP, event.key.partition("/")[0])
        yield _version_in(event)


def _version_in(event: Event) -> StoredVersion:
    if is_notice(event.type):
        is_gap = event.type == GAP_TYPE and notice_id(event.id) == event.id
        return StoredVersion(StoredKind.GAP if is_gap else StoredKind.NOTICE, event.key)
    if (op := OP_OF_NAME.get(event.op)) is None:
        return FOREIGN
    return StoredVersion(StoredKind.OBJECT, event.key, op, event.uid, event.version)


def _of_tombstone(record: Record) -> StoredVersion:
    """A tombstone of any program says that the object of its key is deleted."""
    if record.headers is None or record.data is not None:
        return FOREIGN
    try:
        ObjectName.of(key := record.key.decode())
    except ValueError:
        return FOREIGN
    return StoredVersion(StoredKind.OBJECT, key, Op.DELETED)


# ── For tail ─────────────────────────────────────────────────────────────────


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


def followed(record: Record) -> FollowedRecord:
    """``foreign`` for a record that cannot be read. A tombstone has its key for a text, if nothing else is known of
    it."""
    text = record.key if record.data is None else record.data
    try:
        event = record.event()
        if record.headers is None:
            return _followed(event, text)
        found = _followed(event, _structured(attributes_of(record.headers), record.data))
        return found if record.data is not None else replace(found, evidence="tombstone")
    except (NotAnEvent, *_UNREADABLE):
        return FollowedRecord(text, foreign=True) if record.headers is not None else _object_alone(text)


_ONE_LINE = bytes.maketrans(b"\r\n", b"  ")
"""In JSON these characters stand outside of strings alone, where a space means the same."""


def _structured(attributes: Mapping[str, str], data: bytes | None) -> bytes:
    """The structured form of a message in the binary form, in one line. ``data``: None for Kafka's tombstone."""
    content: Any = None
    if data is not None:
        try:
            content = msgspec.json.decode(data, type=msgspec.Raw)
        except _UNREADABLE:  # ``data`` of a sink may make a text.
            content = data.decode(errors="replace")
    return msgspec.json.encode({**attributes, "data": content}).translate(_ONE_LINE)


class _Source(msgspec.Struct):
    kind: str = ""


class _States(msgspec.Struct):
    """What an Event does not have of an event, an envelope or a row."""

    kind: str = ""
    source: str | _Source = ""
    before: msgspec.Raw = msgspec.Raw()
    data: msgspec.Raw = msgspec.Raw()


_decode_states = msgspec.json.Decoder(_States).decode


def _followed(event: Event, text: bytes) -> FollowedRecord:
    """Raises one of _UNREADABLE."""
    if words := _in_words(event):
        return FollowedRecord(text, time=event.time, notice=words, is_gap=event.type == GAP_TYPE)
    name, op, kind = ObjectName.of(event.key), OP_OF_NAME.get(event.op), ""
    state = before = b""
    if event.type.startswith(_OF_STATE):
        state = state_in(_decode_states(text).data)
    elif event.type.startswith(_WITH_STATES):
        states = _decode_states(text)
        if data := bytes(states.data):
            states = _decode_states(data)
        state, kind = event.data, states.kind
        if isinstance(states.source, _Source):
            kind = states.source.kind
        # Debezium sends the last state of a deleted object as ``before``.
        if isinstance(states.source, str) or op is not Op.DELETED:
            before = state_in(states.before)
    return FollowedRecord(
        text,
        op=op,
        time=event.time,
        cluster=name.cluster,
        group=name.group,
        plural=name.plural,
        kind=kind,
        namespace=name.namespace,
        name=name.name,
        version=event.version,
        evidence=event.evidence,
        object=state or None,
        before=before or None,
    )


def _in_words(event: Event) -> str:
    """A notice; empty for a change."""
    if event.type == GAP_TYPE:
        gap = msgspec.json.decode(event.data, type=GapData)
        count = "an unknown number of records" if gap.count is None else f"{gap.count} records"
        about = f" of {', '.join(gap.resources)}" if gap.resources else ""
        return f"gap: {count}{about} from {gap.first} to {gap.last} will never come: {gap.reason}"
    if event.type == TERM_TYPE:
        term = msgspec.json.decode(event.data, type=TermData).term
        return f"the leader of term {term} delivers from here on"
    for edge in SnapshotEdge:
        if event.type == SNAPSHOT_TYPES[edge]:
            return f"snapshot {edge}: {msgspec.json.decode(event.data, type=SnapshotData).count} objects"
    return ""


class _Metadata(msgspec.Struct):
    name: str
    namespace: str = ""
    resourceVersion: str = ""


class _Object(msgspec.Struct):
    apiVersion: str
    kind: str
    metadata: _Metadata


_decode_object = msgspec.json.Decoder(_Object).decode


def _object_alone(line: bytes) -> FollowedRecord:
    try:
        found = _decode_object(line)
    except _UNREADABLE:
        return FollowedRecord(line, foreign=True)
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
