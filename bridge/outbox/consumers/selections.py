"""Selections in the database: each sink's bit in log and ledger, and the entries by which the bits were decided.

``log.takes``, ``enters`` and ``leaves`` have the decision on each record, and ``ledger.members`` the sinks whose
selection contains an object; see ``model.record.Selected``. A sink that had a selection once keeps its bit until its
cursor is forgotten: without ``select`` its selection contains everything.

The decision is stored with the record. To evaluate when a sink takes a record would need no columns, but membership
depends on the record before, which a compaction, a restart or a changed selection hides, and each sink would evaluate
again. As bits, the decision costs nothing to a sink that skips the record, and a backlog keeps the meaning that it had.
The price: at most 62 sinks with a selection.

The difference that a changed selection makes is appended to the log, as records for that sink. As items of a backfill
it would need bodies, numbers and ids that no record has; as records it is ordered behind the backlog, is compacted and
replayed like others, and shares a transaction with the bits that it changes. The price: its bodies are stored twice
until the log is trimmed.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from operator import attrgetter
from typing import NamedTuple

import apsw

from bridge.model.change import Evidence, Op
from bridge.model.policies import StartPolicy
from bridge.model.record import MOST_SELECTIONS, Delta, Record, Selected, record_bytes
from bridge.model.resource import Resource
from bridge.outbox.appender import Appender
from bridge.outbox.consumers.backfill import BackfillItem
from bridge.outbox.encryption import Place
from bridge.outbox.errors import Damaged, StateError
from bridge.outbox.ledger import PRESENT
from bridge.outbox.log import record_codec, statements
from bridge.outbox.log.body_codec import BodyCodec
from bridge.outbox.log.statements import Decide
from bridge.outbox.storage.database import columns, one, row, rows_of
from bridge.outbox.store import Condition, Store, bounded, condition

EVERYTHING = '[{"resource":"*"}]'
"""Entries of a sink without ``select``."""
_AT_ONCE = 500
"""Objects that are read, or moved, in each transaction."""


class StoredSelection(NamedTuple):
    """A sink's row."""

    sink: str
    mask: int
    """The sink's bit."""
    since: int
    """Records through this sequence number have no decision for the sink."""
    had_all: bool
    """True if the sink got all of these records, False if it got none."""
    number: int
    """The number of the last change among the changes of all selections, which ends the ids of the records of a
    difference; 0 before the first."""
    start: str
    """The StartPolicy of a sink whose first selection is not in effect yet; empty for other sinks."""
    pending: bool
    """True until the bits of all objects are those of ``entries``, and the difference is in the log."""
    entries: str
    """The entries as JSON, with the names of the resources that they mean."""
    names: str
    """JSON: names in the configuration → names in ``entries``."""
    effective: int
    """Records through this sequence number may have decisions by earlier entries, and the difference is among them."""


class HeldObject(NamedTuple):
    """An object of the ledger with its last state."""

    kind: int
    sequence: int
    """The record with its last state."""
    key: str
    uid: str
    version: str
    members: int
    resource: int
    """The number of the resource that this record names."""
    epoch: int
    body: bytes


@dataclass(frozen=True, slots=True)
class LastState:
    """An object of the ledger."""

    held: HeldObject
    resource: Resource


@dataclass(frozen=True, slots=True)
class Moved:
    """An object that entered or left selections because these changed."""

    state: LastState
    members: int
    """The sinks whose selection contains it now."""
    exported: Sequence[tuple[str, Op]]
    """Sinks that get a record about it: ``added`` or ``deleted``."""


