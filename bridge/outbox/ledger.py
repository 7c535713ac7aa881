"""The ledger: every exported object until its delete, the informer that has the object, and the cluster.

The ledger is append-only like the log: a row for each record. An object exists while a row names its informer and no
other row replaces that row (``PRESENT``). So a change dirties only the pages at the end of the table, however many
objects there are.

A table of objects by key would cost a random page for every change, and another page to remove the previous record, the
more objects the more: with 300,000 objects an event cost nearly twice as much as with 1,000. A table that is updated
later, in bulk, from the log kept a third of that, and paused for every 20,000 changes. Appending, and cleaning when
half of the file can go (``log.cleaner``), leaves less than a tenth. The price: the file holds up to twice the last
states of all objects (and 4 MiB), and a start reads a ledger twice as long.

The last state of an object is its record in the log. A second copy would double the bytes of every change; so that
record outlives the trimming, until a newer one replaces it.

Where changes are ignored (``ignore_changes``), a row has a digest of the state without the ignored paths: an update
with the digest of the last state is no record. Its version is saved with the position (``informers.ignored``), because
the newest known version proves the API server's history: else a restore would go unnoticed where only heartbeats came.
An informer with other paths than before begins with a list.

``Ledger.adopt`` divides the objects of a kind among informers, one for each scope. A new scope of a kind begins in an
unused epoch, since ids of objects that left with a removed scope must not come again. To keep the newest version of
every removed scope for comparison would be for ever, and cannot cover a delete that the bridge inferred. The price:
where scopes split, join or change their selectors, the first list compares bodies, too.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from itertools import takewhile
from typing import NamedTuple

import apsw
import msgspec
from msgspec.structs import replace

from bridge.model.admin import UnknownTarget
from bridge.model.change import Evidence, IgnoredChange, ObjectVersion, Op
from bridge.model.primitives.shard import Shard
from bridge.model.record import Delta
from bridge.model.resource import Resource, Scope
from bridge.model.versions import Checkpoint, Deleted, VersionTable, newest_of
from bridge.outbox.appender import Appender, RunningInformer
from bridge.outbox.errors import Damaged, OtherCluster, OtherShard
from bridge.outbox.log import record_codec, statements
from bridge.outbox.log.statements import InformerProgress
from bridge.outbox.storage.database import columns, one, row, rows_of
from bridge.outbox.store import Store, bounded

_AT_ONCE = 500
"""Objects whose deletes are exported in each transaction."""


class Ledger:
    """Assigns objects to informers, and exports deletes of objects that no informer covers any more."""

    def __init__(self, store: Store, appender: Appender, clock: Callable[[], str]) -> None:
        self._store = store
        self._appender = appender
        self._clock = clock

    async def identify(self, cluster: str, *, restart: bool) -> str | None:
        """Compares the cluster (the uid of its namespace kube-system) with the state's, before any informer runs.
        Another cluster raises OtherCluster; with ``restart`` all informers begin a new epoch and compare the ledger
        with the new cluster, and the old uid is returned. Durable when this returns."""
        was = await self._store.write(partial(_identify, cluster=cluster, restart=restart))
        if was in ("", cluster):
            return None
        if not restart:
            raise OtherCluster(
                f"state.directory: {self._store.state_directory.directory} belongs to the cluster whose namespace "
                f"kube-system has the uid {was}; this cluster has the uid {cluster}. Give each cluster its own "
                "directory, or set state.on_cluster_change: restart to compare the ledger with this cluster and go on"
            )
        return was

    async def claim(self, shard: Shard | None) -> None:
        """Makes the state that of a shard (None: of all objects), before any informer runs: a list would otherwise show
        the objects of another shard as deleted. Durable on return. Raises OtherShard where the state had informers of
        another shard."""
        directory = self._store.state_directory
        was = await asyncio.to_thread(directory.shard)
        if was == shard:
            return
        if await self._store.ask(lambda database: one(database, "SELECT count(*) FROM informers")):
            raise OtherShard(
                f"state.directory: {directory.directory} has the objects of {was or 'all shards'}, and the "
                f"configuration is for {shard or 'all shards'}: restore the former one, and give each shard its own "
                "directory; or begin with an empty directory: the next start exports every object again"
            )
        await asyncio.to_thread(directory.keep_shard, shard)

    async def is_identified(self) -> bool:
        """True if the state names a cluster."""
        return bool(await self._store.ask(lambda database: row(database, "SELECT cluster FROM meta")[0]))

    async def resources(self) -> Sequence[Resource]:
        """Every resource with an informer in the database, in the version that was watched last."""
        return await self._store.ask(watched_resources)

    async def scopes(self, name: str) -> Sequence[Scope]:
        """The watched scopes of a resource. KeyError for an unknown name."""
        kind = (await self._store.ask(record_codec.kinds))[name]
        return [each.scope for each in await self._store.ask(partial(informers, kind=kind))]

    async def keys(self, name: str) -> Sequence[str]:
        """The keys of all objects of a resource. KeyError for an unknown name."""
        kind = (await self._store.ask(record_codec.kinds))[name]
        return await self._store.ask(lambda database: [each.key for each in present(database, kind)])

    async def exported_resources(self) -> Sequence[Resource]:
        """Every resource that some record names, in every version."""
        return list((await self._store.ask(record_codec.resources)).values())

    async def kind_of(self, name: str) -> int:
        """The number of a resource by its name in kubectl's form. Raises UnknownTarget."""
        found = await self._store.ask(record_codec.kinds)
        if name not in found:
            raise UnknownTarget(f"{name} has no records; resources with records: {', '.join(sorted(found)) or 'none'}")
        return found[name]

    async def adopt(self, resource: Resource, scopes: Sequence[Scope]) -> tuple[Mapping[Scope, Checkpoint | None], int]:
        """Makes ``scopes`` the watched parts of a resource. Call while no informer of the resource runs.

        Objects outside all scopes are exported as deleted, with their last state; if they return, then in a later
        epoch. Returns a checkpoint for each informer (None for a first one), and the number of those deletes. A crash
        in the middle is repaired by the next call.
        """
        if reached := self._appender.unregister_all(resource.name):
            await self._store.write(partial(statements.reach, progress=reached))
        kind = await self._store.write(partial(record_codec.kind_id, name=resource.name))
        number = await self._store.number_of(resource)
        orphaned = await self._store.ask(partial(orphaned_objects, kind=kind, scopes=scopes))
        exported = 0
        while exported < len(orphaned):
            exported += await self._export_deletes(kind, orphaned[exported : exported + _AT_ONCE])
        rows = await self._store.write(partial(assign, resource=number, kind=kind, scopes=scopes))
        running = {
            informer.scope: RunningInformer(
                InformerProgress(
                    informer.id, number, informer.position, informer.newest, informer.epoch, informer.ignored_change()
                ),
                kind,
                resource,
                bool(informer.rebuilding),
                self._store.has_forms(resource.name),
            )
            for informer in rows
        }
        self._appender.begin(resource.name, running)
        return await self._store.ask(partial(checkpoint, kind=kind, rows=rows)), len(orphaned)

    def discard_positions(self, parts: Collection[tuple[Resource, Scope]], restored: bool) -> Awaitable[None]:
        """See Appender.discard_positions."""
        return self._appender.discard_positions(parts, restored=restored)

    @asynccontextmanager
    async def removing(self, resource: Resource, scope: Scope) -> AsyncIterator[None]:
        """Retires the informer of a resource that is no longer served: the caller exports the deletes inside the
        context. If the resource returns, its informer begins a later epoch, even after a kill inside the context: so no
        id repeats."""
        if (informer := self._appender.informers.get((resource.name, scope))) is not None:
            informer.removing = True
        yield
        number = self._appender.unregister(resource.name, scope)
        if number is not None:
            await self._store.write(partial(drop_informer, number=number))

    async def _export_deletes(self, kind: int, some: Sequence[OrphanedObject]) -> int:
        """Exports the first of these objects, of one informer, as deleted, and returns their number: bounded by
        bytes."""
        of_informer = takewhile(lambda each: each.informer == some[0].informer, some)
        states = list(bounded((self._store.body(each.sequence) for each in of_informer), len))
        orphaned = some[: len(states)]
        deltas = [
            Delta(
                0,
                Op.DELETED,
                Evidence.UNWATCHED,
                self._store.codec.resources[each.resource],
                each.key,
                each.uid,
                each.version,
                self._clock(),
                each.epoch,
                state,
            )
            for each, state in zip(orphaned, states, strict=True)
        ]
        if (decide := self._appender.decide) is not None:

            def selected(step: tuple[Delta, OrphanedObject]) -> Delta:
                delta, each = step
                return replace(delta, selected=decide(delta, each.members, partial(bytes, delta.body)))

            deltas = await self._appender.turns.map(selected, zip(deltas, orphaned, strict=True))
        deltas = [replace(delta, sequence=self._appender.number_next()) for delta in deltas]
        resources, replaced = [each.resource for each in orphaned], [each.sequence for each in orphaned]
        await self._appender.write(deltas, statements.without_informer(kind, resources, replaced, removing=True))
        return len(orphaned)


