"""Encodes records as CloudEvents 1.0: attributes for the binary form, a JSON object for the structured form.

This is the hot path: it runs for every record of every sink with events. So an object's bytes are spliced in unchanged,
and never decoded. The JSON objects of the structured form are types, of which the schemas of all forms of an event are
made.

After versions ran backwards, a uid and a version may come again with another state. The identity of a CloudEvent is
source and id, so the source names the epoch, from the second on. Ids that stand alone (``Nats-Msg-Id``, ``webhook-id``)
begin with the epoch.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Annotated, Protocol, TypeAlias

import msgspec
from msgspec import Meta
from msgspec.structs import replace

from bridge.model.change import Evidence, Op
from bridge.model.formats.content import JSON
from bridge.model.formats.definitions import Definitions, JsonSchema
from bridge.model.formats.object_paths import ObjectPaths
from bridge.model.record import (
    Delta,
    Gap,
    Notice,
    Record,
    Snapshot,
    SnapshotEdge,
    SnapshotScope,
    TermBegan,
    WatchedPart,
)
from bridge.model.resource import Resource

SPEC_VERSION = "1.0"
STRUCTURED_JSON = "application/cloudevents+json"
STRUCTURED_JSON_BATCH = "application/cloudevents-batch+json"
GAP_HEADER = "kubedelta-gap"
"""A header with the id of the newest gap, on every record of a topic that gets no notices."""
GAP_TYPE = "kubedelta.gap.v1"
TERM_TYPE = "kubedelta.term.began.v1"
SNAPSHOT_TYPES = {edge: f"kubedelta.snapshot.{edge}.v1" for edge in SnapshotEdge}

Attributes: TypeAlias = tuple[str, ...]
"""Values in the order of ``DELTA_ATTRIBUTES`` or ``NOTICE_ATTRIBUTES``."""

DELTA_ATTRIBUTES = (
    "specversion", "id", "source", "type", "subject", "time", "datacontenttype", "partitionkey", "sequence",
    "uid", "resourceversion", "op", "evidence", "epoch",
)  # fmt: skip
SNAPSHOT_ATTRIBUTE = "snapshot"
"""Only on records and edges of a snapshot: the id of the snapshot."""
TERM_ATTRIBUTE = "term"
"""Only with an election: the term of the leader."""
NOTICE_ATTRIBUTES = ("specversion", "id", "source", "type", "time", "datacontenttype", "partitionkey", "sequence")


class HeaderNames(msgspec.Struct, frozen=True):
    """Names of the attributes in the headers of a protocol binding."""

    delta: tuple[str, ...]
    notice: tuple[str, ...]
    snapshot: str
    term: str

    @classmethod
    def prefixed(cls, prefix: str, datacontenttype: str) -> HeaderNames:
        """``prefix`` before each name; but ``datacontenttype`` gets the name that the binding prescribes."""
        called = {"datacontenttype": datacontenttype}
        return cls(
            delta=tuple(called.get(name, prefix + name) for name in DELTA_ATTRIBUTES),
            notice=tuple(called.get(name, prefix + name) for name in NOTICE_ATTRIBUTES),
            snapshot=prefix + SNAPSHOT_ATTRIBUTE,
            term=prefix + TERM_ATTRIBUTE,
        )


_encode = msgspec.json.Encoder().encode
# Everything but printable ASCII, and of that a space, '"' and '%'.
_UNSAFE = re.compile(r"[^!#$&-~]")


class DeltaForm(Protocol):
    """The data of an object's event, where it is not the object."""

    @property
    def name(self) -> str:
        """For the type of the event: ``kubedelta.<name>.<op>.v1``."""

    gap: str
    """Id of the newest gap in the stream; empty before the first."""

    def __call__(self, delta: Delta) -> bytes:
        """JSON. Raises ValueError for a change that has no such form."""

    def schema(self, definitions: Definitions) -> JsonSchema:
        """A reference to the schema of that JSON."""


class RawObjects:
    """The state of the object after the change, byte for byte; for a delete, its last known state. The state does not
    show the operation."""

    name = "object"

    def __init__(self) -> None:
        self.gap = ""
        """Id of the newest gap in the stream, for headers: a state has no place for the id."""

    def __call__(self, delta: Delta) -> bytes:
        return delta.body

    def schema(self, definitions: Definitions) -> JsonSchema:
        return definitions.state()


