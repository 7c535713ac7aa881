"""The rules: what each event of a stream is for a reader that keeps the state of objects.

**Order.** An object's newest record is the one with the largest ``sequence``. With the same number, a record of a
snapshot comes behind the one that it repeats, and one of a later term (of another leader) behind both. What is not
newer is ``Repeated`` or ``Older``, and changes nothing.

**Names.** An object that comes back under its name with another uid is a delete of the former one, and another object.
``unwatched`` and ``unselected`` deletes end no object: the bridge does not look at it any more, or the sink does not
get it. They are ``Left``.

**Snapshots.** All records of a snapshot have one number, not below that of any earlier record of the object. So at its
end, what has a smaller number was not in it, and exists no more: it is swept. That holds if all its objects came
(``data.objects``), none is a dead letter, and the snapshot is of everything; one of a resource or a namespace sweeps
these, and any other none. What was swept cannot be revived by a record that comes late, since that has a smaller
number than the snapshot.

**Gaps.** A gap names resources, or all. Each object of them whose newest record is before the gap is uncertain, and
objects may be lacking, until a snapshot ends. A new epoch (versions of the API server ran backwards) is as a gap of
its resource.

**Partitions.** Kafka keeps order in a partition alone. There, each has its own marker of a gap and of a snapshot's
end, and both are about that partition; the notice itself, in the topic of notices, has no order relative to any
object.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import msgspec
from msgspec.structs import replace

from kubedelta_reader.events import Event, notice_id
from kubedelta_reader.stores import Known, StateStore

# ── Steps ────────────────────────────────────────────────────────────────────


class _OfObject(msgspec.Struct, frozen=True, gc=False):
    key: str
    event: Event


class _OfStream(msgspec.Struct, frozen=True, gc=False):
    event: Event


class Changed(_OfObject, frozen=True):
    """The object has the state ``event.data`` now. ``op`` sync, or a state as before, says that nothing changed."""

    before: Known | None
    """What was known; None for an object that was not there."""


class Deleted(_OfObject, frozen=True):
    """The object exists no more."""

    last: Known | None
    """What was known. ``event.data`` may have a later state: the last that the bridge knew."""
    evidence: str
    """That of the event: ``relisted`` says that steps before it may be missing. ``replaced``: another object has its
    name; nobody has told its delete."""


class Left(_OfObject, frozen=True):
    """The object may exist, and this stream tells no more of it."""

    last: Known | None


class Repeated(_OfObject, frozen=True):
    """The newest record of the object came again."""


class Older(_OfObject, frozen=True):
    """An earlier record of the object came again, or late."""


class GapFound(_OfStream, frozen=True):
    """Records will never come. ``event``: the notice, or the first record that names the gap."""

    resources: Sequence[str] | None
    """None: any."""


class SnapshotBegan(_OfStream, frozen=True):
    """All objects follow, or those of the snapshot's conditions."""


class SnapshotEnded(_OfStream, frozen=True):
    """All objects of the snapshot that will come have come."""

    swept: Sequence[tuple[str, Known]]
    """Objects that exist no more."""
    incomplete: str
    """Why it proves nothing of objects that it lacks; empty where it does."""


class SnapshotCancelled(_OfStream, frozen=True):
    """The snapshot ends early, and proves nothing."""


class EpochBegan(_OfStream, frozen=True):
    """The API server's versions ran backwards, or may have: the objects of the resource are uncertain. ``event``: the
    first record of the epoch."""


class TermBegan(_OfStream, frozen=True):
    """Another leader delivers from here on."""


class Unknown(_OfStream, frozen=True):
    """An event of a type that this version does not know, such as one of a later version."""


Step: TypeAlias = (
    Changed
    | Deleted
    | Left
    | Repeated
    | Older
    | GapFound
    | SnapshotBegan
    | SnapshotEnded
    | SnapshotCancelled
    | EpochBegan
    | TermBegan
    | Unknown
)

# ── What a reader notes beside the objects ───────────────────────────────────

_MOST = 1000
"""Gaps, snapshots and resources that are noted. Beyond that the oldest gaps become one of all resources, and others are
forgotten."""
_LEFT = ("unwatched", "unselected")
_GAP, _TERM = "kubedelta.gap.v1", "kubedelta.term.began.v1"
_BEGAN, _ENDED, _CANCELLED = (f"kubedelta.snapshot.{edge}.v1" for edge in ("began", "ended", "cancelled"))


class Gap(msgspec.Struct, frozen=True):
    """Records before ``sequence`` may be missing."""

    id: str
    sequence: int
    partition: str | None
    """None: any."""
    resources: tuple[str, ...] | None
    """``<group>/<resource>``, or the resource alone; None: any."""

    def covers(self, key: str, known: Known) -> bool:
        if self.partition not in (None, known.partition) or known.sequence >= self.sequence:
            return False
        if self.resources is None:
            return True
        _, group, plural, *_ = key.split("/")
        return f"{group}/{plural}" in self.resources or _name(group, plural) in self.resources