def _identify(database: apsw.Connection, cluster: str, restart: bool) -> str:
    was = str(row(database, "SELECT cluster FROM meta")[0])
    if was in ("", cluster) or restart:
        database.execute("UPDATE meta SET cluster = ?", (cluster,))
    if was not in ("", cluster) and restart:
        database.execute("UPDATE informers SET position = NULL, newest = NULL, epoch = epoch + 1, ignored = NULL")
    return was


# ── Objects ──────────────────────────────────────────────────────────────────


_LAST_STATES = (
    "ledger WHERE {of}informer IS NOT NULL AND seq NOT IN (SELECT seq FROM pinned)"
    " AND seq NOT IN (SELECT replaces FROM ledger WHERE {of}replaces IS NOT NULL)"
)
PRESENT = _LAST_STATES.format(of="")
"""The last states of all objects; reads the whole ledger. Pinned records are excluded by their table: they were
replaced too, by records that the cleaner may have removed."""
PRESENT_OF = _LAST_STATES.format(of="kind = ?1 AND ")
"""The last states of a kind; reads that part of the ledger."""


class LedgerObject(NamedTuple):
    """An object of the ledger."""

    key: str
    uid: str
    version: str
    digest: bytes | None = None
    """Of the state without the paths whose changes are ignored; None where none are."""


