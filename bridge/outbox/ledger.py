"""The ledger: every exported object until its delete, the informer that has the object, and the cluster."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from itertools import takewhile

import apsw
from msgspec.structs import replace

from bridge.model.admin import UnknownTarget
from bridge.model.change import Evidence, Op
from bridge.model.primitives.shard import Shard
from bridge.model.record import Delta
from bridge.model.resource import Resource, Scope
from bridge.model.versions.version_table import Checkpoint
from bridge.outbox.appender import Appender
from bridge.outbox.errors import OtherCluster, OtherShard
from bridge.outbox.log import informer_sql, ledger_sql, reading, statements
from bridge.outbox.log.statements import RunningInformer
from bridge.outbox.storage.database import one, row
from bridge.outbox.store import Store

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
        return await self._store.ask(ledger_sql.watched_resources)

    async def scopes(self, name: str) -> Sequence[Scope]:
        """The watched scopes of a resource. KeyError for an unknown name."""
        kind = (await self._store.ask(ledger_sql.kinds))[name]
        return [each.scope for each in await self._store.ask(partial(informer_sql.informers, kind=kind))]

    async def keys(self, name: str) -> Sequence[str]:
        """The keys of all objects of a resource. KeyError for an unknown name."""
        kind = (await self._store.ask(ledger_sql.kinds))[name]
        return await self._store.ask(lambda database: [key for key, *_ in ledger_sql.present(database, kind)])

    async def exported_resources(self) -> Sequence[Resource]:
        """Every resource that some record names, in every version."""
        return list((await self._store.ask(ledger_sql.resources)).values())

    async def kind_of(self, name: str) -> int:
        """The number of a resource by its name in kubectl's form. Raises UnknownTarget."""
        found = await self._store.ask(ledger_sql.kinds)
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
            await self._store.write(partial(informer_sql.reach, informers=reached))
        kind = await self._store.write(partial(ledger_sql.kind_id, name=resource.name))
        number = await self._store.number_of(resource)
        orphaned = await self._store.ask(partial(ledger_sql.orphaned_objects, kind=kind, scopes=scopes))
        exported = 0
        while exported < len(orphaned):
            exported += await self._export_deletes(kind, orphaned[exported : exported + _AT_ONCE])
        rows = await self._store.write(partial(informer_sql.assign, resource=number, kind=kind, scopes=scopes))
        running = {
            informer.scope: RunningInformer(
                informer.id,
                kind,
                resource,
                number,
                informer.position,
                informer.newest,
                informer.epoch,
                informer.rebuilding,
                self._store.has_forms(resource.name),
                ignored=informer.ignored,
            )
            for informer in rows
        }
        self._appender.begin(resource.name, running)
        return await self._store.ask(partial(informer_sql.checkpoint, kind=kind, rows=rows)), len(orphaned)

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
            await self._store.write(partial(informer_sql.drop_informer, number=number))

    async def _export_deletes(self, kind: int, some: Sequence[ledger_sql.OrphanedObject]) -> int:
        """Exports the first of these objects, of one informer, as deleted, and returns their number: bounded by
        bytes."""
        first = some[0]
        of_informer = takewhile(lambda each: (each.scope, each.epoch) == (first.scope, first.epoch), some)
        states = list(reading.bounded((self._store.body(each.sequence) for each in of_informer), len))
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

            def selected(step: tuple[Delta, ledger_sql.OrphanedObject]) -> Delta:
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