class _Notes(msgspec.Struct):
    gaps: list[Gap] = []
    newest_gap: str = ""
    """The last one that a record named first. Partitions name earlier ones behind it."""
    epochs: dict[str, int] = {}
    counted: dict[str, int] = {}
    """Objects of the snapshots that are under way: partition, tab and name → how many came."""
    proven: dict[str, int] = {}
    """Partition with objects → the number of the newest snapshot that has proven which ones exist; -1 without one."""


class _GapData(msgspec.Struct):
    resources: tuple[str, ...] | None = None


class _SnapshotData(msgspec.Struct):
    objects: int | None = None
    dead_letters: int = 0
    only: dict[str, Any] | None = None
    """Conditions for the objects that it is about. Members that are not known here narrow it further."""


def _name(group: str, plural: str) -> str:
    """As the bridge and kubectl name a resource."""
    return plural if group == "core" else f"{plural}.{group}"


class Reader:
    """Applies the events of one stream, in the order in which they come. Not thread-safe."""

    def __init__(self, store: StateStore, *, partitioned: bool = False) -> None:
        """``partitioned``: the stream has several partitions without an order between them (Kafka), and ``apply`` gets
        the partition of each event."""
        self._store = store
        self._partitioned = partitioned
        saved = store.notes()
        self._notes = msgspec.json.decode(saved, type=_Notes) if saved else _Notes()
        self._noted = False
        """There are notes to save."""

    # ── What is known ────────────────────────────────────────────────────────

    def objects(self) -> Iterator[tuple[str, Known]]:
        """All objects, by key."""
        yield from self._store.objects()

    def is_uncertain(self, key: str) -> bool:
        """Whether the newest state of this object may be another one, or the object may be gone."""
        known = self._store.get(key)
        return known is not None and not known.deleted and self._covering(key, known)

    def uncertain(self) -> Iterator[str]:
        """The keys of all objects that are uncertain."""
        return (key for key, known in self._store.objects() if self._covering(key, known))

    @property
    def gaps(self) -> Sequence[Gap]:
        """Those behind which no snapshot has ended. Objects of their resources may be lacking."""
        return tuple(self._notes.gaps)

    def _covering(self, key: str, known: Known) -> bool:
        proven = self._notes.proven.get(known.partition, -1)
        return any(gap.sequence > proven and gap.covers(key, known) for gap in self._notes.gaps)

    # ── Applying ─────────────────────────────────────────────────────────────

    def apply(self, event: Event, partition: str = "") -> Sequence[Step]:
        """What this event is, in one or more steps: a record may begin an epoch, name a gap, or replace another object.
        The store has it on return. ``partition``: of a partitioned stream, such as ``topic/3``."""
        steps: list[Step] = []
        if event.gap not in ("", self._notes.newest_gap) and all(event.gap != gap.id for gap in self._notes.gaps):
            self._note_gap(Gap(event.gap, event.sequence, None, None))
            self._notes.newest_gap = event.gap
            steps.append(GapFound(event, None))
        if event.op:
            steps += self._of_object(event, partition)
        else:
            steps.append(self._of_notice(event, partition))
        if self._noted:
            self._store.save(msgspec.json.encode(self._notes))
            self._noted = False
        return steps

    def _of_object(self, event: Event, partition: str) -> Iterator[Step]:
        key, known = event.key, self._store.get(event.key)
        if partition not in self._notes.proven:
            self._notes.proven[partition] = -1
            self._noted = True
        if self._count(event, known, partition) and known is not None:
            known = replace(known, counted=event.snapshot)
            self._store.put(key, known)
        identity = f"{event.source} {event.id}"
        if known is None and event.sequence < self._notes.proven.get(partition, -1):
            yield Older(key, event)
            return
        if known is not None and not _is_newer(event, known):
            yield (Repeated if identity == known.id else Older)(key, event)
            return
        if event.epoch > self._notes.epochs.get(event.resource, 1):
            _remember(self._notes.epochs, event.resource, event.epoch)
            self._note_gap(Gap(f"epoch/{event.resource}/{event.epoch}", event.sequence, None, (event.resource,)))
            yield EpochBegan(event)
        gone = event.op == "deleted"
        self._store.put(
            key,
            Known(
                uid=event.uid,
                sequence=event.sequence,
                id=identity,
                partition=partition,
                term=event.term,
                snapshot=event.snapshot,
                counted=event.snapshot or ("" if known is None else known.counted),
                deleted=gone,
                state=b"" if gone else event.data,
            ),
        )
        alive = None if known is None or known.deleted else known
        if known is not None and identity == known.id:
            yield Repeated(key, event)
        elif gone and event.evidence in _LEFT:
            yield Left(key, event, alive)
        elif gone:
            yield Deleted(key, event, alive, event.evidence)
        elif alive is not None and alive.uid != event.uid:
            yield Deleted(key, event, alive, "replaced")
            yield Changed(key, event, None)
        else:
            yield Changed(key, event, alive)

    def _count(self, event: Event, known: Known | None, partition: str) -> bool:
        """Counts an object of a snapshot once."""
        if not event.snapshot or (known is not None and known.counted == event.snapshot):
            return False
        self._noted = True
        counted, name = self._notes.counted, _part(partition, event.snapshot)
        _remember(counted, name, counted.get(name, 0) + 1)
        return True

    def _of_notice(self, event: Event, partition: str) -> Step:
        try:
            if event.type == _GAP:
                return self._gap(event, partition)
            if event.type == _ENDED:
                return self._ended(event, partition)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return Unknown(event)
        if event.type == _CANCELLED:
            self._notes.counted.pop(_part(self._place(partition), event.snapshot), None)
            return SnapshotCancelled(event)
        if event.type == _BEGAN:
            return SnapshotBegan(event)
        return TermBegan(event) if event.type == _TERM else Unknown(event)

    def _place(self, partition: str) -> str:
        return partition if self._partitioned else ""

    # ── Gaps ─────────────────────────────────────────────────────────────────

    def _gap(self, event: Event, partition: str) -> GapFound:
        resources = msgspec.json.decode(event.data, type=_GapData).resources
        base = notice_id(event.id)
        is_marker = self._partitioned and base != event.id
        self._note_gap(Gap(base, event.sequence, partition if is_marker else None, resources))
        self._notes.newest_gap = base
        return GapFound(event, resources)

    def _note_gap(self, gap: Gap) -> None:
        """One that comes again behind the end of a snapshot is settled."""
        self._noted = True
        gaps = self._notes.gaps
        if gap not in gaps and gap.sequence > self._proven_for(gap):
            gaps.append(gap)
        if len(gaps) > _MOST:
            oldest = gaps[: _MOST // 2]
            merged = Gap("several", max(each.sequence for each in oldest), None, None)
            self._notes.gaps = [merged, *gaps[_MOST // 2 :]]

    # ── Snapshots ────────────────────────────────────────────────────────────

    def _ended(self, event: Event, partition: str) -> SnapshotEnded:
        self._noted = True
        data = msgspec.json.decode(event.data, type=_SnapshotData)
        if self._partitioned and notice_id(event.id) == event.id:
            return SnapshotEnded(event, (), "each partition has an end of its own")
        part = self._place(partition)
        came = self._notes.counted.pop(_part(part, event.snapshot), 0)
        if data.dead_letters:
            return SnapshotEnded(event, (), f"{data.dead_letters} of its objects were rejected")
        if data.objects is None or came < data.objects:
            return SnapshotEnded(event, (), f"{came} of its {data.objects} objects came")
        only = {name: value for name, value in (data.only or {}).items() if value is not None}
        if not only.keys() <= {"resource", "namespace"}:
            return SnapshotEnded(event, (), f"it was of some objects: {', '.join(sorted(only))}")
        return SnapshotEnded(event, self._swept(event, part, only), "")

    def _swept(self, event: Event, partition: str, only: Mapping[str, Any]) -> Sequence[tuple[str, Known]]:
        swept = []
        for key, known in self._store.older(partition, event.sequence):
            if not _is_in(key, only):
                continue
            if not known.deleted:
                swept.append((key, known))
            if not only:
                self._store.drop(key)
            else:
                identity = f"{event.source} {event.id}"
                gone = replace(known, sequence=event.sequence, id=identity, deleted=True, state=b"", snapshot="")
                self._store.put(key, gone)
        if not only:
            proven = self._notes.proven
            proven[partition] = max(event.sequence, proven.get(partition, -1))
            self._notes.gaps = [gap for gap in self._notes.gaps if gap.sequence > self._proven_for(gap)]
        return swept

    def _proven_for(self, gap: Gap) -> int:
        """The number through which snapshots have proven which objects exist, wherever the gap may be."""
        proven = self._notes.proven
        if self._partitioned and gap.partition is None:
            return min(proven.values(), default=-1)
        return proven.get(gap.partition or "", -1)


def _remember(noted: dict[str, int], name: str, number: int) -> None:
    noted[name] = number
    if len(noted) > _MOST:
        del noted[next(iter(noted))]


def _part(partition: str, snapshot: str) -> str:
    return f"{partition}\t{snapshot}"


def _is_newer(event: Event, known: Known) -> bool:
    if event.sequence != known.sequence:
        return event.sequence > known.sequence
    if f"{event.source} {event.id}" == known.id:
        return False
    if event.term > known.term:
        return True
    return event.snapshot not in ("", known.snapshot)


def _is_in(key: str, only: Mapping[str, Any]) -> bool:
    _, group, plural, namespace, _ = key.split("/")
    resource = _name(group, plural)
    return bool(only.get("resource", resource) == resource and only.get("namespace", namespace) == namespace)
