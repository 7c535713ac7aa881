"""The data of notices: JSON objects, in the same form for every format of objects."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from bridge.model.record import Gap, Notice, Snapshot, SnapshotEdge, SnapshotScope, TermBegan


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


_encode = msgspec.json.Encoder().encode


def notice_data(notice: Notice | TermBegan) -> bytes:
    if isinstance(notice, TermBegan):
        return _encode(TermData(notice.term))
    if isinstance(notice, Gap):
        about = sorted({concern.resource.name for concern in notice.concerns}) if notice.only else None
        return _encode(GapData(notice.first, notice.sequence, notice.count, notice.reason, about))
    objects = msgspec.UNSET if notice.edge is SnapshotEdge.BEGAN else notice.count
    return _encode(SnapshotData(notice.sink, notice.sequence, notice.count, objects, only=_only(notice)))


def end_of_part(ended: Snapshot, objects: int, dead_letters: int) -> bytes:
    """The data of a snapshot's end for a topic with ``objects`` of its objects. ``dead_letters`` counts the whole
    snapshot."""
    return _encode(SnapshotData(ended.sink, ended.sequence, ended.count, objects, dead_letters, _only(ended)))


def _only(notice: Snapshot) -> SnapshotScope | msgspec.UnsetType:
    return msgspec.UNSET if notice.only is None else notice.only
