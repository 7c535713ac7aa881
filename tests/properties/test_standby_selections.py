"""Replicas whose sink has a selection, on real outboxes, while the selection changes on one after the other, in any
order, with crashes in between: the sink ends with the selected objects, and gets every version that all selections
contain, with an id that stands for one step. If only exact replicas take over, no Gap and no snapshot is needed."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import Coroutine, Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import msgspec
from hypothesis import HealthCheck
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from bridge.facts import discard
from bridge.kube import Catalogue
from bridge.model.change import Change, ChangeBatch, Evidence, ObjectVersion, Op
from bridge.model.object import ApiObject
from bridge.model.policies import StartPolicy
from bridge.model.primitives.fetch import Fetch
from bridge.model.record import Delta, Gap, Record, SnapshotEdge
from bridge.model.resource import Scope
from bridge.model.versions import frontier
from bridge.outbox import Outbox, Replica
from bridge.pipelines.feeds import Feeds
from bridge.pipelines.selecting import Selecting
from bridge.pipelines.sink_pipeline import SinkPipeline
from bridge.pipelines.snapshots import SnapshotSchedule
from bridge.plan.plan import SinkPlan
from bridge.resources.resolve import Resolution
from bridge.selection import SelectorText
from tests.bridge.outbox.opened import crashed
from tests.kit import memory
from tests.kit.deadlines import run_bounded
from tests.kit.examples import examples
from tests.kit.informed import PODS
from tests.kit.pipelines import without_worker
from tests.kit.sinks import RecordingSink

T = TypeVar("T")

SINK = "view"
RESOLUTION = Resolution({(PODS.name, Scope()): PODS}, {}, {})
KEYS = ("shop/a", "shop/b", "pay/a")
BOTH = "both"
VIEWS: Mapping[str, set[str]] = {"web": {"web", BOTH}, "db": {"db", BOTH}, "every": {"web", "db", BOTH, "none"}}
"""Name of a selection → the tiers that it contains."""


class Event(NamedTuple):
    version: int
    op: Op
    key: str
    uid: str
    tier: str


class Member:
    """A replica: an outbox, its informer, its selection, and its feed."""

    def __init__(self, number: int, directory: Path, view: str) -> None:
        self.number = number
        self.directory = directory
        self.view = view
        self.outstanding: list[Fetch[Record]] = []
        self.position = 0
        self.known: dict[str, ObjectVersion] = {}
        self.pipelines: dict[str, SinkPipeline] = {}
        self.feeds: Feeds
        self.outbox: Outbox

    async def open(self) -> None:
        self.feeds = await Feeds.open(self.directory, {SINK: None}, report=discard)
        self.outbox = self.feeds.outbox
        self.standby = await self.outbox.election.join(Replica("prod", f"kubedelta-{self.number}", "1.0"))
        self.standby.selected.digests = lambda entries: (str(hash(entries)),)
        await self.outbox.registration.begin({SINK: StartPolicy.NOW}, [SINK], before=False)
        self.selecting = Selecting(self.pipelines, "test", self.outbox.selections, discard)
        self.schedule = SnapshotSchedule(self.pipelines, self.outbox, "test", discard)
        self.make_pipeline()
        await self.prepare()

    def make_pipeline(self) -> None:
        tiers = ", ".join(sorted(VIEWS[self.view]))
        entries = (SelectorText(resource="pods", label_selector=f"tier in ({tiers})"),)
        plan = SinkPlan(name=SINK, type="fake", make=RecordingSink, max_batch=10, select=entries)
        self.feeds.end(SINK)
        self.outstanding.clear()
        self.pipelines[SINK] = without_worker(plan, self.feeds.feed(SINK, window=4), self.outbox)

    def settle(self) -> None:
        for each in self.outstanding:
            self.pipelines[SINK].feed.settle(each)
        self.outstanding.clear()

    async def prepare(self) -> None:
        """While no informer runs, which then begin again."""
        await self.selecting.prepare(Catalogue(), RESOLUTION)
        found, _ = await self.outbox.ledger.adopt(PODS, [Scope()])
        checkpoint = found[Scope()]
        self.known = {} if checkpoint is None else dict(checkpoint.objects)
        self.position = 0 if checkpoint is None or checkpoint.position is None else int(checkpoint.position)

    async def append(self, events: list[Event], position: int) -> None:
        changes = [self._change(each) for each in events]
        self.position = position
        batch = ChangeBatch(PODS, Scope(), changes, str(position))
        deltas = await self.outbox.append(batch)
        for delta, members in zip(deltas, batch.members or [0] * len(deltas), strict=True):
            if delta.op is not Op.DELETED:
                self.known[delta.key] = ObjectVersion(delta.uid, delta.resource_version, delta.sequence, members)

    def _change(self, event: Event) -> Change:
        body = msgspec.json.encode({"metadata": {"labels": {"tier": event.tier}}})
        thing = ApiObject(event.key, event.uid, str(event.version), body)
        before = self.known.pop(event.key, None)
        if event.op is not Op.DELETED:
            self.known[event.key] = ObjectVersion(event.uid, str(event.version), thing.body)
        return Change(event.op, Evidence.WATCHED, thing, before)


class Rollout(RuleBasedStateMachine):
    orderly = False
    """Only exact replicas take over, or the one that led last, and has published that."""

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.root = Path(tempfile.mkdtemp(prefix="selections-", dir=memory.folder()))
        self.numbers = count()
        self.version = 100
        self.events: list[Event] = []
        self.objects: dict[str, Event] = {}
        self.members: list[Member] = []
        self.leader: Member | None = None
        self.lease: str | None = None
        self.term = 0
        self.led: Member | None = None
        """Last."""
        self.led_since = 0
        """The API server's version when it took over."""
        self.state: dict[str, tuple[str, str]] = {}
        """Of the consumer: key → uid and version."""
        self.heard: set[str] = set()
        self.ids: dict[str, tuple[str, str, Op]] = {}
        self.in_term: dict[str, int] = {}
        self.swept: set[str] | None = None
        """Objects of the snapshot that is under way."""

    def run(self, what: Coroutine[Any, Any, T]) -> T:
        return run_bounded(self.runner, what)

    def teardown(self) -> None:
        try:
            for member in self.members:
                self.run(member.outbox.close())
        finally:
            self.runner.close()
            shutil.rmtree(self.root)

    @initialize(view=st.sampled_from(sorted(VIEWS)))
    def begin(self, view: str) -> None:
        for number in range(2):
            directory = self.root / str(next(self.numbers))
            directory.mkdir()
            self.members.append(Member(number, directory, view))
            self.run(self.members[-1].open())
            self.run(self.members[-1].append([], self.version))
        self.take_over(self.members[0])

    # ── The API server, and what replicas see of it ──────────────────────────

    @rule(
        key=st.sampled_from(KEYS),
        tier=st.sampled_from(["web", "db", BOTH, "none", "deleted"]),
        seen=st.sampled_from([(0, 1), (0, 1), (0,), (1,), ()]),
    )
    def change(self, key: str, tier: str, seen: Sequence[int]) -> None:
        """``seen``: the replicas that do not lag."""
        self._change(key, tier)
        for number in seen:
            self.watch(number, 100)

    def _change(self, key: str, tier: str) -> None:
        known = self.objects.get(key)
        if tier == "deleted" and known is None:
            return
        self.version += 1
        op = Op.ADDED if known is None else Op.DELETED if tier == "deleted" else Op.UPDATED
        uid = f"uid-{self.version}" if known is None else known.uid
        event = Event(self.version, op, key, uid, known.tier if known is not None and op is Op.DELETED else tier)
        self.events.append(event)
        if op is Op.DELETED:
            del self.objects[key]
        else:
            self.objects[key] = event

    @rule(number=st.integers(0, 1), most=st.integers(1, 4))
    def watch(self, number: int, most: int) -> None:
        member = self.members[number]
        events = [each for each in self.events if each.version > member.position]
        some = events[:most]
        self.run(member.append(some, some[-1].version if len(some) < len(events) else self.version))

    def watch_all(self, member: Member) -> None:
        self.watch(member.number, len(self.events) + 1)

    # ── Deliveries ───────────────────────────────────────────────────────────

    @rule(most=st.sampled_from([1, 2, 100]), settles=st.booleans())
    def deliver(self, most: int, settles: bool) -> None:
        if self.leader is None:
            return
        self.run(self.leader.schedule.look())
        feed = self.leader.pipelines[SINK].feed
        if feed.exhausted:
            return
        fetch = self.run(feed.take(most))
        for record in fetch.items:
            self.hear(record)
        self.leader.outstanding.append(fetch)
        if settles:
            self.leader.settle()

    def hear(self, record: Record) -> None:
        if isinstance(record, Gap):
            assert not self.orderly
            return
        if not isinstance(record, Delta):
            assert not self.orderly
            assert record.edge in (SnapshotEdge.BEGAN, SnapshotEdge.ENDED)
            if record.edge is SnapshotEdge.ENDED and self.swept is not None:
                self.state = {key: each for key, each in self.state.items() if key in self.swept}
            self.swept = set() if record.edge is SnapshotEdge.BEGAN else None
            return
        step = record.key, record.resource_version, record.op
        assert self.ids.setdefault(record.id, step) == step
        if record.snapshot is None:
            assert int(record.resource_version) >= self.in_term.get(record.key, 0), "out of order of one worker"
            self.in_term[record.key] = int(record.resource_version)
        if self.swept is not None:
            self.swept.add(record.key)
        self.heard.add(record.resource_version)
        if record.op is Op.DELETED:
            self.state.pop(record.key, None)
        else:
            self.state[record.key] = record.uid, record.resource_version

    # ── The election, and the configuration ──────────────────────────────────

    @rule()
    def publish(self) -> None:
        if self.leader is not None:
            self.lease = frontier.encode(self.leader.standby.published())
            self.leader.standby.renewed()

    @rule(number=st.integers(0, 1))
    def observe(self, number: int) -> None:
        member = self.members[number]
        if member is not self.leader and self.lease is not None:
            member.standby.observe(frontier.decode(self.lease))
            if member.outbox.selections.admitted(member.selecting.deferred):
                self.run(member.prepare())

    @rule(number=st.integers(0, 1), view=st.sampled_from(sorted(VIEWS)))
    def reload(self, number: int, view: str) -> None:
        member = self.members[number]
        if view == member.view:
            return
        member.view = view
        if member is self.leader:
            self.in_term.clear()  # What was not settled comes again.
            member.make_pipeline()
            plan = member.pipelines[SINK].plan
            self.put_into_effect(member, member.selecting.changed([plan], Catalogue(), RESOLUTION))
        else:
            member.make_pipeline()
            self.run(member.prepare())

    @rule()
    def catch_up(self) -> None:
        """The leader's entries wait until its informer has passed all that was delivered."""
        leader = self.leader
        if leader is not None and leader.position >= self.led_since:
            leader.standby.selected.caught_up = True
            if leader.selecting.deferred:
                self.put_into_effect(leader, leader.selecting.deferred)

    def put_into_effect(self, member: Member, entries: Mapping[str, str]) -> None:
        member.standby.selected.intended = entries
        self.publish()
        self.run(member.prepare())
        member.standby.selected.intended = {}

    @rule(number=st.integers(0, 1))
    def another_leads(self, number: int) -> None:
        member = self.members[number]
        if self.may_lead(member):
            self.take_over(member)

    def may_lead(self, member: Member) -> bool:
        published = self.lease is not None and frontier.decode(self.lease).term == self.term
        if not self.orderly or (member is self.led and published):
            return True
        return member is not self.leader and self.exact(member)

    def exact(self, member: Member) -> bool:
        if self.lease is not None:
            member.standby.observe(frontier.decode(self.lease))
        return member.standby.exact(SINK)

    def take_over(self, member: Member) -> None:
        if self.leader is not None:
            self.leader.standby.step_down()
            self.leader.make_pipeline()
        self.leader, self.term = None, self.term + 1
        self.run(member.standby.take_over(self.term, None if self.lease is None else frontier.decode(self.lease)))
        self.leader = self.led = member
        self.led_since = self.version
        self.in_term.clear()
        member.make_pipeline()

    @rule(
        view=st.sampled_from(sorted(VIEWS)),
        key=st.sampled_from(KEYS),
        tier=st.sampled_from(["web", "db", BOTH]),
        published=st.booleans(),
    )
    def lags_in_a_rollout(self, view: str, key: str, tier: str, published: bool) -> None:
        """The follower with another selection has not seen yet what the leader delivers last, and takes over."""
        if (leader := self.leader) is None:
            return
        other = self.members[1 - leader.number]
        self.publish()
        self.observe(other.number)
        self.reload(other.number, view)
        self._change(key, tier)
        self.watch_all(leader)
        self.deliver(100, True)
        if published:
            self.publish()
        self.another_leads(other.number)
        self.deliver(100, True)

    @rule(number=st.integers(0, 1), view=st.sampled_from(sorted(VIEWS)))
    def crashes(self, number: int, view: str) -> None:
        """It begins again, perhaps with another selection."""
        member = self.members[number]
        self.run(member.outbox.maintain())  # Else a position that was not saved makes it list.
        copy = crashed(member.directory, self.root / str(next(self.numbers)))
        if member is self.leader:
            self.leader = None
        self.run(member.outbox.close())
        member.directory, member.view = copy, view
        member.feeds.end(SINK)
        self.run(member.open())

    # ── In the end ───────────────────────────────────────────────────────────

    @rule(data=st.data(), number=st.integers(0, 1))
    def everything_arrives(self, data: st.DataObject, number: int) -> None:
        member = self.members[number]
        self.run(member.append([each for each in self.events if each.version > member.position], self.version))
        if member is not self.leader:
            if not self.may_lead(member):
                return
            self.take_over(member)
        self.catch_up()
        feed = member.pipelines[SINK].feed
        while not feed.exhausted or feed.backfill is not None or member.standby.owed:
            self.deliver(100, True)
            member.settle()
        member.settle()
        assert {str(each.version) for each in self.events if each.tier == BOTH} <= self.heard
        selected = {key: each for key, each in self.objects.items() if each.tier in VIEWS[member.view]}
        assert self.state == {key: (each.uid, str(each.version)) for key, each in selected.items()}
        self.publish()
        for other in self.members:
            if other is not member:
                self.reload(other.number, member.view)
                self.watch_all(other)
                self.observe(other.number)
                assert self.exact(other)
                self.reload(other.number, data.draw(st.sampled_from(sorted(VIEWS))))
                assert self.exact(other), "it decides as the leader does, until it leads"


class OrderlyRollout(Rollout):
    orderly = True


TestRollout = Rollout.TestCase
TestOrderlyRollout = OrderlyRollout.TestCase
TestRollout.settings = TestOrderlyRollout.settings = examples(
    12,
    stateful_step_count=50,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
)
