"""An informer as the outbox meets it, in front of a server that is a dictionary: it exports the differences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import NamedTuple

from bridge.model.change import Change, ChangeBatch, Evidence, ObjectVersion, Op
from bridge.model.object import ApiObject
from bridge.model.resource import Scope
from bridge.model.versions import Checkpoint
from bridge.outbox import Outbox
from tests.kit.records import PODS


class Backup(NamedTuple):
    version: int
    objects: Mapping[str, ApiObject]


@dataclass
class Server:
    """Versions come a second time after ``restore``, with other states."""

    version: int = 0
    objects: dict[str, ApiObject] = field(default_factory=dict)
    serial: count[int] = field(default_factory=count)

    def put(self, key: str) -> None:
        self.version += 1
        number = next(self.serial)
        uid = self.objects[key].uid if key in self.objects else f"uid-{number}"
        self.objects[key] = ApiObject(key, uid, str(self.version), f'{{"serial":{number}}}'.encode())

    def delete(self, key: str) -> None:
        self.version += 1
        del self.objects[key]

    def backup(self) -> Backup:
        return Backup(self.version, dict(self.objects))

    def restore(self, backup: Backup) -> None:
        self.version, self.objects = backup.version, dict(backup.objects)

    def seen_by(self, scope: Scope) -> dict[str, ApiObject]:
        return {key: each for key, each in self.objects.items() if matches(scope, key)}


def matches(scope: Scope, key: str) -> bool:
    """A label selector is a text that the object's name has in it."""
    namespace, _, name = key.rpartition("/")
    return scope.namespace in (None, namespace) and scope.label_selector in name


@dataclass
class Follower:
    outbox: Outbox
    server: Server
    scope: Scope
    known: dict[str, ObjectVersion] = field(default_factory=dict)
    newest: int = 0
    epoch: int = 1
    knows_states: bool = True
    """A version says which state is meant: the list with which the epoch began is over."""
    evidence: Evidence = Evidence.LISTED

    def resume(self, checkpoint: Checkpoint | None) -> None:
        if checkpoint is not None:
            self.known = dict(checkpoint.objects)
            self.newest, self.epoch = int(checkpoint.newest or 0), checkpoint.epoch
            self.knows_states = checkpoint.epoch == 1 or checkpoint.position is not None
            self.evidence = Evidence.LISTED if checkpoint.is_blank else Evidence.RELISTED

    async def look(self, most: int | None = None) -> None:
        """Exports the differences, deletes last, and reaches the server's version. Of ``most`` changes alone, where
        something happens to the bridge in between."""
        if self.server.version < self.newest:
            self.epoch, self.newest, self.knows_states = self.epoch + 1, 0, False
        changes = self._differences()
        for change in changes[:most]:
            await self._export([change], None)
        if most is None or most > len(changes):
            await self._export([], str(self.server.version))
            self.knows_states, self.evidence, self.newest = True, Evidence.RELISTED, self.server.version

    async def remove(self, most: int | None = None) -> None:
        """Its resource is not served: exports every object as deleted."""
        for key in list(self.known)[:most]:
            await self._export([self._deleted(key)], None)

    def _differences(self) -> list[Change]:
        there = self.server.seen_by(self.scope)
        changes: list[Change] = []
        for key, thing in there.items():
            before = self.known.get(key)
            if before is not None and before.uid != thing.uid:
                changes.append(self._deleted(key))
                before = None
            if before is None:
                changes.append(Change(Op.ADDED, self.evidence, thing))
            elif before.resource_version != thing.resource_version or not (
                self.knows_states or self._body(before) == thing.body
            ):
                changes.append(Change(Op.UPDATED, self.evidence, thing, before))
        return changes + [self._deleted(key) for key in self.known if key not in there]

    def _deleted(self, key: str) -> Change:
        before = self.known[key]
        last = ApiObject(key, before.uid, before.resource_version, self._body(before))
        return Change(Op.DELETED, Evidence.RELISTED, last, before)

    def _body(self, known: ObjectVersion) -> bytes:
        assert isinstance(known.state, int)
        return self.outbox.body(known.state)

    async def _export(self, changes: list[Change], position: str | None) -> None:
        deltas = await self.outbox.append(ChangeBatch(PODS, self.scope, changes, position, self.epoch))
        for change, delta in zip(changes, deltas, strict=True):
            if change.op is Op.DELETED:
                del self.known[delta.key]
            else:
                self.known[delta.key] = ObjectVersion(delta.uid, delta.resource_version, delta.sequence)


async def followers(outbox: Outbox, server: Server, scopes: Sequence[Scope]) -> dict[Scope, Follower]:
    """Of pods, each with what the ledger remembers of its part."""
    known, _ = await outbox.ledger.adopt(PODS, scopes)
    found = {scope: Follower(outbox, server, scope) for scope in scopes}
    for scope, follower in found.items():
        follower.resume(known[scope])
    return found
