"""The version of an object that a stored record is about, for ``kubedelta verify``: identity and version, no body.

A message of Kafka or NATS has its version in its headers, whatever its format. In a line of a file it is in the
CloudEvent, the envelope or the row, and the object in the line stays undecoded.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import StrEnum

import msgspec
from kubedelta_reader import Record
from kubedelta_reader.events import attributes_of, notice_id

from bridge.model.change import OP_OF_NAME, Op
from bridge.model.formats.cloudevent import GAP_TYPE
from bridge.model.formats.envelope import OP_OF_CODE
from bridge.model.formats.object_paths import object_name, partition_key

_OURS = "kubedelta."
_ABOUT_OBJECTS = ("kubedelta.object.", "kubedelta.envelope.", "kubedelta.row.")
_UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


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
        if record.headers is not None:
            yield _in_message(record, record.headers)
            return
        try:
            event = _decode(record.data or b"")
        except _UNREADABLE:
            yield FOREIGN
            return
        source = event.source
        gap, cluster = (event.gap, event.cluster) if isinstance(source, str) else (source.gap, source.db)
        if gap and gap != self._gap and (event.is_row or not isinstance(source, str)):
            self._gap = gap
            yield StoredVersion(StoredKind.GAP, cluster)
        yield _in_line(event)


def stored_version_of(attributes: Mapping[str, str]) -> StoredVersion:
    """Classifies a record by the attributes of its CloudEvent."""
    kind = attributes.get("type", "")
    if not kind.startswith(_OURS):
        return FOREIGN
    key = attributes.get("partitionkey", "")
    if not kind.startswith(_ABOUT_OBJECTS):
        identity = attributes.get("id", "")
        is_marker = notice_id(identity) != identity
        return StoredVersion(StoredKind.GAP if kind == GAP_TYPE and not is_marker else StoredKind.NOTICE, key)
    try:
        return StoredVersion(
            StoredKind.OBJECT, key, Op(attributes["op"]), attributes["uid"], attributes["resourceversion"]
        )
    except (KeyError, ValueError):
        return FOREIGN


def _in_message(record: Record, headers: Mapping[str, str | bytes]) -> StoredVersion:
    """A tombstone of any program says that the object of its key is deleted."""
    try:
        found = stored_version_of(attributes_of(headers))
        if found is FOREIGN and record.data is None and object_name(key := record.key.decode()) is not None:
            return StoredVersion(StoredKind.OBJECT, key, Op.DELETED)
    except UnicodeDecodeError:
        return FOREIGN
    return found


# ── Lines ────────────────────────────────────────────────────────────────────


class _Source(msgspec.Struct):
    """The ``source`` of an envelope."""

    db: str
    schema: str = ""
    table: str = ""
    namespace: str = ""
    objectname: str = ""
    uid: str = ""
    resourceversion: str = ""
    gap: str = ""


class _Line(msgspec.Struct):
    """The attributes of a CloudEvent, an envelope or a row, without the object in it."""

    op: str = ""
    source: str | _Source = ""
    type: str = ""
    partitionkey: str = ""
    uid: str = ""
    resourceversion: str = ""
    cluster: str = ""
    group: str = ""
    resource: str = ""
    namespace: str = ""
    name: str = ""
    resource_version: str = ""
    gap: str | None = None

    @property
    def is_row(self) -> bool:
        return not self.type and all((self.cluster, self.resource, self.name, self.uid, self.resource_version))


_decode = msgspec.json.Decoder(_Line).decode


def _in_line(event: _Line) -> StoredVersion:
    source = event.source
    if event.is_row:
        key = partition_key(event.cluster, event.group, event.resource, event.namespace, event.name)
        op = OP_OF_NAME.get(event.op)
        return StoredVersion(StoredKind.OBJECT, key, op, event.uid, event.resource_version) if op else FOREIGN
    if isinstance(source, str):
        attributes = ("type", "partitionkey", "op", "uid", "resourceversion")
        return stored_version_of({name: getattr(event, name) for name in attributes})
    if (op := OP_OF_CODE.get(event.op)) is None:
        return FOREIGN
    key = partition_key(source.db, source.schema, source.table, source.namespace, source.objectname)
    return StoredVersion(StoredKind.OBJECT, key, op, source.uid, source.resourceversion)
