"""The SQL of the ledger, and the decision which informer an object belongs to."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import apsw

from bridge.model.change import Known, Remembered
from bridge.model.resource import Resource, Scope
from bridge.model.version import newest_of
from bridge.outbox.bodies import Dictionary
from bridge.outbox.sql import one


@dataclass(frozen=True, slots=True)
class InformerRow:
    id: int
    scope: Scope
    position: str | None
    newest: str | None
    epoch: int
    rebuilding: bool


@dataclass(frozen=True, slots=True)
class Leaver:
    """An object that no informer covers any more."""

    key: str
    uid: str
    version: str
    sequence: int
    """Of the record with its last state."""
    epoch: int


# ── Decisions ────────────────────────────────────────────────────────────────


def covering(scopes: Iterable[Scope], key: str) -> Scope | None:
    """The scope whose namespace this object is in. Selectors do not count: whether they still match, a list tells."""
    namespace = key.rpartition("/")[0]
    return next((scope for scope in scopes if scope.namespace in (None, namespace)), None)


def is_unchanged(held: Sequence[InformerRow], scopes: Sequence[Scope]) -> bool:
    return {row.scope for row in held} == set(scopes)


# ── SQL ──────────────────────────────────────────────────────────────────────


def resources(database: apsw.Connection) -> dict[int, Resource]:
    found = database.execute("SELECT id, api_group, version, plural, object_kind, namespaced FROM resources")
    return {row[0]: Resource(row[1], row[2], row[3], row[4], bool(row[5])) for row in found}


def kinds(database: apsw.Connection) -> dict[str, int]:
    """Resources by name → their numbers."""
    return {name: number for number, name in database.execute("SELECT id, name FROM kinds")}


def kind_id(database: apsw.Connection, name: str) -> int:
    database.execute("INSERT OR IGNORE INTO kinds (name) VALUES (?)", (name,))
    return one(database, "SELECT id FROM kinds WHERE name = ?", (name,))


def resource_id(database: apsw.Connection, resource: Resource) -> int:
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


def dictionaries(database: apsw.Connection) -> list[Dictionary]:
    return [Dictionary(*found) for found in database.execute("SELECT number, kind, content FROM dictionaries")]


def add_dictionary(database: apsw.Connection, dictionary: Dictionary) -> None:
    database.execute(
        "INSERT INTO dictionaries (number, kind, content) VALUES (?,?,?)",
        (dictionary.number, dictionary.kind, dictionary.content),
    )


def remembered_resources(database: apsw.Connection) -> list[Resource]:
    """Every resource that has an informer in the ledger, in the version in which it was last watched."""
    known = resources(database)
    return [known[row[0]] for row in database.execute("SELECT DISTINCT resource FROM informers")]


def informers(database: apsw.Connection, kind: int) -> list[InformerRow]:
    found = database.execute(
        "SELECT id, namespace, label_selector, field_selector, position, newest, epoch, rebuilding"
        " FROM informers WHERE kind = ? ORDER BY id",
        (kind,),
    )
    return [InformerRow(row[0], Scope(row[1], row[2], row[3]), row[4], row[5], row[6], bool(row[7])) for row in found]


def leavers(database: apsw.Connection, kind: int, scopes: Sequence[Scope]) -> list[Leaver]:
    """Objects of this kind that none of the scopes covers, in the order in which they were last told."""
    found = database.execute(
        "SELECT o.key, o.uid, o.version, o.seq, i.epoch FROM objects o JOIN informers i ON i.id = o.informer"
        " WHERE o.kind = ? ORDER BY o.seq",
        (kind,),
    )
    return [Leaver(*row) for row in found if covering(scopes, row[0]) is None]


def remembered(database: apsw.Connection, kind: int, row: InformerRow) -> Remembered | None:
    """What an informer knows when it starts; None for one that never told or reached anything."""
    found = database.execute(
        "SELECT key, uid, version, seq FROM objects WHERE kind = ? AND informer = ?", (kind, row.id)
    )
    objects = [(key, Known(uid, version, sequence)) for key, uid, version, sequence in found]
    if not objects and row.position is None and row.newest is None and row.epoch == 1:
        return None
    return Remembered(objects, row.position, row.newest, row.epoch)


def assign(database: apsw.Connection, resource: int, kind: int, scopes: Sequence[Scope]) -> list[InformerRow]:
    """Give every object of the kind to the informer of the scope that covers it, in one transaction: rows for scopes
    that are new, none for those that are gone. A scope that is not as it was begins with a list. Objects that no scope
    covers must have left the ledger before."""
    held = {row.scope: row for row in informers(database, kind)}
    rebuilding = one(database, "SELECT rebuilt FROM meta")
    newest = newest_of(row.newest for row in held.values())
    epoch = max((row.epoch for row in held.values()), default=1)
    for scope in scopes:
        if scope not in held:
            database.execute(
                "INSERT INTO informers (kind, resource, namespace, label_selector, field_selector, epoch,"
                " rebuilding) VALUES (?,?,?,?,?,?,?)",
                (kind, resource, scope.namespace, scope.label_selector, scope.field_selector, epoch, rebuilding),
            )
    now = {row.scope: row for row in informers(database, kind)}
    if not is_unchanged(list(held.values()), scopes):
        moved = []
        for key, informer in list(database.execute("SELECT key, informer FROM objects WHERE kind = ?", (kind,))):
            taker = covering(scopes, key)
            if taker is not None and now[taker].id != informer:
                moved.append((now[taker].id, kind, key))
        database.executemany("UPDATE objects SET informer = ? WHERE kind = ? AND key = ?", moved)
        # An informer that took objects over does not know what happened to them since, but how new they are.
        takers = [(newest, informer) for informer in {row[0] for row in moved}]
        database.executemany("UPDATE informers SET position = NULL, newest = ? WHERE id = ?", takers)
        gone = [(row.id,) for scope, row in now.items() if scope not in scopes]
        database.executemany("DELETE FROM informers WHERE id = ?", gone)
    return [row for row in informers(database, kind) if row.scope in scopes]


def drop_informer(database: apsw.Connection, number: int) -> None:
    database.execute("DELETE FROM informers WHERE id = ?", (number,))
