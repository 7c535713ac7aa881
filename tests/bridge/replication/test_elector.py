from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from bridge.model.answers import Busy, Refused
from bridge.model.policies import LeaseTiming
from bridge.replication.deciding import Ended, Following, Leading, Rules, SteppingDown
from bridge.replication.elector import Elector, Tenure
from bridge.replication.lease import PUBLISHED, TERM, Lease, Published
from bridge.telemetry.facts import Fact
from bridge.telemetry.facts.election import (
    LeaderChanged,
    LeadershipBegan,
    LeadershipLost,
    LeadershipReleased,
    LeaseFailed,
    LeaseRenewed,
    LeaseTaken,
)
from tests.bridge.replication.lease_store import FakeLeaseApi, LeaseStore
from tests.kit.virtual_time import run_in_virtual_time

PERIOD = LeaseTiming().retry_period


class FakeDuties:
    """Counts, and flushes for ``flush`` seconds."""

    def __init__(self) -> None:
        self.tenures: list[Tenure] = []
        self.working = False
        self.began: list[float] = []
        self.ended: list[float] = []
        self.says = "first"
        self.seen: list[str] = []
        self.in_sync = True
        self.flush = 0.0
        self.cleaning = 0.0
        self.remembered: list[str] = []

    async def lead(self, tenure: Tenure, took_over: Callable[[], None]) -> None:
        now = asyncio.get_running_loop().time
        self.tenures.append(tenure)
        self.began.append(now())
        self.working = True
        try:
            await asyncio.sleep(0.01)
            tenure.published = self._published()
            took_over()
            await tenure.ending.wait()
            await asyncio.sleep(self.flush)
        finally:
            self.working = False
            self.ended.append(now())
            await asyncio.sleep(self.cleaning)

    def say(self, what: str) -> None:
        """It publishes this, in place of an address."""
        self.says = what
        if self.tenures:
            self.tenures[-1].published = self._published()

    def _published(self) -> Published:
        return Published(leader="leader", term=1, address=self.says)

    def observed(self, lease: Lease | None) -> None:
        said = "" if lease is None or lease.published is None else lease.published.address
        if self.seen[-1:] != [said]:
            self.seen.append(said)

    def is_in_sync(self, published: Published) -> bool:
        return self.in_sync

    async def remember(self, identity: str) -> None:
        self.remembered.append(identity)


def said(store: LeaseStore) -> str:
    return str(json.loads(store.annotation(PUBLISHED))["address"])


def before(replica: Replica) -> str:
    """What the leader before had said when this replica took over."""
    found = replica.duties.tenures[0].before
    return "" if found is None else found.address


class Replica:
    def __init__(self, store: LeaseStore, identity: str, *, predecessor: str = "", highest_term: int = 0) -> None:
        self.api = FakeLeaseApi(store)
        self.duties = FakeDuties()
        self.facts: list[Fact] = []
        self.elector = Elector(
            self.api,
            self.duties,
            Rules(identity, LeaseTiming(), predecessor),
            namespace="apps",
            name="kubedelta",
            highest_term=highest_term,
            report=self.facts.append,
            jitter=lambda: 0.5,
        )
        self.task: asyncio.Task[None] | None = None

    def start(self, tasks: asyncio.TaskGroup) -> None:
        self.task = tasks.create_task(self.elector.run())

    async def lead(self, tasks: asyncio.TaskGroup) -> None:
        self.start(tasks)
        await until(self.leads)

    def leads(self) -> bool:
        return isinstance(self.elector.state, Leading)

    async def kill(self) -> None:
        assert self.task is not None
        self.task.cancel()
        await asyncio.wait([self.task])

    def reported(self, kind: type[Fact]) -> list[Any]:
        return [each for each in self.facts if isinstance(each, kind)]


def now() -> float:
    return asyncio.get_running_loop().time()


async def until(holds: Callable[[], bool], most: float = 120.0) -> float:
    """Seconds that passed, to the hundredth."""
    began = now()
    while not holds():
        assert now() - began < most
        await asyncio.sleep(0.005)
    return round(now() - began, 2)


