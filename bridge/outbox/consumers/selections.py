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

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import apsw

from bridge.model.policies import StartPolicy
from bridge.model.record import MOST_SELECTIONS
from bridge.outbox.encryption.cipher import Place
from bridge.outbox.errors import Damaged, StateError
from bridge.outbox.log import reading
from bridge.outbox.log.body_codec import BodyCodec
from bridge.outbox.log.ledger_sql import PRESENT
from bridge.outbox.storage.database import one, row

EVERYTHING = '[{"resource":"*"}]'
"""Entries of a sink without ``select``."""


@dataclass(frozen=True, slots=True)
class StoredSelection:
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


_COLUMNS = "sink, mask, since, had_all, number, start, pending, entries, names, effective"


def load(database: apsw.Connection) -> dict[str, StoredSelection]:
    """The selections by sink."""
    return {
        sink: StoredSelection(sink, mask, since, bool(had_all), number, start, bool(pending), *others)
        for sink, mask, since, had_all, number, start, pending, *others in database.execute(
            f"SELECT {_COLUMNS} FROM selections"
        )
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

    return list(reading.bounded(states(), lambda state: len(state.body)))


def seen_by(database: apsw.Connection, sink: str) -> tuple[str, str]:
    """SQL about a record of the log: the op with which the sink gets the record, and whether the sink gets it. The
    condition has a parameter: the sink's name in quotes."""
    targeted = "(targets IS NULL OR instr(targets, ?))"
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
