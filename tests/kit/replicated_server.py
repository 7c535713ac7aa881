"""An API server whose etcd may be restored and compacted, and replicas that watch it into real outboxes, in as many
steps as a test likes."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import NamedTuple, TypeAlias

from bridge.facts import discard
from bridge.model.change import Change, ChangeBatch, Evidence, ObjectVersion, Op
from bridge.model.object import ApiObject
from bridge.model.policies import StartPolicy
from bridge.model.record import Delta
from bridge.model.resource import Resource, Scope
from bridge.outbox import BaseCopy, Installation, Outbox, Replica, Standby
from bridge.outbox.log.cleaner import CleanerPolicy
from bridge.outbox.storage.directory_lock import FILE
from bridge.pipelines.feeds import Feeds
from bridge.pipelines.sink_feed import SinkFeed

EAGER = CleanerPolicy(min_bytes=0, min_ratio=0.0)

Key: TypeAlias = tuple[str, str]
"""Resource and object."""


class Step(NamedTuple):
    """A version of an object, or its delete. A version may exist in several histories."""

    resource: str
    version: int
    history: int


class Event(NamedTuple):
    version: int
    op: Op
    key: str
    uid: str
    history: int = 1

    @property
    def body(self) -> bytes:
        return json.dumps([self.version, self.history]).encode()


class Backup(NamedTuple):
    version: int
    events: Mapping[str, Sequence[Event]]
    objects: Mapping[str, Mapping[str, Event]]


class Server:
    """One counter of versions for all resources."""

    def __init__(self, resources: Collection[Resource]) -> None:
        self.version = 100
        self.history = 1
        self.oldest = 0
        """Watches from before it are expired."""
        self.restored: list[int] = []
        """The version of each restored backup."""
        self.events: dict[str, list[Event]] = {each.name: [] for each in resources}
        """Of the present history."""
        self.objects: dict[str, dict[str, Event]] = {each.name: {} for each in resources}

    def change(self, resource: str, key: str, delete: bool) -> None:
        self.version += 1
        known = self.objects[resource].get(key)
        op = Op.ADDED if known is None else Op.DELETED if delete else Op.UPDATED
        uid = f"uid-{self.history}-{self.version}" if known is None else known.uid
        event = Event(self.version, op, key, uid, self.history)
        self.events[resource].append(event)
        if op is Op.DELETED:
            del self.objects[resource][key]
        else:
            self.objects[resource][key] = event

    def back_up(self) -> Backup:
        events = {name: tuple(each) for name, each in self.events.items()}
        return Backup(self.version, events, {name: dict(each) for name, each in self.objects.items()})

    def restore(self, backup: Backup) -> set[Step]:
        """Returns the steps that it undoes."""
        before = self.steps()
        self.history += 1
        self.version = self.oldest = backup.version
        self.restored.append(backup.version)
        self.events = {name: list(each) for name, each in backup.events.items()}
        self.objects = {name: dict(each) for name, each in backup.objects.items()}
        return before - self.steps()

    def steps(self) -> set[Step]:
        return {Step(name, each.version, each.history) for name, events in self.events.items() for each in events}

    def states(self) -> dict[Key, tuple[str, str]]:
        """Object → its uid and version."""
        return {
            (name, key): (event.uid, str(event.version))
            for name, objects in self.objects.items()
            for key, event in objects.items()
        }


def step_of(delta: Delta) -> Step:
    version, history = json.loads(delta.body)
    return Step(delta.resource.name, version, history)


@dataclass
class Informing:
    """An informer of a replica, without its queues: what it knows, and up to where."""

    resource: Resource
    body: Callable[[int], bytes]
    """Of a record."""
    position: int | None = None
    known: dict[str, ObjectVersion] = field(default_factory=dict)
    first: bool = True
    epoch: int = 1

    def watched(self, events: Sequence[Event], position: int) -> ChangeBatch:
        changes = [self._change(event.op, Evidence.WATCHED, event.key, _object(event)) for event in events]
        self.position = position
        return self._batch(changes, position)

    def listed(self, objects: Mapping[str, Event], position: int, history: Sequence[Event] = ()) -> list[ChangeBatch]:
        """Two pages, and the deletes with the position. ``history``: what the server still has of the steps to them."""
        found = [self._recovered(key, history) or self._differences(key, event) for key, event in objects.items()]
        deletes = []
        for key, known in list(self.known.items()):
            if key not in objects:
                deletes += self._recovered(key, history) or [self._delete(key, known)]
        middle = len(found) // 2
        pages = [list(chain.from_iterable(each)) for each in (found[:middle], found[middle:])]
        self.position, self.first = position, False
        last = self._batch(deletes, position)
        last.listed = True
        return [*(self._batch(page, None) for page in pages if page), last]

    def offload(self, deltas: Sequence[Delta]) -> None:
        for delta in deltas:
            if delta.op is not Op.DELETED and delta.key in self.known:
                self.known[delta.key] = ObjectVersion(delta.uid, delta.resource_version, delta.sequence)

    def _batch(self, changes: list[Change], position: int | None) -> ChangeBatch:
        text = None if position is None else str(position)
        return ChangeBatch(self.resource, Scope(), changes, text, self.epoch)

    def _delete(self, key: str, known: ObjectVersion) -> Change:
        last = ApiObject(key, known.uid, known.resource_version, self._state(known))
        return self._change(Op.DELETED, Evidence.RELISTED, key, last)

    def _differences(self, key: str, event: Event) -> list[Change]:
        known, found = self.known.get(key), []
        if known is not None and known.uid != event.uid:
            found.append(self._delete(key, known))
            known = None
        if known is None or self._state(known) != event.body:
            op = Op.ADDED if known is None else Op.UPDATED
            evidence = Evidence.LISTED if self.first else Evidence.RELISTED
            found.append(self._change(op, evidence, key, _object(event)))
        return found

    def _recovered(self, key: str, history: Sequence[Event]) -> list[Change]:
        known = self.known.get(key)
        since = self.position or 0 if known is None else int(known.resource_version)
        return [
            self._change(event.op, Evidence.RECOVERED, key, _object(event))
            for event in history
            if event.key == key and event.version > since
        ]

    def _state(self, known: ObjectVersion) -> bytes:
        return known.state if isinstance(known.state, bytes) else self.body(known.state)

    def _change(self, op: Op, evidence: Evidence, key: str, thing: ApiObject) -> Change:
        before = self.known.pop(key, None)
        if op is not Op.DELETED:
            self.known[key] = ObjectVersion(thing.uid, thing.resource_version, thing.body)
        return Change(op, evidence, thing, before)


def _object(event: Event) -> ApiObject:
    return ApiObject(event.key, event.uid, str(event.version), event.body)


class Member:
    """A replica: an outbox, its informers and its feeds."""

    def __init__(
        self,
        number: int,
        directory: Path,
        resources: Sequence[Resource],
        sinks: Mapping[str, StartPolicy],
        number_now: Callable[[], int],
    ) -> None:
        self.number = number
        self.number_now = number_now
        self.directory = directory
        self.resources = resources
        self.sinks = dict(sinks)
        """As configured here."""
        self.reached = {each.name: 0 for each in resources}
        """All steps up to here are in the log, or were passed over by a list."""
        self.seen = 0
        """The newest version that some list has shown, even if it broke off."""
        self.lacks: set[Step] = set()
        """Steps that its lists passed over."""
        self.restores = 0
        """Of the server, that it knows."""
        self.feeds: dict[str, SinkFeed] = {}
        self.outbox: Outbox
        self.standby: Standby
        self.informers: dict[str, Informing] = {}

    async def open(self) -> None:
        self.all_feeds = await Feeds.open(self.directory, self.sinks, report=discard, cleaner_policy=EAGER)
        self.outbox = self.all_feeds.outbox
        replica = Replica("prod", f"{self.name}_{id(self.outbox):x}", "1.0")
        self.standby = await self.outbox.election.join(replica, number_now=self.number_now)
        self.standby.configured.starts = self.sinks
        for resource in self.resources:
            found, _ = await self.outbox.ledger.adopt(resource, [Scope()])
            informing = self.informers[resource.name] = Informing(resource, self.outbox.body)
            if (checkpoint := found[Scope()]) is not None:
                informing.position = None if checkpoint.position is None else int(checkpoint.position)
                informing.known, informing.first, informing.epoch = dict(checkpoint.objects), False, checkpoint.epoch
        self.feeds = {}
        self.renew()

    def renew(self) -> None:
        """Makes the feeds anew: see RunningSinks."""
        for sink in self.feeds:
            self.all_feeds.end(sink)
        self.feeds = {sink: self.all_feeds.feed(sink, window=4) for sink in self.sinks}

    async def crash(self, directory: Path) -> None:
        """Goes on with the files that a kill leaves, in another directory."""
        for suffix in ("", "-wal"):
            if (self.directory / f"{FILE}{suffix}").exists():
                shutil.copy(self.directory / f"{FILE}{suffix}", directory)
        await self.outbox.close()
        self.directory = directory
        await self.open()

    async def begin_with_copy(self, of: Member, directory: Path, frontier: str) -> None:
        """Goes on with a copy of another replica's state."""
        await self.outbox.close()
        copy, installation = BaseCopy(of.directory), Installation(directory)
        try:
            while not copy.step():
                pass
            with copy.file() as file:
                installation.write(file.read())
            installation.install(frontier, None, None)
        finally:
            copy.close()
            installation.close()
        self.directory, self.reached, self.seen = directory, dict(of.reached), of.seen
        self.lacks, self.restores = set(of.lacks), of.restores
        await self.open()

    async def begin_empty(self, directory: Path) -> None:
        """Goes on with an empty disk."""
        await self.outbox.close()
        self.directory, self.reached, self.lacks = directory, dict.fromkeys(self.reached, 0), set()
        await self.open()

    @property
    def name(self) -> str:
        return f"kubedelta-{self.number}"

    # ── What it sees ─────────────────────────────────────────────────────────

    @property
    def newest(self) -> int:
        """The newest version that it knows."""
        return max(self.seen, *self.reached.values())

    async def notice_restores(self, server: Server) -> None:
        """A backup that undoes something that some informer knows: see informer.history."""
        backups = server.restored[self.restores :]
        self.restores = len(server.restored)
        fork = min(backups, default=self.newest)
        if self.newest <= fork:
            return
        self.seen = 0
        self.reached = {name: min(reached, fork) for name, reached in self.reached.items()}
        for informing in self.informers.values():
            informing.position, informing.epoch = None, informing.epoch + 1
        parts = [(each, Scope()) for each in self.resources]
        await self.outbox.ledger.discard_positions(parts, restored=True)

    def learn_bounds(self, server: Server) -> None:
        """The server's version, for all informers that know a point, unless its store was restored to before that."""
        others, reached = self.standby.others, self.standby.selected.waypoints.reached
        proven = {key: point for key, point in reached.items() if int(point.version) <= server.version}
        points = {key: point._replace(version=str(server.version)) for key, point in proven.items()}
        others.bound(points, others.takeovers)

    async def watch(self, server: Server, resource: Resource, most: int, bookmark: bool) -> None:
        """The next events of a watch; a list if there can be none."""
        await self.notice_restores(server)
        informing = self.informers[resource.name]
        if informing.position is None or informing.position < server.oldest:
            await self.list(server, resource)
            return
        events = [each for each in server.events[resource.name] if each.version > informing.position]
        some = events[:most]
        position = server.version if len(some) == len(events) and (bookmark or not some) else some[-1].version
        await self._append(informing.watched(some, position))
        self.reached[resource.name] = position

    async def list(
        self, server: Server, resource: Resource, *, breaks_off: bool = False, recovers: bool = False
    ) -> bool:
        """Returns whether it broke off, in which case the replica crashes."""
        await self.notice_restores(server)
        name, informing = resource.name, self.informers[resource.name]
        passed = [each for each in server.events[name] if each.version > self.reached[name]]
        history = server.events[name] if recovers and informing.position is not None else ()
        batches = informing.listed(server.objects[name], server.version, history)
        shown = {each.version for each in server.objects[name].values()}
        shown |= {
            int(change.object.resource_version)
            for change in chain.from_iterable(batch.changes for batch in batches)
            if change.evidence is Evidence.RECOVERED
        }
        self.lacks |= {Step(name, each.version, each.history) for each in passed if each.version not in shown}
        breaks_off, self.seen = breaks_off and len(batches) > 1, server.version
        for batch in batches[:-1] if breaks_off else batches:
            await self._append(batch)
        if not breaks_off:
            self.reached[name] = server.version
        return breaks_off

    async def _append(self, batch: ChangeBatch) -> None:
        self.informers[batch.resource.name].offload(await self.outbox.append(batch))