class MadeData:
    """Encodes the data in the content of a record."""

    name = "data"

    def __init__(self) -> None:
        self.gap = ""
        """Id of the newest gap in the stream, for headers."""

    def __call__(self, delta: Delta) -> bytes:
        """A map or a list as JSON, a text as it is. Raises ValueError for a record without data."""
        data = delta.made.data
        return data.encode() if isinstance(data, str) else _encode(data)

    def json(self, delta: Delta) -> bytes:
        """The data as JSON, also a text. Raises ValueError for a record without data."""
        return _encode(delta.made.data)

    def schema(self, definitions: Definitions) -> JsonSchema:
        return definitions.add(
            "Data", {"description": "Made by the option data.", "type": ["object", "array", "string"]}
        )


class CloudEvents:
    """Encodes the records of a cluster.

    The id is the record's id. The source is ``/clusters/<cluster>``; from the second epoch on
    ``/clusters/<cluster>/epochs/<epoch>``, because ids of earlier epochs may come again. ``partitionkey`` is
    ``<cluster>/<group>/<resource>/<namespace>/<name>``, always five segments: the group is ``core`` for the core group,
    the namespace ``_`` for cluster-scoped objects (``prod/core/pods/shop/web-1``,
    ``prod/rbac.authorization.k8s.io/clusterroles/_/admin``). A notice (a gap, the edge of a snapshot) belongs to no
    object: it has no subject, and its partition key is the cluster's name. Records of a snapshot, and its edges, have
    ``snapshot``, the id of that snapshot; other records do not. With an election all have ``term``, that of the leader.

    The data of an object's event is the object. With ``form`` the data has that form, and the type says so, such as
    ``kubedelta.envelope.<op>.v1`` or ``kubedelta.data.<op>.v1`` in place of ``kubedelta.object.<op>.v1``.
    """

    def __init__(self, cluster: str, form: DeltaForm | None = None, *, has_notices: bool = False) -> None:
        """``has_notices``: notices stand among the objects, also with a ``form``."""
        self._cluster = cluster
        self._source = f"/clusters/{cluster}"
        self._sources = {1: self._source}
        self._form = form
        self._names_gaps = form is not None and not has_notices
        self._gap = ""
        self._json: Callable[[Delta], bytes] = form.json if isinstance(form, MadeData) else self.data
        name = "object" if form is None else form.name
        self._types = {op: f"kubedelta.{name}.{op}.v1" for op in Op}
        self._paths: dict[Resource, ObjectPaths] = {}

    def note_gap(self, gap: str) -> None:
        """Names the newest gap in the data and the headers of every later record, if consumers get no notices."""
        if self._form is not None and self._names_gaps:
            self._gap = self._form.gap = gap

    def partition_key(self, record: Record) -> str:
        if isinstance(record, Delta):
            return (self._paths.get(record.resource) or self._new_paths(record.resource)).of(record.key)[1]
        return self._cluster

    def attributes(self, record: Record | TermBegan) -> Attributes:
        """The values for the binary form: texts, in the order of the attributes, without the snapshot."""
        if not isinstance(record, Delta):
            return self._notice_attributes(record)
        values = self._delta_attributes(record)
        return (*values[:-1], str(values[-1]))

    def headers(self, record: Record, names: HeaderNames) -> dict[str, bytes]:
        """The attributes in UTF-8, under the names of a protocol binding."""
        if isinstance(record, Delta):
            *texts, epoch = self._delta_attributes(record)
            headers = dict(zip(names.delta, map(str.encode, (*texts, str(epoch))), strict=True))
        else:
            headers = dict(zip(names.notice, map(str.encode, self._notice_attributes(record)), strict=True))
        if record.snapshot is not None:
            headers[names.snapshot] = record.snapshot.encode()
        if record.term:
            headers[names.term] = str(record.term).encode()
        if self._gap:
            headers[GAP_HEADER] = self._gap.encode()
        return headers

    def encoded_headers(self, record: Record | TermBegan, names: HeaderNames) -> dict[str, str]:
        """Like ``headers``, with values encoded for the bindings to HTTP and NATS."""
        values = self.attributes(record)
        if _UNSAFE.search("".join(values)) is not None:
            values = tuple(percent_encoded(value) for value in values)
        headers = dict(zip(names.delta if isinstance(record, Delta) else names.notice, values, strict=True))
        if record.snapshot is not None:
            headers[names.snapshot] = percent_encoded(record.snapshot)
        if record.term:
            headers[names.term] = str(record.term)
        if self._gap:
            headers[GAP_HEADER] = self._gap
        return headers

    def data(self, record: Record | TermBegan) -> bytes:
        """The payload of the binary form: JSON, or a text that ``data`` made. Notices have a form and a type of their
        own, in every format."""
        if isinstance(record, Delta):
            return record.body if self._form is None else self._form(record)
        return notice_data(record)

    def json_data(self, record: Record) -> bytes:
        """Like ``data``, with a text as JSON."""
        return self._json(record) if isinstance(record, Delta) else notice_data(record)

    def structured(self, record: Record) -> bytes:
        """The structured form: a JSON object with the data as its member ``data``."""
        more = (msgspec.UNSET if record.snapshot is None else record.snapshot, record.term or msgspec.UNSET)
        if isinstance(record, Delta):
            return _encode(DeltaEvent(*self._delta_attributes(record), msgspec.Raw(self._json(record)), *more))
        return _encode(NoticeEvent(*self._notice_attributes(record), msgspec.Raw(notice_data(record)), *more))

    def _delta_attributes(
        self, delta: Delta
    ) -> tuple[str, str, str, str, str, str, str, str, str, str, str, Op, Evidence, int]:
        subject, partition = (self._paths.get(delta.resource) or self._new_paths(delta.resource)).of(delta.key)
        return (
            SPEC_VERSION,
            delta.id,
            self._sources.get(delta.epoch) or self._source_of(delta.epoch),
            self._types[delta.op],
            subject,
            delta.time,
            JSON if delta.content is None else delta.content.media_type,
            partition,
            # Consumers compare ``sequence`` as text (CloudEvents' Sequence extension): zeros in front keep the order of
            # the numbers.
            f"{delta.sequence:020d}",
            delta.uid,
            delta.resource_version,
            delta.op,
            delta.evidence,
            delta.epoch,
        )

    def _notice_attributes(self, notice: Notice | TermBegan) -> tuple[str, str, str, str, str, str, str, str]:
        match notice:
            case Gap():
                kind = GAP_TYPE
            case TermBegan():
                kind = TERM_TYPE
            case _:
                kind = SNAPSHOT_TYPES[notice.edge]
        sequence = f"{notice.sequence:020d}"
        return (SPEC_VERSION, notice.id, self._source, kind, notice.time, JSON, self._cluster, sequence)

    def _source_of(self, epoch: int) -> str:
        source = self._sources[epoch] = f"{self._source}/epochs/{epoch}"
        return source

    def _new_paths(self, resource: Resource) -> ObjectPaths:
        paths = self._paths[resource] = ObjectPaths.of_resource(self._cluster, resource)
        return paths