def present(database: apsw.Connection, kind: int) -> Iterator[LedgerObject]:
    """Every object of a kind that was exported, and not exported as deleted."""
    return rows_of(database, LedgerObject, f"SELECT {columns(LedgerObject)} FROM {PRESENT_OF}", (kind,))


class OrphanedObject(NamedTuple):
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
    informer: int
    """The informer that had the object."""


def orphaned_objects(database: apsw.Connection, kind: int, scopes: Sequence[Scope]) -> list[OrphanedObject]:
    """Objects of this kind that none of the scopes covers: informer by informer, in the order of their last records."""
    found = rows_of(
        database,
        OrphanedObject,
        "SELECT o.key, o.uid, o.version, o.seq, i.epoch, l.resource, o.members, o.informer"
        f" FROM (SELECT * FROM {PRESENT_OF}) o JOIN informers i ON i.id = o.informer JOIN log l ON l.seq = o.seq"
        " ORDER BY o.informer, o.seq",
        (kind,),
    )
    return [each for each in found if covering(scopes, each.key) is None]


def covering(scopes: Iterable[Scope], key: str) -> Scope | None:
    """The scope whose namespace has this object. Selectors are ignored: only a list can show whether they still
    match."""
    namespace = key.rpartition("/")[0]
    return next((scope for scope in scopes if scope.namespace in (None, namespace)), None)


# ── Informers ────────────────────────────────────────────────────────────────


class InformerRow(NamedTuple):
    """A row of ``informers``."""

    id: int
    namespace: str | None
    label_selector: str
    field_selector: str
    position: str | None
    newest: str | None
    epoch: int
    rebuilding: int
    ignored: str | None
    """The newest ignored change up to the position, as JSON."""

    @property
    def scope(self) -> Scope:
        return Scope(self.namespace, self.label_selector, self.field_selector)

    def ignored_change(self) -> IgnoredChange | None:
        """Raises Damaged."""
        try:
            return None if self.ignored is None else msgspec.json.decode(self.ignored, type=IgnoredChange)
        except msgspec.MsgspecError as error:
            raise Damaged(f"the newest ignored change of an informer cannot be read: {error}") from error


