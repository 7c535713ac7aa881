"""What a sink is told out of turn: a snapshot, a compacted backlog, a Gap, a replay.

An errand stands in the table ``selections``: numbers of records in the order in which they are told, each with the op
that they are told as, or a notice. The sink's way is then: the log through ``after``, the selection, the log behind
``cut``. It survives a crash like everything else; what was told and not yet saved as told is told again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from operator import attrgetter
from typing import Any, NamedTuple

import apsw
import msgspec

from bridge.model.change import Op
from bridge.model.record import Concern, Delta, Gap, Record, Snapshot, SnapshotEdge, snapshot_id
from bridge.outbox import rows
from bridge.outbox.compaction import Step, compact
from bridge.outbox.errors import Damaged
from bridge.outbox.ledger_sql import PRESENT
from bridge.outbox.sql import one, row
from bridge.outbox.work import bounded

_encode_about = msgspec.json.Encoder().encode
_decode_about = msgspec.json.Decoder(list[tuple[int, str | None]]).decode


class ErrandKind(StrEnum):
    SNAPSHOT = "snapshot"
    COMPACTED = "compacted"
    DROPPED = "dropped"
    REPLAY = "replay"


@dataclass(frozen=True, slots=True)
class Errand:
    kind: ErrandKind
    after: int
    """The log is told up to here before."""
    cut: int
    """The log goes on behind this."""
    told: int
    """Places up to this one have been read."""
    last: int
    """The last place."""
    replay: int = 0
    """The number of the replay that this errand is, or was before it was compacted; 0 for none."""
    since: int | None = None
    """The log up to here was settled when this was planned; None where all of it was, through ``after``."""
    in_flight: tuple[int, ...] = ()
    """What was handed out and not settled then, by sequence number. These records have places too, from 0 down, so that
    the log behind ``since`` may go however long the sink is stuck: after a crash they are read from there."""

    @property
    def log_from(self) -> int:
        """Behind this, nothing of the log through ``cut`` is needed."""
        return self.after if self.since is None else self.since

    @property
    def left(self) -> int:
        return self.last - self.told


class Selected(NamedTuple):
    """One row of a selection, without its place."""

    sequence: int
    op: str
    """As which a record is told; or ``gap``, ``began``, ``ended``."""
    first: int | None = None
    records: int | None = None
    time: str | None = None
    """Of a notice that is made here; None for what stands in the log."""
    before_sequence: int | None = None
    """Of the record whose ``before`` is told, where that is another one."""
    before: bytes | None = None
    concerns: str | None = None
    """Of a gap that is made here: resources by number, each with a namespace or null, as JSON; None where it may be
    about anything."""


_PART = 10_000
"""Rows read in one transaction."""
MOST_CONCERNS = 1_000
"""That a gap names; of more, it names the resources alone."""
DROPPED_REASON = "the sink's backlog was at its bound, and its policy is drop"


def load(database: apsw.Connection, sink: str) -> Errand | None:
    kind, after, cut, replay = row(
        database, "SELECT errand, errand_after, errand_cut, replay FROM cursors WHERE sink = ?", (sink,)
    )
    if not kind:
        return None
    first, last = row(database, "SELECT min(place), max(place) FROM selections WHERE sink = ?", (sink,))
    if kind not in set(ErrandKind):
        raise Damaged(f"sink {sink} has an errand of a kind that there is not: {kind}")
    return Errand(ErrandKind(kind), after, cut, 0 if first is None else first - 1, last or 0, replay)


def read(
    database: apsw.Connection, codec: rows.Codec, sink: str, errand: Errand, limit: int
) -> tuple[list[Record], int]:
    """At most ``limit`` records behind the place up to which it was read, and the place of the last of them."""
    columns = ", ".join(f"l.{name}" for name in rows.COLUMNS.split(", "))
    found = database.execute(
        f"SELECT s.place, {_SELECTED}, {columns} FROM selections s"
        " LEFT JOIN log l ON l.seq = s.seq WHERE s.sink = ? AND s.place > ? ORDER BY s.place LIMIT ?",
        (sink, errand.told, limit),
    )
    places = [errand.told]
    last = _end_of_snapshot(database, sink, errand)

    def records() -> Iterator[Record]:
        for place, *values in found:
            places.append(place)
            record = _record(sink, Selected(*values[:_WIDTH]), values[_WIDTH:], codec)
            if errand.replay and place > 0 and not isinstance(record, Snapshot):
                record = msgspec.structs.replace(record, replay=errand.replay)
            if place <= last and isinstance(record, Delta):
                record = msgspec.structs.replace(
                    record, snapshot=snapshot_id(sink, errand.after), last_of_snapshot=place == last
                )
            yield record

    return list(bounded(records())), places[-1]


def _end_of_snapshot(database: apsw.Connection, sink: str, errand: Errand) -> int:
    """The place of its last object; 0 where nothing of one is left to be told. What a compaction put behind it is newer
    than all of it."""
    if errand.kind is not ErrandKind.SNAPSHOT:
        return 0
    query = (
        "SELECT place FROM selections WHERE sink = ? AND place > ? AND time IS NULL AND seq <= ?"
        " ORDER BY place DESC LIMIT 1"
    )
    found = database.execute(query, (sink, errand.told, errand.after)).fetchone()
    return 0 if found is None else int(found[0])


_SELECTED = "s.seq, s.op, s.first, s.count, s.time, s.before_seq, s.before, s.concerns"
_WIDTH = len(Selected._fields)


def _record(sink: str, selected: Selected, logged: Sequence[Any], codec: rows.Codec) -> Record:
    sequence, op, first, count, time, before_sequence, before, concerns = selected
    if time is not None:
        if op == rows.GAP:
            about = _concerns_of(concerns, codec)
            return Gap(
                sequence, first or sequence, count, DROPPED_REASON, time, concerns=about or (), only=about is not None
            )
        return Snapshot(SnapshotEdge(op), sequence, sink, count or 0, time)
    if logged[0] is None:
        raise Damaged(f"record {sequence}, which sink {sink} is still to be told, is not there")
    if op == rows.GAP:
        return rows.record_of(logged, codec)
    if op == Op.ADDED:
        before = None
    elif before_sequence is None:
        before = logged[-2]
    return rows.record_of([*logged[:-2], before, logged[-1]], codec, Op(op))


def _concerns_of(concerns: str | None, codec: rows.Codec) -> tuple[Concern, ...] | None:
    if concerns is None:
        return None
    try:
        return tuple(Concern(codec.resources[number], namespace) for number, namespace in _decode_about(concerns))
    except (KeyError, msgspec.MsgspecError) as error:
        raise Damaged(f"what a gap is about cannot be read: {error!r}") from error


# ── Plans ────────────────────────────────────────────────────────────────────


def begin_snapshot(database: apsw.Connection, sink: str, time: str) -> Errand:
    """Every object of the ledger as added, in the order in which they were last told, between two notices."""
    cut = one(database, "SELECT last FROM meta")
    database.execute(
        "INSERT INTO selections (sink, place, seq, op)"
        f" SELECT ?, row_number() OVER (ORDER BY seq) + 1, seq, 'added' FROM {PRESENT}",
        (sink,),
    )
    count = database.changes()
    _insert(database, sink, [(1, Selected(cut, SnapshotEdge.BEGAN, records=count, time=time))])
    _insert(database, sink, [(count + 2, Selected(cut, SnapshotEdge.ENDED, records=count, time=time))])
    return _set(database, sink, Errand(ErrandKind.SNAPSHOT, cut, cut, 0, count + 2))


def begin_replay(
    database: apsw.Connection,
    sink: str,
    *,
    start: int | str,
    settled: int,
    taken: int,
    kind: int | None,
    namespace: str | None,
) -> tuple[Errand | None, tuple[int, int, int]]:
    """Records of the log from ``start`` (a sequence number, or a time) through ``taken``, once more. Returns the
    errand, and how many there are, the first and the last. The errand's number is durable with it: a replay that goes
    on after a crash keeps it, and no other replay of this database has it."""
    trimmed = one(database, "SELECT trimmed FROM meta")
    wheres = ["seq > ?", "seq <= ?", _MEANT_FOR]
    values: list[int | str] = [trimmed, taken, _quoted(sink)]
    wheres.append("seq >= ?" if isinstance(start, int) else "time >= ?")
    values.append(start)
    if kind is not None:
        wheres.append("kind = ?")
        values.append(kind)
    if namespace is not None:
        wheres.append("substr(key, 1, length(?) + 1) = ? || '/'")
        values += [namespace, namespace]
    database.execute(
        "INSERT INTO selections (sink, place, seq, op) SELECT ?, row_number() OVER (ORDER BY seq), seq, op FROM log"
        f" WHERE {' AND '.join(wheres)}",
        (sink, *values),
    )
    count, first, last = row(
        database,
        "SELECT count(*), coalesce(min(seq), 0), coalesce(max(seq), 0) FROM selections WHERE sink = ?",
        (sink,),
    )
    if not count:
        return None, (count, first, last)
    number = one(database, "UPDATE meta SET replays = replays + 1 RETURNING replays")
    errand = Errand(ErrandKind.REPLAY, taken, taken, 0, count, number)
    return _set(database, sink, _with_in_flight(database, sink, errand, settled)), (count, first, last)


def compacted(
    database: apsw.Connection, sink: str, errand: Errand | None, taken: int, through: int, told_through: int
) -> tuple[int, list[Selected]]:
    """The newest of each object, through ``through``, between the notices that were there; and of how many records.
    ``taken``: how far the log was handed out, where no errand is being read. Reads row by row: a backlog may be longer
    than memory."""
    if errand is not None:  # A replay holds what the log told before: the sink may know of it, whatever it is told now.
        told_through = max(told_through, errand.after)
    notices: list[Selected] = []
    befores: dict[int, bytes | None] = {}
    count = of_snapshot = 0
    snapshot = errand.after if errand is not None and errand.kind is ErrandKind.SNAPSHOT else 0

    def steps() -> Iterator[Step]:
        nonlocal count, of_snapshot
        for selected, _, kind, key, uid in _waiting(database, sink, errand, taken, through):
            count += 1
            if selected.time is not None or selected.op == rows.GAP:
                notices.append(selected)
                continue
            of_snapshot += selected.sequence <= snapshot
            if selected.before_sequence is not None:
                befores[selected.before_sequence] = selected.before
            yield Step(selected.sequence, (kind, key), uid, Op(selected.op), selected.before_sequence)

    planned = []
    for kept in compact(steps(), told_through):
        if kept.before == kept.sequence:
            planned.append(Selected(kept.sequence, kept.op.value))
        else:
            before = befores[kept.before] if kept.before in befores else _before(database, kept.before)
            planned.append(Selected(kept.sequence, kept.op.value, before_sequence=kept.before, before=before))
    gone = of_snapshot - sum(each.sequence <= snapshot for each in planned)
    return count, _bracketed([_without(gone, notice) for notice in notices], planned)


def dropped(
    database: apsw.Connection, sink: str, errand: Errand | None, taken: int, through: int, time: str
) -> list[Selected]:
    """A Gap in place of everything of the log through ``through`` that was not handed out; one that waits already is
    widened. It is the last row."""
    start = taken if errand is None else errand.cut
    first, count = start + 1, 0
    notices: list[Selected] = []
    kept: list[Selected] = []
    about = _About()
    for selected, resource, _, key, _ in _waiting(database, sink, errand, taken, through):
        if selected.op == rows.GAP and selected.time is not None:
            first, count = min(first, selected.first or first), count + (selected.records or 0)
            about.add_all(selected.concerns)
        elif selected.time is not None or selected.op == rows.GAP:
            notices.append(selected)
        elif selected.sequence <= start:
            kept.append(selected)
        else:
            count += 1
            about.add(resource, key)
    return [*_bracketed(notices, kept), Selected(through, rows.GAP, first, count, time, concerns=about.text())]


class _About:
    """Resources by number, with the namespaces of what is missing of them."""

    def __init__(self) -> None:
        self._found: set[tuple[int, str | None]] | None = set()
        self._named = True
        """With the namespaces."""

    def add(self, resource: int, key: str) -> None:
        namespace, slash, _ = key.partition("/")
        self._add(resource, namespace if slash else None)

    def add_all(self, concerns: str | None) -> None:
        """Those of an earlier gap."""
        if concerns is None:
            self._found = None
            return
        for resource, namespace in _decode_about(concerns):
            self._add(resource, namespace)

    def text(self) -> str | None:
        return None if self._found is None else _encode_about(sorted(self._found, key=str)).decode()

    def _add(self, resource: int, namespace: str | None) -> None:
        if self._found is None:
            return
        self._found.add((resource, namespace if self._named else None))
        if self._named and len(self._found) > MOST_CONCERNS:
            self._named = False
            self._found = {(each, None) for each, _ in self._found}


def _waiting(
    database: apsw.Connection, sink: str, errand: Errand | None, taken: int, through: int
) -> Iterator[tuple[Selected, Any, Any, Any, Any]]:
    """What one sink has not been handed yet, in order, each with resource, kind, key and uid of its object."""
    if errand is not None:
        selections = (
            f"SELECT s.place, {_SELECTED}, l.resource, l.kind, l.key, l.uid FROM selections s"
            " LEFT JOIN log l ON l.seq = s.seq WHERE s.place > ? AND s.sink = ? ORDER BY s.place"
        )
        for _, *values, resource, kind, key, uid in _in_parts(database, selections, errand.told, sink):
            yield Selected(*values), resource, kind, key, uid
    log = f"SELECT seq, op, resource, kind, key, uid FROM log WHERE seq > ? AND seq <= ? AND {_MEANT_FOR} ORDER BY seq"
    start = taken if errand is None else errand.cut
    for sequence, op, resource, kind, key, uid in _in_parts(database, log, start, through, _quoted(sink)):
        yield Selected(sequence, op), resource, kind, key, uid


def _in_parts(database: apsw.Connection, query: str, after: int, *values: Any) -> Iterator[tuple[Any, ...]]:
    """Rows behind ``after``, which is the query's first value, by its first column. What waits for a sink stays as it
    is meanwhile; in short transactions it may take long, and does not keep the write-ahead log from being reset."""
    while part := list(database.execute(f"{query} LIMIT {_PART}", (after, *values))):
        yield from part
        after = part[-1][0]


def _without(gone: int, notice: Selected) -> Selected:
    """The end of a snapshot counts what stands in front of it: so many objects of it are told as something newer."""
    if notice.op != SnapshotEdge.ENDED:
        return notice
    return notice._replace(records=(notice.records or 0) - gone)


def _bracketed(notices: Sequence[Selected], planned: Sequence[Selected]) -> list[Selected]:
    """A Gap stays behind what is older than it: whoever looks at the cluster when told of it must not hear afterwards
    what was before."""
    begins = [notice for notice in notices if notice.op == SnapshotEdge.BEGAN]
    ends = [notice for notice in notices if notice.op == SnapshotEdge.ENDED]
    gaps = [notice for notice in notices if notice.op == rows.GAP]
    return [*begins, *sorted([*planned, *gaps], key=attrgetter("sequence")), *ends]


def _before(database: apsw.Connection, sequence: int) -> bytes | None:
    found = database.execute("SELECT before FROM log WHERE seq = ?", (sequence,)).fetchone()
    return found[0] if found else None


def replan(
    database: apsw.Connection,
    sink: str,
    kind: ErrandKind,
    errand: Errand | None,
    settled: int,
    taken: int,
    cut: int,
    planned: Iterable[Selected],
) -> Errand:
    """Put these in place of everything that the sink was not handed yet, through ``cut``."""
    base = errand or _with_in_flight(database, sink, Errand(kind, taken, taken, 0, 0), settled)
    database.execute("DELETE FROM selections WHERE sink = ? AND place > ?", (sink, base.told))
    begin = max(base.told, 0)
    numbered = list(enumerate(planned, begin + 1))
    _insert(database, sink, numbered)
    kind = base.kind if base.kind is ErrandKind.SNAPSHOT else kind
    return _set(database, sink, replace(base, kind=kind, cut=cut, last=begin + len(numbered)))


def _with_in_flight(database: apsw.Connection, sink: str, errand: Errand, settled: int) -> Errand:
    found = database.execute(
        f"SELECT seq, op FROM log WHERE seq > ? AND seq <= ? AND {_MEANT_FOR} ORDER BY seq",
        (settled, errand.after, _quoted(sink)),
    )
    in_flight = list(found)
    _insert(database, sink, enumerate((Selected(*each) for each in in_flight), 1 - len(in_flight)))
    return replace(errand, since=settled, in_flight=tuple(sequence for sequence, _ in in_flight))


def settle(database: apsw.Connection, sink: str, place: int) -> None:
    database.execute("DELETE FROM selections WHERE sink = ? AND place <= ?", (sink, place))


def end(database: apsw.Connection, sink: str) -> None:
    """The selection was told and settled; the sink's cursor says so from now on."""
    database.execute("DELETE FROM selections WHERE sink = ?", (sink,))
    database.execute("UPDATE cursors SET errand = '', replay = 0 WHERE sink = ?", (sink,))


_MEANT_FOR = "(audience IS NULL OR instr(audience, ?))"


def _quoted(sink: str) -> str:
    return f'"{sink}"'


def _insert(database: apsw.Connection, sink: str, planned: Iterable[tuple[int, Selected]]) -> None:
    database.executemany(
        "INSERT INTO selections (sink, place, seq, op, first, count, time, before_seq, before, concerns)"
        " VALUES (?,?,?,?,?,?,?,?,?,?)",
        [(sink, place, *selected) for place, selected in planned],
    )


def _set(database: apsw.Connection, sink: str, errand: Errand) -> Errand:
    database.execute(
        "UPDATE cursors SET errand = ?, errand_after = ?, errand_cut = ?, replay = ? WHERE sink = ?",
        (errand.kind.value, errand.log_from, errand.cut, errand.replay, sink),
    )
    return errand
