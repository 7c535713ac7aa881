"""An informer that goes on from what its ledger remembers. On a simulated cluster, in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import pytest

from bridge.informer import SharedInformer, Timing
from bridge.model.answers import (
    Expired,
    Failed,
    HungUp,
    ListRequest,
    Opened,
    Silent,
    TooLarge,
    Unreadable,
    WatchRequest,
)
from bridge.model.change import Change, ChangeBatch, Evidence, ObjectVersion
from bridge.model.object import ApiObject
from bridge.model.resource import Scope
from bridge.model.versions import Checkpoint, VersionTable
from bridge.telemetry.facts.informer import InformerSynced, ListCompleted, VersionsRanBackwards
from tests.bridge.informer.lives import Lives
from tests.kit.model_ledger import ModelLedger
from tests.kit.objects import a_pod
from tests.kit.records import PODS
from tests.kit.scripted_source import ScriptedSource, Turn, opened, page
from tests.kit.simulated_cluster import SimulatedCluster

WEB, DB, CACHE = a_pod("web"), a_pod("db"), a_pod("cache")


class EveryMinute:
    """A listener that wants periodic resyncs."""

    def resync_periods(self) -> Mapping[str, float]:
        return {"audit": 60.0}

    async def wait_periods_changed(self) -> None:
        await asyncio.Event().wait()


async def a_life(*names: str) -> tuple[Lives, SimulatedCluster]:
    """Objects of these names were delivered, and the informer has ended."""
    world, cluster = Lives(), SimulatedCluster()
    for name in names:
        cluster.put(name)
    async with world.running(cluster) as informer:
        await informer.wait_synced()
        await asyncio.sleep(5)
    cluster.requests.clear()
    return world, cluster


def a_ledger(*objects: ApiObject, position: str | None, newest: str, epoch: int = 1) -> Lives:
    ledger = ModelLedger(position=position, newest=newest, epoch=epoch, last=len(objects))
    for sequence, thing in enumerate(objects, 1):
        ledger.objects[thing.key] = ObjectVersion(thing.uid, thing.resource_version, sequence)
        ledger.bodies[sequence] = thing.body
    return Lives(ledger)


# ── From a position ──────────────────────────────────────────────────────────


async def test_it_resumes_at_its_position_and_repeats_nothing() -> None:
    world, cluster = await a_life("web", "db")
    cluster.put("web")
    cluster.delete("db")
    async with world.running(cluster):
        await asyncio.sleep(5)
        cluster.put("cache")
        await asyncio.sleep(5)

    (watch,) = cluster.requests
    assert isinstance(watch, WatchRequest)
    assert (watch.version, watch.initial_events) == ("3", False)
    assert world.delivered == ["updated web", "deleted db", "added cache"]
    assert {change.evidence for change in world.changes} == {Evidence.WATCHED}
    assert [batch.position for batch in world.batches] == ["5", "6"]


async def test_a_delete_announced_again_is_not_exported_again() -> None:
    """On the next watch, which some servers begin with the change that has its version; and so after a restart."""
    world, cluster = await a_life("web", "db")
    cluster.repeats = True
    async with world.running(cluster):
        await asyncio.sleep(2)
        cluster.delete("web")
        await asyncio.sleep(2)
        for _ in range(3):
            cluster.end_watches(HungUp("the stream ended"))
            await asyncio.sleep(2)
        assert world.delivered == ["deleted web"]
    async with world.running(cluster):
        await asyncio.sleep(2)
    assert world.delivered == []


async def test_it_has_synced_at_once_and_is_live_with_an_open_watch() -> None:
    world, cluster = await a_life("web", "db")
    cluster.latency = 5.0
    async with world.running(cluster) as informer:
        await asyncio.sleep(1)
        assert (informer.has_synced, informer.live, len(informer.indexer)) == (True, False, 2)
        await asyncio.sleep(40)
        assert informer.live

    assert world.reported(InformerSynced) == [InformerSynced(PODS, Scope(), 2)]
    assert world.batches == []


async def test_before_states_come_from_the_ledger() -> None:
    world, cluster = await a_life("web", "db")
    resting = dict(world.ledger.objects)
    cluster.put("web")
    cluster.delete("db")
    async with world.running(cluster) as informer:
        await asyncio.sleep(5)
        assert dict(informer.indexer.items()) == world.ledger.objects
        assert informer.lister.get("web", "shop") == cluster.objects["shop/web"]

    assert [change.before for change in world.changes] == [resting["shop/web"], resting["shop/db"]]


async def test_a_resync_delivers_offloaded_bodies_at_the_same_position() -> None:
    world, cluster = await a_life("web")
    async with world.running(cluster, resync=EveryMinute()):
        await asyncio.sleep(70)

    assert world.delivered == ["sync web"]
    assert world.changes[0].object == cluster.objects["shop/web"]
    assert world.ledger.position == "2"


async def test_a_resync_in_doubt_keeps_the_position() -> None:
    """From there, a restart hears again what could not be read."""
    unreadable = opened(Unreadable("no metadata"))
    world = a_ledger(WEB.at(3), position="7", newest="7")
    async with world.running(ScriptedSource(unreadable, *[Failed("500")] * 100), resync=EveryMinute()):
        await asyncio.sleep(70)

    assert world.delivered == ["sync web"]
    assert world.ledger.position == "7"


@pytest.mark.parametrize("expired", [Expired("410"), opened(Expired("410"))], ids=["as the answer", "in the stream"])
async def test_an_expired_position_is_repaired_from_list_and_ledger(expired: Turn) -> None:
    world = a_ledger(WEB.at(3), DB.at(4, image="last"), CACHE.at(5), position="7", newest="7")
    listed = page(WEB.at(3), CACHE.at(9), a_pod("new").at(8), at=10)
    source = ScriptedSource(expired, listed, opened())
    async with world.running(source) as informer:
        await source.played.wait()
        await asyncio.sleep(1)
        assert informer.live

    assert isinstance(source.requests[1], ListRequest)
    assert source.requests[1].version == "7"
    assert world.delivered == ["updated cache", "added new", "deleted db"]
    assert {change.evidence for change in world.changes} == {Evidence.RELISTED}
    assert world.changes[-1].object == DB.at(4, image="last")
    assert [batch.position for batch in world.batches][-1] == "10"
    assert [fact.relist for fact in world.facts if isinstance(fact, ListCompleted)] == [True]
    assert len(world.reported(InformerSynced)) == 1


# ── Without one ──────────────────────────────────────────────────────────────


async def test_without_a_position_it_deletes_only_after_the_last_page() -> None:
    world = a_ledger(WEB.at(3, image="last"), DB.at(4), position=None, newest="7")
    first, last = page(CACHE.at(8), at=10, next_page="more"), page(DB.at(4), at=10)
    source = ScriptedSource(first, Failed("500"), last, opened())
    async with world.running(source) as informer:
        await asyncio.sleep(0.001)
        assert (world.delivered, world.ledger.position, informer.has_synced) == (["added cache"], None, False)
        await source.played.wait()
        await asyncio.sleep(1)
        assert informer.has_synced

    assert isinstance(source.requests[0], ListRequest)
    assert source.requests[0].version == ""
    assert world.delivered == ["added cache", "deleted web"]
    assert world.changes[-1].object == WEB.at(3, image="last")
    assert {change.evidence for change in world.changes} == {Evidence.RELISTED}
    assert world.ledger.position == "10"
    assert [(fact.objects, fact.relist) for fact in world.facts if isinstance(fact, ListCompleted)] == [(2, True)]
    assert world.reported(InformerSynced) == [InformerSynced(PODS, Scope(), 2)]


async def test_what_a_resumed_list_cannot_read_is_not_deleted() -> None:
    world = a_ledger(WEB.at(3), DB.at(4), position=None, newest="7")
    source = ScriptedSource(page(DB.at(4), at=10, unreadable=("an item has no uid",)), opened())
    async with world.running(source):
        await source.played.wait()

    assert world.delivered == []
    assert world.ledger.position is None


# ── Versions that ran backwards while it was down ────────────────────────────


@pytest.mark.parametrize(
    "found_out",
    [[TooLarge("504")], [opened(TooLarge("504"))], [opened(Silent(90)), opened(Silent(90))]],
    ids=["the watch is refused", "the watch is ended", "the watch is silent twice"],
)
async def test_a_server_older_than_the_ledger_begins_a_new_epoch(found_out: list[Turn]) -> None:
    world = a_ledger(WEB.at(3, image="old"), DB.at(40), position="90", newest="90", epoch=2)
    source = ScriptedSource(*found_out, page(WEB.at(3, image="other"), at=50), opened())
    async with world.running(source):
        await source.played.wait()
        await asyncio.sleep(1)

    assert world.reported(VersionsRanBackwards) == [VersionsRanBackwards(PODS, Scope(), was="90", now="50")]
    assert world.delivered == ["updated web", "deleted db"]
    assert {batch.epoch for batch in world.batches} == {3}
    assert (world.ledger.epoch, world.ledger.position, world.ledger.newest) == (3, "50", "50")


async def test_a_cut_off_list_of_a_new_epoch_still_compares_states() -> None:
    """An object may have the same version and another state, and the first part of the list may have been exported."""
    world = a_ledger(WEB.at(3, image="old"), DB.at(48), position=None, newest="48", epoch=2)
    source = ScriptedSource(page(WEB.at(3, image="other"), DB.at(48), at=50), opened())
    async with world.running(source):
        await source.played.wait()
        await asyncio.sleep(1)

    assert world.delivered == ["updated web"]
    assert {batch.epoch for batch in world.batches} == {2}


async def test_in_the_first_epoch_no_body_is_read_for_comparison() -> None:
    for position, epoch in ((None, 1), ("7", 2)):
        world = a_ledger(WEB.at(3), DB.at(4), position=position, newest="7", epoch=epoch)
        world.ledger.bodies.clear()
        source = ScriptedSource(*([] if position is None else [Expired("410")]), page(WEB.at(3), DB.at(4), at=9))
        async with world.running(source):
            await source.played.wait()
            await asyncio.sleep(1)
        assert (world.delivered, world.ledger.position) == ([], "9")


async def test_a_checkpoint_of_an_epoch_alone_starts_like_an_empty_one() -> None:
    world = Lives(ModelLedger(epoch=4))
    source = ScriptedSource(page(WEB.at(3), at=5, next_page="more"), page(DB.at(4), at=5), opened())
    async with world.running(source) as informer:
        assert not informer.has_synced
        await source.played.wait()
        await informer.wait_synced()

    assert world.delivered == ["added web", "added db"]
    assert {change.evidence for change in world.changes} == {Evidence.LISTED}
    assert {batch.epoch for batch in world.batches} == {4}
    assert (world.ledger.epoch, world.ledger.position) == (4, "5")
    assert [fact.relist for fact in world.facts if isinstance(fact, ListCompleted)] == [False]


# ── The end ──────────────────────────────────────────────────────────────────


async def test_removing_it_exports_deletes_without_asking_the_server() -> None:
    world = a_ledger(WEB.at(3, image="last"), DB.at(4), position="7", newest="7")
    source = ScriptedSource(opened(Opened()))
    informer = world.informer(source)
    informer.remove()
    await informer.run()

    assert source.requests == []
    assert world.delivered == ["deleted web", "deleted db"]
    assert world.changes[0].object == WEB.at(3, image="last")
    assert world.batches[-1].position is None
    assert world.ledger.objects == {}


async def test_a_record_that_is_missing_ends_it_loudly() -> None:
    world = a_ledger(WEB.at(3), position="7", newest="7")
    world.ledger.bodies.clear()
    informer = world.informer(ScriptedSource())
    informer.remove()

    with pytest.raises(ExceptionGroup) as raised:
        await informer.run()
    assert raised.group_contains(KeyError)


async def test_bodies_can_only_rest_where_changes_are_delivered_to() -> None:
    with pytest.raises(ValueError, match="stored needs deliver"):
        SharedInformer(
            PODS, Scope(), ScriptedSource(), None, report=lambda _: None, timing=Timing(), stored=lambda _: b""
        )


async def test_a_library_may_remember_without_an_outbox() -> None:
    """What is known of an informer that keeps its bodies itself can be given to the next one."""
    world, cluster = await a_life()
    cluster.put("web")
    delivered: list[Change] = []

    async def deliver(batch: ChangeBatch) -> None:
        delivered.extend(batch.changes)

    checkpoint: Checkpoint | None = None
    for _ in range(2):
        informer = SharedInformer(
            PODS, Scope(), cluster, deliver, report=world.facts.append, timing=Timing(), checkpoint=checkpoint
        )
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(informer.run())
            await informer.wait_synced()
            await asyncio.sleep(1)
            informer.stop()
        checkpoint = Checkpoint(VersionTable(informer.indexer.items()), "2", "2")
        cluster.delete("web")

    assert [f"{change.op} {change.object.name}" for change in delivered] == ["added web", "deleted web"]