def informers(database: apsw.Connection, kind: int) -> list[InformerRow]:
    """The informers of a kind, oldest first."""
    query = f"SELECT {columns(InformerRow)} FROM informers WHERE kind = ? ORDER BY id"
    return [*rows_of(database, InformerRow, query, (kind,))]


def watched_resources(database: apsw.Connection) -> list[Resource]:
    """Every resource that has an informer, in the version that was watched last."""
    known = record_codec.resources(database)
    return [known[row[0]] for row in database.execute("SELECT DISTINCT resource FROM informers")]


def checkpoint(database: apsw.Connection, kind: int, rows: Sequence[InformerRow]) -> dict[Scope, Checkpoint | None]:
    """The checkpoint of each informer of a kind; None for a first start, in epoch 1."""
    tables = {each.id: VersionTable() for each in rows}
    for informer, key, version in _versions(database, kind):
        if (table := tables.get(informer)) is not None:
            table[key] = version
    deletes = [*rows_of(database, _Delete, _DELETES, (kind, _MOST_DELETES))]
    known = {
        each.scope: Checkpoint(
            tables[each.id],
            each.position,
            each.newest,
            each.epoch,
            each.ignored_change(),
            _newest_delete(each, deletes),
        )
        for each in rows
    }
    return {scope: None if each.is_blank and each.epoch == 1 else each for scope, each in known.items()}


def _versions(database: apsw.Connection, kind: int) -> Iterator[tuple[int, str, ObjectVersion]]:
    """The number of the informer, the key and the last version of every object of a kind. A start reads hundreds of
    thousands, so these columns go into the version without a row with names between."""
    query = f"SELECT informer, key, uid, version, seq, members, digest FROM {PRESENT_OF}"
    for informer, key, uid, version, sequence, members, digest in database.execute(query, (kind,)):
        yield informer, key, ObjectVersion(uid, version, sequence, members, digest or b"")


class _Delete(NamedTuple):
    key: str
    uid: str
    version: str
    epoch: int


_MOST_DELETES = 100
_DELETES = (
    "SELECT l.key, l.uid, l.version, g.epoch FROM ledger l JOIN log g ON g.seq = l.seq"
    " WHERE l.kind = ? AND l.informer IS NULL AND g.op = 'deleted' AND g.evidence = 'watched'"
    " ORDER BY l.seq DESC LIMIT ?"
)


def _newest_delete(row: InformerRow, deletes: Iterable[_Delete]) -> Deleted | None:
    """The newest announced delete in this scope and epoch; None without a position. Deletes of an earlier division into
    scopes belong to an earlier epoch."""
    if row.position is None:
        return None
    covered = (each for each in deletes if each.epoch == row.epoch and covering([row.scope], each.key) is not None)
    return next((Deleted(each.key, each.uid, each.version) for each in covered), None)


# ── The division into scopes ──────────────────────────────────────────────────


def assign(database: apsw.Connection, resource: int, kind: int, scopes: Sequence[Scope]) -> list[InformerRow]:
    """Assigns every object of the kind to the informer whose scope covers it, atomically; creates and removes informers
    to match ``scopes``. Returns the informers. A changed scope loses its position, and begins with a list. Call after
    the objects outside all scopes were exported as deleted."""
    rows = informers(database, kind)
    rebuilding = one(database, "SELECT rebuilt FROM meta")
    for scope in (scope for scope in scopes if scope not in {each.scope for each in rows}):
        database.execute(
            "INSERT INTO informers (kind, resource, namespace, label_selector, field_selector, rebuilding)"
            " VALUES (?,?,?,?,?,?)",
            (kind, resource, scope.namespace, scope.label_selector, scope.field_selector, rebuilding),
        )
    if {each.scope for each in rows} != set(scopes):
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
    statements.raise_epoch(database, kind, removed.values())


def drop_informer(database: apsw.Connection, number: int) -> None:
    """Deletes an informer; see ``statements.raise_epoch``."""
    for kind, epoch in list(database.execute("DELETE FROM informers WHERE id = ? RETURNING kind, epoch", (number,))):
        statements.raise_epoch(database, kind, [epoch])
