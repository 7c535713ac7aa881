"""One proof for all informers of a server. In virtual time, on a simulated cluster."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Collection
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest

from bridge.informer import SharedInformerFactory, Timing
from bridge.informer.history.history import Part
from bridge.informer.history.proof import OtherHistory
from bridge.model.answers import (
    Busy,
    Expired,
    Failed,
    HungUp,
    ListAnswer,
    ListRequest,
    Match,
    Refused,
    Silent,
    TakePart,
    TooLarge,
    Unsupported,
)
from bridge.model.change import Change, ChangeBatch, ObjectVersion
from bridge.model.primitives.packing import pack
from bridge.model.record import Delta
from bridge.model.resource import Resource, Scope
from bridge.model.versions import Checkpoint, VersionTable
from bridge.telemetry.facts import Fact
from bridge.telemetry.facts.informer import HistoryChecked, ListCompleted, VersionsRanBackwards
from tests.kit.model_ledger import ModelLedger
from tests.kit.records import PODS
from tests.kit.simulated_cluster import SimulatedCluster

MAPS = Resource("", "v1", "configmaps", "ConfigMap", True)
JOBS = Resource("batch", "v1", "jobs", "Job", True)
BROKE = HungUp("the connection broke", torn=True)


class Stubborn(SimulatedCluster):
    """Answers proofs as the test sets it up."""

    def __init__(self) -> None:
        super().__init__()
        self.exact: ListAnswer | None = None
        self.plain: ListAnswer | None = None
        self.all: ListAnswer | None = None
        self.away: ListAnswer | None = None
        """The answer to every list, proof or not."""

    async def list(self, request: ListRequest, take: TakePart | None = None) -> ListAnswer:
        if self.away is not None:
            await asyncio.sleep(self.latency)
            return self.away
        is_proof = request.limit == 1 or request.only is not None
        answer = self.all or (self.exact if request.match is Match.EXACT else self.plain if request.only else None)
        if is_proof and answer is not None:
            self.proofs.append(request)
            return answer
        return await super().list(request, take)


@dataclass
class World:
    """Three resources that have one counter of versions each; what is known of each of them is in a ledger."""

    clusters: dict[str, Stubborn] = field(default_factory=dict)
    ledgers: dict[str, ModelLedger] = field(default_factory=dict)
    facts: list[Fact] = field(default_factory=list)
    discarded: list[tuple[list[str], bool]] = field(default_factory=list)
    batches: list[ChangeBatch] = field(default_factory=list)
    held_up: tuple[str, asyncio.Event] = ("", asyncio.Event())
    """A resource, and the event that its batches wait for."""

    def __post_init__(self) -> None:
        for number, resource in enumerate((PODS, MAPS, JOBS)):
            cluster = self.clusters[resource.name] = Stubborn()
            self.ledgers[resource.name] = ModelLedger()
            for turn in range(2 + 5 * number):
                cluster.put(f"web-{turn % 3}")

    async def deliver(self, batch: ChangeBatch) -> list[Delta]:
        resource, until = self.held_up
        if batch.resource.name == resource:
            await until.wait()
        self.batches.append(batch)
        return self.ledgers[batch.resource.name].commit(batch)

    async def discard_positions(self, parts: Collection[Part], restored: bool) -> None:
        self.discarded.append((sorted(resource.name for resource, _ in parts), restored))

    @asynccontextmanager
    async def running(self, *resources: Resource) -> AsyncGenerator[SharedInformerFactory]:
        self.facts.clear()
        async with SharedInformerFactory(
            lambda resource, _: self.clusters[resource.name],
            deliver=self.deliver,
            report=self.facts.append,
            watch_list=False,
            timing=Timing(watch_timeout=(600, 600)),
            discard_positions=self.discard_positions,
            indexers={},
        ) as factory:
            for resource in resources or (PODS, MAPS, JOBS):
                factory.informer(resource, Scope())
            await factory.start().wait_synced(30)
            await asyncio.sleep(1)
            yield factory
            await factory.stop()

    def break_off(self, *resources: Resource) -> None:
        for resource in resources or (PODS, MAPS, JOBS):
            self.clusters[resource.name].end_watches(BROKE)

    def changes(self, resource: Resource) -> list[Change]:
        return [change for batch in self.batches if batch.resource == resource for change in batch.changes]

    @property
    def proofs(self) -> list[ListRequest]:
        return [request for cluster in self.clusters.values() for request in cluster.proofs]

    @property
    def outcomes(self) -> list[str]:
        return [fact.outcome for fact in self.facts if isinstance(fact, HistoryChecked)]

    def relisted(self) -> list[str]:
        return [fact.resource.name for fact in self.facts if isinstance(fact, ListCompleted) and fact.relist]

    def epochs(self) -> list[str]:
        return sorted(fact.resource.name for fact in self.facts if isinstance(fact, VersionsRanBackwards))


async def test_watches_that_break_together_share_one_proof() -> None:
    world = World()
    async with world.running() as factory:
        world.break_off()
        await asyncio.sleep(1)

        assert all(informer.live for informer in factory.informers)
    assert world.outcomes == ["same"]
    newest = world.clusters["jobs.batch"]
    key = max(newest.objects.values(), key=lambda thing: int(thing.resource_version)).key
    assert world.proofs == newest.proofs
    assert newest.proofs == [
        ListRequest(version="", limit=1),
        ListRequest(version=str(newest.version), limit=0, match=Match.EXACT, only=key),
    ]
    assert world.relisted() == []


async def test_a_watch_that_breaks_after_the_proof_makes_another() -> None:
    world = World()
    async with world.running():
        world.break_off(PODS)
        await asyncio.sleep(1)
        world.break_off(MAPS)
        await asyncio.sleep(1)

    assert world.outcomes == ["same", "same"]


async def test_a_proof_expires_for_a_watch_that_was_held_up_a_minute() -> None:
    """Its batch waited for room in the backlog. The watch would begin where the store may be another one by now."""
    world = World()
    blocked = asyncio.Event()
    async with world.running() as factory:
        pods = world.clusters["pods"]
        world.held_up = "pods", blocked
        pods.put("web-0")
        await asyncio.sleep(1)
        world.break_off()
        await asyncio.sleep(60)
        assert [informer.live for informer in factory.informers] == [False, True, True]
        blocked.set()
        await asyncio.sleep(1)

        assert all(informer.live for informer in factory.informers)
    assert world.outcomes == ["same", "same"]


async def test_first_lists_and_timed_out_watches_need_no_proof() -> None:
    world = World()
    async with world.running():
        for _ in range(2):
            await asyncio.sleep(600)
            for cluster in world.clusters.values():
                cluster.end_watches(HungUp("the stream ended"))

    assert world.proofs == []


@pytest.mark.parametrize(
    ("after", "end"),
    [
        (30, HungUp("the stream ended")),
        (600, HungUp("the connection broke", torn=True)),
        (700, HungUp("the server did not end the watch")),
        (30, Silent(90)),
        (30, Failed("500")),
        (30, Expired("410")),
    ],
)
async def test_however_else_a_watch_ends_its_history_is_proven(
    after: float, end: HungUp | Silent | Failed | Expired
) -> None:
    world = World()
    async with world.running(PODS):
        await asyncio.sleep(after)
        world.clusters["pods"].end_watches(end)
        await asyncio.sleep(60)

    assert world.outcomes == ["same"]


def restore(cluster: SimulatedCluster, undone: int, then: int) -> None:
    """Back by so many writes, and then on by as many."""
    goes_another_way(cluster, sorted(cluster.states)[-1 - undone], *(f"web-{turn % 2}" for turn in range(then)))


def goes_another_way(cluster: SimulatedCluster, since: int, *names: str) -> None:
    """Restored to a version; then these are written."""
    cluster.restore(since)
    for name in names:
        cluster.put(name)


@pytest.mark.parametrize("then", [0, 4, 40], ids=["older", "as new", "newer"])
async def test_a_new_history_is_one_for_all_and_each_lists_in_an_epoch(then: int) -> None:
    world = World()
    async with world.running() as factory:
        restore(world.clusters["jobs.batch"], 4, then)
        await asyncio.sleep(1)

        assert all(informer.live for informer in factory.informers)
    assert world.outcomes == ["other"]
    assert world.epochs() == sorted(world.relisted()) == ["configmaps", "jobs.batch", "pods"]
    assert world.discarded == [(["configmaps", "jobs.batch", "pods"], True)], "durably, before any of them goes on"
    assert {batch.epoch for batch in world.batches if batch.resource == JOBS} == {1, 2}
    state = {change.object.key: change.object.resource_version for change in world.changes(JOBS)}
    present = {key: thing.resource_version for key, thing in world.clusters["jobs.batch"].objects.items()}
    assert {key: state[key] for key in present} == present


async def test_waiters_for_the_proof_of_a_new_history_begin_one_epoch() -> None:
    """Watches break one after the other, and a proof takes a moment: what those who wait know is of the old history
    still, and would prove the new one to be another once more."""
    world = World()
    async with world.running() as factory:
        world.clusters["jobs.batch"].latency = 0.4
        restore(world.clusters["jobs.batch"], 4, 0)
        await asyncio.sleep(0.2)
        restore(world.clusters["configmaps"], 4, 0)
        await asyncio.sleep(10)

        assert all(informer.live for informer in factory.informers)
    assert world.epochs() == ["configmaps", "jobs.batch", "pods"]
    assert world.discarded == [(["configmaps", "jobs.batch", "pods"], True)]


async def test_the_same_version_with_another_state_is_another_history() -> None:
    """One object alone changes all the time: it is the newest in both, and at the same version."""
    world = World()
    cluster = world.clusters["jobs.batch"]
    for _ in range(4):
        cluster.put("busy")
    async with world.running(JOBS):
        version = cluster.objects["shop/busy"].resource_version
        goes_another_way(cluster, cluster.version - 3, *["busy"] * 9)
        assert version in {thing.resource_version for state in cluster.states.values() for thing in state.values()}
        await asyncio.sleep(1)

    assert world.outcomes == ["other"]


async def test_with_only_deletes_known_the_newest_of_them_is_examined() -> None:
    world = World()
    cluster = world.clusters["jobs.batch"]
    async with world.running(JOBS) as factory:
        there = cluster.version
        for number in range(3):
            cluster.put(f"fleeting-{number}")
            cluster.delete(f"fleeting-{number}")
        await asyncio.sleep(1)
        world.break_off(JOBS)
        await asyncio.sleep(1)
        assert world.outcomes == ["same"]

        goes_another_way(cluster, there, *["anew"] * 9)
        await asyncio.sleep(1)
        [jobs] = factory.informers
        assert jobs.indexer.known("shop/anew") is not None
    assert world.outcomes == ["same", "other"]


@pytest.mark.parametrize(
    ("names", "exact"),
    [
        (["web-1"] * 5, Expired("compacted")),
        (["web-0", *["web-1"] * 5], None),
        (["web-0", *["web-0"] * 5], None),
    ],
    ids=["back as it was", "at the version of its delete", "at the version of its delete, and changed since"],
)
async def test_a_deleted_object_that_is_back_is_a_new_history(names: list[str], exact: ListAnswer | None) -> None:
    """Servers that announce a delete with the object's own version do not have it afterwards."""
    world = World()
    cluster = world.clusters["pods"]
    async with world.running(PODS):
        there = cluster.version
        cluster.delete("web-0")
        await asyncio.sleep(1)
        goes_another_way(cluster, there, *names)
        cluster.exact = exact
        await asyncio.sleep(1)

    assert world.outcomes == ["other"]


