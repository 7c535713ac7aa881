"""Records of the outbox, which go to the sinks: deltas, and notices (gaps and edges of snapshots).

A Gap stands in a sink's stream in place of records that the sink will never get. There is a function for the Gap of
each reason, and no other place makes new ones. Dead letters are records that a sink rejected, as values between the
workers (delivery) and the outbox.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import Annotated, ClassVar, TypeAlias

import msgspec
from msgspec.structs import replace

from bridge.model.change import Evidence, Op
from bridge.model.formats.content import Content
from bridge.model.primitives.shard import Shard
from bridge.model.resource import Resource
from bridge.model.status import InformerState

OrderingKey: TypeAlias = tuple[str, str]
"""Resource and key of an object."""
NO_OBJECT: OrderingKey = ("", "")  # of notices
_UNSELECTED = Evidence.UNSELECTED
MOST_SELECTIONS = 62  # sinks with a selection: a bit of a signed 64-bit integer for each


class Selected(msgspec.Struct, frozen=True, gc=False):
    """The decision of all selections on a record, made once and stored with the record. Each field has a bit for each
    sink with a selection: the sink's mask. Sinks without a selection get every record."""

    takes: int
    """Sinks that get the record."""
    enters: int
    """Of these, sinks whose selection begins to contain the object: they get the record as ``added``."""
    leaves: int
    """Of these, sinks whose selection does not contain the object any more: they get the record as ``deleted``."""
    members: int
    """Sinks whose selection contains the object after the record; 0 after a delete."""


class Delta(msgspec.Struct, frozen=True, gc=False):
    """An exported change. The same change has the same ``id`` after any restart and on any replica."""

    sequence: int
    """The number in the outbox: ascending, never used twice. In a snapshot, that of its edges: see Snapshot."""
    op: Op
    evidence: Evidence
    resource: Resource
    key: str
    uid: str
    resource_version: str
    time: str
    """When the bridge saw it: RFC 3339, UTC."""
    epoch: int
    """From 1. An id is unique within an epoch. A new epoch begins where the API server's versions ran backwards, and
    where objects may come back that were exported as deleted while they existed."""
    body: bytes
    """The object after the change as JSON, stripped and redacted; for a delete, its last known state."""
    before: bytes | None = None
    """The object before the change, in the form of ``body``; None if unknown, or if no sink exports it."""
    targets: tuple[str, ...] | None = None
    """Names of the target sinks; None for all."""
    replay: int = 0
    """The number of the replay, or of the snapshot on demand, that delivers this record again; 0 outside of these."""
    snapshot: str | None = None
    """Id of the snapshot that the record belongs to; None outside of snapshots."""
    last_of_snapshot: bool = False
    selected: Selected | None = None
    """The sinks with a selection that get the record; None if no sink had a selection."""
    selection: int = 0
    """The number of the changed selection that this record follows from; 0 for a change of the object."""
    managers: bytes | None = None
    """The field managers of the state, and those that changed in this step (``formats.content``). None where no sink
    asked for them when the change was recorded."""
    content: Content | None = None
    """Made for a sink whose options have expressions, anew for each attempt; None for others, and at rest. A record
    that cannot be redacted for the sink comes with it, see ``unfit``."""
    term: int = 0
    """Of the leader that delivers it; 0 without an election, and at rest."""

    @property
    def made(self) -> Content:
        """The content. Raises ValueError if an expression has no value on this object, so that the record is
        rejected."""
        if self.content is None:
            raise RuntimeError("the record has no content")
        if self.content.failure:
            raise ValueError(self.content.failure)
        return self.content

    @property
    def id(self) -> str:
        """Unique together with the source, which names the epoch (from the second epoch on)."""
        # An object that left a selection may come back at its version, by a changed selection, and be deleted there.
        what = self.op if self.evidence is not _UNSELECTED else self.evidence
        identity = f"{self.uid}/{self.resource_version}/{what}"
        if self.replay and self.snapshot is not None:
            # Each snapshot is another event of the same version, also for readers who leave out known ids.
            return f"{identity}/snapshot/{self.replay}"
        # A selection that changes back tells the same object at the same version once more.
        return f"{identity}/{self.selection}" if self.selection else identity

    @property
    def unique_id(self) -> str:
        """Unique without the source: for protocols that deduplicate by a single id."""
        return self.id if self.epoch == 1 else f"{self.epoch}/{self.id}"

    @property
    def delivery_id(self) -> str:
        """For a transport that deduplicates: a replay gets an id that differs from the first delivery's. Repeated
        attempts of a delivery have the same id, also after a restart in the middle of a replay."""
        return self.unique_id if self.snapshot is not None else _with_replay(self.unique_id, self.replay)

    @property
    def ordering_key(self) -> OrderingKey:
        """Records with the same ordering key reach every sink in the order of their sequence."""
        return (self.resource.name, self.key)


