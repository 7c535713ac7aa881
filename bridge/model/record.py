"""A record: what stands in the outbox and goes to the sinks. Most are deltas; the others are notices."""

from __future__ import annotations

from enum import StrEnum
from typing import TypeAlias

import msgspec

from bridge.model.change import Evidence, Op
from bridge.model.resource import Resource

NO_OBJECT = ("", "")
"""The ordering key of notices."""


class Delta(msgspec.Struct, frozen=True, gc=False):
    """One exported change. The same change has the same ``id`` after any restart and on any replica."""

    sequence: int
    """Its place in the outbox; ascending, never used twice."""
    op: Op
    evidence: Evidence
    resource: Resource
    key: str
    uid: str
    resource_version: str
    time: str
    """When the bridge saw it: RFC 3339, UTC."""
    epoch: int
    """In which it is told, from 1: an id is unique within one. A new one begins where the API server's versions ran
    backwards, and where objects come back that were told as deleted while they were there."""
    body: bytes
    """The object after the change as JSON, stripped and redacted; for a delete, its last known state."""
    before: bytes | None = None
    """The object before the change, in the form of ``body``; None where that is unknown, or no sink asks for it."""
    targets: tuple[str, ...] | None = None
    """Names of the sinks this is for; None for all."""
    replay: int = 0
    """The number of the replay that delivers this record once more; 0 outside of replays."""
    snapshot: str | None = None
    """Id of the snapshot that it is part of; None for a change as it happened."""
    last_of_snapshot: bool = False

    @property
    def id(self) -> str:
        """Unique together with the source, which names the epoch from the second one on."""
        return f"{self.uid}/{self.resource_version}/{self.op}"

    @property
    def unique_id(self) -> str:
        """Unique by itself: for protocols that recognise a repetition by one text alone."""
        return self.id if self.epoch == 1 else f"{self.epoch}/{self.id}"

    @property
    def delivery_id(self) -> str:
        """For a transport that drops what it has had: a replay is not a repetition of the first delivery. Repeated
        attempts at one delivery have the same, also across a restart in the middle of a replay."""
        return _of_replay(self.unique_id, self.replay)

    @property
    def ordering_key(self) -> tuple[str, str]:
        """Records with the same ordering key reach every sink in the order of their sequence."""
        return (self.resource.name, self.key)


class Concern(msgspec.Struct, frozen=True, gc=False):
    """What a missing record may be about."""

    resource: Resource
    namespace: str | None = None
    """None for any, and for a resource that has none."""


class Gap(msgspec.Struct, frozen=True, gc=False):
    """Records that a sink will never get, said in its stream in their place."""

    sequence: int
    """That of the last missing record."""
    first: int
    count: int | None
    """Missing records that were meant for this sink; None where nobody knows how many."""
    reason: str
    time: str
    replay: int = 0
    """As that of a Delta."""
    concerns: tuple[Concern, ...] = ()
    """What the missing records are about, as far as it is known."""
    only: bool = False
    """They are about nothing else."""

    @property
    def id(self) -> str:
        return f"gap/{self.first}/{self.sequence}"

    @property
    def snapshot(self) -> None:
        """It is part of none."""

    @property
    def unique_id(self) -> str:
        return self.id

    @property
    def delivery_id(self) -> str:
        return _of_replay(self.id, self.replay)

    @property
    def ordering_key(self) -> tuple[str, str]:
        return NO_OBJECT


def later_gap(known: str, told: str) -> str:
    """Of two ids of gaps the one that stands later in the stream: a replay, or a dead letter, tells an older one again.
    Empty for none."""
    return told if _end_of_gap(told) >= _end_of_gap(known) else known


def _end_of_gap(gap: str) -> int:
    last = gap.rpartition("/")[2]
    return int(last) if last.isdecimal() else -1


class SnapshotEdge(StrEnum):
    BEGAN = "began"
    ENDED = "ended"


class Snapshot(msgspec.Struct, frozen=True, gc=False):
    """The beginning or the end of a telling of every known object, in the stream of one sink. Between the two stand
    the objects as ``added``, each with the sequence number of the record it was last told in, and with the id of the
    snapshot."""

    edge: SnapshotEdge
    sequence: int
    """That of the newest record that the snapshot covers; the log goes on behind it."""
    sink: str
    count: int
    """Objects in it."""
    time: str

    @property
    def snapshot(self) -> str:
        """The id of all of it."""
        return snapshot_id(self.sink, self.sequence)

    @property
    def id(self) -> str:
        return f"{self.snapshot}/{self.edge}"

    @property
    def unique_id(self) -> str:
        return self.id

    @property
    def delivery_id(self) -> str:
        return self.id

    @property
    def ordering_key(self) -> tuple[str, str]:
        return NO_OBJECT


def snapshot_id(sink: str, through: int) -> str:
    """Of the snapshot that this sink is told, of all that there was through this sequence number."""
    return f"snapshot/{sink}/{through}"


Notice: TypeAlias = Gap | Snapshot
"""Belongs to no object, and to its place in the stream: nothing overtakes it, and it overtakes nothing."""

Record: TypeAlias = Delta | Notice


def _of_replay(identity: str, replay: int) -> str:
    return f"{identity}/replay/{replay}" if replay else identity
