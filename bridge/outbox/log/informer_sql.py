"""SQL of the informers: their progress, the objects that they have, and the decision which informer has an object.

A new part of a kind begins in an unused epoch, since ids of objects that left with a removed part must not come again.
To keep the newest version of every removed part for comparison would be for ever, and cannot cover a delete that the
bridge inferred. The price: where scopes split, join or change their selectors, the first list compares bodies, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import apsw
import msgspec

from bridge.model.change import IgnoredChange, ObjectVersion
from bridge.model.resource import Scope
from bridge.model.versions.version import newest_of
from bridge.model.versions.version_table import Checkpoint, Deleted, VersionTable
from bridge.outbox.errors import Damaged
from bridge.outbox.log.ledger_sql import PRESENT_OF, covering
from bridge.outbox.storage.database import one

_encode = msgspec.json.Encoder().encode
_decode_ignored = msgspec.json.Decoder(IgnoredChange).decode
END_REBUILDING = "UPDATE meta SET rebuilt = 0 WHERE rebuilt AND NOT EXISTS (SELECT 1 FROM informers WHERE rebuilding)"
"""Ends the rebuilding of a lost database once every informer has listed."""


class InformerRow(msgspec.Struct, frozen=True):
    """A row of ``informers``."""

    id: int
    scope: Scope
    position: str | None
    newest: str | None
    epoch: int
    rebuilding: bool
    ignored: IgnoredChange | None
    """The newest ignored change up to the position."""


# ── Progress ──────────────────────────────────────────────────────────────────


def informers(database: apsw.Connection, kind: int) -> list[InformerRow]:
    """The informers of a kind, oldest first."""
    found = database.execute(
        "SELECT id, namespace, label_selector, field_selector, position, newest, epoch, rebuilding, ignored"
        " FROM informers WHERE kind = ? ORDER BY id",
        (kind,),
    )
    return [
        InformerRow(
            number,
            Scope(namespace, labels, fields),
            position,
            newest,
            epoch,
            bool(rebuilding),
            _ignored(ignored),
        )
        for number, namespace, labels, fields, position, newest, epoch, rebuilding, ignored in found
    ]


def _ignored(text: str | None) -> IgnoredChange | None:
    try:
        return None if text is None else _decode_ignored(text)
    except msgspec.MsgspecError as error:
        raise Damaged(f"the newest ignored change of an informer cannot be read: {error}") from error


class InformerProgress(msgspec.Struct, frozen=True):
    """The progress of an informer without a change."""

    position: str | None
    newest: str | None
    epoch: int
    ignored: IgnoredChange | None = None
    """The newest ignored change up to the position."""


def reach(database: apsw.Connection, informers: Mapping[int, InformerProgress]) -> None:
    """Saves progress by the informers' numbers."""
    if not informers:
        return
    database.executemany(
        "UPDATE informers SET position = ?1, newest = ?2, epoch = ?3, rebuilding = rebuilding AND ?1 IS NULL,"
        " ignored = ?5 WHERE id = ?4",
        [
            (each.position, each.newest, each.epoch, number, each.ignored and ignored_text(each.ignored))
            for number, each in informers.items()
        ],
    )
    database.execute(END_REBUILDING)


def ignored_text(ignored: IgnoredChange) -> str:
    return _encode(ignored).decode()


def checkpoint(database: apsw.Connection, kind: int, rows: Sequence[InformerRow]) -> dict[Scope, Checkpoint | None]:
    """The checkpoint of each informer of a kind; None for a first start, in epoch 1."""
    tables = {row.id: VersionTable() for row in rows}
    for informer, key, uid, version, sequence, members, digest in database.execute(
        f"SELECT informer, key, uid, version, seq, members, digest FROM {PRESENT_OF}", (kind,)
    ):
        if (table := tables.get(informer)) is not None:
            table[key] = ObjectVersion(uid, version, sequence, members, digest or b"")
    deletes = list(database.execute(_DELETES, (kind, _MOST_DELETES)))
    known = {
        row.scope: Checkpoint(
            tables[row.id], row.position, row.newest, row.epoch, row.ignored, _newest_delete(row, deletes)
        )
        for row in rows
    }
    return {scope: None if each.is_blank and each.epoch == 1 else each for scope, each in known.items()}