class Over(Exception):
    pass


def story(run: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """A test in virtual time, of a function of a TaskGroup, a LeaseStore and the test's parameters. Tasks that still
    run at its end are cancelled."""

    async def main(parameters: dict[str, Any]) -> None:
        async with asyncio.TaskGroup() as tasks:
            await run(tasks, LeaseStore(), **parameters)
            raise Over

    def test(**parameters: Any) -> None:
        try:
            run_in_virtual_time(main(parameters))
        except BaseExceptionGroup as group:
            _, others = group.split(Over)
            if others is not None:
                raise others from None

    _, _, *rest = inspect.signature(run).parameters.values()
    test.__signature__ = inspect.Signature(rest)  # type: ignore[attr-defined]  # pytest asks for the parameters in it.
    test.__doc__ = run.__doc__
    return test


async def a_leader(tasks: asyncio.TaskGroup, store: LeaseStore) -> Replica:
    a = Replica(store, "a")
    await a.lead(tasks)
    return a


async def leader_and_standby(tasks: asyncio.TaskGroup, store: LeaseStore) -> tuple[Replica, Replica]:
    """The standby runs from now on."""
    a, b = await a_leader(tasks, store), Replica(store, "b")
    b.start(tasks)
    return a, b


@story
async def test_the_first_replica_waits_out_a_deleted_lease(tasks: asyncio.TaskGroup, store: LeaseStore) -> None:
    """Nobody can see whether a leader is left whose Lease was deleted a moment ago."""
    a = Replica(store, "a")
    a.start(tasks)
    assert 15.0 <= await until(a.leads) < 16.0
    assert (store.holder, store.annotation(TERM)) == ("a", "1")
    assert set(a.duties.remembered) == {"a"}
    assert [type(each) for each in a.facts[:3]] == [LeaderChanged, LeaseTaken, LeadershipBegan]


@story
async def test_a_standby_takes_over_when_a_leader_is_killed(tasks: asyncio.TaskGroup, store: LeaseStore) -> None:
    a, b = await leader_and_standby(tasks, store)
    await asyncio.sleep(20)
    assert isinstance(b.elector.state, Following)
    await a.kill()

    assert 12.9 < await until(b.leads) < 15.5

    assert (store.holder, store.annotation(TERM)) == ("b", "2")
    assert before(b) == "first"
    assert b.duties.tenures[0].clean
    assert b.reported(LeaderChanged) == [LeaderChanged("a", 1)]


@story
async def test_a_release_hands_over_at_once_after_the_last_delivery(
    tasks: asyncio.TaskGroup, store: LeaseStore
) -> None:
    a, b = await leader_and_standby(tasks, store)
    await asyncio.sleep(30.7)
    a.duties.flush = 5.0
    a.elector.stop()
    await asyncio.sleep(4)
    a.duties.say("last")
    assert isinstance(b.elector.state, Following)

    assert await until(lambda: b.duties.working) < 1.2

    assert b.duties.began[0] > a.duties.ended[0]
    assert before(b) == "last"
    assert isinstance(a.elector.state, Ended)
    assert a.task is not None
    await a.task
    assert a.reported(LeadershipReleased) == [LeadershipReleased(1)]
    assert a.reported(LeadershipLost) == []


@pytest.mark.parametrize("flush", [0.0, 0.3, PERIOD + 0.3])
@story
async def test_a_renewal_under_way_does_not_stand_for_the_release(
    tasks: asyncio.TaskGroup, store: LeaseStore, flush: float
) -> None:
    a, b = await leader_and_standby(tasks, store)
    await asyncio.sleep(30)
    a.api.delay, a.duties.flush = 0.5, flush
    before = len(a.api.requests)
    await until(lambda: len(a.api.requests) > before)
    a.elector.stop()

    assert await until(lambda: b.duties.working) < flush + 3

    assert a.task is not None
    await a.task
    assert a.reported(LeadershipReleased) == [LeadershipReleased(1)]
    assert b.duties.began[0] > a.duties.ended[0]


@story
async def test_a_renewal_that_begins_later_confirms_the_lease(tasks: asyncio.TaskGroup, store: LeaseStore) -> None:
    a = await a_leader(tasks, store)
    await asyncio.sleep(20.5)
    [tenure] = a.duties.tenures
    asked = tasks.create_task(tenure.confirmed())
    assert await until(asked.done) < 0.1

    a.api.reachable = False
    lost = tasks.create_task(tenure.confirmed())
    await asyncio.sleep(60)
    assert not lost.done(), "no renewal, no confirmation: the deadline ends the work"
    assert not a.duties.working
    lost.cancel()


@story
async def test_a_lost_answer_costs_nothing(tasks: asyncio.TaskGroup, store: LeaseStore) -> None:
    a = Replica(store, "a")
    a.api.lose_answers = 1
    await a.lead(tasks)
    assert store.annotation(TERM) == "2"  # The first may be in use.
    for _ in range(10):
        a.api.lose_answers = 1
        await asyncio.sleep(7)
    assert len(a.duties.tenures) == 1
    assert a.duties.working
    assert len(a.reported(LeaseFailed)) == 11


@story
async def test_work_is_cancelled_at_the_deadline_and_comes_back(tasks: asyncio.TaskGroup, store: LeaseStore) -> None:
    """Measured from the start of the last renewal that succeeded."""
    a = await a_leader(tasks, store)
    renewals = len(a.reported(LeaseRenewed))
    await until(lambda: len(a.reported(LeaseRenewed)) > renewals)
    last = now()
    a.api.reachable = False
    a.duties.say("late")
    await until(lambda: not a.duties.working)
    assert 9.9 < now() - last < 10.01
    assert not a.duties.tenures[0].is_valid
    assert a.reported(LeadershipLost) == [LeadershipLost(1, "it could not be renewed within renew_deadline (10 s)")]
    await asyncio.sleep(60)
    assert not a.duties.working
    assert said(store) != "late"
    a.api.reachable = True
    assert await until(lambda: a.duties.working) < 6.0
    assert [tenure.term for tenure in a.duties.tenures] == [1, 2]


@story
async def test_after_an_outage_the_holder_comes_back_first(tasks: asyncio.TaskGroup, store: LeaseStore) -> None:
    """It has all that it delivered. The standby's time was over long ago."""
    a, b = await leader_and_standby(tasks, store)
    await asyncio.sleep(30)
    a.api.reachable = b.api.reachable = False
    await asyncio.sleep(60)
    assert not a.duties.working
    b.api.reachable = True
    await asyncio.sleep(6.0)  # Until then, a request over a dead connection may hold the holder up.
    a.api.reachable = True
    await until(lambda: a.duties.working)
    await asyncio.sleep(30)
    assert (len(a.duties.tenures), b.duties.tenures) == (2, [])


@story
async def test_a_holder_that_died_in_an_outage_is_not_waited_for(tasks: asyncio.TaskGroup, store: LeaseStore) -> None:
    a, b = await leader_and_standby(tasks, store)
    await asyncio.sleep(30)
    b.api.reachable = False
    await a.kill()
    await asyncio.sleep(60)
    b.api.reachable = True
    assert await until(b.leads) < 11.0


@pytest.mark.parametrize("failure", [Busy("429", 1.0), Refused(403, "403 Forbidden")], ids=["busy", "refused"])
@story
async def test_single_failures_are_repeated(
    tasks: asyncio.TaskGroup, store: LeaseStore, failure: Busy | Refused
) -> None:
    a = await a_leader(tasks, store)
    failures = 2
    a.api.fail = lambda verb: failure if verb == "update" and len(a.reported(LeaseFailed)) < failures else None
    await asyncio.sleep(30)
    assert len(a.duties.tenures) == 1
    assert (
        a.reported(LeaseFailed)
        == [LeaseFailed("update", "apps/kubedelta", failure.reason, isinstance(failure, Refused))] * failures
    )


@story
async def test_a_slow_answer_costs_the_lease_beyond_the_deadline(tasks: asyncio.TaskGroup, store: LeaseStore) -> None:
    a = await a_leader(tasks, store)
    a.api.delay = 2.0
    await asyncio.sleep(120)
    assert len(a.duties.tenures) == 1
    a.api.delay = 6.0  # Beyond the patience for one request.
    await until(lambda: not a.duties.working)
    await asyncio.sleep(60)
    assert len(a.duties.tenures) == 1


@story
async def test_a_deleted_lease_is_made_anew_by_its_holder(tasks: asyncio.TaskGroup, store: LeaseStore) -> None:
    a, b = await leader_and_standby(tasks, store)
    for watchable, seconds in ((True, 0.1), (False, PERIOD + 0.1)):
        a.api.watchable = watchable
        await asyncio.sleep(5)
        store.delete()
        assert await until(lambda: store.holder == "a") < seconds
        assert said(store) == "first"
    await asyncio.sleep(60)
    assert (len(a.duties.tenures), b.duties.tenures) == (1, [])
    assert store.annotation(TERM) == "1"


@story
async def test_terms_survive_a_deleted_lease(tasks: asyncio.TaskGroup, store: LeaseStore) -> None:
    a, b = Replica(store, "a", highest_term=41), Replica(store, "b")
    await a.lead(tasks)
    b.start(tasks)
    await asyncio.sleep(5)
    await a.kill()
    store.delete()
    assert await until(b.leads) > 15
    assert b.duties.tenures[0].term == 43


@story
async def test_another_holder_ends_the_work_at_once(tasks: asyncio.TaskGroup, store: LeaseStore) -> None:
    a = await a_leader(tasks, store)
    await asyncio.sleep(PERIOD)  # The watch is open.
    a.duties.cleaning = 3.0
    assert store.body is not None
    other = {**store.body, "spec": {**store.body["spec"], "holderIdentity": "x"}}
    store.write(other)
    assert await until(lambda: not a.duties.working) < 0.1
    assert isinstance(a.elector.state, SteppingDown)
    await asyncio.sleep(3.1)
    assert isinstance(a.elector.state, Following)
    assert a.reported(LeadershipLost) == [LeadershipLost(1, "x holds it")]
    # It is taken back only after the duration of the other holder.
    assert await until(lambda: a.duties.working) > 11


@story
async def test_an_operators_annotation_costs_nothing(tasks: asyncio.TaskGroup, store: LeaseStore) -> None:
    a, b = await leader_and_standby(tasks, store)
    for number in range(200):
        await asyncio.sleep(0.37)
        store.annotate("team", str(number))
    assert len(a.duties.tenures) == 1
    # Nor does it keep a Lease alive whose holder is dead.
    await a.kill()
    died = now()
    while not b.duties.working:
        await asyncio.sleep(0.5)
        store.annotate("team", str(now()))
    assert now() - died < 16


@story
async def test_the_successor_in_a_state_directory_does_not_wait(tasks: asyncio.TaskGroup, store: LeaseStore) -> None:
    a = Replica(store, "pod_1")
    await a.lead(tasks)
    await asyncio.sleep(PERIOD + 0.1)  # It has renewed the Lease that it created.
    await a.kill()
    again = Replica(store, "pod_2", predecessor="pod_1", highest_term=1)
    again.start(tasks)
    assert await until(lambda: again.duties.working) < 0.1
    assert (again.duties.tenures[0].term, store.holder) == (2, "pod_2")


@story
async def test_a_standby_that_lacks_steps_lets_others_go_first(tasks: asyncio.TaskGroup, store: LeaseStore) -> None:
    a, b = Replica(store, "a"), Replica(store, "b")
    await a.lead(tasks)
    b.duties.in_sync = False
    b.start(tasks)
    await asyncio.sleep(5)
    a.elector.stop()
    assert 14.9 < await until(b.leads) < 19


@story
async def test_without_a_leader_a_replica_is_clean_only_at_first(tasks: asyncio.TaskGroup, store: LeaseStore) -> None:
    new, old = Replica(store, "new"), Replica(store, "old", highest_term=3)
    for each in (new, old):
        each.api.reachable = False
        each.start(tasks)
    assert not new.elector.is_clean
    for each in (new, old):
        each.api.reachable = True
    await until(lambda: isinstance(new.elector.state, Following) and isinstance(old.elector.state, Following))
    assert (new.elector.is_clean, old.elector.is_clean) == (True, False)


@story
async def test_what_a_leader_says_travels_with_each_renewal(tasks: asyncio.TaskGroup, store: LeaseStore) -> None:
    a, b = await leader_and_standby(tasks, store)
    for text in ("one", "two", "three"):
        a.duties.say(text)
        await asyncio.sleep(PERIOD + 0.1)
    assert b.duties.seen[-3:] == ["one", "two", "three"]
    a.duties.say("four")
    await a.duties.tenures[0].confirmed()
    assert said(store) == "four", "it is written at once"
    assert len(a.duties.tenures) == 1


@story
async def test_a_fresh_follower_sees_a_release_at_once(tasks: asyncio.TaskGroup, store: LeaseStore) -> None:
    """Its watch is open as soon as it has read the Lease, and not a retry period later."""
    a, b = Replica(store, "a"), Replica(store, "b")
    await a.lead(tasks)
    await asyncio.sleep(5)
    b.start(tasks)
    await until(lambda: isinstance(b.elector.state, Following))
    await asyncio.sleep(0.5)
    a.elector.stop()
    await until(lambda: isinstance(a.elector.state, Ended))

    assert await until(lambda: b.duties.working) < 0.2


@story
async def test_a_follower_without_a_watch_reads(tasks: asyncio.TaskGroup, store: LeaseStore) -> None:
    a, b = Replica(store, "a"), Replica(store, "b")
    await a.lead(tasks)
    b.api.watchable = False
    b.start(tasks)
    await asyncio.sleep(60)
    assert 15 < b.api.requests.count("get") < 25
    assert b.duties.seen[-1:] == ["first"]
    a.elector.stop()
    assert await until(lambda: b.duties.working) < 1.5 * PERIOD + 0.1


@story
async def test_a_follower_with_a_watch_reads_once(tasks: asyncio.TaskGroup, store: LeaseStore) -> None:
    _, b = await leader_and_standby(tasks, store)
    await asyncio.sleep(60)
    assert b.api.requests.count("get") <= 2


@story
async def test_two_standbys_decide_by_compare_and_swap(tasks: asyncio.TaskGroup, store: LeaseStore) -> None:
    replicas = [Replica(store, name) for name in "abc"]
    for each in replicas:
        each.start(tasks)
    await until(lambda: any(each.duties.working for each in replicas))
    for _ in range(2):
        await asyncio.sleep(10)
        assert [each.duties.working for each in replicas].count(True) == 1
        [leader] = [each for each in replicas if each.duties.working]
        leader.elector.stop()
        await until(lambda leader=leader: isinstance(leader.elector.state, Ended))  # type: ignore[misc]
        replicas.remove(leader)
        assert await until(lambda: any(each.duties.working for each in replicas)) < 0.5
    assert store.annotation(TERM) == "3"


@story
async def test_a_stop_without_the_lease_ends_at_once(tasks: asyncio.TaskGroup, store: LeaseStore) -> None:
    a = Replica(store, "a")
    a.start(tasks)
    await asyncio.sleep(1)
    a.elector.stop()
    assert await until(lambda: isinstance(a.elector.state, Ended)) < 0.1
    assert not a.duties.tenures


@story
async def test_a_stop_without_an_api_server_ends_at_the_deadline(tasks: asyncio.TaskGroup, store: LeaseStore) -> None:
    a = await a_leader(tasks, store)
    a.api.reachable = False
    a.elector.stop()
    assert await until(lambda: isinstance(a.elector.state, Ended)) < 15.1
    assert a.reported(LeadershipReleased) == []