async def test_a_delete_of_a_forgotten_version_leaves_proof_to_objects() -> None:
    world = World()
    cluster = world.clusters["jobs.batch"]
    async with world.running(JOBS):
        cluster.delete("web-0")
        await asyncio.sleep(1)
        cluster.exact = Expired("compacted")
        world.break_off(JOBS)
        await asyncio.sleep(1)

    assert world.outcomes == ["same"]


@pytest.mark.parametrize("failure", [Refused(403, "forbidden"), Failed("500: conversion webhook failed")], ids=str)
async def test_an_informer_that_cannot_ask_now_leaves_proof_to_others(failure: ListAnswer) -> None:
    """A backup may be newer than that, and older than what is known to who cannot be asked."""
    world = World()
    async with world.running() as factory:
        cluster = world.clusters["jobs.batch"]
        cluster.all = failure
        world.break_off()
        await asyncio.sleep(1)
        assert all(informer.live for informer in factory.informers)
        assert (world.outcomes, world.epochs()) == (["unknown"], [])

        for _ in range(20):
            world.clusters["configmaps"].put("web-0")
        await asyncio.sleep(1)
        world.break_off()
        await asyncio.sleep(1)
        assert all(informer.live for informer in factory.informers)
    assert world.outcomes == ["unknown", "same"], "others know more by now"


