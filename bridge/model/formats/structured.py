"""CloudEvents as JSON objects. The schemas of all forms of an event are made of these types."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from bridge.model.change import Evidence, Op

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