class Selections:
    """Reads and changes the selections of a state, while no informer runs: at the start of a bridge, and at a change of
    its configuration."""

    def __init__(
        self, store: Store, appender: Appender, stored: Mapping[str, StoredSelection], clock: Callable[[], str]
    ) -> None:
        self._store = store
        self._appender = appender
        self._clock = clock
        self.stored = dict(stored)
        """Sink → its selection; sinks without a selection are absent."""
        self.turns = appender.turns
        """In which selections are evaluated."""

    def decide_by(self, decide: Decide) -> None:
        """Lets ``decide`` decide on all records from now on."""
        self._appender.decide = decide

    def expect_room(self, selecting: Sequence[str]) -> None:
        """Raises StateError if there are too many selections with those of these sinks."""
        if len(found := {*self.stored, *selecting}) > MOST_SELECTIONS:
            new = ", ".join(sink for sink in selecting if sink not in self.stored)
            raise StateError(
                f"sinks: with the new selections of {new}, {len(found)} sinks of the state have a selection, and at"
                f" most {MOST_SELECTIONS} may; removed sinks count until state.forget_sinks_after"
            )

    async def define(self, sink: str, entries: str, names: str, *, changed: bool) -> None:
        """See ``define``. Durable on return."""
        defined = partial(define, sink=sink, entries=entries, names=names, changed=changed)
        self.stored[sink] = await self._store.write(defined, shrinks=True)

    async def states(self, sequences: Sequence[int] | None = None) -> AsyncIterator[Sequence[LastState]]:
        """The last states of all objects, or the states in these records of the ledger, in parts whose number and bytes
        are bounded. Raises Damaged."""
        found, codec = sequences, self._store.codec
        if found is None:
            found = await self._store.ask(objects)
        at = 0
        while at < len(found):
            part = partial(held, sequences=found[at : at + _AT_ONCE], bodies=codec.bodies)
            states = await self._store.ask(part)
            yield [LastState(each, codec.resources[each.resource]) for each in states]
            at += len(states)

    async def judge(
        self,
        sink: str,
        decide: Decide,
        *,
        start: int | str = 0,
        through: int = sys.maxsize,
        kind: int | None = None,
        namespace: str | None = None,
    ) -> JudgedRecords:
        """What the sink gets of the records in the log from ``start`` (a sequence number, or an RFC 3339 time) through
        ``through``, as ``decide`` decides on them now. Raises Damaged."""
        kinds = await self._store.ask(record_codec.kinds)
        records = JudgedRecords(
            decide, self.stored[sink].mask, lambda delta: self._store.body_before(kinds[delta.resource.name], delta)
        )
        which, after = condition(start, kind, namespace), 0
        while found := await self._store.ask(
            partial(_read_to_judge, codec=self._store.codec, after=after, through=through, which=which)
        ):
            await self.turns.map(records.judge, found)
            after = found[-1].sequence
        return records

    async def took_effect(self) -> None:
        """The selections are in effect, and ``stored`` is as in the database from now on."""
        self.stored = await self._store.ask(load)

    async def move(self, moved: Sequence[Moved]) -> None:
        """Saves the members of these objects, with the records that the sinks get. After a crash, an object has both or
        neither. Durable on return."""
        written: list[Awaitable[object]] = []
        for kind, of_kind in groupby(sorted(moved, key=_kind), key=_kind):
            here = list(of_kind)
            members = [(each.members, kind, each.state.held.sequence) for each in here]
            exported = [(each, sink, op) for each in here for sink, op in each.exported]
            if exported:
                deltas = [self._record(each.state, sink, op) for each, sink, op in exported]
                resources = [each.state.held.resource for each, _, _ in exported]
                batch = statements.without_informer(kind, resources, [None] * len(deltas), members=members)
                written.append(self._appender.write(deltas, batch))
            else:
                written.append(self._store.write(partial(statements.save_members, members=members)))
        for each in written:
            await each

    def _record(self, state: LastState, sink: str, op: Op) -> Delta:
        stored, held = self.stored[sink], state.held
        return Delta(
            self._appender.number_next(),
            op,
            Evidence.UNSELECTED if op is Op.DELETED else Evidence.RELISTED,
            state.resource,
            held.key,
            held.uid,
            held.version,
            self._clock(),
            held.epoch,
            held.body,
            targets=(sink,),
            selected=Selected(stored.mask, 0, 0, stored.mask if op is Op.ADDED else 0),
            selection=stored.number,
        )


_kind = attrgetter("state.held.kind")


# ── Records that are judged anew ─────────────────────────────────────────────


_OPS = (*Op, record_codec.GAP)
_JUDGED_AT_ONCE = 200
"""Records that are read in each transaction."""


class JudgedRecords:
    """Collects what the sink gets of the records that are passed to ``judge``, in the order of the log. ``mask``: the
    sink's bit in the answers of ``decide``. ``before``: the state before a record, if it is still known."""

    def __init__(self, decide: Decide, mask: int, before: Callable[[Delta], bytes | None]) -> None:
        self._decide = decide
        self._mask = mask
        self._before = before
        self._members: dict[tuple[str, str, str], int] = {}
        self._sequences = array("q")
        self._ops = bytearray()

    def judge(self, record: Record) -> None:
        op = self._op(record) if isinstance(record, Delta) else record_codec.GAP
        if op is not None:
            self._sequences.append(record.sequence)
            self._ops.append(_OPS.index(op))

    def items(self, first: int) -> Iterator[BackfillItem]:
        """Items of a backfill, for the records from sequence number ``first`` on."""
        for sequence, op in zip(self._sequences, self._ops, strict=True):
            if sequence >= first:
                yield BackfillItem(sequence, _OPS[op])

    def _op(self, delta: Delta) -> Op | None:
        """The op with which the sink gets the record; None if it gets none."""
        thing = (delta.resource.name, delta.key, delta.uid)
        was = self._members.get(thing)
        selected = self._decide(delta, was, None if delta.op is Op.ADDED else partial(self._before, delta))
        if delta.op is Op.DELETED:
            self._members.pop(thing, None)
        else:
            self._members[thing] = selected.members
        if not selected.takes & self._mask:
            return None
        if selected.enters & self._mask:
            return Op.ADDED
        return Op.DELETED if selected.leaves & self._mask else delta.op


def _read_to_judge(
    database: apsw.Connection,
    codec: record_codec.Codec,
    after: int,
    through: int,
    which: Condition,
) -> list[Record]:
    """The first changes of objects and gaps behind ``after``, up to ``through`` and a bounded number of bytes: without
    resyncs and differences, which are for certain sinks. Raises Damaged."""
    where, values = which
    found = database.execute(
        f"SELECT {record_codec.COLUMNS} FROM log WHERE seq > ? AND seq <= ? AND targets IS NULL AND {where}"
        f" ORDER BY seq LIMIT {_JUDGED_AT_ONCE}",
        (after, through, *values),
    )
    records = (record_codec.record_of(each, codec) for each in found)
    return list(bounded(records, record_bytes))