AWAY: list[ListAnswer] = [
    Refused(403, "forbidden"),
    Refused(404, "not found"),
    Failed("500: conversion webhook failed"),
    Failed("503: the group's server is away"),
    Busy("429"),
    Busy("429", 1.0),
    TooLarge("504"),
]


@pytest.mark.parametrize("away", AWAY, ids=str)
async def test_a_resource_that_cannot_be_listed_holds_up_no_empty_one(away: ListAnswer) -> None:
    """Nobody else has an object that proves the history: it is listed under suspicion."""
    world = World()
    maps = world.clusters["configmaps"] = Stubborn()
    async with world.running(MAPS, JOBS) as factory:
        world.clusters["jobs.batch"].away = away
        for turn in range(3):
            world.break_off()
            maps.put(f"new-{turn}")
            await asyncio.sleep(10)
            assert {f"shop/new-{turn}" for turn in range(turn + 1)} == {
                change.object.key for change in world.changes(MAPS)
            }
        [of_maps, _] = factory.informers
        assert of_maps.live

        lists = world.relisted()
        await asyncio.sleep(1200)
        assert world.relisted() == lists, "as long as nothing breaks, nothing is listed again"
        world.clusters["jobs.batch"].away = None
        await asyncio.sleep(100)
        assert all(informer.live for informer in factory.informers)
    assert world.epochs() == []


