"""Shards are split and joined, on real outboxes: 1, 2, 4, 2, 1, or any other way, while replicas lag and crash. Every
sink gets each version of the API server's history, in order, with the same ids; and none twice that a former shard has
published."""

from __future__ import annotations

import asyncio
import hashlib
import shutil
import tempfile
from collections import defaultdict
from collections.abc import Coroutine
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any, TypeVar

from hypothesis import HealthCheck, event
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from bridge.model.change import Evidence, Op
from bridge.model.primitives.fetch import Fetch
from bridge.model.primitives.shard import Division
from bridge.model.record import Delta, Record
from bridge.model.resource import Resource, Scope
from bridge.model.versions import frontier
from bridge.model.versions.frontier import Frontier, Point, informer_key
from bridge.model.versions.joining import joined
from tests.kit import memory
from tests.kit.deadlines import run_bounded
from tests.kit.examples import examples
from tests.kit.replicated_server import Event, Informing, Member, Server
from tests.properties.test_standby import RESOURCES, SINKS

T = TypeVar("T")

KEYS = ("a", "b", "c", "d", "e")
NUMBERS = (1, 2, 4)


class SpreadServer(Server):
    """Uids are in all shards."""

    def change(self, resource: str, key: str, delete: bool) -> None:
        super().change(resource, key, delete)
        newest = self.events[resource][-1]
        if newest.op is Op.ADDED:
            uid = hashlib.md5(newest.uid.encode(), usedforsecurity=False).hexdigest()
            self.events[resource][-1] = self.objects[resource][key] = newest._replace(uid=uid)


class ShardMember(Member):
    """A shard of one replica."""

    def __init__(self, number: int, directory: Path, mine: Division) -> None:
        super().__init__(number, directory, RESOURCES, SINKS, lambda: 0)
        self.outstanding: dict[str, list[Fetch[Record]]] = {}
        self.mine = mine
        self.lease = ""
        """The frontier in its Lease."""
        self.term = 0
        self.leads = False
        self.is_over = False
        """It was handed over."""

    def has(self, event: Event) -> bool:
        return self.mine.shard is None or self.mine.shard.contains(event.uid, event.key)


@dataclass
class Arrived:
    """What the destination of a sink has received."""

    versions: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    """uid → versions in the order of their first arrival."""
    ids: dict[tuple[str, int, bool], str] = field(default_factory=dict)
    largest: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    """uid → the largest number."""


