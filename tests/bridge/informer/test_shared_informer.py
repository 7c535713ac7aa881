"""One informer, from start to stop: lists, watches, comparison, delivery. On a simulated cluster, in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

import pytest

from bridge.informer.indexer import by_namespace
from bridge.informer.reflector.pacing import Timing
from bridge.informer.reflector.states import UnexpectedAnswer
from bridge.informer.shared_informer import SharedInformer
from bridge.model.answers import Expired, HungUp, Opened, Refused, WatchRequest
from bridge.model.change import Change, ChangeBatch, Op
from bridge.model.resource import Resource, Scope
from bridge.telemetry.facts.informer import InformerStopped, InformerSynced
from tests.bridge.informer.lives import Lives
from tests.kit.deadlines import BUSY
from tests.kit.objects import a_pod
from tests.kit.records import PODS
from tests.kit.scripted_source import ScriptedSource, opened, page
from tests.kit.simulated_cluster import SimulatedCluster

ALL = Scope()


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
class World(Lives):
    """A life on a simulated cluster with these pods."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.cluster = SimulatedCluster()


@asynccontextmanager
async def running(*names: str, resync: Periods | None = None) -> AsyncGenerator[tuple[World, SharedInformer]]:
    """Ends by stopping the informer."""
    world = World()
    for name in names:
        world.cluster.put(name)
    async with world.running(world.cluster, indexers={"namespace": by_namespace}, resync=resync) as informer:
        yield world, informer


def a_library_informer(cluster: SimulatedCluster) -> SharedInformer:
    """With handlers."""
    return SharedInformer(PODS, ALL, cluster, None, report=lambda _: None, timing=Timing(), watch_list=False)


class Recorder:
    def __init__(self) -> None:
        self.delivered: list[str] = []

    async def __call__(self, changes: Sequence[Change]) -> None:
        self.delivered += [f"{change.op} {change.object.name}" for change in changes]


# ── Its store and its changes ──────────────────────────────────────────────────


async def test_it_delivers_objects_and_changes_and_stores_the_newest() -> None:
    async with running("web", "db") as (world, informer):
        await informer.wait_synced()
        world.cluster.put("web")
        world.cluster.delete("db")
        await asyncio.sleep(1)

        assert world.delivered == ["added db", "added web", "updated web", "deleted db"]
        assert informer.lister.get("web", "shop") == world.cluster.objects["shop/web"]
        assert [thing.name for thing in informer.lister.by_index("namespace", "shop")] == ["web"]
        assert [batch.position for batch in world.batches if batch.position] == ["3", "5"]


async def test_batches_name_the_resource_the_scope_and_the_epoch() -> None:
    async with running("web", "db") as (world, informer):
        await informer.wait_synced()
        world.cluster.restore(2)
        await asyncio.sleep(60)

    assert {(batch.resource, batch.scope) for batch in world.batches} == {(PODS, ALL)}
    assert [(batch.epoch, len(batch.changes)) for batch in world.batches][-1] == (2, 1)
    assert world.delivered == ["added db", "added web", "deleted db"]


async def test_it_moves_to_another_api_version_without_repeating() -> None:
    newer, version = SimulatedCluster(), Resource("", "v2", "pods", "Pod", namespaced=True)
    async with running("web") as (world, informer):
        await informer.wait_synced()
        newer.put("web")
        await asyncio.sleep(5)
        informer.move(version, newer)
        world.cluster.end_watches(HungUp("the server ends"))
        await asyncio.sleep(60)
        newer.put("web")
        await asyncio.sleep(1)

    assert world.delivered == ["added web", "updated web"]
    (watch,) = newer.requests
    assert isinstance(watch, WatchRequest)
    assert watch.version == "2"
    assert world.batches[-1].resource == version


# ── HasSynced and live ───────────────────────────────────────────────────────


async def test_it_has_synced_only_when_the_first_list_was_delivered() -> None:
    async with running("web", "db", "cache") as (world, informer):
        world.gate.clear()
        await asyncio.sleep(60)
        assert isinstance(world.cluster.requests[-1], WatchRequest), "a watch is open"
        assert (informer.has_synced, informer.live, world.reported(InformerSynced)) == (False, False, [])

        world.gate.set()
        await informer.wait_synced()
        assert len(world.delivered) == 3
        assert world.reported(InformerSynced) == [InformerSynced(PODS, ALL, 3)]


@pytest.mark.parametrize("unreadable", [False, True])
async def test_a_cluster_without_any_object_has_synced_as_well(unreadable: bool) -> None:
    async with running(*(["web"] if unreadable else [])) as (world, informer):
        if unreadable:
            world.cluster.unreadable_keys.add("shop/web")
        async with asyncio.timeout(10 * BUSY):
            await informer.wait_synced()

        assert world.reported(InformerSynced) == [InformerSynced(PODS, ALL, 0)]


async def test_it_stays_synced_and_is_live_only_while_a_watch_is_open() -> None:
    async with running("web") as (world, informer):
        await informer.wait_synced()
        await asyncio.sleep(1)
        assert (informer.has_synced, informer.live) == (True, True)

        world.cluster.next_answers.append(Refused(403, "forbidden"))
        world.cluster.end_watches(Expired("410"))
        await asyncio.sleep(0.06)
        assert (informer.has_synced, informer.live) == (True, False)
        assert (informer.refused, informer.last_error) == (
            False,
            "its history is not proven: forbidden",
        ), "it had been granted"

        await asyncio.sleep(60)
        assert (informer.live, informer.refused, informer.last_error) == (True, False, None)