@pytest.mark.parametrize("away", AWAY, ids=str)
@pytest.mark.parametrize("then", [0, 4, 40], ids=["older", "as new", "newer"])
async def test_a_restore_beside_an_unlistable_resource_is_noticed(away: ListAnswer, then: int) -> None:
    """By the list under suspicion, or once the resource can be listed again."""
    world = World()
    maps = world.clusters["configmaps"] = Stubborn()
    async with world.running(MAPS, JOBS) as factory:
        jobs = world.clusters["jobs.batch"]
        jobs.away = away
        restore(jobs, 4, then)
        maps.put("new")
        await asyncio.sleep(60)
        assert [change.object.key for change in world.changes(MAPS)] == ["shop/new"]
        jobs.away = None
        await asyncio.sleep(200)
        assert all(informer.live for informer in factory.informers)

    assert "jobs.batch" in world.epochs()
    state = {change.object.key: change for change in world.changes(JOBS)}
    present = {key: each.object.body for key, each in state.items() if each.op != "deleted"}
    assert present == {key: thing.body for key, thing in jobs.objects.items()}


async def test_a_delete_that_nobody_can_be_asked_about_is_no_proof() -> None:
    """Of a resource that cannot be listed: objects of others that are older do not prove its version."""
    world = World()
    jobs, pods = world.clusters["jobs.batch"], world.clusters["pods"]
    async with world.running(PODS, JOBS) as factory:
        for name in [thing.name for thing in jobs.objects.values()]:
            jobs.delete(name)
        await asyncio.sleep(1)
        jobs.away = Failed("500: conversion webhook failed")
        pods.put("web-0")
        world.break_off()
        await asyncio.sleep(10)
        assert factory.informers[0].live

    assert world.outcomes[0] == "unknown"


