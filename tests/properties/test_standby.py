"""Replicas in an election, on real outboxes: whoever leads, however far others lag, whatever crashes: every sink gets
each version of the API server's history, in order, with the same ids; and none twice that the frontier covers.

Named by the invariants of an election:

- I1: a standby lets go only of what a frontier that was read from the Lease covers.
- I2: a frontier covers a record only if the sink stored it, or it is a dead letter, or a Gap or a compaction covers it.
- I3: a frontier never goes back within an epoch, over all terms.
- I4: after a takeover everything arrives that was not delivered, in order for each object.
- I5: no delivery begins after the deadline: see test_election.
- I6: terms and numbers ascend in every stream.
- I7: equal changes have equal ids, and an id has one content.
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import Collection, Coroutine, Iterable
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any, TypeVar

from hypothesis import HealthCheck, note
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from msgspec.structs import replace

from bridge.facts import discard
from bridge.model.change import Evidence, Op
from bridge.model.dead_letter import NewDeadLetter
from bridge.model.policies import StartPolicy
from bridge.model.primitives.fetch import Fetch
from bridge.model.record import Delta, Gap, OrderingKey, Record, Snapshot, SnapshotEdge
from bridge.model.resource import Resource, Scope
from bridge.model.status import PauseCause
from bridge.model.versions import frontier
from bridge.model.versions.frontier import Frontier, Point, informer_key
from bridge.model.versions.held import digest_of, digests_in
from bridge.pipelines.snapshots import begin_snapshot
from sinks.base import is_blocked
from tests.kit import memory
from tests.kit.deadlines import run_bounded
from tests.kit.examples import examples
from tests.kit.informed import DEPLOYMENTS, PODS
from tests.kit.replicated_server import Backup, Key, Member, Server, Step, step_of

T = TypeVar("T")

RESOURCES = (PODS, DEPLOYMENTS, Resource("", "v1", "nodes", "Node", False))
KEYS = ("a", "b", "c")
OBJECTS = {(each.name, key) for each in RESOURCES for key in KEYS}
SINKS = dict.fromkeys(("left", "right"), StartPolicy.NOW)
NEW = "new"
"""A sink that comes and goes."""
EVERY = (*SINKS, NEW)
LISTS, RESTORES, COMPACTIONS, DROPS = "lists", "restores", "compactions", "drops"
LETTERS, SNAPSHOTS, COPIES, DISKS, NEWS = "dead letters", "snapshots", "copies", "empty disks", "sinks that come and go"


@dataclass
class Heard:
    """What the destination of a sink has received."""

    state: dict[Key, tuple[str, str]] = field(default_factory=dict)
    steps: set[Step] = field(default_factory=set)
    ids: dict[tuple[str, str, bool], str] = field(default_factory=dict)
    contents: dict[str, bytes] = field(default_factory=dict)
    in_term: dict[Key, tuple[int, int]] = field(default_factory=dict)
    """Object → its newest epoch and version in this term."""
    newest: int = 0
    """The largest number in any term before."""
    last: int = 0
    """The number before, in this term."""
    largest: int = 0
    """The largest number."""
    unsure: set[Key] = field(default_factory=set)
    """Objects about which a Gap left doubt."""
    set_back: bool = False
    """In this term, a snapshot may have set objects back, so that later records come again."""
    snapshot: set[Key] | None = None
    """Objects of the snapshot under way."""
    settled: set[Step] = field(default_factory=set)
    """Stored and settled, or dead letters."""
    excused: set[Step] = field(default_factory=set)
    """Steps that the sink need not get."""
    rejected: set[OrderingKey] = field(default_factory=set)
    """Objects that ever had a dead letter."""
    held: set[bytes] = field(default_factory=set)
    """Digests of objects with a dead letter on another replica, as the present leader found them."""
    begun: int | None = None
    """The server's version when a leader first published the sink."""
    earlier: set[Step] = field(default_factory=set)
    """In the leader's log when the sink began there with the earliest record; and in those of later leaders."""


