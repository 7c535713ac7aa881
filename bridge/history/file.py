"""HistoryFile: answers from the file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from heapq import merge
from itertools import chain, groupby
from pathlib import Path
from typing import Any, NamedTuple, Self

import apsw
import msgspec
from kubedelta_reader import Known
from kubedelta_reader.reader import Gap

from bridge.history.bodies import Packing, decoded, went_back
from bridge.history.points import NotInHistory, PastPoint, in_words
from bridge.history.tables import ToldPart, opened
from bridge.model.formats.object_paths import ObjectName, partition_key
from bridge.model.primitives.printable import counted
from bridge.model.resource import SHORT_NAMES, ResourceName

# ── Answers ──────────────────────────────────────────────────────────────────


class KeptResource(NamedTuple):
    """A row of ``resources``."""

    id: int
    cluster: str
    group: str
    plural: str
    api_version: str
    """Of the first object."""
    kind: str

    @property
    def name(self) -> str:
        """kubectl's name."""
        return self.object("", "").resource

    def object(self, namespace: str, name: str) -> ObjectName:
        """One of its objects."""
        return ObjectName(self.cluster, self.group, self.plural, namespace, name)


@dataclass(frozen=True, slots=True)
class ToldState:
    name: ObjectName
    uid: str
    state: bytes
    """JSON, as the stream had it: what was redacted is redacted. Empty where the stream has no states."""
    version: str
    """resourceVersion."""
    sequence: int
    """Of the record that told the state."""
    time: int
    """When the bridge saw the change: microseconds since 1970."""
    blind: int | None
    """None for a step that the bridge saw happen. Otherwise it was found by a comparison, and may have happened at any
    time since this one; steps between may be missing."""

    @property
    def key(self) -> str:
        """The partition key of its events."""
        return partition_key(*self.name)


@dataclass(frozen=True, slots=True)
class StateAt(ToldState):
    """An object that existed at a point, and its state there. ``blind``: of the step that brought it."""

    uncertain: str
    """Why the object may have had another state, or may have been gone; empty where it is certain."""


@dataclass(frozen=True, slots=True)
class HistoryStep(ToldState):
    """A change of an object, as a record told it. ``state``: behind the step; of a delete the last one."""

    op: str
    """``added``, ``updated``, ``deleted``, or ``sync``: told again, without a change or after one that was missed."""
    evidence: str
    """That of the record (docs/events.md); of a delete also ``replaced`` (another object has the name) and ``swept`` (a
    snapshot had the object no more)."""
    managers: bytes
    """JSON: the field managers that made the change; empty where the stream does not tell them."""


class StatePair(NamedTuple):
    """An object at two points; None where it did not exist. Not both are None."""

    before: StateAt | None
    after: StateAt | None


class KnownGap(Gap, frozen=True):
    """Records that never came."""

    time: int
    settled: int | None
    """When a snapshot had told what became of the objects; None where none has yet."""
    words: str

    def is_open(self, time: int | None) -> bool:
        """At a time; None for the end of the file."""
        if time is None:
            return self.settled is None
        return self.time <= time and (self.settled is None or self.settled > time)


class ToldSince(NamedTuple):
    """Since when a resource is told."""

    resource: str
    """kubectl's name."""
    time: int
    how: str
    """``listed`` and ``snapshot``: with all objects of that time. ``records``: with those alone that changed since."""


class Watched(NamedTuple):
    """How much of a resource the bridge watched."""

    whole: bool
    """Every object, and without a failure."""
    words: str


class HistorySize(NamedTuple):
    objects: int
    """Incarnations of objects."""
    steps: int
    bytes: int
    """Of the file, with pages that are free and used again."""
    newest: int
    """The time of the newest record; 0 without one."""


class PointBound(NamedTuple):
    """How far an answer about a point can be trusted."""

    time: int
    """Of the point, in microseconds since 1970: of a version, when the bridge saw it; of now, that of the newest
    record."""
    text: str
    """For the operator, one sentence."""