@pytest.mark.parametrize(("undone", "then", "outcome"), [(0, 0, "same"), (4, 40, "other"), (4, 0, "other")])
async def test_the_best_informed_is_asked_again_after_its_failure(undone: int, then: int, outcome: str) -> None:
    """Also where the server has not come as far again, and says no more than that."""
    world = World()
    cluster = world.clusters["jobs.batch"]
    async with world.running():
        if undone:
            restore(cluster, undone, then)
        cluster.next_answers.append(Failed("500"))
        world.break_off()
        await asyncio.sleep(1)

    assert world.outcomes == [outcome]


async def test_two_new_histories_before_a_list_are_two_epochs() -> None:
    """As many as the outbox counts."""
    world = World()
    async with world.running(PODS) as factory:
        [pods] = factory.informers
        pods.disproved(OtherHistory("version 7", "version 3"))
        pods.disproved(OtherHistory("version 5", "version 2"))
        await asyncio.sleep(1)
        assert pods.live

    assert [batch.epoch for batch in world.batches][-1] == 3


@pytest.mark.parametrize(
    ("failure", "least"),
    [
        (Failed("503"), 5),
        (Busy("nobody listens"), 5),
        (TooLarge("not there yet"), 5),
        (Refused(403, "forbidden"), 2),
    ],
)
async def test_without_a_proof_no_watch_opens_and_the_status_says_why(failure: ListAnswer, least: int) -> None:
    world = World()
    async with world.running(PODS) as factory:
        cluster = world.clusters["pods"]
        cluster.all = failure
        world.break_off(PODS)
        watched = len(cluster.requests)
        await asyncio.sleep(300)

        [pods] = factory.informers
        assert not pods.live
        assert pods.last_error is not None
        assert "history" in pods.last_error
        assert len(cluster.requests) == watched
        assert least <= len(cluster.proofs) <= 60, "not in a busy loop"
        cluster.all = None
        await asyncio.sleep(75)
        assert pods.live
    assert set(world.outcomes) == {"failed", "same"}


# ── Where its version is forgotten ───────────────────────────────────────────


async def compacted(world: World, *, unseen: str = "") -> None:
    cluster = world.clusters["jobs.batch"]
    world.break_off()
    match unseen:
        case "changed":
            cluster.put(newest_name(cluster))
        case "deleted":
            cluster.delete(newest_name(cluster))
        case "more":
            cluster.put("another")
    cluster.exact = Expired("compacted")
    await asyncio.sleep(1)


def newest_name(cluster: SimulatedCluster) -> str:
    return max(cluster.objects.values(), key=lambda thing: int(thing.resource_version)).name


@pytest.mark.parametrize("unseen", ["", "more", "changed"])
async def test_an_object_unchanged_or_newer_is_proof_enough(unseen: str) -> None:
    world = World()
    async with world.running():
        await compacted(world, unseen=unseen)

    assert world.outcomes == ["same"]
    assert world.relisted() == []


async def test_a_missing_object_causes_a_list_and_no_epoch() -> None:
    world = World()
    async with world.running() as factory:
        await compacted(world, unseen="deleted")

        assert all(informer.live for informer in factory.informers)
    assert world.outcomes == ["unknown"]
    assert sorted(world.relisted()) == ["configmaps", "jobs.batch", "pods"]
    assert world.epochs() == []
    assert world.discarded == [(["configmaps", "jobs.batch", "pods"], False)]