class Election(RuleBasedStateMachine):
    features: tuple[str, ...] = (LISTS, RESTORES, COMPACTIONS, DROPS, LETTERS, SNAPSHOTS, COPIES, DISKS, NEWS)

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.root = Path(tempfile.mkdtemp(prefix="standby-", dir=memory.folder()))
        self.numbers = count()
        self.server = Server(RESOURCES)
        self.backups: list[tuple[Backup, str | None, object]] = []
        self.restored = False
        self.members: list[Member] = []
        self.leader: Member | None = None
        self.lease: str | None = None
        self.found: Frontier | None = None
        """The frontier that the leader found."""
        self.released = False
        """The last leader left the Lease in order."""
        self.term = 0
        self.led: object = None
        """The disk of the last leader."""
        self.publisher: object = None
        """The disk of the replica that wrote ``lease``."""
        self.outstanding: dict[str, list[Fetch[Record]]] = {}
        """Of the leader, by sink: fetches that are not settled."""
        self.unsent: dict[str, list[Record]] = {}
        """Those of their records that were not sent."""
        self.heard = {sink: Heard() for sink in EVERY}
        self.paused = dict.fromkeys(EVERY, PauseCause.NONE)
        self.disks: dict[int, object] = {}

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

    @initialize(replicas=st.sampled_from([2, 3]), data=st.data())
    def begin(self, replicas: int, data: st.DataObject) -> None:
        self.enabled = data.draw(st.sets(st.sampled_from(sorted(self.features)))) if self.features else set()
        note(f"with {sorted(self.enabled)}")
        for sink in SINKS:
            self.heard[sink].begun = 0
        for number in range(replicas):
            number_now = lambda: max(each.largest for each in self.heard.values()) + 10  # noqa: E731
            member = Member(number, self.directory(), RESOURCES, SINKS, number_now)
            self.disks[number] = object()
            self.run(member.open())
            for resource in RESOURCES:
                self.run(member.list(self.server, resource))
            self.members.append(member)
        self.take_over(self.members[0])

    def has(self, *features: str) -> bool:
        return self.enabled.issuperset(features)

    # ── The API server, and what replicas see of it ──────────────────────────

    @rule(resource=st.sampled_from(RESOURCES), key=st.sampled_from(KEYS), delete=st.booleans())
    def change(self, resource: Resource, key: str, delete: bool) -> None:
        self.server.change(resource.name, key, delete)

    @rule(data=st.data(), resource=st.sampled_from(RESOURCES), most=st.integers(1, 4), bookmark=st.booleans())
    def watch(self, data: st.DataObject, resource: Resource, most: int, bookmark: bool) -> None:
        self.see(self.draw(data), resource, most, bookmark)

    def see(self, member: Member, resource: Resource, most: int, bookmark: bool) -> None:
        before = set(member.lacks)
        self.run(member.watch(self.server, resource, most, bookmark))
        self.excuse_leader(member, before)

    def excuse_leader(self, member: Member, before: set[Step]) -> None:
        """What the leader's lists pass over, nobody gets."""
        if member is self.leader:
            for heard in self.heard.values():
                heard.excused |= member.lacks - before

    @precondition(lambda self: self.has(LISTS))
    @rule(data=st.data(), resource=st.sampled_from(RESOURCES), breaks_off=st.booleans(), recovers=st.booleans())
    def relist(self, data: st.DataObject, resource: Resource, breaks_off: bool, recovers: bool) -> None:
        member, before = (member := self.draw(data)), set(member.lacks)
        broke_off = self.run(member.list(self.server, resource, breaks_off=breaks_off, recovers=recovers))
        self.excuse_leader(member, before)
        if broke_off:
            self.crash(member)

    @rule(
        data=st.data(),
        resource=st.sampled_from(RESOURCES),
        changes=st.lists(st.tuples(st.sampled_from(KEYS), st.booleans()), min_size=2, max_size=8),
        seen=st.lists(st.integers(0, 8), min_size=1, max_size=6),
        lists=st.sampled_from(["no", "yes", "and recovers"]),
        rejects=st.none() | st.integers(0, 2),
        killed=st.booleans(),
    )
    def much_happens(
        self,
        data: st.DataObject,
        resource: Resource,
        changes: list[tuple[str, bool]],
        seen: list[int],
        lists: str,
        rejects: int | None,
        killed: bool,
    ) -> None:
        """Many changes, of which each replica sees some in batches of its own, or one by a list; perhaps deliveries
        with a renewal; then another leads."""
        self.change_much(resource, changes, seen)
        member = self.draw(data)
        if lists != "no" and self.has(LISTS) and member is not self.leader:
            self.run(member.list(self.server, resource, recovers=lists == "and recovers"))
        if rejects is not None:
            for sink in SINKS:
                self.deliver(sink, 3, sends=True, settles=True, rejects=rejects)
            self.publish()
        if killed:
            self.take_over(member)

    def change_much(self, resource: Resource, changes: Iterable[tuple[str, bool]], seen: list[int]) -> None:
        """``changes``: objects, each with whether it is deleted. ``seen``: sizes of batches; 0 for none."""
        for key, delete in changes:
            self.server.change(resource.name, key, delete)
        for member in self.members:
            for most in filter(None, seen):
                self.see(member, resource, most, bookmark=False)
            seen = seen[1:] + seen[:1]

    @precondition(lambda self: self.has(LISTS))
    @rule(data=st.data(), resource=st.sampled_from(RESOURCES), key=st.sampled_from(KEYS), asks=st.booleans())
    def a_leader_is_killed_behind_its_renewal(
        self, data: st.DataObject, resource: Resource, key: str, asks: bool
    ) -> None:
        """It has delivered an object that no other replica has seen, and that is gone when the next one lists."""
        leader, member = self.leader, self.draw(data)
        if leader is None or member is leader:
            return
        for each in (leader, member):
            self.see(each, resource, 1000, bookmark=True)
        if self.leader is not leader:
            return
        if not self.deliver_and_publish(leader):
            return
        self.server.change(resource.name, key, delete=False)
        self.see(leader, resource, 1000, bookmark=False)
        for sink in leader.sinks:
            self.deliver_all(leader, sink)
        self.server.change(resource.name, key, delete=True)
        self.take_over(member)
        if asks:
            self.ask_for_bounds()
        before = set(member.lacks)
        self.run(member.list(self.server, resource))
        self.excuse_leader(member, before)
        for sink in SINKS if self.leader is member else ():
            self.deliver_all(member, sink)
            heard, gone = self.heard[sink], (resource.name, key)
            known = gone not in heard.state or gone in heard.unsure | heard.rejected
            assert known or sink in member.standby.owed, "nobody tells of the delete"

    @rule()
    def ask_for_bounds(self) -> None:
        """See ``bound_former_leaders``."""
        if self.leader is not None:
            self.leader.learn_bounds(self.server)

    @rule()
    def leaves_in_order(self) -> None:
        if self.leader is not None:
            self.run(self.leader.notice_restores(self.server))
            self.look()
        if self.leader is not None:
            self.release()

    @precondition(lambda self: self.has(LISTS))
    @rule()
    def compact_etcd(self) -> None:
        self.server.oldest = self.server.version

    @precondition(lambda self: self.has(RESTORES))
    @rule()
    def back_up(self) -> None:
        self.backups.append((self.server.back_up(), self.lease, self.publisher))

    @precondition(lambda self: self.has(RESTORES) and self.backups)
    @rule(data=st.data())
    def restore(self, data: st.DataObject) -> None:
        self.restore_from(data.draw(st.sampled_from(self.backups)))

    def restore_from(self, found: tuple[Backup, str | None, object]) -> None:
        """With the Lease, which its holder writes again once it has noticed. The Lease was renewed behind the backup. A
        replica that knows nothing which the restore undoes has seen that: else nothing tells it of the restore; and one
        that has not noticed the restore before: else it uses ids of an epoch that the leader began then."""
        backup, lease, publisher = found
        if lease == self.lease:
            self.publish()
        if lease == self.lease:
            return
        for member in self.members:
            knows_less = member.newest <= backup.version or member.restores < len(self.server.restored)
            if member is not self.leader and knows_less:
                self.follow(member)
        self.lease, self.publisher = lease, publisher
        undone = self.server.restore(backup)
        self.backups.clear()
        self.restored = True
        for heard in self.heard.values():
            heard.excused |= undone

    @precondition(lambda self: self.has(RESTORES) and self.leader is not None)
    @rule(
        data=st.data(),
        resource=st.sampled_from(RESOURCES),
        key=st.sampled_from(KEYS),
        renews=st.booleans(),
        follows=st.sampled_from(["before", "asks before", "after"]),
        others=st.lists(st.tuples(st.sampled_from(KEYS), st.booleans()), max_size=4),
        killed=st.booleans(),
    )
    def a_leader_is_killed_and_the_store_restored(
        self,
        data: st.DataObject,
        resource: Resource,
        key: str,
        renews: bool,
        follows: str,
        others: list[tuple[str, bool]],
        killed: bool,
    ) -> None:
        """It has delivered an object that no other replica has seen, and that the restore undoes. ``follows``: when
        another one leads. ``killed``: that one is killed, too."""
        leader, member = self.leader, self.draw(data)
        if leader is None or member is leader:
            return
        for each in (leader, member):
            self.see(each, resource, 1000, bookmark=True)
        if self.leader is not leader or not self.deliver_and_publish(leader):
            return
        self.back_up()
        self.server.change(resource.name, key, delete=False)
        self.see(leader, resource, 1000, bookmark=False)
        for sink in leader.sinks:
            self.deliver_all(leader, sink)
        if renews:
            self.renew_lease(leader)
        if follows != "after":
            self.take_over(member)
            if follows == "asks before":
                self.ask_for_bounds()
        self.restore_from(self.backups[-1])
        if follows == "after":
            self.take_over(member)
        self.change_much(resource, others, [])
        self.see(member, resource, 2, bookmark=False)
        if killed:
            self.publish()
            self.crash(member)
        self.all_arrives(member)

    @precondition(lambda self: self.has(RESTORES) and self.leader is not None)
    @rule(
        data=st.data(),
        resource=st.sampled_from(RESOURCES),
        key=st.sampled_from(KEYS),
        rounds=st.lists(st.tuples(st.booleans(), st.booleans(), st.booleans()), min_size=2, max_size=3),
        sees=st.integers(0, 3),
    )
    def one_notices_no_restore(
        self,
        data: st.DataObject,
        resource: Resource,
        key: str,
        rounds: list[tuple[bool, bool, bool]],
        sees: int,
    ) -> None:
        """The store is restored several times, while another replica sees nothing, or begins with an empty disk.
        ``rounds``: whether an object is deleted, the leader watches the restored store, the other one loses its disk.
        ``sees``: changes of the last history."""
        leader, member = self.leader, self.draw(data)
        if leader is None or member is leader:
            return
        for delete, notices, empties in rounds:
            self.back_up()
            self.server.change(resource.name, key, delete)
            self.see(leader, resource, 1000, bookmark=False)
            if self.leader is not leader or not self.deliver_and_publish(leader):
                break
            self.restore_from(self.backups[-1])
            if notices:
                self.see(leader, resource, 1000, bookmark=True)
            if empties and self.has(DISKS):
                self.begin_empty(member)
            if self.leader is not leader:
                break
        self.change_much(resource, [(key, False)] * sees, [])
        self.all_arrives(member)

    @precondition(lambda self: self.has(RESTORES) and self.backups and self.leader is not None)
    @rule(
        data=st.data(),
        resource=st.sampled_from(RESOURCES),
        changes=st.lists(st.tuples(st.sampled_from(KEYS), st.booleans()), min_size=1, max_size=4),
    )
    def another_notices_a_restore_later(
        self, data: st.DataObject, resource: Resource, changes: list[tuple[str, bool]]
    ) -> None:
        """The leader has delivered the new history when a replica that knows more of the former one leads."""
        member, leader = self.draw(data), self.leader
        if leader is None or member is leader:
            return
        self.change_much(resource, changes, [])
        self.see(member, resource, 1000, True)
        self.restore(data)
        for each in RESOURCES:
            self.see(leader, each, 1000, True)
        if self.leader is not leader:
            return
        self.deliver_and_publish(leader)
        self.take_over(member)
        self.publish()
        if self.leader is member:
            self.deliver_and_publish(member)

    # ── Deliveries ───────────────────────────────────────────────────────────

    @rule(
        sink=st.sampled_from(EVERY),
        most=st.integers(1, 5),
        sends=st.booleans(),
        settles=st.booleans(),
        rejects=st.integers(0, 3),
    )
    def deliver(self, sink: str, most: int, sends: bool, settles: bool, rejects: int) -> None:
        """A crash may come before the records are sent, and before they are settled."""
        leader = self.leader
        if leader is None or sink not in leader.feeds or leader.feeds[sink].exhausted:
            return
        fetch = self.run(leader.feeds[sink].take(most))
        assert fetch.missed is None
        self.outstanding.setdefault(sink, []).append(fetch)
        self.unsent.setdefault(sink, []).extend(fetch.items)
        if sends or settles:
            self.send(sink, rejects if self.has(LETTERS) else 0)
        if settles:
            self.settle(sink)

    def send(self, sink: str, rejects: int = 0) -> None:
        """``rejects``: the number of a record, from 1, that the destination rejects."""
        leader, heard = self.leader, self.heard[sink]
        assert leader is not None
        letters = leader.outbox.sinks.dead_letters[sink]
        for number, record in enumerate(self.unsent.get(sink, []), 1):
            blocked = isinstance(record, Delta) and is_blocked(letters.keys, record, record.sequence)
            if isinstance(record, Delta) and (blocked or number == rejects):
                self.run(letters.add_dead_letters([NewDeadLetter(record, "rejected", blocked)]))
                heard.rejected.add(record.ordering_key)
                heard.settled.add(step_of(record))
            else:
                self.hear(sink, record)
        self.unsent[sink] = []

    def settle(self, sink: str) -> None:
        leader, heard = self.leader, self.heard[sink]
        assert leader is not None
        for each in self.outstanding.get(sink, []):
            heard.settled |= {step_of(record) for record in each.items if isinstance(record, Delta)}
            leader.feeds[sink].settle(each)
        self.outstanding[sink] = []

    def hear(self, sink: str, record: Record) -> None:
        heard, leader = self.heard[sink], self.leader
        assert leader is not None
        self.i6_terms_and_numbers_ascend(heard, leader.standby.in_term(record))
        match record:
            case Gap():
                assert self.enabled, "a replica that follows from the start is exact"
                heard.unsure |= OBJECTS
            case Snapshot(edge=SnapshotEdge.BEGAN):
                heard.snapshot, heard.set_back = set(), True
            case Snapshot(edge=SnapshotEdge.ENDED) if heard.snapshot is not None:
                for key in heard.unsure - heard.snapshot:
                    heard.state.pop(key, None)
                heard.unsure, heard.snapshot = set(), None
            case Delta():
                self.hear_delta(sink, heard, record)

    def hear_delta(self, sink: str, heard: Heard, delta: Delta) -> None:
        key, deleted, step = (delta.resource.name, delta.key), delta.op is Op.DELETED, step_of(delta)
        assert digest_of(delta.ordering_key) not in heard.held, "another replica has a dead letter of the object"
        heard.unsure.discard(key)
        if heard.snapshot is not None:
            heard.snapshot.add(key)
        heard.set_back = heard.set_back or delta.snapshot is not None
        if self.found is not None and delta.evidence is Evidence.WATCHED and not heard.set_back:
            point = self.found.of(sink, informer_key(step.resource, Scope()))
            assert point is None or not point.covers(Point(delta.epoch, delta.resource_version)), "delivered before"
        found_gone = deleted and delta.evidence is Evidence.RELISTED
        self.i4_an_object_is_in_order(heard, key, (delta.epoch, step.version), found_gone)
        self.i7_equal_changes_have_equal_ids(heard, delta)
        if not found_gone:
            heard.steps.add(step)
        if not deleted:
            heard.state[key] = (delta.uid, delta.resource_version)
        elif heard.state.get(key, ("", ""))[0] == delta.uid:
            del heard.state[key]

    # ── What an operator and a full backlog do ───────────────────────────────

    @precondition(lambda self: self.has(COMPACTIONS))
    @rule(sink=st.sampled_from(EVERY))
    def compact(self, sink: str) -> None:
        leader = self.leader
        if leader is None or sink not in leader.feeds:
            return
        feed = leader.feeds[sink]
        newest: dict[OrderingKey, Delta] = {}
        for delta in self.waiting(leader, sink, feed.taken):
            if delta.ordering_key in newest:
                self.heard[sink].excused.add(step_of(newest[delta.ordering_key]))
            newest[delta.ordering_key] = delta
        self.heard[sink].excused |= {step_of(each) for each in newest.values() if each.op is Op.DELETED}
        self.run(feed.compact())

    @precondition(lambda self: self.has(DROPS))
    @rule(data=st.data(), sink=st.sampled_from(EVERY))
    def drop(self, data: st.DataObject, sink: str) -> None:
        """Of a follower, too."""
        member = self.draw(data)
        feed = member.feeds.get(sink)
        if feed is None or feed.taken >= member.outbox.last:
            return
        through = feed.taken + data.draw(st.integers(1, member.outbox.last - feed.taken))
        dropped = {step_of(each) for each in self.waiting(member, sink, feed.taken) if each.sequence <= through}
        if self.run(feed.drop(through)) == (0, 0):
            return
        if member is self.leader:
            self.heard[sink].excused |= dropped
        else:
            member.lacks |= dropped

    def waiting(self, member: Member, sink: str, after: int) -> Iterable[Delta]:
        found = self.run(member.outbox.read(min(after, member.outbox.sinks[sink].settled), 10_000))
        return [each for each in found.items if isinstance(each, Delta)]

    @precondition(lambda self: self.has(LETTERS))
    @rule(sink=st.sampled_from(EVERY), drops=st.booleans())
    def retry(self, sink: str, drops: bool) -> None:
        leader, heard = self.leader, self.heard[sink]
        if leader is None or sink not in leader.feeds:
            return
        letters = leader.outbox.sinks.dead_letters[sink]
        heard.held -= {*map(digest_of, letters.keys)}
        if drops:
            self.run(letters.drop(None))
            return
        self.run(letters.retry(None))
        while found := self.run(letters.next_retries(10)):
            heard.steps |= {step_of(each.record) for each in found if isinstance(each.record, Delta)}
            self.run(letters.delivered([each.number for each in found]))

    @precondition(lambda self: self.has(SNAPSHOTS))
    @rule(sink=st.sampled_from(EVERY))
    def snapshot(self, sink: str) -> None:
        leader = self.leader
        if leader is None or sink not in leader.feeds or leader.outbox.sinks[sink].backfill is not None:
            return
        self.run(begin_snapshot(leader.outbox, sink, leader.feeds[sink], cluster="prod", report=discard))

    @rule(sink=st.sampled_from(EVERY))
    def begin_owed(self, sink: str) -> None:
        """See SnapshotSchedule."""
        leader = self.leader
        if leader is None or sink not in leader.feeds or leader.outbox.sinks[sink].backfill is not None:
            return
        owed, feed = leader.standby.owed.get(sink), leader.feeds[sink]
        if owed is not None and feed.taken >= owed.after and not leader.standby.lags(sink, feed.taken):
            if owed.scope is None:  # An object without a record since then is gone.
                self.heard[sink].unsure |= OBJECTS
            self.run(begin_snapshot(leader.outbox, sink, feed, cluster="prod", report=discard, scope=owed.scope))
            del leader.standby.owed[sink]

    @rule(
        sink=st.sampled_from(tuple(SINKS)),
        cause=st.sampled_from([PauseCause.NONE, PauseCause.OPERATOR, PauseCause.GONE]),
    )
    def pause(self, sink: str, cause: PauseCause) -> None:
        """Published at once, as far as the model goes."""
        if self.leader is not None:
            if self.run(self.leader.outbox.sinks.pause(sink, cause)):
                self.paused[sink] = cause
            self.publish()

    @precondition(lambda self: self.has(NEWS))
    @rule(data=st.data(), start=st.sampled_from([StartPolicy.NOW, StartPolicy.EARLIEST]))
    def configure(self, data: st.DataObject, start: StartPolicy) -> None:
        """A sink comes or goes, on one replica after the other. While some replica has it, others have the same
        start."""
        member = self.draw(data)
        start = next((each.sinks[NEW] for each in self.members if NEW in each.sinks), start)
        if NEW in member.sinks:
            del member.sinks[NEW]
            member.all_feeds.end(NEW)
            del member.feeds[NEW]
            member.outbox.registration.end(NEW)
            if member is self.leader:
                self.outstanding.pop(NEW, None)
                self.unsent.pop(NEW, None)
        else:
            if member is not self.leader:  # It has read the Lease since its start.
                self.follow(member)
            member.sinks[NEW] = start
            # A leader goes on where the one before was, whose cursor may be there still.
            found = member.standby.found if member is self.leader else None
            is_new = NEW not in [each.sink for each in member.outbox.sinks.all] and (
                not found or NEW not in found.sinks
            )
            self.run(member.outbox.registration.begin({NEW: start}, (), before=False))
            if is_new and member is self.leader:
                self.begin_new(member)
            member.feeds[NEW] = member.all_feeds.feed(NEW, window=4)
        member.standby.configured.starts = member.sinks

    def begin_new(self, leader: Member) -> None:
        """It begins anew, whatever leaders before delivered to it."""
        early = leader.sinks[NEW] is StartPolicy.EARLIEST
        log = self.waiting(leader, NEW, leader.outbox.last) if early else ()
        self.heard[NEW].earlier = {step_of(each) for each in log}
        if self.found is not None:
            self.found = replace(
                self.found, sinks={name: self.found.sinks[name] for name in self.found.sinks.keys() - {NEW}}
            )

    # ── The election ─────────────────────────────────────────────────────────

    @rule()
    def publish(self) -> None:
        if self.leader is None:
            return
        self.run(self.leader.notice_restores(self.server))
        self.look()
        if self.leader is not None:
            self.renew_lease(self.leader)

    def look(self) -> None:
        """The leader's renewal meets a conflict, and it reads the Lease."""
        if self.is_lost():
            self.release()

    def is_lost(self) -> bool:
        """See ``OtherLeaders.lost``."""
        assert self.leader is not None
        return self.lease is not None and self.leader.standby.others.lost(frontier.decode(self.lease))

    def renew_lease(self, leader: Member, *, last: bool = False) -> None:
        before = None if self.lease is None else frontier.decode(self.lease)
        self.lease = frontier.encode(leader.standby.published(last=last))
        leader.standby.renewed()
        self.publisher = self.disks[leader.number]
        after = frontier.decode(self.lease)
        if NEW in after.sinks and self.heard[NEW].begun is None:
            self.heard[NEW].begun = self.server.version
        for sink in leader.sinks:
            letters = leader.outbox.sinks.dead_letters[sink]
            assert {*map(digest_of, letters.keys)} <= digests_in(after.sinks[sink].parked)
        self.i2_it_covers_what_is_stored(after)
        if before is not None:
            self.i3_it_never_goes_back(before, after)

    @rule(data=st.data())
    def observe(self, data: st.DataObject) -> None:
        member = self.draw(data)
        if member is not self.leader:
            self.follow(member)

    def follow(self, member: Member) -> None:
        if self.lease is None:
            return
        before = {sink: member.outbox.sinks[sink].settled for sink in member.sinks}
        backfills = {sink: member.outbox.sinks[sink].backfill for sink in member.sinks}
        logs = {sink: self.run(member.outbox.read(settled, 10_000)).items for sink, settled in before.items()}
        found = frontier.decode(self.lease)
        member.standby.observe(found)
        for sink, log in logs.items():
            if backfills[sink] is None and sink in found.sinks:
                gone = [each for each in log if each.sequence <= member.outbox.sinks[sink].settled]
                self.i1_it_lets_go_of_what_arrived(sink, [each for each in gone if isinstance(each, Delta)])

    @rule(data=st.data())
    def another_leads(self, data: st.DataObject) -> None:
        self.take_over(self.draw(data))

    def take_over(self, member: Member) -> None:
        same = self.disks[member.number] is self.led
        if self.leader is not None:
            self.leader.standby.step_down()
            self.leader.renew()
        self.leader = None
        self.outstanding, self.unsent = {}, {}
        self.found = None if self.lease is None else frontier.decode(self.lease)
        if member is not self.leader:
            self.follow(member)
        self.term += 1
        exact = {sink: self.found is not None and member.standby.exact(sink) for sink in member.sinks}
        self.run(member.standby.take_over(self.term, self.found, released=self.released))
        restored = {*member.standby.owed} >= {*member.sinks}
        self.released = False
        assert member.standby.term == self.term
        if self.found is not None and not self.restored:
            assert {sink: member.outbox.sinks[sink].paused for sink in SINKS} == {s: self.paused[s] for s in SINKS}
        others = None if self.publisher is self.disks[member.number] else self.found
        for sink in member.sinks:
            heard = self.heard[sink]
            heard.in_term.clear()
            heard.snapshot, heard.last, heard.held, heard.set_back = None, 0, set(), False
            if not same:
                heard.newest = heard.largest
                if others is not None and sink in others.sinks:
                    letters = member.outbox.sinks.dead_letters[sink]  # Their earlier records may come again.
                    heard.held = digests_in(others.sinks[sink].parked) - {*map(digest_of, letters.keys)}
            if same or restored or not exact[sink]:
                heard.excused |= member.lacks
            assert member.outbox.sinks[sink].settled + 1 + member.standby.ahead > (0 if same else heard.newest)
        self.leader, self.led = member, self.disks[member.number]
        member.standby.resign = self.resign
        self.begin_delivering(member)
        if NEW not in member.sinks:  # Behind a leader without it, it begins anew.
            self.heard[NEW].begun = None
            self.heard[NEW].state.clear()
            self.heard[NEW].earlier.clear()
        elif self.found is not None and NEW not in self.found.sinks:
            self.begin_new(member)
        else:
            log = self.waiting(member, NEW, member.outbox.last)
            self.heard[NEW].earlier &= {step_of(each) for each in log} | self.heard[NEW].settled
        if member.standby.owed or self.found is None:
            self.publish()  # Before the first delivery: see SelectionChanges.lead.

    async def resign(self) -> None:
        """The leader lists before it has seen what the one before delivered: see Leadership."""
        assert self.leader is not None
        assert self.enabled, "a replica whose watch never breaks lists nothing"
        self.release()

    def release(self) -> None:
        assert self.leader is not None
        self.is_lost()
        self.renew_lease(self.leader, last=True)
        self.leader.standby.step_down()
        self.leader.renew()
        self.leader, self.outstanding, self.unsent, self.released = None, {}, {}, True

    def begin_delivering(self, member: Member) -> None:
        member.renew()

    @rule(data=st.data())
    def crashes(self, data: st.DataObject) -> None:
        self.crash(self.draw(data))

    def crash(self, member: Member) -> None:
        if member is not self.leader:  # A running replica sees that a Lease went back.
            self.follow(member)
        if not self.has(LISTS):
            self.run(member.outbox.maintain())  # Else a position that was not saved makes it list.
        if member is self.leader:
            self.leader = None
        self.run(member.crash(self.directory()))

    @precondition(lambda self: self.has(COPIES) or self.has(DISKS))
    @rule(data=st.data())
    def lose_a_disk(self, data: st.DataObject) -> None:
        member = self.draw(data)
        if member is self.leader or self.leader is None or self.lease is None:
            return
        if self.has(COPIES):
            self.run(member.begin_with_copy(self.leader, self.directory(), self.lease))
            self.disks[member.number] = object()
        else:
            self.begin_empty(member)

    def begin_empty(self, member: Member) -> None:
        """It knows of no restore before. The leader notices that before it could be killed, and the other one lead."""
        self.publish()
        self.run(member.begin_empty(self.directory()))
        self.disks[member.number] = object()

    @rule(data=st.data())
    def maintain(self, data: st.DataObject) -> None:
        self.run(self.draw(data).outbox.maintain())

    def draw(self, data: st.DataObject) -> Member:
        return self.members[data.draw(st.sampled_from(range(len(self.members))))]

    # ── In the end ───────────────────────────────────────────────────────────

    @rule(data=st.data())
    def everything_arrives(self, data: st.DataObject) -> None:
        """A replica sees all changes, leads, renews the Lease and delivers."""
        self.all_arrives(self.draw(data))

    def all_arrives(self, member: Member) -> None:
        self.lead_and_see_all(member)
        self.publish()
        if self.leader is not member:
            self.take_over(member)
        for sink in member.sinks:
            self.deliver_all(member, sink)
            self.begin_owed(sink)
            self.deliver_all(member, sink)
            self.i4_nothing_is_missing(sink)
        self.publish()

    def leads_and_sees_all(self, data: st.DataObject) -> Member:
        self.lead_and_see_all(member := self.draw(data))
        return member

    def lead_and_see_all(self, member: Member) -> None:
        for resource in RESOURCES:
            self.see(member, resource, 1000, True)
        if member is not self.leader:
            self.take_over(member)

    def deliver_and_publish(self, leader: Member) -> bool:
        """Returns whether it still leads."""
        for sink in leader.sinks:
            self.deliver_all(leader, sink)
        self.publish()
        return self.leader is leader

    def deliver_all(self, member: Member, sink: str) -> None:
        self.send(sink)
        self.settle(sink)
        while not member.feeds[sink].exhausted:
            self.deliver(sink, 100, sends=True, settles=True, rejects=0)

    # ── Invariants ───────────────────────────────────────────────────────────

    def i1_it_lets_go_of_what_arrived(self, sink: str, gone: Collection[Delta]) -> None:
        heard = self.heard[sink]
        for delta in gone:
            if delta.op is Op.DELETED and delta.evidence is Evidence.RELISTED:
                continue  # A watch of the leader may have seen the delete, at its own version.
            step = step_of(delta)
            assert self.need_not(heard, step), f"{sink} has not got {step}, and a standby lets go of it"

    def i2_it_covers_what_is_stored(self, after: Frontier) -> None:
        leader = self.leader
        assert leader is not None
        if leader.restores != len(self.server.restored):
            return
        for sink in leader.sinks:
            for name, events in self.server.events.items():
                informer = leader.outbox.ledger._appender.informers[name, Scope()]
                point = after.of(sink, informer.key)
                if point is None or point.epoch != informer.epoch:
                    continue
                for event in events:
                    step = Step(name, event.version, event.history)
                    if event.version <= int(point.version):
                        assert self.need_not(self.heard[sink], step), f"{sink} has not got {step}, and is said to"

    def need_not(self, heard: Heard, step: Step) -> bool:
        if step in heard.settled or step in heard.excused:
            return True
        return step not in heard.earlier and (heard.begun is None or step.version <= heard.begun)

    def i3_it_never_goes_back(self, before: Frontier, after: Frontier) -> None:
        """Nor to an earlier epoch than the leader is in. One that has begun fewer epochs cannot compare points."""
        assert self.leader is not None
        epochs = {each.key: each.epoch for each in self.leader.outbox.ledger._appender.informers.values()}
        assert after.sequence >= before.sequence
        if self.leader.standby.others.restored:
            return
        for sink in after.sinks.keys() & before.sinks.keys():
            for informer in before.informers:
                was, now = before.of(sink, informer), after.of(sink, informer)
                if was is not None and (was.epoch != epochs[informer] or (now is not None and now.epoch > was.epoch)):
                    continue
                assert was is None or (now is not None and now.covers(was)), "the frontier went back"

    def i4_an_object_is_in_order(self, heard: Heard, key: Key, version: tuple[int, int], found_gone: bool) -> None:
        newest = heard.in_term.get(key, (0, 0))
        assert version >= newest
        # A delete that a list shows has the last known version, in the first list of an epoch that of an earlier one.
        heard.in_term[key] = max(newest, (version[0], 0)) if found_gone else version

    def i4_nothing_is_missing(self, sink: str) -> None:
        heard, steps = self.heard[sink], self.server.steps()
        if (begun := heard.begun) is None:
            return
        due = {each for each in steps if each.version > begun or each in heard.earlier}
        assert due <= heard.steps | heard.settled | heard.excused
        state = self.server.states()
        unsure = heard.unsure | heard.rejected
        if sink == NEW:  # Of objects that did not change since it began, it has nothing.
            unsure |= {key for key, (_, version) in state.items() if int(version) <= begun}
        known = {key: each for key, each in heard.state.items() if key not in unsure}
        assert known == {key: each for key, each in state.items() if key not in unsure}

    def i6_terms_and_numbers_ascend(self, heard: Heard, leaving: Record) -> None:
        assert leaving.term == self.term
        if isinstance(leaving, Snapshot) and leaving.edge is not SnapshotEdge.BEGAN:
            return  # All records of a snapshot have one number, and a full backlog puts others in between.
        assert leaving.sequence >= heard.last
        if not (isinstance(leaving, Delta) and leaving.snapshot):
            heard.last = leaving.sequence
        heard.largest = max(heard.largest, leaving.sequence)

    def i7_equal_changes_have_equal_ids(self, heard: Heard, delta: Delta) -> None:
        content = delta.body
        assert heard.contents.setdefault(delta.unique_id, content) == content, f"{delta.unique_id} was used twice"
        if self.enabled.isdisjoint({LISTS, RESTORES, COMPACTIONS, DROPS, SNAPSHOTS, COPIES, DISKS}):
            identity = (delta.resource.name, delta.resource_version, delta.op is Op.DELETED)
            assert heard.ids.setdefault(identity, delta.unique_id) == delta.unique_id

    @invariant()
    def nobody_sees_a_restore_that_was_none(self) -> None:
        assert self.restored or not any(member.standby.others.restored for member in self.members)

    @invariant()
    def a_standby_keeps_what_nobody_has_settled(self) -> None:
        for member in self.members:
            for cursor in member.outbox.sinks.all:
                assert member.outbox.first - 1 <= cursor.holds
                assert cursor.settled <= member.outbox.last


class ElectionWithoutLists(Election):
    """Replicas whose watches never break: no step may be missing, and all ids are the same."""

    features = (LETTERS, NEWS)


TestElection = Election.TestCase
TestElectionWithoutLists = ElectionWithoutLists.TestCase
TestElection.settings = TestElectionWithoutLists.settings = examples(
    12,
    stateful_step_count=50,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
)
