"""One informer, from start to stop: lists, watches, comparison, delivery. On a simulated cluster, in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest

from bridge.informer.indexer import by_namespace
from bridge.informer.reflector.pacing import Timing
from bridge.informer.reflector.states import UnexpectedAnswer
from bridge.informer.shared_informer import SharedInformer
from bridge.model.answers import Busy, Expired, HungUp, Opened, Refused, WatchRequest
from bridge.model.change import Change, ChangeBatch, Op
from bridge.model.resource import Resource, Scope
from bridge.telemetry.facts import Fact
from bridge.telemetry.facts.informer import InformerStopped, InformerSynced
from tests.kit.deadlines import BUSY
from tests.kit.objects import a_pod
from tests.kit.records import PODS
from tests.kit.scripted_source import ScriptedSource, TakenOnTrust, opened, page
from tests.kit.simulated_cluster import SimulatedCluster

ALL = Scope()


@dataclass
class Outlet:
    """Where a bridge's informer delivers to."""

    batches: list[ChangeBatch] = field(default_factory=list)
    open: asyncio.Event = field(default_factory=asyncio.Event)

    async def deliver(self, batch: ChangeBatch) -> None:
        await self.open.wait()
        self.batches.append(batch)

    @property
    def delivered(self) -> list[str]:
        return [f"{change.op} {change.object.name}" for batch in self.batches for change in batch.changes]


class Periods:
    """Listeners of a bridge that want resyncs."""

    def __init__(self, **periods: float) -> None:
        self.periods = periods
        self.changed = asyncio.Event()

    def resync_periods(self) -> Mapping[str, float]:
        return dict(self.periods)

    async def wait_periods_changed(self) -> None:
        await self.changed.wait()
        self.changed.clear()

    def change(self, **periods: float) -> None:
        self.periods = periods
        self.changed.set()


@dataclass
class World:
    cluster: SimulatedCluster
    outlet: Outlet
    informer: SharedInformer
    facts: list[Fact]
    running: asyncio.Task[None] | None = None

    def reported(self, kind: type[Fact]) -> list[Fact]:
        return [fact for fact in self.facts if isinstance(fact, kind)]


def a_world(*names: str, outlet: bool = True, resync: Periods | None = None) -> World:
    cluster, away, facts = SimulatedCluster(), Outlet(), list[Fact]()
    away.open.set()
    for name in names:
        cluster.put(name)
    informer = SharedInformer(
        PODS,
        ALL,
        cluster,
        away.deliver if outlet else None,
        report=facts.append,
        timing=Timing(),
        watch_list=False,
        indexers={"namespace": by_namespace},
        resync=resync,
    )
    return World(cluster, away, informer, facts)


@asynccontextmanager
async def running(*names: str, outlet: bool = True, resync: Periods | None = None) -> AsyncGenerator[World]:
    """Ends by stopping the informer."""
    world = a_world(*names, outlet=outlet, resync=resync)
    async with asyncio.TaskGroup() as tasks:
        world.running = tasks.create_task(world.informer.run())
        yield world
        world.informer.stop()


class Recorder:
    def __init__(self) -> None:
        self.changes: list[Change] = []
        self.at: list[float] = []

    async def __call__(self, changes: Sequence[Change]) -> None:
        self.changes += changes
        self.at += [asyncio.get_running_loop().time()] * len(changes)

    @property
    def delivered(self) -> list[str]:
        return [f"{change.op} {change.object.name}" for change in self.changes]


# ── Its store and its changes ──────────────────────────────────────────────────


async def test_it_delivers_objects_and_changes_and_stores_the_newest() -> None:
    async with running("web", "db") as world:
        await world.informer.wait_synced()
        world.cluster.put("web")
        world.cluster.delete("db")
        await asyncio.sleep(1)

        assert world.outlet.delivered == ["added db", "added web", "updated web", "deleted db"]
        assert world.informer.lister.get("web", "shop") == world.cluster.objects["shop/web"]
        assert [thing.name for thing in world.informer.lister.by_index("namespace", "shop")] == ["web"]
        assert [batch.position for batch in world.outlet.batches if batch.position] == ["3", "5"]


async def test_batches_name_the_resource_the_scope_and_the_epoch() -> None:
    async with running("web", "db") as world:
        await world.informer.wait_synced()
        world.cluster.restore(2)
        await asyncio.sleep(60)

    assert {(batch.resource, batch.scope) for batch in world.outlet.batches} == {(PODS, ALL)}
    assert [(batch.epoch, len(batch.changes)) for batch in world.outlet.batches][-1] == (2, 1)
    assert world.outlet.delivered == ["added db", "added web", "deleted db"]


