"""Replicas in an election, on real outboxes: whoever leads, however far others lag, whatever crashes: every sink gets
each version of the API server's history, in order, with the same ids; and none twice that the frontier covers."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from hypothesis import HealthCheck
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from bridge.facts import discard
from bridge.model.change import Change, ChangeBatch, Evidence, ObjectVersion, Op
from bridge.model.object import ApiObject
from bridge.model.policies import StartPolicy
from bridge.model.primitives.fetch import Fetch
from bridge.model.record import Delta, Record
from bridge.model.resource import Resource, Scope
from bridge.model.status import PauseCause
from bridge.model.versions import frontier
from bridge.model.versions.frontier import Frontier, Point, informer_key
from bridge.outbox import Outbox, Replica, Standby
from bridge.outbox.log.cleaner import CleanerPolicy
from bridge.pipelines.feeds import Feeds
from bridge.pipelines.sink_feed import SinkFeed
from tests.kit import memory
from tests.kit.deadlines import run_bounded
from tests.kit.examples import examples
from tests.kit.informed import DEPLOYMENTS, PODS

T = TypeVar("T")

RESOURCES = (PODS, DEPLOYMENTS, Resource("", "v1", "nodes", "Node", False))
KEYS = ("a", "b", "c")
SINKS = ("left", "right")
REPLICAS = (0, 1, 2)
EAGER = CleanerPolicy(min_bytes=0, min_ratio=0.0)


class Event(NamedTuple):
    version: int
    op: Op
    key: str
    uid: str


@dataclass
class Server:
    """The API server: one counter of versions for all resources."""

    version: int = 100
    events: dict[str, list[Event]] = field(default_factory=lambda: {each.name: [] for each in RESOURCES})
    objects: dict[str, dict[str, Event]] = field(default_factory=lambda: {each.name: {} for each in RESOURCES})

    def change(self, resource: str, key: str, delete: bool) -> None:
        self.version += 1
        known = self.objects[resource].get(key)
        op = Op.ADDED if known is None else Op.DELETED if delete else Op.UPDATED
        event = Event(self.version, op, key, f"uid-{self.version}" if known is None else known.uid)
        self.events[resource].append(event)
        if op is Op.DELETED:
            del self.objects[resource][key]
        else:
            self.objects[resource][key] = event


@dataclass
class Informing:
    """An informer of a replica, without its queues: what it knows, and up to where."""

    resource: Resource
    position: int | None = None
    known: dict[str, ObjectVersion] = field(default_factory=dict)
    first: bool = True

    def watched(self, events: list[Event], position: int) -> ChangeBatch:
        changes = [self._change(event.op, Evidence.WATCHED, event) for event in events]
        self.position = position
        return ChangeBatch(self.resource, Scope(), changes, str(position))

    def listed(self, objects: dict[str, Event], position: int) -> list[ChangeBatch]:
        """Two pages, and the deletes with the position."""
        evidence = Evidence.LISTED if self.first else Evidence.RELISTED
        found = []
        for key, event in objects.items():
            known = self.known.get(key)
            if known is not None and known.uid != event.uid:
                found.append(self._change(Op.DELETED, Evidence.RELISTED, self._last(key, known)))
                known = None
            if known is None or known.resource_version != str(event.version):
                op = Op.ADDED if known is None else Op.UPDATED
                found.append(self._change(op, evidence, event))
        gone = [(key, known) for key, known in self.known.items() if key not in objects]
        deletes = [self._change(Op.DELETED, Evidence.RELISTED, self._last(key, known)) for key, known in gone]
        middle = len(found) // 2
        pages = [found[:middle], found[middle:]]
        self.position, self.first = position, False
        return [
            *(ChangeBatch(self.resource, Scope(), page, None) for page in pages if page),
            ChangeBatch(self.resource, Scope(), deletes, str(position)),
        ]

    def offload(self, deltas: list[Delta]) -> None:
        for delta in deltas:
            if delta.op is not Op.DELETED and delta.key in self.known:
                self.known[delta.key] = ObjectVersion(delta.uid, delta.resource_version, delta.sequence)

    def _last(self, key: str, known: ObjectVersion) -> Event:
        return Event(int(known.resource_version), Op.DELETED, key, known.uid)

    def _change(self, op: Op, evidence: Evidence, event: Event) -> Change:
        version = str(event.version)
        thing = ApiObject(event.key, event.uid, version, f'{{"version":"{version}"}}'.encode())
        before = self.known.pop(event.key, None)
        if op is not Op.DELETED:
            self.known[event.key] = ObjectVersion(event.uid, version, thing.body)
        return Change(op, evidence, thing, before)


class Member:
    """A replica: an outbox, its informers, and its feeds while it leads."""

    def __init__(self, number: int, directory: Path, number_now: Callable[[], int]) -> None:
        self.number = number
        self.number_now = number_now
        self.directory = directory
        self.informers = {each.name: Informing(each) for each in RESOURCES}
        self.feeds: dict[str, SinkFeed] = {}
        self.outstanding: dict[str, list[Fetch[Record]]] = {}
        self.outbox: Outbox
        self.standby: Standby

    async def open(self) -> None:
        start = dict.fromkeys(SINKS, StartPolicy.NOW)
        self.all_feeds = await Feeds.open(self.directory, start, report=discard, cleaner_policy=EAGER)
        self.outbox = self.all_feeds.outbox
        replica = Replica("prod", f"kubedelta-{self.number}", "1.0")
        self.standby = await self.outbox.election.join(replica, number_now=self.number_now)
        self.feeds, self.outstanding = {}, {}
        for name, informing in self.informers.items():
            found, _ = await self.outbox.ledger.adopt(informing.resource, [Scope()])
            if (checkpoint := found[Scope()]) is None:
                self.informers[name] = Informing(informing.resource)
                continue
            position = None if checkpoint.position is None else int(checkpoint.position)
            self.informers[name] = Informing(informing.resource, position, dict(checkpoint.objects), first=False)

    def lead(self) -> None:
        self.feeds = {sink: self.all_feeds.feed(sink, window=4) for sink in SINKS}
        self.outstanding = {sink: [] for sink in SINKS}

    def follow(self) -> None:
        for sink in self.feeds:
            self.all_feeds.end(sink)
        self.feeds, self.outstanding = {}, {}
        self.standby.step_down()


@dataclass
class Heard:
    """What the destination of a sink has received."""

    state: dict[tuple[str, str], tuple[str, str]] = field(default_factory=dict)
    versions: set[tuple[str, str]] = field(default_factory=set)
    """Resource and version."""
    ids: dict[tuple[str, str, bool], str] = field(default_factory=dict)
    in_term: dict[tuple[str, str], int] = field(default_factory=dict)
    """Object → its newest version in this term."""
    newest: int = 0
    """The largest number in any term before."""
    largest: int = 0
    """The largest number."""
    unsure: set[tuple[str, str]] = field(default_factory=set)
    """Objects that it had when a Gap said that a delete may be missing."""


class Election(RuleBasedStateMachine):
    relists = True

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.root = Path(tempfile.mkdtemp(prefix="standby-", dir=memory.folder()))
        self.numbers = count()
        self.server = Server()
        self.members: list[Member] = []
        self.leader: Member | None = None
        self.lease: str | None = None
        self.found: Frontier | None = None
        """The frontier that the leader found."""
        self.term = 0
        self.led = -1
        """Number of the last leader."""
        self.heard = {sink: Heard() for sink in SINKS}
        self.paused = dict.fromkeys(SINKS, PauseCause.NONE)
        self.missed: set[tuple[str, str]] = set()
        """Steps that some list passed over."""

    def run(self, what: Coroutine[Any, Any, T]) -> T:
        return run_bounded(self.runner, what)

    def teardown(self) -> None:
        try:
            for member in self.members:
                self.run(member.outbox.close())
        finally:
            self.runner.close()
            shutil.rmtree(self.root)

    def directory(self) -> Path:
        directory = self.root / str(next(self.numbers))
        directory.mkdir()
        return directory

    @initialize(replicas=st.sampled_from([2, 3]))
    def begin(self, replicas: int) -> None:
        for number in range(replicas):
            member = Member(number, self.directory(), lambda: max(each.largest for each in self.heard.values()) + 10)
            self.run(member.open())
            for informing in member.informers.values():
                self.list(member, informing)
            self.members.append(member)
        self.take_over(self.members[0])

    # ── The API server, and what replicas see of it ──────────────────────────

    @rule(resource=st.sampled_from(RESOURCES), key=st.sampled_from(KEYS), delete=st.booleans())
    def change(self, resource: Resource, key: str, delete: bool) -> None:
        self.server.change(resource.name, key, delete)

    @rule(data=st.data(), resource=st.sampled_from(RESOURCES), most=st.integers(1, 4), bookmark=st.booleans())
    def watch(self, data: st.DataObject, resource: Resource, most: int, bookmark: bool) -> None:
        self.watch_some(self.draw(data), resource, most, bookmark)

    def watch_some(self, member: Member, resource: Resource, most: int, bookmark: bool) -> None:
        informing = member.informers[resource.name]
        if informing.position is None:
            self.list(member, informing)
            return
        events = [each for each in self.server.events[resource.name] if each.version > informing.position]
        some = events[:most]
        position = self.server.version if len(some) == len(events) and (bookmark or not some) else some[-1].version
        self.append(member, informing, informing.watched(some, position))

    @precondition(lambda self: self.relists)
    @rule(data=st.data(), resource=st.sampled_from(RESOURCES), breaks_off=st.booleans())
    def relist(self, data: st.DataObject, resource: Resource, breaks_off: bool) -> None:
        member = self.draw(data)
        self.list(member, member.informers[resource.name], breaks_off)

    def list(self, member: Member, informing: Informing, breaks_off: bool = False) -> None:
        name, since = informing.resource.name, informing.position or 0
        passed = {(name, str(each.version)) for each in self.server.events[name] if each.version > since}
        self.missed |= passed - {(name, str(each.version)) for each in self.server.objects[name].values()}
        batches = informing.listed(self.server.objects[name], self.server.version)
        for batch in batches[:-1] if breaks_off and len(batches) > 1 else batches:
            self.append(member, informing, batch)
        if breaks_off and len(batches) > 1:
            self.crash(member)

    def append(self, member: Member, informing: Informing, batch: ChangeBatch) -> None:
        deltas = self.run(member.outbox.append(batch))
        informing.offload(list(deltas))

    # ── Deliveries ───────────────────────────────────────────────────────────

    @rule(sink=st.sampled_from(SINKS), most=st.integers(1, 5), settles=st.booleans())
    def deliver(self, sink: str, most: int, settles: bool) -> None:
        if self.leader is None:
            return
        feed = self.leader.feeds[sink]
        if feed.exhausted:
            return
        fetch = self.run(feed.take(most))
        assert fetch.missed is None
        for record in fetch.items:
            if isinstance(record, Delta):
                self.hear(sink, record)
            else:
                assert self.relists, "a replica that follows from the start is exact"
                self.heard[sink].unsure |= self.heard[sink].state.keys()
        self.leader.outstanding[sink].append(fetch)
        if settles:
            for each in self.leader.outstanding[sink]:
                feed.settle(each)
            self.leader.outstanding[sink].clear()

    def hear(self, sink: str, delta: Delta) -> None:
        heard, name = self.heard[sink], delta.resource.name
        version, key, deleted = delta.resource_version, (name, delta.key), delta.op is Op.DELETED
        assert self.leader is not None
        heard.unsure.discard(key)
        if self.found is not None and delta.evidence is Evidence.WATCHED:
            point = self.found.of(sink, informer_key(name, Scope()))
            assert point is None or not point.covers(Point(delta.epoch, version)), "it was delivered before"
        assert int(version) >= heard.in_term.get(key, 0)
        heard.in_term[key] = int(version)
        number = delta.sequence + self.leader.standby.ahead
        heard.largest = max(heard.largest, number)
        if not self.relists:
            assert heard.ids.setdefault((name, version, deleted), delta.id) == delta.id
        heard.versions.add((name, version))
        if not deleted:
            heard.state[key] = (delta.uid, version)
        elif heard.state.get(key, ("", ""))[0] == delta.uid:
            del heard.state[key]

    # ── The election ─────────────────────────────────────────────────────────

    @rule()
    def publish(self) -> None:
        if self.leader is None:
            return
        before = None if self.lease is None else frontier.decode(self.lease)
        self.lease = frontier.encode(self.leader.standby.published())
        after = frontier.decode(self.lease)
        assert before is None or after.sequence >= before.sequence
        for sink in SINKS if before is not None else ():
            for informer in before.informers if before is not None else ():
                was, now = before.of(sink, informer) if before is not None else None, after.of(sink, informer)
                assert was is None or (now is not None and now.covers(was)), "the frontier went back"

    @rule(sink=st.sampled_from(SINKS), cause=st.sampled_from([PauseCause.NONE, PauseCause.OPERATOR, PauseCause.GONE]))
    def pause(self, sink: str, cause: PauseCause) -> None:
        """Published at once, as far as the model goes."""
        if self.leader is not None:
            if self.run(self.leader.outbox.sinks.pause(sink, cause)):
                self.paused[sink] = cause
            self.publish()

    @rule(data=st.data())
    def observe(self, data: st.DataObject) -> None:
        member = self.draw(data)
        if member is not self.leader and self.lease is not None:
            member.standby.observe(frontier.decode(self.lease))

    @rule(data=st.data())
    def another_leads(self, data: st.DataObject) -> None:
        self.take_over(self.draw(data))

    def take_over(self, member: Member) -> None:
        same = member.number == self.led
        if self.leader is not None:
            self.leader.follow()
        self.leader = None
        self.found = None if self.lease is None else frontier.decode(self.lease)
        self.term += 1
        self.run(member.standby.take_over(self.term, self.found))
        assert member.standby.term == self.term
        if self.lease is not None:
            assert {sink: member.outbox.sinks[sink].paused for sink in SINKS} == self.paused
        for sink, heard in self.heard.items():
            heard.in_term.clear()
            if not same:
                heard.newest = heard.largest
            assert member.outbox.sinks[sink].settled + 1 + member.standby.ahead > (0 if same else heard.newest)
        self.leader, self.led = member, member.number
        self.begin_delivering(member)

    def begin_delivering(self, member: Member) -> None:
        member.lead()

    @rule(data=st.data())
    def crashes(self, data: st.DataObject) -> None:
        self.crash(self.draw(data))

    def crash(self, member: Member) -> None:
        if not self.relists:
            self.run(member.outbox.maintain())  # Else a position that was not saved makes it list.
        copy = self.directory()
        for suffix in ("", "-wal"):
            if (member.directory / f"outbox.db{suffix}").exists():
                shutil.copy(member.directory / f"outbox.db{suffix}", copy)
        if member is self.leader:
            self.leader = None
        self.run(member.outbox.close())
        member.directory = copy
        self.run(member.open())

    @rule(data=st.data())
    def maintain(self, data: st.DataObject) -> None:
        self.run(self.draw(data).outbox.maintain())

    def draw(self, data: st.DataObject) -> Member:
        return self.members[data.draw(st.sampled_from(range(len(self.members))))]

    def has_more(self, member: Member, sink: str) -> bool:
        return not member.feeds[sink].exhausted

    # ── In the end ───────────────────────────────────────────────────────────

    @rule(data=st.data())
    def everything_arrives(self, data: st.DataObject) -> None:
        """A replica sees all changes, leads and delivers: no step is missing."""
        member = self.draw(data)
        for informing in member.informers.values():
            if informing.position is None:
                self.list(member, informing)
                continue
            events = [e for e in self.server.events[informing.resource.name] if e.version > (informing.position or 0)]
            self.append(member, informing, informing.watched(events, self.server.version))
        if member is not self.leader:
            self.take_over(member)
        for sink in SINKS:
            while self.has_more(member, sink):
                self.deliver(sink, 100, True)
            heard = self.heard[sink]
            steps = {(name, str(each.version)) for name, events in self.server.events.items() for each in events}
            assert steps <= heard.versions | self.missed
            state = {
                (name, key): (event.uid, str(event.version))
                for name, objects in self.server.objects.items()
                for key, event in objects.items()
            }
            assert {key: each for key, each in heard.state.items() if key in state or key not in heard.unsure} == state
        self.publish()

    @invariant()
    def a_standby_keeps_what_nobody_has_settled(self) -> None:
        for member in self.members:
            for cursor in member.outbox.sinks.all:
                assert member.outbox.first - 1 <= cursor.settled <= member.outbox.last


class ElectionWithoutLists(Election):
    """Replicas whose watches never break: no step may be missing, and all ids are the same."""

    relists = False


TestElection = Election.TestCase
TestElectionWithoutLists = ElectionWithoutLists.TestCase
TestElection.settings = TestElectionWithoutLists.settings = examples(
    12,
    stateful_step_count=50,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
)