# ── In the database ──────────────────────────────────────────────────────────


def load(database: apsw.Connection) -> dict[str, StoredSelection]:
    """The selections by sink."""
    return {
        each.sink: each._replace(had_all=bool(each.had_all), pending=bool(each.pending))
        for each in rows_of(database, StoredSelection, f"SELECT {columns(StoredSelection)} FROM selections")
    }


def begin(database: apsw.Connection, sink: str, start: StartPolicy | None) -> None:
    """Gives the sink a bit, behind the newest record. ``start``: of a new sink, which has no object yet; None for a
    sink that got every record so far. Raises StateError if no bit is left."""
    taken = {mask for (mask,) in database.execute("SELECT mask FROM selections")}
    free = [1 << bit for bit in range(MOST_SELECTIONS) if 1 << bit not in taken]
    if not free:
        raise StateError(
            f"sinks.{sink}.select: {len(taken)} sinks of the state have a selection, and at most {MOST_SELECTIONS} may;"
            " removed sinks count until state.forget_sinks_after"
        )
    mask, last = free[0], one(database, "SELECT last FROM meta")
    database.execute(
        "INSERT INTO selections (sink, mask, since, had_all, start, pending, entries) VALUES (?,?,?,?,?,?,?)",
        (sink, mask, last, start is None, start or "", start is not None, EVERYTHING if start is None else "[]"),
    )
    # The bit may have belonged to a sink that is forgotten.
    change = "members | ?1 WHERE informer IS NOT NULL" if start is None else "members & ~?1 WHERE members & ?1"
    database.execute(f"UPDATE ledger SET members = {change}", (mask,))


def define(database: apsw.Connection, sink: str, entries: str, names: str, *, changed: bool) -> StoredSelection:
    """Saves the entries. ``changed``: they may contain other objects than before, so that a difference follows, under
    the next number of the state: no other selection, and no later sink of this name, gets the same."""
    if changed:
        number = one(database, "UPDATE meta SET selections = selections + 1 RETURNING selections")
        database.execute("UPDATE selections SET number = ?, pending = 1 WHERE sink = ?", (number, sink))
    database.execute("UPDATE selections SET entries = ?, names = ? WHERE sink = ?", (entries, names, sink))
    return load(database)[sink]


def end(database: apsw.Connection, sink: str) -> None:
    """The bits of all objects are those of the entries, and the difference is in the log."""
    database.execute(
        "UPDATE selections SET pending = 0, start = '', effective = (SELECT last FROM meta) WHERE sink = ?", (sink,)
    )


def forget(database: apsw.Connection, sink: str) -> None:
    database.execute("DELETE FROM selections WHERE sink = ?", (sink,))


def objects(database: apsw.Connection) -> list[int]:
    """The numbers of the records with the last state of each object, ascending."""
    return [number for (number,) in database.execute(f"SELECT seq FROM {PRESENT} ORDER BY seq")]


def held(database: apsw.Connection, sequences: Sequence[int], bodies: BodyCodec) -> list[HeldObject]:
    """The objects whose last states these records have: the first of them, up to ``MOST_BYTES``. Raises Damaged."""
    query = (
        "SELECT l.kind, l.seq, l.key, l.uid, l.version, o.members, l.resource, l.epoch, l.body"
        " FROM log l JOIN ledger o ON o.kind = l.kind AND o.seq = l.seq WHERE l.seq = ?"
    )

    def states() -> Iterator[HeldObject]:
        for sequence in sequences:
            found = HeldObject._make(row(database, query, (sequence,)))
            try:
                yield found._replace(body=bodies.unpack(found.body, Place.body, sequence))
            except ValueError as error:
                raise Damaged(f"record {sequence}: {error}") from error

    return list(bounded(states(), lambda state: len(state.body)))


def seen_by(database: apsw.Connection, sink: str) -> tuple[str, str]:
    """SQL about a record of the log: the op with which the sink gets the record, and whether the sink gets it."""
    quoted = f'"{sink}"'
    targeted = f"(targets IS NULL OR instr(targets, {apsw.format_sql_value(quoted)}))"
    found = load(database).get(sink)
    if found is None:
        return "op", targeted
    mask, since = found.mask, found.since
    op = (
        f"CASE WHEN seq <= {since} THEN op WHEN leaves & {mask} THEN 'deleted' WHEN enters & {mask} THEN 'added'"
        " ELSE op END"
    )
    before = "1" if found.had_all else "0"
    # A gap is for every sink, and no selection decides about it.
    return op, f"({targeted} AND CASE WHEN seq <= {since} THEN {before} ELSE takes IS NULL OR takes & {mask} END)"


def contains(database: apsw.Connection, sink: str) -> str:
    """SQL about an object of the ledger: whether the sink's selection contains it."""
    found = load(database).get(sink)
    return "1" if found is None else f"members & {found.mask}"