async def test_an_older_one_among_the_next_newest_is_another_history() -> None:
    world = World()
    cluster = world.clusters["jobs.batch"]
    async with world.running():
        goes_another_way(cluster, sorted(cluster.states)[-4], *["web-2"] * 9)
        cluster.compact()
        await asyncio.sleep(1)

    assert world.outcomes[0] == "other"


@pytest.mark.parametrize("knows_names", [True, False])
async def test_a_server_without_exact_lists_is_compared_where_possible(knows_names: bool) -> None:
    world = World()
    async with world.running() as factory:
        cluster = world.clusters["jobs.batch"]
        cluster.exact = Unsupported("400")
        cluster.plain = None if knows_names else Unsupported("422")
        world.break_off()
        await asyncio.sleep(1)

        assert all(informer.live for informer in factory.informers)
    assert world.outcomes == (["same"] if knows_names else ["unknown"])


# ── Lists that show it ───────────────────────────────────────────────────────


async def test_an_older_object_in_a_list_begins_the_epoch_before_it() -> None:
    """The proof was taken in by what is newest, and its version was forgotten."""
    world = World()
    cluster = world.clusters["pods"]
    for name in ("a", "b", "c"):
        cluster.put(name)
    async with world.running(PODS):
        cluster.put("b")
        await asyncio.sleep(1)
        goes_another_way(cluster, cluster.version - 1, *["c"] * 5)
        cluster.exact, cluster.plain = Expired("compacted"), Unsupported("422")
        await asyncio.sleep(1)

    assert world.outcomes == ["unknown"]
    assert world.epochs() == ["pods"]
    delivered = [(batch.epoch, change.op, change.object.name) for batch in world.batches for change in batch.changes]
    assert [each for each in delivered if each[2] == "b"][-1] == (2, "updated", "b")


async def test_a_deleted_object_back_under_suspicion_begins_an_epoch() -> None:
    """Its id was used before."""
    world = World()
    cluster = world.clusters["pods"]
    async with world.running(PODS):
        there = cluster.version
        cluster.delete("web-0")
        cluster.put("web-1")
        await asyncio.sleep(1)
        goes_another_way(cluster, there, *["web-1"] * 5)
        cluster.exact, cluster.plain = Expired("compacted"), Unsupported("422")
        await asyncio.sleep(1)

    delivered = [(batch.epoch, each.op, each.object.name) for batch in world.batches for each in batch.changes]
    assert [each[:2] for each in delivered if each[2] == "web-0"] == [(1, "added"), (1, "deleted"), (2, "added")]


@asynccontextmanager
async def a_slow_comparison(world: World, *, newest: str, undone: int) -> AsyncGenerator[int]:
    """The server of the pods is restored, and the comparison takes 0.4 seconds a page. Yields the version before the
    write of ``newest``; the restore undoes that write, and ``undone`` versions before it."""
    cluster = world.clusters["pods"]
    for name in ("a", "b", "c", "d", "e"):
        cluster.put(name)
    async with world.running(PODS):
        there = cluster.version
        cluster.put(newest)
        await asyncio.sleep(1)
        cluster.latency = 0.4
        cluster.restore(there - undone)
        yield there


async def test_a_broken_comparison_restarts_in_the_newest_history() -> None:
    """Nothing that is known can prove anything until it was compared."""
    world = World()
    cluster = world.clusters["pods"]
    async with a_slow_comparison(world, newest="a", undone=0) as there:
        await asyncio.sleep(1)
        asked = cluster.requests[-1]
        assert isinstance(asked, ListRequest)
        assert asked.next_page is not None, "the second page is under way"
        goes_another_way(cluster, there - 2, "a", "b", "web-0")
        cluster.next_answers.append(Failed("the connection broke"))
        await asyncio.sleep(60)

    delivered = {change.object.key: change.object.body for batch in world.batches for change in batch.changes}
    assert delivered == {key: thing.body for key, thing in cluster.objects.items()} | {
        key: body for key, body in delivered.items() if key not in cluster.objects
    }


