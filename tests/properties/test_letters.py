"""Dead letters of replicas in an election: whoever rejects what, leads and crashes, a sink has every version in the
end, and the last state of every object, once the operator has retried what the leader has got from the other replicas.

The operator keeps to the guide: retries wait until the Lease names no other replica with dead letters.
"""

from __future__ import annotations

from hypothesis import HealthCheck
from hypothesis import strategies as st
from hypothesis.stateful import rule
from msgspec.structs import replace

from bridge.model.change import Op
from bridge.model.record import Delta
from bridge.model.resource import Resource
from bridge.model.status import PauseCause
from bridge.model.versions.held import digest_of
from bridge.outbox import SharedLetters
from tests.kit.examples import examples
from tests.kit.replicated_server import Member, step_of
from tests.properties.test_standby import KEYS, LETTERS, RESOURCES, SINKS, Election

URL = "https://kubedelta:8082"


class ElectionWithLetters(Election):
    features = (LETTERS,)

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

    @rule()
    def publish(self) -> None:
        if self.leader is not None:
            self.leader.standby.address = URL
        super().publish()

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


def shared(member: Member) -> SharedLetters:
    letters = member.outbox.election.letters
    assert letters is not None
    return letters


TestElectionWithLetters = ElectionWithLetters.TestCase
TestElectionWithLetters.settings = examples(
    8, stateful_step_count=40, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
