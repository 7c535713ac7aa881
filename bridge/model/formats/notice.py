"""The data of notices: JSON objects, in the same form for every format of objects."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import msgspec
from msgspec import Meta
from msgspec.structs import replace

from bridge.model.record import Gap, Notice, Snapshot, SnapshotEdge, SnapshotScope, TermBegan, WatchedPart


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


MOST_BYTES = 256 << 10
"""Of the data of a notice: a message of a broker has a bound, and the watched parts of a cluster have none."""
_encode = msgspec.json.Encoder().encode


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
    return told if len(told) <= MOST_BYTES else _encode(data)


def end_of_part(ended: Snapshot, objects: int, dead_letters: int) -> bytes:
    """The data of a snapshot's end for a topic with ``objects`` of its objects. ``dead_letters`` counts the whole
    snapshot."""
    return _encode(SnapshotData(ended.sink, ended.sequence, ended.count, objects, dead_letters, _only(ended)))


def _only(notice: Snapshot) -> SnapshotScope | msgspec.UnsetType:
    return msgspec.UNSET if notice.only is None else notice.only