class Concern(msgspec.Struct, frozen=True, gc=False):
    """Objects that missing records may be about: a resource, in a namespace or in all."""

    resource: Resource
    namespace: str | None = None
    """None for any namespace, and for a resource without namespaces."""


class Gap(msgspec.Struct, frozen=True, gc=False):
    """A notice in place of records that a sink will never get."""

    sequence: int
    """The sequence number of the last missing record."""
    first: int
    count: int | None
    """Number of missing records for this sink; None if unknown."""
    reason: str
    time: str
    replay: int = 0
    """See Delta."""
    concerns: tuple[Concern, ...] = ()
    """Objects of the missing records, as far as known."""
    only: bool = False
    """True if ``concerns`` is complete."""
    term: int = 0
    shard: str = ""
    """Name of the bridge's shard, since others have the same numbers; empty for all objects."""
    targets: ClassVar[None] = None
    """A notice is in the log for every sink."""

    @property
    def id(self) -> str:
        return f"gap/{self.shard}{'/' if self.shard else ''}{self.first}/{self.sequence}"

    @property
    def snapshot(self) -> None:
        """A gap belongs to no snapshot."""

    @property
    def unique_id(self) -> str:
        return self.id

    @property
    def delivery_id(self) -> str:
        return _with_replay(self.id, self.replay)

    @property
    def ordering_key(self) -> OrderingKey:
        return NO_OBJECT


class SnapshotEdge(StrEnum):
    BEGAN = "began"
    ENDED = "ended"
    CANCELLED = "cancelled"


