"""Dead letters of replicas in an election: whoever rejects what, leads and crashes, a sink has every version in the
end, and the last state of every object, once the operator has retried what the leader has got from the other replicas.

The operator keeps to the guide: retries wait until the Lease names no other replica with dead letters.
"""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import HealthCheck
from hypothesis import strategies as st
from hypothesis.stateful import rule
from msgspec.structs import replace

from bridge.model.change import Op
from bridge.model.dead_letter import NewDeadLetter
from bridge.model.record import Delta, Record
from bridge.model.resource import Resource
from bridge.model.status import PauseCause
from bridge.model.versions.held import digest_of
from bridge.outbox import SharedLetters
from bridge.pipelines.feeds import TransactionFeed
from sinks.base import is_blocked
from tests.kit.examples import examples
from tests.kit.replicated_server import Member, step_of
from tests.properties.test_exactly_once_replicas import Transactions
from tests.properties.test_standby import KEYS, LETTERS, RESOURCES, SINKS, Election

URL = "https://kubedelta:8082"


class ElectionWithLetters(Election):
    features: tuple[str, ...] = (LETTERS,)

    def has(self, *features: str) -> bool:
        return set(self.features).issuperset(features)

    @rule(
        changes=st.lists(st.tuples(st.sampled_from(RESOURCES), st.sampled_from(KEYS), st.booleans()), max_size=4),
        seen=st.lists(st.booleans(), min_size=3, max_size=3),
        sink=st.sampled_from(tuple(SINKS)),
        most=st.integers(1, 5),
        rejects=st.integers(1, 3),
        settles=st.booleans(),
    )
    def live(
        self,
        changes: list[tuple[Resource, str, bool]],
        seen: list[bool],
        sink: str,
        most: int,
        rejects: int,
        settles: bool,
    ) -> None:
        """Some replicas see the changes, and the leader delivers some."""
        for resource, key, delete in changes:
            self.server.change(resource.name, key, delete)
        for member, sees in zip(self.members, seen, strict=False):
            for resource in RESOURCES if sees else ():
                self.see(member, resource, 1000, True)
        self.deliver(sink, most, True, settles, rejects)

    def change(self, resource: Resource, key: str, delete: bool) -> None: ...

    def pause(self, sink: str, cause: PauseCause) -> None: ...

    def begin_owed(self, sink: str) -> None: ...

    def maintain(self, data: st.DataObject) -> None: ...

    def begin_delivering(self, member: Member) -> None:
        member.standby.configured.address = URL
        super().begin_delivering(member)

    @rule(most=st.integers(1, 3))
    def fetch(self, most: int) -> None:
        """So many dead letters of each replica that has some."""
        if (leader := self.leader) is None:
            return
        for name in shared(leader).wanted:
            self.fetch_from(name, most)

    def fetch_from(self, name: str, most: int) -> None:
        leader = self.leader
        assert leader is not None
        [former] = [each for each in self.members if each.name == name]
        page = self.run(shared(former).page(shared(leader).wanted[name].through))
        if page.letters:
            assert self.run(shared(leader).take(replace(page, letters=page.letters[:most]))) == ""
        elif not page.left:
            shared(leader).end(name)
            if not shared(leader).wanted:
                for sink in leader.sinks:
                    self.heard[sink].held.clear()

    @rule(sink=st.sampled_from(tuple(SINKS)))
    def retry_all(self, sink: str) -> None:
        leader, heard = self.leader, self.heard[sink]
        if leader is None or leader.standby.found is None or leader.standby.found.kept:
            return
        letters = leader.outbox.sinks.dead_letters[sink]
        heard.held -= {*map(digest_of, letters.keys)}
        self.run(letters.retry(None))
        while found := self.run(letters.next_retries(10)):
            for each in found:
                assert isinstance(each.record, Delta)
                self.arrives(sink, each.record)
            self.run(letters.delivered([each.number for each in found]))

    def retry(self, sink: str, drops: bool) -> None: ...

    def arrives(self, sink: str, delta: Delta) -> None:
        heard, key = self.heard[sink], (delta.resource.name, delta.key)
        heard.steps.add(step_of(delta))
        if delta.op is not Op.DELETED:
            heard.state[key] = (delta.uid, delta.resource_version)
        elif heard.state.get(key, ("", ""))[0] == delta.uid:
            del heard.state[key]

    @rule(data=st.data())
    def everything_arrives(self, data: st.DataObject) -> None:
        """A replica sees all changes, leads and delivers, gets all dead letters, and retries them."""
        member = self.leads_and_sees_all(data)
        for sink in member.sinks:
            self.deliver_all(member, sink)
        self.publish()
        while wanted := shared(member).wanted:
            for name in wanted:
                self.fetch_from(name, 200)
            self.publish()
            for each in self.members:
                if each is not member:
                    self.follow(each)
                    self.run(each.outbox.sinks.pause("left", PauseCause.NONE))  # Behind all transactions.
        for sink in member.sinks:
            self.retry_all(sink)
            self.deliver_all(member, sink)
            heard = self.heard[sink]
            assert {*self.server.steps()} <= heard.steps | heard.excused, "every version has arrived"
            assert heard.state == self.server.states(), "no retry has brought an older state"


