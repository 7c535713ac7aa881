"""SQL of the ledger.

The ledger is append-only like the log: a row for each record. An object exists while a row names its informer and no
other row replaces that row. So a change dirties only the pages at the end of the table, however many objects there are.

A table of objects by key would cost a random page for every change, and another page to remove the previous record, the
more objects the more: with 300,000 objects an event cost nearly twice as much as with 1,000. A table that is updated
later, in bulk, from the log kept a third of that, and paused for every 20,000 changes. Appending, and cleaning when
half of the file can go (``cleaner``), leaves less than a tenth. The price: the file holds up to twice the last states
of all objects (and 4 MiB), and a start reads a ledger twice as long.

The last state of an object is its record in the log. A second copy would double the bytes of every change; so that
record outlives the trimming, until a newer one replaces it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeAlias

import apsw
import msgspec

from bridge.model.resource import Resource, Scope
from bridge.outbox.storage.database import one


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
    scope: Scope
    """Of the informer that had the object."""


# ── Decisions ────────────────────────────────────────────────────────────────


def covering(scopes: Iterable[Scope], key: str) -> Scope | None:
    """The scope whose namespace has this object. Selectors are ignored: only a list can show whether they still
    match."""
    namespace = key.rpartition("/")[0]
    return next((scope for scope in scopes if scope.namespace in (None, namespace)), None)


# ── SQL ──────────────────────────────────────────────────────────────────────

Entry: TypeAlias = tuple[int, int, str, int | None, str, str, int | None, int, bytes | None]
"""A row of the ledger: kind, seq, key, informer, uid, version, replaces, members, digest."""

Members: TypeAlias = tuple[int, int, int]
"""The members of an object (``Selected.members``), and the kind and number of the record with its last state."""

_LAST_STATES = (
    "ledger WHERE {of}informer IS NOT NULL AND seq NOT IN (SELECT seq FROM pinned)"
    " AND seq NOT IN (SELECT replaces FROM ledger WHERE {of}replaces IS NOT NULL)"
)
PRESENT = _LAST_STATES.format(of="")
"""The last states of all objects; reads the whole ledger. Pinned records are excluded by their table: they were
replaced too, by records that the cleaner may have removed."""
PRESENT_OF = _LAST_STATES.format(of="kind = ?1 AND ")
"""The last states of a kind; reads that part of the ledger."""


ENTER = "INSERT INTO ledger VALUES (?,?,?,?,?,?,?,?,?)"
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


def orphaned_objects(database: apsw.Connection, kind: int, scopes: Sequence[Scope]) -> list[OrphanedObject]:
    """Objects of this kind that none of the scopes covers: informer by informer, in the order of their last records."""
    found = database.execute(
        "SELECT o.key, o.uid, o.version, o.seq, i.epoch, l.resource, o.members,"
        " i.namespace, i.label_selector, i.field_selector"
        f" FROM (SELECT * FROM {PRESENT_OF}) o JOIN informers i ON i.id = o.informer JOIN log l ON l.seq = o.seq"
        " ORDER BY o.informer, o.seq",
        (kind,),
    )
    return [
        OrphanedObject(key, uid, version, sequence, epoch, resource, members, Scope(*scope))
        for key, uid, version, sequence, epoch, resource, members, *scope in found
        if covering(scopes, key) is None
    ]


def present(database: apsw.Connection, kind: int) -> Iterable[tuple[str, str, str, bytes | None]]:
    """Key, uid, resourceVersion and digest of every object of a kind."""
    return database.execute(f"SELECT key, uid, version, digest FROM {PRESENT_OF}", (kind,))