class SnapshotScope(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """The objects of a snapshot that is not about all objects of the sink: the conditions that hold together."""

    resource: Annotated[str | None, msgspec.Meta(description="Objects of this resource (kubectl's name).")] = None
    namespace: Annotated[str | None, msgspec.Meta(description="Objects in this namespace.")] = None
    where: Annotated[str | None, msgspec.Meta(description="Objects for which this CEL expression holds.")] = None
    shard: Annotated[Shard | None, msgspec.Meta(description="Objects of this shard: the bridge has no others.")] = None


class WatchedPart(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A part of a resource that the bridge watches, and how that goes. Of objects in no part the bridge knows nothing;
    of those in a part that is not ``live`` it knows what was before."""

    resource: Annotated[str, msgspec.Meta(description="The resource (kubectl's name).")]
    state: Annotated[
        InformerState,
        msgspec.Meta(description="live; listing, for the first time; reconnecting; refused, as without rights."),
    ]
    namespace: Annotated[str | None, msgspec.Meta(description="Absent: all namespaces.")] = None
    label_selector: Annotated[str, msgspec.Meta(description="Only objects that it selects; absent: all.")] = ""
    field_selector: Annotated[str, msgspec.Meta(description="Only objects that it selects; absent: all.")] = ""


class Snapshot(msgspec.Struct, frozen=True, gc=False):
    """A notice: the beginning or the end of a snapshot of known objects, for a sink. Between the two edges come the
    objects as ``added``, in a snapshot on demand as ``sync``, all with the sequence number and the id of the
    snapshot."""

    edge: SnapshotEdge
    sequence: int
    """The sequence number of the newest record that the snapshot covers; the log goes on behind it."""
    sink: str
    count: int
    """Objects in it; if it is cancelled, those that the sink gets."""
    time: str
    number: int = 0
    """Of a snapshot on demand; 0 for the snapshot with which a sink begins."""
    only: SnapshotScope | None = None
    """The objects that the snapshot is about; None for all objects of the sink."""
    watched: tuple[WatchedPart, ...] | None = None
    """At its end, everything that the bridge watched when the sink took it; None at other edges, at rest, and before
    the first discovery."""
    term: int = 0
    targets: ClassVar[None] = None

    @property
    def snapshot(self) -> str:
        """The id of the snapshot, which its records have too."""
        shard = None if self.only is None else self.only.shard
        return snapshot_id(self.sink, self.sequence, self.number, shard)

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
    def ordering_key(self) -> OrderingKey:
        return NO_OBJECT


def snapshot_id(sink: str, through: int, number: int = 0, shard: Shard | None = None) -> str:
    """The id of a sink's snapshot as of sequence number ``through``. ``number``: see Snapshot. ``shard``: see Gap."""
    of = "" if shard is None else f"{shard.name}/"
    return f"snapshot/{of}{sink}/{through}/{number}" if number else f"snapshot/{of}{sink}/{through}"


class TermBegan(msgspec.Struct, frozen=True, gc=False):
    """A notice that a leader writes into a stream before its first record there: a destination that stores a message
    only behind the expected one stores nothing more of the leader before."""

    term: int
    sequence: int
    """The sequence number of the last record that the sink had settled."""
    time: str
    """RFC 3339, UTC."""
    behind: int = 0
    """The number of the last message of the stream before this one."""
    snapshot: ClassVar[None] = None

    @property
    def id(self) -> str:
        return f"term/{self.term}/{self.behind}"


Notice: TypeAlias = Gap | Snapshot
"""A record about no object. It keeps its position among all records of the stream."""
Record: TypeAlias = Delta | Notice


def body_bytes(record: Record) -> int:
    """Size of the record's body; 0 for a notice."""
    return len(record.body) if isinstance(record, Delta) else 0


def record_bytes(record: Record) -> int:
    """Size of the record's bodies, with that of the state before; 0 for a notice."""
    return len(record.body) + len(record.before or b"") if isinstance(record, Delta) else 0


def unfit(record: Record) -> str:
    """Why there is no form of the record for its sink, before its content is made; empty if there is one."""
    return record.content.failure if isinstance(record, Delta) and record.content is not None else ""


def _with_replay(identity: str, replay: int) -> str:
    return f"{identity}/replay/{replay}" if replay else identity


# ── Dead letters ─────────────────────────────────────────────────────────────


class NewDeadLetter(msgspec.Struct, frozen=True):
    """A record that is to be added to the dead letters."""

    record: Record
    reason: str
    parked: bool
    """True if the record was never tried, because an earlier record of its object was rejected."""
    answer: str = ""
    """The beginning of the destination's answer, without secrets; empty if the reason is all of it."""


class RetriedDeadLetter(msgspec.Struct, frozen=True):
    """A dead letter that an operator marked for retry."""

    number: int
    record: Record


def split_at_notices(records: Sequence[Record]) -> Iterator[slice]:
    """Yields slices: each notice alone, and the records between two notices together. Nearly always a single slice."""
    if set(map(type, records)) <= {Delta}:
        if records:
            yield slice(0, len(records))
        return
    start = 0
    for index, record in enumerate(records):
        if isinstance(record, Delta):
            continue
        if start < index:
            yield slice(start, index)
        yield slice(index, index + 1)
        start = index + 1
    if start < len(records):
        yield slice(start, len(records))


# ── The Gap of each reason ───────────────────────────────────────────────────

OVERRUN = "the sink was further behind than the outbox is long"
DROPPED = "the sink's backlog was at its bound, and its policy is drop"
REBUILT = "the database was damaged, and undelivered records in it are lost"
TAKEN_OVER = "a replica took over that did not follow the former leader: deletes may be missing, and states in between"


def overrun_gap(first: int, last: int, time: str) -> Gap:
    """The log was trimmed before the sink read these records. ``time``: now, as RFC 3339."""
    return Gap(last, first, last - first + 1, OVERRUN, time)


def dropped_gap(first: int, last: int, count: int, time: str, concerns: Sequence[Concern] | None) -> Gap:
    """The policy ``drop`` removed ``count`` records. ``concerns``: everything that they may be about; None if that is
    unknown."""
    return Gap(last, first, count, DROPPED, time, concerns=tuple(concerns or ()), only=concerns is not None)


def lost_gap(through: int, reason: str, time: str, concerns: Sequence[Concern] | None) -> Gap:
    """The destination had stored these records, and has lost them: any record up to the number ``through`` may be
    missing. ``reason``: how. ``concerns``: as in ``dropped_gap``."""
    return Gap(through, 1, None, reason, time, concerns=tuple(concerns or ()), only=concerns is not None)


def rebuilt_gap(sequence: int, time: str) -> Gap:
    """The first record of a database that replaces a damaged one. Nobody knows how many records are missing."""
    return Gap(sequence, sequence, None, REBUILT, time)


def taken_over_gap(first: int, sequence: int, time: str) -> Gap:
    """Another replica may have delivered objects that were gone before this replica's first list."""
    return Gap(sequence, first, None, TAKEN_OVER, time)


def later_gap(known: str, delivered: str) -> str:
    """The later of two ids of gaps in the order of the stream, where empty comes first. A replay or a dead letter may
    deliver an older gap again, which must not replace a newer gap."""
    return delivered if _end_of_gap(delivered) >= _end_of_gap(known) else known


def _end_of_gap(gap: str) -> int:
    last = gap.rpartition("/")[2]
    return int(last) if last.isdecimal() else -1


# ── Under a leader, and in a shard ───────────────────────────────────────────

# A record leaves under the leader of a term. The log's own numbers stay, so that a takeover rewrites no state. Where
# the log may lack records, the distance grows, and is added when a record leaves. Numbers stay below 2^53, which every
# reader of JSON holds: the term as the upper digits would exceed that in the first term, since numbers begin at the
# clock. The term is an attribute of its own.


def in_term(record: Record, term: int, ahead: int) -> Record:
    """The record with the term, and with numbers that are larger by ``ahead`` than those of the replica's own log: so
    they ascend over all leaders. Ids stay, except those of notices, which have numbers in them."""
    number = record.sequence + ahead
    match record:
        case Delta():
            snapshot = None if record.snapshot is None else _renamed(record.snapshot, bool(record.replay), ahead)
            return replace(record, sequence=number, term=term, snapshot=snapshot)
        case Snapshot():
            return replace(record, sequence=number, term=term)
        case _:
            return replace(record, sequence=number, first=record.first + ahead, term=term)


def gap_in_shard(record: Record, shard: Shard) -> Record:
    """A Gap with the shard in its id: other bridges have records with the same numbers. Other records stay."""
    return replace(record, shard=shard.name) if isinstance(record, Gap) else record


def _renamed(snapshot: str, numbered: bool, ahead: int) -> str:
    """``snapshot_id`` of a larger number. ``numbered``: of a snapshot on demand."""
    parts = snapshot.split("/")
    at = -2 if numbered else -1
    parts[at] = str(int(parts[at]) + ahead)
    return "/".join(parts)