class _Cut(NamedTuple):
    """Which steps of a resource are not behind a point."""

    condition: str
    values: tuple[int, ...]
    time: int | None
    """Of the point; None for the end of the file."""


class _FoundVersion(NamedTuple):
    """A version of a resource in the present epoch."""

    time: int
    """When the bridge saw it, or the last one before it."""
    epoch: int
    """Since when the epoch is."""
    newest: int
    """The last version of the epoch."""


# ── The file ─────────────────────────────────────────────────────────────────

_MOST_PARTS = 10
"""That are named."""
_MOST_NAMES = 1000
"""Among which similar ones are sought."""
_RESOURCES = 'SELECT id, cluster, "group", plural, api_version, kind FROM resources ORDER BY cluster, plural, "group"'
_NUMBER = "(version <> '' AND NOT (op = 'deleted' AND evidence NOT IN ('watched', 'recovered')))"
"""Steps whose version is the one at which they happened; a delete that nobody saw has the version before it."""
_STEP = "version, sequence, time, blind, op, evidence, ifnull(managers, x'')"
"""As HistoryStep has them."""
_COMPARED = "the bridge did not see the next change, which it found later by a comparison"


class HistoryFile:
    """Every answer is about the file as it was when it was opened, also while a build writes to it. Made by ``open``.
    For one thread."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection
        self._packing = Packing(connection)
        self.resources = [KeptResource(*row) for row in connection.execute(_RESOURCES)]
        since, newest = connection.execute("SELECT since, newest FROM history").get
        self.since = int(since)
        """The beginning of what is kept; 0 before the first trim."""
        self._newest = int(newest)
        self._found_version = cache(self._scanned_version)

    @classmethod
    @contextmanager
    def open(cls, path: Path) -> Iterator[Self]:
        """Raises NotInHistory for a file that is not there or is another one."""
        with closing(opened(path, writable=False)) as connection:
            yield cls(connection)

    # ── What the file has ────────────────────────────────────────────────────

    def size(self) -> HistorySize:
        count = self._connection.execute
        return HistorySize(
            objects=int(count("SELECT count(*) FROM objects").get),
            steps=int(count("SELECT count(*) FROM steps").get),
            bytes=self._connection.pragma("page_count") * self._connection.pragma("page_size"),
            newest=self._newest,
        )

    def coverage(self) -> Iterator[ToldSince]:
        """By resource, then by time."""
        names = {each.id: each.name for each in self.resources}
        for resource, time, how in self._connection.execute("SELECT resource, time, how FROM coverage"):
            yield ToldSince(names[resource], time, how)

    def watched(self, resource: str, time: int | None = None) -> Watched | None:
        """How much of a resource (kubectl's name) the bridge watched at the time, in all clusters of the file, as the
        last snapshot before it told; None where none did. ``time``: None for the end of the file."""
        parts = self._watched_parts(time)
        return None if parts is None else _watched_of([part for part in parts if part.resource == resource])

    def meant(self, word: str) -> Sequence[KeptResource]:
        """The resource that the word means, in each cluster of the file: by its plural, kind or short name, with the
        group behind it or without. Where several groups have it, the core group wins, then groups of Kubernetes by
        name. Raises NotInHistory with the names that the file has, and whether the bridge watched such a resource."""
        found = [each for each in self.resources if _may_mean(word, each.name, each.kind)]
        if not found:
            there = ", ".join(sorted({each.name for each in self.resources})) or "none yet"
            text = f"the file has no resource {word}; it has: {there}"
            parts = self._watched_parts(None)
            if parts is not None:
                text += f"; {_watched_of([part for part in parts if _may_mean(word, part.resource)]).words}"
            raise NotInHistory(text)
        first = min(found, key=lambda each: ("." in each.group and not each.group.endswith(".k8s.io"), each.group))
        return [each for each in found if each.name == first.name]

    def _watched_parts(self, time: int | None) -> Sequence[ToldPart] | None:
        rows = self._connection.execute(
            "SELECT parts FROM watched AS told WHERE time = (SELECT max(time) FROM watched WHERE cluster = told.cluster"
            " AND (? IS NULL OR time <= ?))",
            (time, time),
        ).fetchall()
        read = msgspec.json.Decoder(list[ToldPart]).decode
        return [part for (parts,) in rows for part in read(str(parts))] if rows else None

    def gaps(self, key: str = "") -> Sequence[KnownGap]:
        """In the order of their times. ``key``: those alone that are about this object."""
        rows = self._connection.execute(
            "SELECT id, sequence, partition, resources, time, settled, data FROM gaps ORDER BY time, id"
        )
        names = msgspec.json.Decoder(tuple[str, ...] | None).decode
        found = [
            KnownGap(id, sequence, partition or None, names(resources or "null"), time, settled, _words(id, data))
            for id, sequence, partition, resources, time, settled, data in rows
        ]
        return [*self._covering(found, key, -1)] if key else found

    def bound(self, point: PastPoint) -> PointBound:
        """Raises NotInHistory for a point before the beginning."""
        if point.resource:
            kept = self.meant(point.resource)[0]
            found = self._found_version(kept, point.version)
            others = f"other resources are as the bridge saw them at {in_words(found.time)}"
            if point.version > found.newest:
                end = f"the file ends before that: the newest version of {kept.name} is {found.newest}; {others}"
                return PointBound(found.time, end)
            return PointBound(found.time, f"exact for {kept.name}; {others}")
        self._expect_reached(point.time)
        end = in_words(self._newest)
        if point.time is None:
            return PointBound(self._newest, f"the newest record is of {end}; what happened since is not in the file")
        if point.time > self._newest:
            return PointBound(point.time, f"the file ends before that: its newest record is of {end}")
        text = f"as the bridge saw it at {in_words(point.time)}: a change that it saw later may have been made before"
        return PointBound(point.time, text)

    # ── States and steps ─────────────────────────────────────────────────────

    def at(
        self,
        point: PastPoint,
        *,
        resource: str | None = None,
        namespace: str | None = None,
        name: str | None = None,
    ) -> Iterator[StateAt]:
        """All objects that existed at the point, by resource, namespace and name. ``resource``: kubectl's name, also a
        short one. ``namespace``: as for kubectl, objects of a named resource without namespaces are in each. Objects
        that left the stream's view (``unwatched``, ``unselected``) are not among them. Raises NotInHistory for a point
        before the beginning, and for a resource that the file does not have."""
        filters, values = _filters(namespace, name, everywhere=resource is not None)
        known = self.gaps()
        for each, cut in self._cuts(point, resource):
            gaps = [gap for gap in known if gap.is_open(cut.time)]
            rows = self._connection.execute(
                "SELECT o.id, o.namespace, o.name, o.uid, o.state, s.id, s.version, s.sequence, s.time, s.blind"
                " FROM objects o JOIN steps s ON s.id ="
                f" (SELECT id FROM steps WHERE object = o.id AND {cut.condition} ORDER BY time DESC, id DESC LIMIT 1)"
                f" WHERE o.resource = ? AND s.op <> 'deleted'{filters} ORDER BY o.namespace, o.name, o.id",
                (*cut.values, each.id, *values),
            )
            for object, space, called, uid, newest, step, version, sequence, time, blind in rows:
                found = each.object(space, called)
                state, is_blind = self._packing.unpacked(newest), False
                if cut.time is not None:
                    state, next_blind = self._state(object, newest, step, time)
                    is_blind = next_blind is not None and next_blind <= cut.time
                covering = self._covering(gaps, partition_key(*found), sequence)
                uncertain = next((gap.words for gap in covering), _COMPARED if is_blind else "")
                yield StateAt(found, uid, state, version, sequence, time, blind, uncertain)

    def compared(self, before: PastPoint, after: PastPoint, **asked: str | None) -> Iterator[StatePair]:
        """The objects that differ between two points, of those that are asked for and in the order of ``at``. An object
        that was replaced under its name is two pairs. Raises NotInHistory as ``at`` does."""
        befores = (StatePair(each, None) for each in self.at(before, **asked))
        afters = (StatePair(None, each) for each in self.at(after, **asked))
        for _, alike in groupby(merge(befores, afters, key=_place), _place):
            match [*alike]:
                case [StatePair(StateAt() as was, None), StatePair(None, StateAt() as now)] if was.uid == now.uid:
                    if was.state != now.state:
                        yield StatePair(was, now)
                case others:
                    yield from others

    def changes(self, after: PastPoint) -> Iterator[HistoryStep]:
        """The steps behind the point, in the order of ``sequence``. Raises NotInHistory as ``at`` does."""
        cuts = self._cuts(after, None)
        kept = {each.id: each for each, _ in cuts}
        behind = " OR ".join(f"(o.resource = {each.id} AND NOT ({cut.condition}))" for each, cut in cuts)
        rows = self._connection.execute(
            f"SELECT object, o.resource, o.namespace, o.name, o.uid, o.state, id, time, {_STEP} FROM steps"
            " JOIN (SELECT id AS row, resource, namespace, name, uid, state FROM objects) o"
            f" ON row = object WHERE {behind} ORDER BY sequence, id",
            tuple(value for _, cut in cuts for value in cut.values),
        )
        for object, of, space, name, uid, newest, step, time, *told in rows:
            state, _ = self._state(object, newest, step, time)
            yield HistoryStep(kept[of].object(space, name), uid, state, *told)

    def steps(self, resource: str, name: str, namespace: str | None = None) -> Iterator[HistoryStep]:
        """The steps of the objects of this name, one incarnation behind the other, each in its order. As for kubectl,
        an object without a namespace is in each. Raises NotInHistory as ``expect_known`` does."""
        self.expect_known(resource, name, namespace)
        for each in self.meant(resource):
            rows = self._connection.execute(
                "SELECT id, namespace, uid, state FROM objects WHERE resource = ? AND name = ?"
                " AND (? IS NULL OR namespace IN (?, '')) ORDER BY namespace, id",
                (each.id, name, namespace, namespace),
            )
            for object, space, uid, newest in rows:
                yield from self._steps_of(object, each.object(space, name), uid, newest)

    def expect_known(self, resource: str, name: str | None, namespace: str | None = None) -> None:
        """Raises NotInHistory for a resource, or a name of an object, that the file never had, with those that it
        has."""
        kept = self.meant(resource)
        if name is None:
            return
        there = "SELECT DISTINCT namespace FROM objects WHERE resource = ? AND name = ?"
        spaces = [space for each in kept for (space,) in self._connection.execute(there, (each.id, name))]
        if spaces and (namespace is None or not {namespace, ""}.isdisjoint(spaces)):
            return
        what = f"the file has no {kept[0].name} {name}" + (f" in namespace {namespace}" if namespace else "")
        if spaces:
            raise NotInHistory(f"{what}; it has one in {', '.join(map(str, spaces[:10]))}")
        called = "SELECT DISTINCT name FROM objects WHERE resource = ? AND (? IS NULL OR namespace IN (?, '')) LIMIT ?"
        names = [
            str(found)
            for each in kept
            for (found,) in self._connection.execute(called, (each.id, namespace, namespace, _MOST_NAMES))
        ]
        near = get_close_matches(name, names, n=5) or sorted(names)[:5]
        text = f"{what}; there is {', '.join(near)}" if near else f"{what}, and none of that resource there"
        watched = self.watched(kept[0].name)
        raise NotInHistory(text if watched is None or watched.whole else f"{text}; {watched.words}")

    def expect_namespace(self, namespace: str) -> None:
        """Raises NotInHistory for a namespace of which the file never had an object."""
        there = "SELECT DISTINCT namespace FROM objects WHERE namespace <> '' ORDER BY namespace"
        names = [str(name) for (name,) in self._connection.execute(there)]
        if namespace not in names:
            raise NotInHistory(f"the file has no object in namespace {namespace}; it has some in {', '.join(names)}")

    def _steps_of(self, object: int, name: ObjectName, uid: str, newest: bytes) -> Iterator[HistoryStep]:
        waiting: list[tuple[Any, ...]] = []
        rows = self._connection.execute(
            f"SELECT whole, back, {_STEP} FROM steps WHERE object = ? ORDER BY time, id", (object,)
        )
        # As if a step behind the last one told the state before it, whole.
        for row in chain(rows, [(True, newest)]):
            whole, back, *_ = row
            if whole and waiting:
                state = self._packing.unpacked(back)
                states = [state]
                for _, patch, *_ in reversed(waiting[1:]):
                    if patch is not None:
                        state = went_back(state, [self._packing.unpacked(patch)])
                    states.append(state)
                for (_, _, *told), state in zip(waiting, reversed(states), strict=True):
                    yield HistoryStep(name, uid, state, *told)
                waiting = []
            waiting.append(row)

    # ── Inside ───────────────────────────────────────────────────────────────

    def _expect_reached(self, time: int | None) -> None:
        """Raises NotInHistory for a time before the beginning."""
        first = self._connection.execute("SELECT min(time) FROM coverage").get
        if first is None:
            raise NotInHistory("the file has no record yet")
        if time is not None and time < self.since:
            raise NotInHistory(
                f"the history begins at {in_words(self.since)}; what was before is trimmed (--keep, --max-bytes)"
            )
        if time is not None and time < first:
            raise NotInHistory(f"the history begins at {in_words(first)}, with the first record of the stream")

    def _cuts(self, point: PastPoint, resource: str | None) -> Sequence[tuple[KeptResource, _Cut]]:
        """Of each resource that is asked for; None: of all. Raises NotInHistory for a point before the beginning."""
        self._expect_reached(point.time)
        asked = self.resources if resource is None else self.meant(resource)
        return [(each, self._cut(point, each)) for each in asked]

    def _cut(self, point: PastPoint, kept: KeptResource) -> _Cut:
        """Raises NotInHistory for a version before the beginning."""
        if point.resource:
            by = self.meant(point.resource)
            mine = next((each for each in by if each.cluster == kept.cluster), by[0])
            time, epoch, _ = self._found_version(mine, point.version)
            if mine.id != kept.id:
                return _Cut("time <= ?", (time,), time)
            condition = f"(time < ? OR CASE WHEN {_NUMBER} THEN CAST(version AS INTEGER) <= ? ELSE time <= ? END)"
            return _Cut(condition, (epoch, point.version, time), time)
        return _Cut("TRUE", (), None) if point.time is None else _Cut("time <= ?", (point.time,), point.time)

    def _scanned_version(self, kept: KeptResource, version: int) -> _FoundVersion:
        """Reads all steps of the resource."""
        execute = self._connection.execute
        epochs = f"epoch/{kept.group or 'core'}/{kept.plural}/*"
        epoch = execute("SELECT max(time) FROM gaps WHERE id GLOB ?", (epochs,)).get or 0
        seen = (
            f"FROM steps JOIN objects o ON o.id = object WHERE o.resource = ? AND steps.time >= ? AND {_NUMBER}"
            " AND CAST(version AS INTEGER)"
        )
        time = execute(f"SELECT max(steps.time) {seen} <= ? AND blind IS NULL", (kept.id, epoch, version)).get
        listed = execute(
            f"SELECT max(CAST(version AS INTEGER)) {seen} >= 0 AND evidence = 'listed'", (kept.id, epoch)
        ).get
        if time is None or (listed is not None and version < listed):
            begin = "a later version" if listed is None else f"version {listed}"
            raise NotInHistory(f"the history of {kept.name} begins with {begin}")
        self._expect_reached(time)
        newest = execute(f"SELECT max(CAST(version AS INTEGER)) {seen} >= 0", (kept.id, epoch)).get
        return _FoundVersion(int(time), int(epoch), int(newest))

    def _state(self, object: int, newest: bytes, step: int, time: int) -> tuple[bytes, int | None]:
        """The state of an object behind a step, and ``blind`` of the next one."""
        patches: list[bytes] = []
        state, blind_next = newest, None
        rows = self._connection.execute(
            "SELECT whole, back, blind FROM steps WHERE object = ? AND time >= ? AND id > ? ORDER BY time, id",
            (object, time, step),
        )
        with closing(rows):
            for number, (whole, back, blind) in enumerate(rows):
                if number == 0:
                    blind_next = blind
                if whole:
                    state = back
                    break
                if back is not None:
                    patches.append(back)
        unpacked = [self._packing.unpacked(each) for each in reversed(patches)]
        return went_back(self._packing.unpacked(state), unpacked), blind_next

    def _covering(self, gaps: Sequence[KnownGap], key: str, sequence: int) -> Iterator[KnownGap]:
        """Those that make the state uncertain that a record with this number told."""
        if gaps:
            partition = self._connection.execute("SELECT partition FROM known WHERE key = ?", (key,)).get or ""
            known = Known(uid="", sequence=sequence, id="", partition=partition)
            yield from (gap for gap in gaps if gap.covers(key, known))


def _place(pair: StatePair) -> tuple[str, ...]:
    """As the file orders objects."""
    name = next(each.name for each in pair if each is not None)
    return (name.cluster, name.plural, name.group, name.namespace, name.name)


def _may_mean(word: str, resource: str, kind: str | None = None) -> bool:
    """Whether an operator may mean this resource (kubectl's name). ``kind``: None where it is not known."""
    asked = ResourceName.parsed(word)
    plural, _, group = resource.partition(".")
    words = plural, plural if kind is None else kind.lower(), *SHORT_NAMES.get(resource, ())
    return asked.may_be_in(group) and asked.word in words


def _watched_of(parts: Sequence[ToldPart]) -> Watched:
    """``parts``: of one resource."""
    if not parts:
        return Watched(False, "the bridge did not watch it")
    is_whole = any(not (part.namespace or part.label_selector or part.field_selector) for part in parts)
    if is_whole and all(part.is_well for part in parts):
        return Watched(True, "the bridge watched all of it")
    words = [f"{part}{'' if part.is_well else f' ({part.state})'}" for part in parts[:_MOST_PARTS]]
    more = len(parts) - len(words)
    return Watched(False, f"the bridge watched {'; '.join(words)}{f'; and {more} more' if more else ''}")


def _filters(namespace: str | None, name: str | None, *, everywhere: bool) -> tuple[str, tuple[str, ...]]:
    """``everywhere``: objects without a namespace are in each."""
    asked = {"o.namespace IN (?, '')" if everywhere else "o.namespace = ?": namespace, "o.name = ?": name}
    given = {condition: value for condition, value in asked.items() if value is not None}
    return "".join(f" AND {condition}" for condition in given), (*given.values(),)


class _GapData(msgspec.Struct):
    reason: str = ""
    count: int | None = None


def _words(id: str, data: str) -> str:
    if id.startswith("epoch/"):
        return "versions of the API server ran backwards"
    found = decoded(data.encode(), _GapData) or _GapData()
    records = "records" if found.count is None else counted(found.count, "record")
    return f"{records} never came{found.reason and ': '}{found.reason}"
