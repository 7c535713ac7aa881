"""Keeps the steps of a stream in the file, and trims it.

``Recorder`` hands each event to the ``Reader`` of ``kubedelta_reader``, and writes down what its steps say. A record
that changes nothing (a repetition, an older one, a ``sync`` of the known state) is no step. One exception: a ``sync``
while there is a gap, which says that the state is right again.

**Time.** A step has the time of its record, when the bridge saw the change; but never an earlier one than the step of
the object before. So for an object the order of times is the order of steps, also where a clock was set back.

**Trimming.** The file has a beginning (``since``), which moves on behind the newest record at the distance of ``keep``,
and further where the file would have more than ``max_bytes``. When it passes a step, the earlier steps of that object
go; of a step that ended an object, that step and the object as well. So each object that existed at the beginning
keeps one step from before it: its state there. Each step is passed once, whatever the file's size. Freed pages are
used again; where they are more than an eighth of the file, they are given back, a few in each transaction.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import time_ns
from typing import Any, NamedTuple

import msgspec
from kubedelta_reader import (
    Changed,
    Deleted,
    EpochBegan,
    Event,
    GapFound,
    Left,
    Reader,
    SnapshotEnded,
)

from bridge.history.bodies import FULL_EVERY, Packing, decoded, patch_back
from bridge.history.points import NotInHistory, microseconds
from bridge.history.tables import KnownObjects, ToldPart, opened
from bridge.model.formats.object_paths import ObjectName, partition_key

_MICROSECONDS = 1_000_000
_PASSED_AT_ONCE = 2000
"""Steps that the beginning passes in one transaction at most, so that none takes long."""
_VACUUMED_AT_ONCE = 1000
"""Pages."""
_DELETED = "deleted"
REPLACED, SWEPT = "replaced", "swept"
"""Evidence of deletes that no record tells."""
_INFERRED = ("relisted", REPLACED, SWEPT)
_SEEN = ("watched", "recovered", "listed")
LISTED, SNAPSHOT, RECORDS = "listed", "snapshot", "records"
"""How the objects of a resource came that existed when its coverage began: all, in the first list or in a snapshot; or
those alone that have changed since."""


@dataclass(frozen=True, slots=True)
class HistoryBounds:
    """What the file keeps. Both are about its contents: an idle stream trims nothing."""

    keep: float
    """Seconds before the newest record."""
    max_bytes: int
    """The newest states, and those at the beginning, stay in any case."""


class _ObjectMember(msgspec.Struct):
    apiVersion: str = ""
    kind: str = ""


class _SnapshotData(msgspec.Struct):
    only: Any = None
    watched: msgspec.Raw = msgspec.Raw()


class _Incarnation(NamedTuple):
    """A row of ``objects``: an object under its name with its uid."""

    id: int
    resource: int
    state: bytes
    """The newest."""
    time: int
    patches: int


_FIND = (
    "SELECT id, state, time, patches FROM objects WHERE resource = ? AND namespace = ? AND name = ? AND uid = ?"
    " ORDER BY id DESC LIMIT 1"
)


class Recorder:
    """The only writer of a file. After an error in a batch it is made anew: it remembers what was rolled back."""

    def __init__(self, path: Path, source: str, bounds: HistoryBounds, *, partitioned: bool = False) -> None:
        """Makes the file, if there is none. ``source``: names the stream; from the first event on, a file has one
        stream for ever. Raises NotInHistory and apsw.Error."""
        self._connection = opened(path, writable=True)
        try:
            self._bounds = bounds
            self._packing = Packing(self._connection)
            self._known = KnownObjects(self._connection)
            self._reader = Reader(self._known, partitioned=partitioned)
            rows: Any = self._connection.execute('SELECT id, cluster, "group", plural, seen FROM resources').fetchall()
            self._resources: dict[tuple[str, ...], int] = {(*names,): id for id, *names, _ in rows}
            """Cluster, group and plural → id."""
            self._seen: dict[int, int] = {id: seen for id, *_, seen in rows}
            """Resource → the time of its newest step that the bridge saw happen; saved at the end of a batch."""
            known, newest = self._connection.execute("SELECT source, newest FROM history").get
            if known not in ("", source):
                if newest:
                    raise NotInHistory(f"{path} has the history of {known}; name another file for {source}")
                self._known.position = b""
                self._connection.execute("UPDATE history SET source = ?", (source,))
            self._source = source
            self.position = self._known.position
            """Behind the records of the last transaction; empty at first."""
            self._newest = int(newest)
        except BaseException:
            self._connection.close()
            raise

    def close(self) -> None:
        self._connection.close()

    @contextmanager
    def batch(self, position: bytes) -> Iterator[None]:
        """A transaction with the records that are given to ``record`` in it, and the position behind them. Raises
        NotInHistory if another build writes the file, and apsw.Error."""
        with self._connection:
            if self._known.position != self.position:
                raise NotInHistory("another build writes this file at the same time")
            yield
            self._packing.make_dictionary()
            self._connection.executemany(
                "UPDATE resources SET seen = ? WHERE id = ? AND seen < ?",
                ((seen, resource, seen) for resource, seen in self._seen.items()),
            )
            self._connection.execute("UPDATE history SET source = ?, newest = ?", (self._source, self._newest))
            self._known.position = position
            self._trim()
        self.position = position

    # ── Recording ────────────────────────────────────────────────────────────

    def record(self, event: Event, partition: str = "") -> None:
        """In a batch. ``partition``: see ``Reader.apply``."""
        time = self._time_of(event)
        for step in self._reader.apply(event, partition):
            match step:
                case Changed(key, _, before):
                    self._changed(key, event, time, comes_back=before is None)
                case Deleted(key, _, last, evidence) if last is not None and evidence == REPLACED:
                    self._end(key, last.uid, event, time, REPLACED)
                case Deleted(key, _, last) | Left(key, _, last):
                    if last is not None and last.uid != event.uid:
                        self._end(key, last.uid, event, time, REPLACED)
                    self._gone(key, event, time)
                case SnapshotEnded(_, swept, incomplete):
                    for key, known in swept:
                        self._end(key, known.uid, event, time, SWEPT)
                    self._note_gaps(event, time)
                    # The reader has read the rest of the data.
                    data = msgspec.json.decode(event.data, type=_SnapshotData)
                    if (parts := decoded(data.watched, list[ToldPart])) is not None:
                        self._note_watched(event.key, time, parts)
                    if data.only is None and not incomplete and not partition:
                        self._cover(event, time)
                case GapFound() | EpochBegan():
                    self._note_gaps(event, time)

    def lose(self, reason: str) -> None:
        """In a batch: records of the stream were removed or damaged before they were read. As a gap of any resource."""
        newest = self._connection.execute("SELECT max(sequence) FROM known").get or 0
        data = msgspec.json.encode({"reason": reason, "resources": None})
        self.record(Event(type="kubedelta.gap.v1", id=f"lost/{newest + 1}", sequence=newest + 1, data=data))

    def _time_of(self, event: Event) -> int:
        """Without a time of its own, a record has that of the newest one before it. None is before 1970, or of the
        future: a bridge whose clock was wrong for a moment would take everything before it out of the time that is
        kept."""
        try:
            time = max(0, min(microseconds(event.time), time_ns() // 1000))
        except ValueError:
            return self._newest
        self._newest = max(self._newest, time)
        return time

    def _changed(self, key: str, event: Event, time: int, *, comes_back: bool) -> None:
        found = self._find(key, event.uid)
        if found is None:
            self._add(key, event, time)
        elif comes_back or not event.data or event.data != found.state or self._reader.gaps:
            self._append(found, event, time, event.data)

    def _gone(self, key: str, event: Event, time: int) -> None:
        found = self._find(key, event.uid)
        if found is None:
            self._add(key, event, time)
        else:
            self._append(found, event, time, event.data or found.state)

    def _end(self, key: str, uid: str, event: Event, time: int, evidence: str) -> None:
        """An object that exists no more, as a record of something else says."""
        if (found := self._find(key, uid)) is not None:
            ended = msgspec.structs.replace(event, op=_DELETED, evidence=evidence, version="", managers=b"")
            self._append(found, ended, time, found.state)

    def _find(self, key: str, uid: str) -> _Incarnation | None:
        *names, namespace, name = ObjectName.of(key)
        resource = self._resources.get((*names,))
        if resource is None:
            return None
        row = self._connection.execute(_FIND, (resource, namespace, name, uid)).fetchone()
        if row is None:
            return None
        id, state, time, patches = row
        return _Incarnation(id, resource, self._packing.unpacked(state), time, patches)

    def _add(self, key: str, event: Event, time: int) -> None:
        execute = self._connection.execute
        *names, namespace, name = ObjectName.of(key)
        resource = self._resources.get((*names,))
        if resource is None:
            member = decoded(event.data, _ObjectMember) or _ObjectMember()
            resource = execute(
                'INSERT INTO resources (cluster, "group", plural, api_version, kind, seen) VALUES (?,?,?,?,?,0)'
                " RETURNING id",
                (*names, member.apiVersion, member.kind),
            ).get
            self._resources[*names,] = resource
            self._seen[resource] = 0
            how = LISTED if event.evidence == "listed" else RECORDS
            execute("INSERT INTO coverage VALUES (?,?,?,?)", (resource, time, event.sequence, how))
        object = execute(
            "INSERT INTO objects (resource, namespace, name, uid, state, time, patches) VALUES (?,?,?,?,?,?,0)"
            " RETURNING id",
            (resource, namespace, name, event.uid, self._packing.packed(resource, event.data), time),
        ).get
        self._insert(object, resource, event, time, changed=False, whole=False, back=None)

    def _append(self, found: _Incarnation, event: Event, time: int, state: bytes) -> None:
        changed = state != found.state
        patches = found.patches + 1
        whole, back = False, None
        if changed or patches >= FULL_EVERY:
            patch = None if patches >= FULL_EVERY else patch_back(state, found.state)
            whole = patch is None
            back = self._packing.packed(found.resource, found.state if patch is None else patch)
        self._connection.execute(
            "UPDATE objects SET state = ?, time = ?, patches = ? WHERE id = ?",
            (self._packing.packed(found.resource, state), max(time, found.time), 0 if whole else patches, found.id),
        )
        self._insert(found.id, found.resource, event, max(time, found.time), changed=changed, whole=whole, back=back)

    def _insert(
        self, object: int, resource: int, event: Event, time: int, *, changed: bool, whole: bool, back: bytes | None
    ) -> None:
        execute = self._connection.execute
        blind = None
        if event.evidence in _INFERRED or (event.op == "sync" and changed):
            blind = self._seen[resource]
        elif event.evidence in _SEEN and event.op != "sync":
            self._seen[resource] = max(self._seen[resource], time)
        told = object, event.sequence, time, event.op, event.evidence, event.version, event.managers or None
        execute(
            "INSERT INTO steps (object, sequence, time, op, evidence, version, managers, blind, whole, back)"
            " VALUES (?,?,?,?,?,?,?,?,?,?)",
            (*told, blind, whole, back),
        )

    # ── Notices ──────────────────────────────────────────────────────────────

    def _note_gaps(self, event: Event, time: int) -> None:
        """The reader decides which gaps there are."""
        execute = self._connection.execute
        there = {(gap.id, gap.partition or ""): gap for gap in self._reader.gaps}
        noted = set(execute("SELECT id, partition FROM gaps WHERE settled IS NULL"))
        for each in noted - there.keys():
            execute("UPDATE gaps SET settled = ? WHERE id = ? AND partition = ?", (time, *each))
        data = "{}" if event.op else event.data.decode(errors="replace")
        for each in there.keys() - noted:
            gap = there[each]
            resources = None if gap.resources is None else msgspec.json.encode(gap.resources).decode()
            execute(
                "INSERT OR REPLACE INTO gaps VALUES (?,?,?,?,?,NULL,?)", (*each, gap.sequence, resources, time, data)
            )

    def _cover(self, event: Event, time: int) -> None:
        """A snapshot of everything has told all objects."""
        self._connection.execute(
            "INSERT INTO coverage SELECT id, ?, ?, ? FROM resources"
            " WHERE id NOT IN (SELECT resource FROM coverage WHERE how <> ?)",
            (time, event.sequence, SNAPSHOT, RECORDS),
        )

    def _note_watched(self, cluster: str, time: int, parts: Sequence[ToldPart]) -> None:
        execute = self._connection.execute
        told = msgspec.json.encode(sorted(parts, key=msgspec.json.encode)).decode()
        newest = "SELECT parts FROM watched WHERE cluster = ? ORDER BY time DESC LIMIT 1"
        if execute(newest, (cluster,)).get != told:
            execute("INSERT OR REPLACE INTO watched VALUES (?,?,?)", (cluster, time, told))

    # ── Trimming ─────────────────────────────────────────────────────────────

    def _trim(self) -> None:
        execute = self._connection.execute
        trimmed, since = execute("SELECT trimmed, since FROM history").get
        horizon = self._newest - int(self._bounds.keep * _MICROSECONDS)
        passed = trimmed
        steps = execute(
            "SELECT id, object, time, op FROM steps WHERE id > ? ORDER BY id LIMIT ?", (trimmed, _PASSED_AT_ONCE)
        )
        with closing(steps):
            for id, object, time, op in steps:
                if time > horizon and not self._is_too_large():
                    break
                self._pass(id, object, time, op)  # Removes steps that were read before, at most.
                passed, since = id, max(since, time)
        if passed == trimmed:
            return
        execute("UPDATE history SET trimmed = ?, since = ?", (passed, since))
        execute("DELETE FROM gaps WHERE settled < ?", (since,))
        execute(
            "DELETE FROM watched WHERE time <"
            " (SELECT max(time) FROM watched newer WHERE newer.cluster = watched.cluster AND newer.time <= ?)",
            (since,),
        )
        if self._connection.pragma("freelist_count") > self._connection.pragma("page_count") // 8:
            execute(f"PRAGMA incremental_vacuum({_VACUUMED_AT_ONCE})").fetchall()

    def _is_too_large(self) -> bool:
        pragma = self._connection.pragma
        return bool((pragma("page_count") - pragma("freelist_count")) * pragma("page_size") > self._bounds.max_bytes)

    def _pass(self, id: int, object: int, time: int, op: str) -> None:
        execute = self._connection.execute
        execute("DELETE FROM steps WHERE object = ? AND time <= ? AND id < ?", (object, time, id))
        if op != _DELETED:
            return
        execute("DELETE FROM steps WHERE id = ?", (id,))
        if execute("SELECT 1 FROM steps WHERE object = ? LIMIT 1", (object,)).fetchone() is None:
            *names, uid = execute(
                'SELECT r.cluster, r."group", r.plural, o.namespace, o.name, o.uid FROM objects o'
                " JOIN resources r ON r.id = o.resource WHERE o.id = ?",
                (object,),
            ).get
            execute("DELETE FROM objects WHERE id = ?", (object,))
            # An entry of the reader, which keeps an old record from reviving the object.
            execute("DELETE FROM known WHERE key = ? AND uid = ? AND deleted", (partition_key(*names), uid))