async def test_it_moves_to_another_api_version_without_repeating() -> None:
    newer, version = SimulatedCluster(), Resource("", "v2", "pods", "Pod", namespaced=True)
    async with running("web") as world:
        await world.informer.wait_synced()
        newer.put("web")
        await asyncio.sleep(5)
        world.informer.move(version, newer)
        world.cluster.end_watches(HungUp("the server ends"))
        await asyncio.sleep(60)
        newer.put("web")
        await asyncio.sleep(1)

    assert world.outlet.delivered == ["added web", "updated web"]
    (watch,) = newer.requests
    assert isinstance(watch, WatchRequest)
    assert watch.version == "2"
    assert world.outlet.batches[-1].resource == version


# ── HasSynced and live ───────────────────────────────────────────────────────


async def test_it_has_synced_only_when_the_first_list_was_delivered() -> None:
    async with running("web", "db", "cache") as world:
        world.outlet.open.clear()
        await asyncio.sleep(60)
        assert not world.informer.has_synced
        assert not world.reported(InformerSynced)

        world.outlet.open.set()
        await world.informer.wait_synced()
        assert len(world.outlet.delivered) == 3
        assert world.reported(InformerSynced) == [InformerSynced(PODS, ALL, 3)]


async def test_it_has_not_synced_while_pages_are_missing() -> None:
    first, last = page(a_pod("web").at(3), at=7, next_page="more"), page(a_pod("db").at(4), at=7)
    outlet = Outlet()
    outlet.open.set()
    informer = an_informer(ScriptedSource(first, Busy("429", after=60), last), outlet)
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(informer.run())
        await asyncio.sleep(30)
        assert (outlet.delivered, informer.has_synced) == (["added web"], False)
        await informer.wait_synced()
        assert outlet.delivered == ["added web", "added db"]
        informer.stop()


async def test_it_is_not_live_before_it_has_synced() -> None:
    async with running("web") as world:
        world.outlet.open.clear()
        await asyncio.sleep(60)
        assert len(world.cluster.requests) == 2
        assert not world.informer.live
        world.outlet.open.set()
        await asyncio.sleep(1)
        assert world.informer.live


@pytest.mark.parametrize("unreadable", [False, True])
async def test_a_cluster_without_any_object_has_synced_as_well(unreadable: bool) -> None:
    async with running(*(["web"] if unreadable else [])) as world:
        if unreadable:
            world.cluster.unreadable_keys.add("shop/web")
        async with asyncio.timeout(10 * BUSY):
            await world.informer.wait_synced()

        assert world.reported(InformerSynced) == [InformerSynced(PODS, ALL, 0)]


async def test_it_stays_synced_and_is_live_only_while_a_watch_is_open() -> None:
    async with running("web") as world:
        await world.informer.wait_synced()
        await asyncio.sleep(1)
        assert (world.informer.has_synced, world.informer.live) == (True, True)

        world.cluster.next_answers.append(Refused(403, "forbidden"))
        world.cluster.end_watches(Expired("410"))
        await asyncio.sleep(0.06)
        assert (world.informer.has_synced, world.informer.live) == (True, False)
        assert (world.informer.refused, world.informer.last_error) == (
            False,
            "its history is not proven: forbidden",
        ), "it had been granted"

        await asyncio.sleep(60)
        assert (world.informer.live, world.informer.refused, world.informer.last_error) == (True, False, None)


async def test_what_waits_to_be_delivered_is_counted() -> None:
    async with running("web") as world:
        await world.informer.wait_synced()
        world.outlet.open.clear()
        for _ in range(3):
            world.cluster.put("web")
            await asyncio.sleep(1)
        assert world.informer.queued == 2
        world.outlet.open.set()
        await asyncio.sleep(1)
        assert world.informer.queued == 0


# ── Resync ───────────────────────────────────────────────────────────────────


async def test_listeners_resync_by_their_own_periods_without_requests() -> None:
    async with running("web", "db", resync=Periods(audit=60.0, live=100.0)) as world:
        await world.informer.wait_synced()
        await asyncio.sleep(0.001)
        requests = len(world.cluster.requests)
        await asyncio.sleep(301)

        assert len(world.cluster.requests) == requests
    syncs = [change for batch in world.outlet.batches for change in batch.changes if change.op is Op.SYNC]
    audiences = [change.targets for change in syncs if change.object.name == "web"]
    assert audiences == [("audit",), ("live",), ("audit",), ("audit",), ("live",), ("audit",), ("audit", "live")]
    assert all(change.object == world.cluster.objects[change.object.key] for change in syncs)


async def test_nobody_is_resynced_before_the_first_list_was_delivered() -> None:
    async with running("web", resync=Periods(audit=10.0)) as world:
        world.outlet.open.clear()
        await asyncio.sleep(60)
        world.outlet.open.set()
        await asyncio.sleep(9)

        assert world.outlet.delivered == ["added web"]