def percent_encoded(value: str) -> str:
    """A header's value for the bindings to HTTP and NATS (HTTP binding, 3.1.3.2): a space, ``"``, ``%`` and every byte
    outside of printable ASCII as ``%XX``, in UTF-8."""
    if _UNSAFE.search(value) is None:
        return value
    return _UNSAFE.sub(lambda found: "".join(f"%{byte:02X}" for byte in found[0].encode()), value)


# ── CloudEvents as JSON objects ──────────────────────────────────────────────

_SpecVersion = Annotated[str, Meta(extra_json_schema={"const": "1.0"})]
_ContentType = Annotated[str, Meta(extra_json_schema={"const": "application/json"})]
_Time = Annotated[
    str, Meta(description="When the bridge saw it: RFC 3339, UTC.", extra_json_schema={"format": "date-time"})
]
_Source = Annotated[str, Meta(description="The cluster; from the second epoch on, the epoch too.")]
_Type = Annotated[str, Meta(description="The kind of event and its version.")]
_PartitionKey = Annotated[str, Meta(description="The key of the object, for order; for a notice the cluster.")]
_Sequence = Annotated[
    str, Meta(pattern="^[0-9]{20}$", description="The number of the record in the log, with zeros in front.")
]
_SnapshotId = Annotated[str | msgspec.UnsetType, Meta(description="The id of the snapshot that the record belongs to.")]

_Term = Annotated[
    Annotated[int, Meta(ge=1)] | msgspec.UnsetType, Meta(description="With an election, the term of the leader.")
]