_MOST_DELETES = 100
_DELETES = (
    "SELECT l.key, l.uid, l.version, g.epoch FROM ledger l JOIN log g ON g.seq = l.seq"
    " WHERE l.kind = ? AND l.informer IS NULL AND g.op = 'deleted' AND g.evidence = 'watched'"
    " ORDER BY l.seq DESC LIMIT ?"
)


def _newest_delete(row: InformerRow, deletes: Iterable[tuple[str, str, str, int]]) -> Deleted | None:
    """The newest announced delete in this scope and epoch; None without a position. Deletes of an earlier division into
    scopes belong to an earlier epoch."""
    if row.position is None:
        return None
    covered = (each for each in deletes if each[3] == row.epoch and covering([row.scope], each[0]) is not None)
    return next((Deleted(*each[:3]) for each in covered), None)


# ── The division into scopes ──────────────────────────────────────────────────


def is_unchanged(rows: Sequence[InformerRow], scopes: Sequence[Scope]) -> bool:
    """True if the informers of the database are exactly these scopes."""
    return {row.scope for row in rows} == set(scopes)


def assign(database: apsw.Connection, resource: int, kind: int, scopes: Sequence[Scope]) -> list[InformerRow]:
    """Assigns every object of the kind to the informer whose scope covers it, atomically; creates and removes informers
    to match ``scopes``. Returns the informers. A changed scope loses its position, and begins with a list. Call after
    the objects outside all scopes were exported as deleted."""
    rows = informers(database, kind)
    rebuilding = one(database, "SELECT rebuilt FROM meta")
    for scope in (each for each in scopes if each not in {row.scope for row in rows}):
        database.execute(
            "INSERT INTO informers (kind, resource, namespace, label_selector, field_selector, rebuilding)"
            " VALUES (?,?,?,?,?,?)",
            (kind, resource, scope.namespace, scope.label_selector, scope.field_selector, rebuilding),
        )
    if not is_unchanged(rows, scopes):
        _hand_over(database, kind, rows, scopes)
    # A list may find objects again that were exported as deleted while they existed.
    database.execute(
        "UPDATE informers SET epoch = max(epoch, (SELECT epoch FROM kinds WHERE id = informers.kind))"
        " WHERE kind = ? AND position IS NULL",
        (kind,),
    )
    return informers(database, kind)


def _hand_over(database: apsw.Connection, kind: int, rows: Sequence[InformerRow], scopes: Sequence[Scope]) -> None:
    """Moves the objects of removed informers to the informers that cover them now."""
    now = {row.scope: row.id for row in informers(database, kind)}
    removed = {row.id: row.epoch for row in rows if row.scope not in scopes}
    moved = []
    for key, informer, sequence in list(database.execute(f"SELECT key, informer, seq FROM {PRESENT_OF}", (kind,))):
        successor = covering(scopes, key) if informer in removed else None
        if successor is not None:
            moved.append((now[successor], kind, sequence))
    database.executemany("UPDATE ledger SET informer = ? WHERE kind = ? AND seq = ?", moved)
    # An informer that takes objects over must list, and must reject a list that is older than their newest version.
    newest = newest_of(row.newest for row in rows)
    successors = [(newest, informer) for informer in {row[0] for row in moved}]
    database.executemany("UPDATE informers SET position = NULL, newest = ? WHERE id = ?", successors)
    database.executemany("DELETE FROM informers WHERE id = ?", [(informer,) for informer in removed])
    raise_epoch(database, kind, removed.values())


def raise_epoch(database: apsw.Connection, kind: int, epochs: Iterable[int]) -> None:
    """Lets later informers of the kind begin in a later epoch than ``epochs``. Objects that were exported as deleted in
    these epochs may return unchanged, and their ids must not repeat."""
    database.execute("UPDATE kinds SET epoch = max(epoch, ?) WHERE id = ?", (1 + max(epochs, default=0), kind))


def drop_informer(database: apsw.Connection, number: int) -> None:
    """Deletes an informer; see ``raise_epoch``."""
    for kind, epoch in list(database.execute("DELETE FROM informers WHERE id = ? RETURNING kind, epoch", (number,))):
        raise_epoch(database, kind, [epoch])
