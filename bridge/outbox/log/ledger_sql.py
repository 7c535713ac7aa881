"""SQL of the ledger, and the decision which informer has an object.

The ledger is append-only like the log: a row for each record. An object exists while a row names its informer and no
other row replaces that row. So a change dirties only the pages at the end of the table, however many objects there are.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeAlias

import apsw
import msgspec

from bridge.model.change import ObjectVersion
from bridge.model.resource import Resource, Scope
from bridge.model.versions.version import newest_of
from bridge.model.versions.version_table import Checkpoint, Deleted, VersionTable
from bridge.outbox.storage.database import one


class InformerRow(msgspec.Struct, frozen=True):
    """A row of ``informers``."""

    id: int
    scope: Scope
    position: str | None
    newest: str | None
    epoch: int
    rebuilding: bool


class OrphanedObject(msgspec.Struct, frozen=True):
    """An object that no configured scope covers any more."""

    key: str
    uid: str
    version: str
    sequence: int
    """The record with its last state."""
    epoch: int
    resource: int
    """Number of the resource that this record names."""
    members: int
    """See ``ObjectVersion.members``."""


# ── Decisions ────────────────────────────────────────────────────────────────


def covering(scopes: Iterable[Scope], key: str) -> Scope | None:
    """The scope whose namespace has this object. Selectors are ignored: only a list can show whether they still
    match."""
    namespace = key.rpartition("/")[0]
    return next((scope for scope in scopes if scope.namespace in (None, namespace)), None)


def is_unchanged(rows: Sequence[InformerRow], scopes: Sequence[Scope]) -> bool:
    """True if the informers of the database are exactly these scopes."""
    return {row.scope for row in rows} == set(scopes)


# ── SQL ──────────────────────────────────────────────────────────────────────

Entry: TypeAlias = tuple[int, int, str, int | None, str, str, int | None, int]
"""A row of the ledger: kind, seq, key, informer, uid, version, replaces, members."""

Members: TypeAlias = tuple[int, int, int]
"""The members of an object (``Selected.members``), and the kind and number of the record with its last state."""

_LAST_STATES = (
    "ledger WHERE {of}informer IS NOT NULL AND seq NOT IN (SELECT seq FROM pinned)"
    " AND seq NOT IN (SELECT replaces FROM ledger WHERE {of}replaces IS NOT NULL)"
)
PRESENT = _LAST_STATES.format(of="")
"""The last states of all objects; reads the whole ledger. Pinned records are excluded by their table: they were
replaced too, by records that the cleaner may have removed."""
_PRESENT_OF = _LAST_STATES.format(of="kind = ?1 AND ")
"""The last states of a kind; reads that part of the ledger."""


ENTER = "INSERT INTO ledger VALUES (?,?,?,?,?,?,?,?)"
"""Adds the ``Entry`` of a new record, in the transaction that writes the record."""


def save_members(database: apsw.Connection, members: Sequence[Members]) -> None:
    """Changes the sinks whose selections contain these objects."""
    database.executemany("UPDATE ledger SET members = ? WHERE kind = ? AND seq = ?", members)


def resources(database: apsw.Connection) -> dict[int, Resource]:
    """Resources by their numbers."""
    found = database.execute("SELECT id, api_group, version, plural, object_kind, namespaced FROM resources")
    return {row[0]: Resource(row[1], row[2], row[3], row[4], bool(row[5])) for row in found}


def kinds(database: apsw.Connection) -> dict[str, int]:
    """Names of resources → their numbers."""
    return {name: number for number, name in database.execute("SELECT id, name FROM kinds")}


def kind_id(database: apsw.Connection, name: str) -> int:
    """The number of a kind; a new kind gets the next number, and begins in the epoch of ``meta``."""
    database.execute("INSERT OR IGNORE INTO kinds (name, epoch) SELECT ?, epoch FROM meta", (name,))
    return one(database, "SELECT id FROM kinds WHERE name = ?", (name,))


def resource_id(database: apsw.Connection, resource: Resource) -> int:
    """The number of a resource; a new version gets the next number."""
    values = (resource.group, resource.version, resource.plural, resource.kind, int(resource.namespaced))
    database.execute(
        "INSERT OR IGNORE INTO resources (kind, api_group, version, plural, object_kind, namespaced)"
        " VALUES (?,?,?,?,?,?)",
        (kind_id(database, resource.name), *values),
    )
    return one(
        database,
        "SELECT id FROM resources WHERE api_group = ? AND version = ? AND plural = ? AND object_kind = ?"
        " AND namespaced = ?",
        values,
    )


def watched_resources(database: apsw.Connection) -> list[Resource]:
    """Every resource that has an informer, in the version that was watched last."""
    known = resources(database)
    return [known[row[0]] for row in database.execute("SELECT DISTINCT resource FROM informers")]


def informers(database: apsw.Connection, kind: int) -> list[InformerRow]:
    """The informers of a kind, oldest first."""
    found = database.execute(
        "SELECT id, namespace, label_selector, field_selector, position, newest, epoch, rebuilding"
        " FROM informers WHERE kind = ? ORDER BY id",
        (kind,),
    )
    return [InformerRow(row[0], Scope(row[1], row[2], row[3]), row[4], row[5], row[6], bool(row[7])) for row in found]


def orphaned_objects(database: apsw.Connection, kind: int, scopes: Sequence[Scope]) -> list[OrphanedObject]:
    """Objects of this kind that none of the scopes covers, in the order of their last records."""
    found = database.execute(
        "SELECT o.key, o.uid, o.version, o.seq, i.epoch, l.resource, o.members"
        f" FROM (SELECT * FROM {_PRESENT_OF}) o JOIN informers i ON i.id = o.informer JOIN log l ON l.seq = o.seq"
        " ORDER BY o.seq",
        (kind,),
    )
    return [OrphanedObject(*row) for row in found if covering(scopes, row[0]) is None]


def present(database: apsw.Connection, kind: int) -> Iterable[tuple[str, str, str]]:
    """Key, uid and resourceVersion of every object of a kind."""
    return database.execute(f"SELECT key, uid, version FROM {_PRESENT_OF}", (kind,))


def checkpoint(database: apsw.Connection, kind: int, rows: Sequence[InformerRow]) -> dict[Scope, Checkpoint | None]:
    """The checkpoint of each informer of a kind; None for a first start, in epoch 1."""
    tables = {row.id: VersionTable() for row in rows}
    for informer, key, uid, version, sequence, members in database.execute(
        f"SELECT informer, key, uid, version, seq, members FROM {_PRESENT_OF}", (kind,)
    ):
        if (table := tables.get(informer)) is not None:
            table[key] = ObjectVersion(uid, version, sequence, members)
    deletes = list(database.execute(_DELETES, (kind, _MOST_DELETES)))
    known = {
        row.scope: Checkpoint(tables[row.id], row.position, row.newest, row.epoch, _newest_delete(row, deletes))
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
    for key, informer, sequence in list(database.execute(f"SELECT key, informer, seq FROM {_PRESENT_OF}", (kind,))):
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