class Divisions(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.root = Path(tempfile.mkdtemp(prefix="divisions-", dir=memory.folder()))
        self.numbers = count()
        self.server = SpreadServer(RESOURCES)
        self.now: list[ShardMember] = []
        self.next: list[ShardMember] = []
        """The shards of another division, that follow."""
        self.covered: list[tuple[Division, Frontier]] = []
        """What each shard found when it began."""
        self.arrived = {sink: Arrived() for sink in SINKS}

    def run(self, what: Coroutine[Any, Any, T]) -> T:
        return run_bounded(self.runner, what)

    def teardown(self) -> None:
        try:
            for member in (*self.now, *self.next):
                self.run(member.outbox.close())
        finally:
            self.runner.close()
            shutil.rmtree(self.root)

    @initialize(of=st.sampled_from(NUMBERS))
    def begin(self, of: int) -> None:
        self.now = self.opened(of)
        for member in self.now:
            for informing in member.informers.values():
                self.lists(member, informing)
            self.lead(member, 1, None)

    def opened(self, of: int) -> list[ShardMember]:
        members = []
        for index in range(of):
            number = next(self.numbers)
            directory = self.root / str(number)
            directory.mkdir()
            members.append(ShardMember(number, directory, Division(of, index)))
            self.run(members[-1].open())
        return members

    def draw(self, data: st.DataObject, members: list[ShardMember]) -> ShardMember:
        return members[data.draw(st.sampled_from(range(len(members))))]

    # ── The API server, and what shards see of it ────────────────────────────

    @rule(resource=st.sampled_from(RESOURCES), key=st.sampled_from(KEYS), delete=st.booleans())
    def change(self, resource: Resource, key: str, delete: bool) -> None:
        self.server.change(resource.name, key, delete)

    @rule(data=st.data(), resource=st.sampled_from(RESOURCES), most=st.integers(1, 4), bookmark=st.booleans())
    def watch(self, data: st.DataObject, resource: Resource, most: int, bookmark: bool) -> None:
        self.see(self.draw(data, [*self.now, *self.next]), resource, most, bookmark)

    def see(self, member: ShardMember, resource: Resource, most: int, bookmark: bool) -> None:
        informing = member.informers[resource.name]
        if informing.position is None:
            self.lists(member, informing)
            return
        events = [each for each in self.server.events[resource.name] if each.version > informing.position]
        some = events[:most]
        position = self.server.version if len(some) == len(events) and (bookmark or not some) else some[-1].version
        self.append(member, informing, informing.watched([each for each in some if member.has(each)], position))

    def lists(self, member: ShardMember, informing: Informing) -> None:
        objects = {key: each for key, each in self.server.objects[informing.resource.name].items() if member.has(each)}
        for batch in informing.listed(objects, self.server.version):
            self.append(member, informing, batch)

    def append(self, member: ShardMember, informing: Informing, batch: Any) -> None:
        informing.offload(list(self.run(member.outbox.append(batch))))

    # ── Deliveries ───────────────────────────────────────────────────────────

    @rule(data=st.data(), sink=st.sampled_from(tuple(SINKS)), most=st.integers(1, 5), settles=st.booleans())
    def deliver(self, data: st.DataObject, sink: str, most: int, settles: bool) -> None:
        self.give(self.draw(data, self.now), sink, most, settles)

    def give(self, member: ShardMember, sink: str, most: int, settles: bool) -> None:
        if not member.leads or (feed := member.feeds[sink]).exhausted:
            return
        fetch = self.run(feed.take(most))
        assert fetch.missed is None
        for record in fetch.items:
            assert isinstance(record, Delta), "no Gap: every shard is exact"
            self.hear(member, sink, record)
        member.outstanding[sink].append(fetch)
        if settles:
            self.settle(member, sink)

    def settle(self, member: ShardMember, sink: str) -> None:
        for each in member.outstanding[sink]:
            member.feeds[sink].settle(each)
        member.outstanding[sink].clear()

    def hear(self, member: ShardMember, sink: str, delta: Delta) -> None:
        arrived, version, informer = (
            self.arrived[sink],
            int(delta.resource_version),
            informer_key(delta.resource.name, Scope()),
        )
        assert member.has(Event(version, delta.op, delta.key, delta.uid))
        if delta.evidence is Evidence.WATCHED:
            for division, found in self.covered:
                point = found.of(sink, informer)
                if division.shard is None or division.shard.contains(delta.uid, delta.key):
                    assert point is None or not point.covers(Point(delta.epoch, str(version))), (
                        "it was published before"
                    )
        key = (delta.uid, version, delta.op is Op.DELETED)
        assert arrived.ids.setdefault(key, delta.id) == delta.id
        versions = arrived.versions[delta.uid]
        number = delta.sequence + member.standby.ahead
        if version not in versions:
            assert not versions or version > versions[-1], "a step overtook another"
            assert number > arrived.largest[delta.uid]
            versions.append(version)
        arrived.largest[delta.uid] = max(arrived.largest[delta.uid], number)

    # ── The Leases ───────────────────────────────────────────────────────────

    @rule(data=st.data())
    def publish(self, data: st.DataObject) -> None:
        self.renew(self.draw(data, self.now))

    def renew(self, member: ShardMember) -> None:
        if member.leads:
            member.lease = frontier.encode(member.standby.published())
            member.standby.renewed()

    def lead(self, member: ShardMember, term: int, found: Frontier | None) -> None:
        self.run(member.standby.take_over(term, found))
        member.term, member.leads = term, True
        member.renew()
        member.outstanding = {sink: [] for sink in SINKS}
        self.renew(member)

    @rule(data=st.data())
    def crash(self, data: st.DataObject) -> None:
        """A kill, and a start on the same directory. Who led leads again."""
        member = self.draw(data, [*self.now, *self.next])
        self.run(member.outbox.maintain())  # Else a position that was not saved makes it list.
        directory = self.root / f"{next(self.numbers)}-again"
        directory.mkdir()
        self.run(member.crash(directory))
        if member.leads:
            self.lead(member, member.term + 1, frontier.decode(member.lease) if member.lease else None)

    # ── Another division ─────────────────────────────────────────────────────

    @precondition(lambda self: not self.next)
    @rule(of=st.sampled_from(NUMBERS))
    def divide(self, of: int) -> None:
        if of != self.now[0].mine.of:
            self.next = self.opened(of)

    @precondition(lambda self: self.next)
    @rule(data=st.data())
    def follow(self, data: st.DataObject) -> None:
        self.look(self.draw(data, self.next))

    def former_of(self, member: ShardMember) -> list[ShardMember]:
        return [self.now[index] for index in member.mine.heirs(self.now[0].mine.of)]

    def look(self, member: ShardMember) -> bool:
        """The heir reads the Leases of the former shards. Returns whether it is exact."""
        former = [(each.mine.shard, frontier.decode(each.lease)) for each in self.former_of(member)]
        member.standby.observe(joined(former, member.mine).frontier)
        return all(map(member.standby.exact, SINKS))

    @precondition(lambda self: self.next)
    @rule(data=st.data(), changes=st.lists(st.tuples(st.sampled_from(RESOURCES), st.sampled_from(KEYS)), max_size=8))
    def hand_over(self, data: st.DataObject, changes: list[tuple[Resource, str]]) -> None:
        """All heirs become exact; then each former shard ends with what it has settled, wherever that is, and the heirs
        begin."""
        for member in self.next:
            for resource in RESOURCES:
                self.see(member, resource, 1000, True)
        for former in self.now:
            self.catch_up(former)
        assert all(self.look(each) for each in self.next), "they are exact"
        for resource, key in changes:
            self.server.change(resource.name, key, data.draw(st.booleans()))
        for member in (*self.now, *self.next):
            self.see(
                member, data.draw(st.sampled_from(RESOURCES)), data.draw(st.integers(1, 8)), data.draw(st.booleans())
            )
        for former in self.now:
            for sink in SINKS:
                self.give(former, sink, data.draw(st.integers(1, 5)), True)
            self.renew(former)
            former.standby.step_down()
            former.leads = False
        term = max(each.term for each in self.now) + 1
        for member in self.next:
            former_of = [(each.mine.shard, frontier.decode(each.lease)) for each in self.former_of(member)]
            found = joined(former_of, member.mine).frontier
            event(f"{len(former_of)} into 1, {len(found.parts)} parts")
            self.lead(member, term, found)
        for former in self.now:
            self.run(former.outbox.close())
        self.covered = [(each.mine, frontier.decode(each.lease)) for each in self.now]
        self.now, self.next = self.next, []

    def catch_up(self, member: ShardMember) -> None:
        for resource in RESOURCES:
            self.see(member, resource, 1000, True)
        for sink in SINKS:
            while not member.feeds[sink].exhausted:
                self.give(member, sink, 100, True)
            self.settle(member, sink)
        self.renew(member)

    # ── In the end ───────────────────────────────────────────────────────────

    @rule()
    def everything_arrives(self) -> None:
        for member in self.now:
            self.catch_up(member)
        happened: dict[str, list[int]] = defaultdict(list)
        for events in self.server.events.values():
            for each in events:
                happened[each.uid].append(each.version)
        for arrived in self.arrived.values():
            assert arrived.versions == happened


TestDivisions = Divisions.TestCase
TestDivisions.settings = examples(
    15,
    stateful_step_count=60,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
)