class LettersInTransactions(ElectionWithLetters, Transactions):
    """Sinks that deliver in transactions. A leader may be killed behind a rejection, between a transaction of dead
    letters and its own commit, and behind dead letters that it got; each record is stored once nevertheless."""

    rejects = 0
    """See ``send``: of the delivery under way."""
    adds = True
    """The leader adds what is rejected to its dead letters."""

    def begin_delivering(self, member: Member) -> None:
        member.standby.confirm = self.confirm
        super().begin_delivering(member)
        member.standby.configured.transactional = SINKS

    async def confirm(self, *, also_ending: bool) -> None:
        assert self.leader is not None
        self.renew_lease(self.leader)

    def deliver(self, sink: str, most: int, sends: bool, settles: bool, rejects: int) -> None:
        self.rejects = rejects
        super().deliver(sink, most, sends, settles, rejects)
        self.rejects = 0

    def accepted(self, sink: str, items: Sequence[Record]) -> Sequence[Record]:
        leader, heard = self.leader, self.heard[sink]
        assert leader is not None
        letters, feed, found = leader.outbox.sinks.dead_letters[sink], leader.feeds[sink], list[Record]()
        assert isinstance(feed, TransactionFeed)
        for number, record in enumerate(items, 1):
            blocked = isinstance(record, Delta) and is_blocked(letters.keys, record, record.sequence)
            if isinstance(record, Delta) and (blocked or number == self.rejects):
                self.run(feed.name_letters([record]))
                if not (blocked or self.adds):
                    return []
                self.run(letters.add_dead_letters([NewDeadLetter(record, "rejected", blocked)]))
                heard.rejected.add(record.ordering_key)
                heard.settled.add(step_of(record))
            else:
                found.append(record)
        return found

    @rule(sink=st.sampled_from(tuple(SINKS)), most=st.integers(1, 3), killed=st.booleans())
    def retry_all(self, sink: str, most: int = 10, killed: bool = False) -> None:
        leader = self.leader
        if leader is None or leader.standby.found is None or leader.standby.found.kept or self.outstanding[sink]:
            return
        letters, feed = leader.outbox.sinks.dead_letters[sink], leader.feeds[sink]
        assert isinstance(feed, TransactionFeed)
        self.heard[sink].held -= {*map(digest_of, letters.keys)}
        self.run(letters.retry(None))
        while found := self.run(letters.next_retries(most)):
            numbers = [each.number for each in found]
            feed.hand_over_letters(found)
            self.write(feed)
            for each in found:
                assert isinstance(each.record, Delta)
                self.arrives(sink, each.record)
            if killed:
                self.crash(leader)
                return
            self.run(letters.delivered(numbers))
            feed.settle_letters()

    @rule(
        data=st.data(),
        resource=st.sampled_from(RESOURCES),
        changes=st.lists(st.tuples(st.sampled_from(KEYS), st.booleans()), min_size=1, max_size=4),
        sink=st.sampled_from(tuple(SINKS)),
        most=st.integers(1, 3),
    )
    def a_retry_is_cut_short(
        self, data: st.DataObject, resource: Resource, changes: list[tuple[str, bool]], sink: str, most: int
    ) -> None:
        """The leader is killed in it; then some replica leads, and retries all."""
        if self.leader is None:
            return
        self.change_much(resource, changes, [4])
        self.deliver(sink, 4, sends=True, settles=True, rejects=1)
        self.retry_all(sink, most, killed=True)
        self.everything_arrives(data)

    @rule(
        data=st.data(),
        resource=st.sampled_from(RESOURCES),
        changes=st.lists(st.tuples(st.sampled_from(KEYS), st.booleans()), min_size=1, max_size=4),
        sink=st.sampled_from(tuple(SINKS)),
        has_others=st.booleans(),
        adds=st.booleans(),
        returns=st.booleans(),
    )
    def a_rejection_is_cut_short(
        self,
        data: st.DataObject,
        resource: Resource,
        changes: list[tuple[str, bool]],
        sink: str,
        has_others: bool,
        adds: bool,
        returns: bool,
    ) -> None:
        """The leader is killed when the Lease names the object, perhaps before it adds the dead letter, and so is the
        next one; then some replica, or the first one again, leads, and retries all."""
        if (leader := self.leader) is None:
            return
        self.change_much(resource, changes, [4])
        if has_others:
            self.deliver(sink, 1, sends=True, settles=True, rejects=1)
        self.adds = adds
        self.deliver(sink, 4, sends=False, settles=False, rejects=1)
        self.adds = True
        self.crash(leader)
        self.take_over(self.draw(data))
        self.deliver(sink, 4, sends=True, settles=True, rejects=0)
        if returns:
            self.take_over(leader)
        self.everything_arrives(data)

    @rule(
        data=st.data(),
        resource=st.sampled_from(RESOURCES),
        key=st.sampled_from(KEYS),
        sink=st.sampled_from(tuple(SINKS)),
        publishes=st.booleans(),
    )
    def a_fetch_is_cut_short(
        self, data: st.DataObject, resource: Resource, key: str, sink: str, publishes: bool
    ) -> None:
        """The leader is killed before the Lease says what it got. The next one retries all, and gets another dead
        letter of the object. Then the killed one leads again."""
        if self.leader is None:
            return
        self.change_much(resource, [(key, False)], [4])
        self.deliver_all(self.leader, sink)
        self.change_much(resource, [(key, False)], [4])
        self.deliver(sink, 1, sends=True, settles=True, rejects=1)
        self.take_over(leader := self.draw(data))
        if publishes:
            self.publish()
        self.fetch(3)
        self.crash(leader)
        self.everything_arrives(data)
        if self.leader is not leader:
            self.change_much(resource, [(key, False)], [4])
            self.deliver(sink, 1, sends=True, settles=True, rejects=1)
            self.take_over(leader)
            self.everything_arrives(data)

    def arrives(self, sink: str, delta: Delta) -> None:
        super().arrives(sink, delta)
        self.count(sink, delta)


def shared(member: Member) -> SharedLetters:
    letters = member.outbox.election.letters
    assert letters is not None
    return letters


TestElectionWithLetters = ElectionWithLetters.TestCase
TestLettersInTransactions = LettersInTransactions.TestCase
TestElectionWithLetters.settings = TestLettersInTransactions.settings = examples(
    8, stateful_step_count=40, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