async def test_what_waits_to_be_delivered_is_counted() -> None:
    async with running("web") as (world, informer):
        await informer.wait_synced()
        world.gate.clear()
        for _ in range(3):
            world.cluster.put("web")
            await asyncio.sleep(1)
        assert informer.queued == 2
        world.gate.set()
        await asyncio.sleep(1)
        assert informer.queued == 0


# ── Resync ───────────────────────────────────────────────────────────────────


async def test_listeners_resync_by_their_own_periods_without_requests() -> None:
    async with running("web", "db", resync=Periods(audit=60.0, live=100.0)) as (world, informer):
        await informer.wait_synced()
        await asyncio.sleep(0.001)
        requests = len(world.cluster.requests)
        await asyncio.sleep(301)

        assert len(world.cluster.requests) == requests
    syncs = [change for batch in world.batches for change in batch.changes if change.op is Op.SYNC]
    audiences = [change.targets for change in syncs if change.object.name == "web"]
    assert audiences == [("audit",), ("live",), ("audit",), ("audit",), ("live",), ("audit",), ("audit", "live")]
    assert all(change.object == world.cluster.objects[change.object.key] for change in syncs)


async def test_nobody_is_resynced_before_the_first_list_was_delivered() -> None:
    async with running("web", resync=Periods(audit=10.0)) as (world, _):
        world.gate.clear()
        await asyncio.sleep(60)
        world.gate.set()
        await asyncio.sleep(9)

        assert world.delivered == ["added web"]


async def test_periods_may_come_change_and_go_while_it_runs() -> None:
    periods = Periods()
    async with running("web", resync=periods) as (world, informer):
        await informer.wait_synced()
        await asyncio.sleep(1000)
        assert world.delivered == ["added web"]

        periods.change(audit=600.0)
        await asyncio.sleep(1)
        periods.change(audit=10.0)
        await asyncio.sleep(10.5)
        assert world.delivered == ["added web", "sync web"]

        periods.change()
        await asyncio.sleep(1000)
        assert world.delivered == ["added web", "sync web"]


# ── The end ──────────────────────────────────────────────────────────────────


async def test_stopping_reads_nothing_more_and_delivers_what_was_read() -> None:
    async with running("web") as (world, informer):
        await informer.wait_synced()
        world.gate.clear()
        world.cluster.put("web")
        await asyncio.sleep(1)
        world.cluster.delete("web")
        await asyncio.sleep(1)
        informer.stop()
        await asyncio.sleep(1)
        world.cluster.put("db")
        assert not world.reported(InformerStopped)
        world.gate.set()

    assert world.delivered == ["added web", "updated web", "deleted web"]
    assert world.reported(InformerStopped) == [InformerStopped(PODS, ALL)]
    assert isinstance(world.facts[-1], InformerStopped)


async def test_retiring_wakes_whoever_waits_for_the_first_list() -> None:
    async with running() as (world, informer):
        world.cluster.next_answers.extend([Refused(404, "not found")] * 3)
        async with asyncio.TaskGroup() as tasks:
            waiting = tasks.create_task(informer.wait_synced())
            await asyncio.sleep(1)
            assert not waiting.done()
            informer.remove()


async def test_it_may_be_stopped_before_it_ran() -> None:
    cluster = SimulatedCluster()
    informer = Lives().informer(cluster)
    informer.stop()
    await informer.run()

    assert cluster.requests == []


async def test_removing_it_amid_a_list_deletes_what_was_exported() -> None:
    lives = Lives()
    informer = lives.informer(ScriptedSource(page(a_pod("web").at(3), at=7, next_page="more")))
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(informer.run())
        await asyncio.sleep(1)
        informer.remove()

    assert lives.delivered == ["added web", "deleted web"]


async def test_what_cannot_be_delivered_ends_it_loudly() -> None:
    async def broken(_: ChangeBatch) -> None:
        raise LookupError("a bug in the outlet")

    facts: list[object] = []
    informer = SharedInformer(PODS, ALL, SimulatedCluster(), broken, report=facts.append, timing=Timing())
    with pytest.raises(ExceptionGroup) as raised:
        await informer.run()
    assert raised.group_contains(LookupError, match="a bug in the outlet")
    assert not [fact for fact in facts if isinstance(fact, InformerStopped)]


async def test_an_answer_nobody_expects_ends_it_loudly() -> None:
    with pytest.raises(ExceptionGroup) as raised:
        await Lives().informer(ScriptedSource(page(at=7), opened(Opened()))).run()
    assert raised.group_contains(UnexpectedAnswer, match="Opened while Watching")


# ── Handlers ─────────────────────────────────────────────────────────────────


async def test_handlers_may_come_before_it_runs_and_while_it_runs() -> None:
    """And one is resynced by its period, and the others are not."""
    early, late, cluster = Recorder(), Recorder(), SimulatedCluster()
    cluster.put("web")
    informer = a_library_informer(cluster)
    informer.handlers.add("early", early)
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(informer.run())
        await informer.wait_synced()
        cluster.put("web")
        await asyncio.sleep(1)
        registration = informer.handlers.add("late", late, resync=10)
        await asyncio.sleep(35)
        informer.handlers.remove(registration)
        cluster.delete("web")
        await asyncio.sleep(100)
        informer.stop()

    assert early.delivered == ["added web", "updated web", "deleted web"]
    assert late.delivered == ["added web", "sync web", "sync web", "sync web"]


async def test_an_informer_with_one_target_takes_no_handlers() -> None:
    with pytest.raises(RuntimeError, match="the informer of pods has deliver"):
        _ = Lives().informer(SimulatedCluster()).handlers