async def test_a_broken_comparison_of_an_epoch_begins_another_epoch() -> None:
    """The exported part of its list and the next list may be of two histories."""
    world = World()
    cluster = world.clusters["pods"]
    async with a_slow_comparison(world, newest="e", undone=5) as there:
        cluster.put("a")
        await asyncio.sleep(1.2)
        assert {batch.epoch for batch in world.batches} == {1, 2}, "a part of the list is exported"
        goes_another_way(cluster, there - 5, "b")
        cluster.next_answers.append(Failed("the connection broke"))
        await asyncio.sleep(60)

    assert world.discarded[-1] == (["pods"], True)
    contents = {
        (batch.epoch, each.object.uid, each.object.resource_version, each.op, each.object.body)
        for batch in world.batches
        for each in batch.changes
    }
    assert len(contents) == len({each[:4] for each in contents}), "no id is used for two contents"


async def test_a_restore_between_the_proof_and_the_watch_is_noticed() -> None:
    world = World()
    cluster = world.clusters["pods"]
    async with world.running(PODS):
        there = cluster.version
        cluster.put("web-0")
        await asyncio.sleep(1)
        cluster.latency = 0.4
        world.break_off(PODS)
        await asyncio.sleep(1)
        assert world.outcomes == ["same"], "the request for a watch is under way"
        goes_another_way(cluster, there, *["web-1"] * 3)
        await asyncio.sleep(60)

    assert world.outcomes[:2] == ["same", "other"]
    assert world.epochs() == ["pods"]


@pytest.mark.parametrize(("plain", "outcome"), [(None, "other"), (Unsupported("422"), "unknown")])
async def test_another_state_of_a_forgotten_version_begins_an_epoch(plain: ListAnswer | None, outcome: str) -> None:
    """Without a list by name, the list that compares everything shows the other state."""
    world = World()
    cluster = world.clusters["pods"]
    for _ in range(4):
        cluster.put("busy")
    async with world.running(PODS):
        goes_another_way(cluster, cluster.version - 3, *["busy"] * 3)
        cluster.exact, cluster.plain = Expired("compacted"), plain
        await asyncio.sleep(10)

    assert world.outcomes[0] == outcome
    assert world.epochs() == ["pods"]


# ── Who comes and goes ───────────────────────────────────────────────────────


async def test_a_late_informer_from_before_a_restore_begins_it_too() -> None:
    world = World()
    async with world.running(JOBS) as factory:
        restore(world.clusters["jobs.batch"], 4, 40)
        await asyncio.sleep(1)
        for _ in range(2):  # The second time, it is of the history of now.
            pods = factory.informer(PODS, Scope(), everything(world.clusters["pods"]))
            factory.start()
            await asyncio.sleep(1)
            assert pods.live
            await factory.release(pods)

    assert world.epochs() == ["jobs.batch", "pods"]


def everything(cluster: SimulatedCluster) -> Checkpoint:
    known = {
        key: ObjectVersion(each.uid, each.resource_version, pack(each.body)) for key, each in cluster.objects.items()
    }
    return Checkpoint(VersionTable(known), str(cluster.version), str(cluster.version))


async def test_an_object_that_is_not_served_where_it_was_blocks_nobody() -> None:
    """Its definition came back with another scope, while its collection is there."""
    world = World()
    async with world.running(PODS) as factory:
        cluster = world.clusters["pods"]
        cluster.exact = Refused(404, "not found")
        world.break_off()
        await asyncio.sleep(1)

        assert all(informer.live for informer in factory.informers)
    assert world.outcomes == ["unknown"]