class DeltaEvent(msgspec.Struct, frozen=True, gc=False):
    """A change of an object."""

    specversion: _SpecVersion
    id: Annotated[str, Meta(description="uid, resourceVersion and op. Unique within the source.")]
    source: _Source
    type: _Type
    subject: Annotated[str, Meta(description="The path of the object in the API.")]
    time: _Time
    datacontenttype: _ContentType
    partitionkey: _PartitionKey
    sequence: _Sequence
    uid: Annotated[str, Meta(description="The identity of the object.")]
    resourceversion: Annotated[str, Meta(description="The version of the object: an opaque text of the API server.")]
    op: Annotated[Op, Meta(description="The change; sync for an unchanged object that is delivered again.")]
    evidence: Annotated[Evidence, Meta(description="How the bridge knows of the change.")]
    epoch: Annotated[int, Meta(ge=1, description="The period in which an id is unique.")]
    data: msgspec.Raw
    snapshot: _SnapshotId = msgspec.UNSET
    term: _Term = msgspec.UNSET


class NoticeEvent(msgspec.Struct, frozen=True, gc=False):
    """A notice about the stream."""

    specversion: _SpecVersion
    id: Annotated[str, Meta(description="The id of the notice.")]
    source: _Source
    type: _Type
    time: _Time
    datacontenttype: _ContentType
    partitionkey: _PartitionKey
    sequence: _Sequence
    data: msgspec.Raw
    snapshot: _SnapshotId = msgspec.UNSET
    term: _Term = msgspec.UNSET


# ── The data of notices, in the same form for every format of objects ────────


class GapData(msgspec.Struct, frozen=True):
    """Records that this sink will never receive."""

    first: Annotated[int, Meta(description="The sequence number of the first missing record.")]
    last: Annotated[int, Meta(description="The sequence number of the last missing record.")]
    count: Annotated[int | None, Meta(description="How many records are missing; null if unknown.")]
    reason: Annotated[str, Meta(description="Why, in words for an operator.")]
    resources: Annotated[list[str] | None, Meta(description="The resources of the missing records; null if unknown.")]


class TermData(msgspec.Struct, frozen=True):
    """A leader has taken the stream over: no message of an earlier leader comes behind this one."""

    term: Annotated[int, Meta(description="The term of the leader.")]


class SnapshotData(msgspec.Struct, frozen=True):
    """The begin, the end or the cancellation of a snapshot."""

    sink: Annotated[str, Meta(description="The sink that the snapshot is for.")]
    through: Annotated[int, Meta(description="The sequence number of the newest record that the snapshot covers.")]
    count: Annotated[int, Meta(description="Objects in the snapshot; of a cancelled snapshot, those that were sent.")]
    objects: Annotated[
        int | msgspec.UnsetType,
        Meta(description="At the end: objects of the snapshot that went to this stream or partition."),
    ] = msgspec.UNSET
    dead_letters: Annotated[
        int | msgspec.UnsetType, Meta(description="At the end, in a partition: objects of the snapshot that are lost.")
    ] = msgspec.UNSET
    only: Annotated[
        SnapshotScope | msgspec.UnsetType,
        Meta(description="The snapshot lacks all other objects of the sink. Absent: it has every object of the sink."),
    ] = msgspec.UNSET
    watched: Annotated[
        Sequence[WatchedPart] | msgspec.UnsetType,
        Meta(description="At the end: what the bridge watched then. Absent if nobody knows it, or it is too long."),
    ] = msgspec.UNSET


_LARGEST_NOTICE = 256 << 10
"""Bytes of the data: a message of a broker has a bound, and the watched parts of a cluster have none."""


def notice_data(notice: Notice | TermBegan) -> bytes:
    if isinstance(notice, TermBegan):
        return _encode(TermData(notice.term))
    if isinstance(notice, Gap):
        about = sorted({concern.resource.name for concern in notice.concerns}) if notice.only else None
        return _encode(GapData(notice.first, notice.sequence, notice.count, notice.reason, about))
    objects = msgspec.UNSET if notice.edge is SnapshotEdge.BEGAN else notice.count
    data = SnapshotData(notice.sink, notice.sequence, notice.count, objects, only=_only(notice))
    if notice.watched is None:
        return _encode(data)
    told = _encode(replace(data, watched=notice.watched))
    return told if len(told) <= _LARGEST_NOTICE else _encode(data)


def end_of_part(ended: Snapshot, objects: int, dead_letters: int) -> bytes:
    """The data of a snapshot's end for a topic with ``objects`` of its objects. ``dead_letters`` counts the whole
    snapshot."""
    return _encode(SnapshotData(ended.sink, ended.sequence, ended.count, objects, dead_letters, _only(ended)))


def _only(notice: Snapshot) -> SnapshotScope | msgspec.UnsetType:
    return msgspec.UNSET if notice.only is None else notice.only