async def test_periods_may_come_change_and_go_while_it_runs() -> None:
    periods = Periods()
    async with running("web", resync=periods) as world:
        await world.informer.wait_synced()
        await asyncio.sleep(1000)
        assert world.outlet.delivered == ["added web"]

        periods.change(audit=600.0)
        await asyncio.sleep(1)
        periods.change(audit=10.0)
        await asyncio.sleep(10.5)
        assert world.outlet.delivered == ["added web", "sync web"]

        periods.change()
        await asyncio.sleep(1000)
        assert world.outlet.delivered == ["added web", "sync web"]


async def test_a_handler_is_resynced_by_its_period_and_others_are_not() -> None:
    recorder, other = Recorder(), Recorder()
    async with running("web", outlet=False) as world:
        await world.informer.wait_synced()
        world.informer.handlers.add("other", other)
        registration = world.informer.handlers.add("audit", recorder, resync=10)
        await asyncio.sleep(35)
        world.informer.handlers.remove(registration)
        await asyncio.sleep(100)

    assert recorder.delivered == ["added web", "sync web", "sync web", "sync web"]
    assert other.delivered == ["added web"]


# ── Handlers ─────────────────────────────────────────────────────────────────


async def test_handlers_may_come_before_it_runs_and_while_it_runs() -> None:
    early, late = Recorder(), Recorder()
    world = a_world("web", outlet=False)
    world.informer.handlers.add("early", early)
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(world.informer.run())
        await world.informer.wait_synced()
        world.cluster.put("web")
        await asyncio.sleep(1)
        world.informer.handlers.add("late", late)
        world.cluster.delete("web")
        await asyncio.sleep(1)
        world.informer.stop()

    assert early.delivered == ["added web", "updated web", "deleted web"]
    assert late.delivered == ["added web", "deleted web"]


async def test_an_informer_with_one_target_takes_no_handlers() -> None:
    with pytest.raises(RuntimeError, match="the informer of pods has deliver"):
        _ = a_world().informer.handlers


# ── The end ──────────────────────────────────────────────────────────────────


async def test_stopping_reads_nothing_more_and_delivers_what_was_read() -> None:
    async with running("web") as world:
        await world.informer.wait_synced()
        world.outlet.open.clear()
        world.cluster.put("web")
        await asyncio.sleep(1)
        world.cluster.delete("web")
        await asyncio.sleep(1)
        world.informer.stop()
        await asyncio.sleep(1)
        world.cluster.put("db")
        assert not world.reported(InformerStopped)
        world.outlet.open.set()

    assert world.outlet.delivered == ["added web", "updated web", "deleted web"]
    assert world.reported(InformerStopped) == [InformerStopped(PODS, ALL)]
    assert isinstance(world.facts[-1], InformerStopped)


async def test_it_may_be_stopped_before_it_ran() -> None:
    world = a_world("web")
    world.informer.stop()
    await world.informer.run()

    assert (world.outlet.delivered, world.cluster.requests) == ([], [])


async def test_removing_it_amid_a_list_deletes_what_was_exported() -> None:
    outlet = Outlet()
    outlet.open.set()
    informer = an_informer(ScriptedSource(page(a_pod("web").at(3), at=7, next_page="more")), outlet)
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(informer.run())
        await asyncio.sleep(1)
        informer.remove()

    assert outlet.delivered == ["added web", "deleted web"]


async def test_retiring_wakes_whoever_waits_for_the_first_list() -> None:
    async with running() as world:
        world.cluster.next_answers.extend([Refused(404, "not found")] * 3)
        async with asyncio.TaskGroup() as tasks:
            waiting = tasks.create_task(world.informer.wait_synced())
            await asyncio.sleep(1)
            assert not waiting.done()
            world.informer.remove()


async def test_what_cannot_be_delivered_ends_it_loudly() -> None:
    async def broken(_: ChangeBatch) -> None:
        raise LookupError("a bug in the outlet")

    world = a_world("web")
    informer = SharedInformer(PODS, ALL, world.cluster, broken, report=world.facts.append, timing=Timing())
    with pytest.raises(ExceptionGroup) as raised:
        await informer.run()
    assert raised.group_contains(LookupError, match="a bug in the outlet")
    assert not world.reported(InformerStopped)


async def test_an_answer_nobody_expects_ends_it_loudly() -> None:
    informer = an_informer(ScriptedSource(page(at=7), opened(Opened())), Outlet())

    with pytest.raises(ExceptionGroup) as raised:
        await informer.run()
    assert raised.group_contains(UnexpectedAnswer, match="Opened while Watching")


def an_informer(source: ScriptedSource, outlet: Outlet) -> SharedInformer:
    return SharedInformer(
        PODS,
        ALL,
        source,
        outlet.deliver,
        report=lambda _: None,
        timing=Timing(),
        watch_list=False,
        history=TakenOnTrust(),
    )
