"""What an operator asks of a bridge that runs, through its socket, and of the files of one that does not."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest

from bridge.app.admin.client import AdminClient
from bridge.app.admin.commands import COMMANDS, AdminOperations
from bridge.app.admin.operations import OfflineOperations
from bridge.app.endpoints import readiness
from bridge.model.admin import Replayed, ReplayRequest, SnapshotRequest, UnknownTarget
from bridge.model.formats.cloudevent import notice_data
from bridge.model.policies import StartPolicy
from bridge.model.record import Delta, Record, Snapshot
from bridge.model.resource import Scope
from bridge.model.status import SinkState
from bridge.outbox import Outbox, Retention
from bridge.plan.plan import Wanted
from bridge.playground import StatusError
from bridge.telemetry.facts import discard
from bridge.telemetry.facts.cluster import DiscoveryFailed
from bridge.telemetry.facts.delivery import DestinationGone, SinkPaused, SinkResumed
from bridge.telemetry.facts.informer import ResourceRefused, WatchOpened
from sinks.base import Receipt, RetryLater
from tests.bridge.app.test_bridge import running
from tests.kit.bridges import World, a_config_map
from tests.kit.deadlines import until
from tests.kit.sinks import RecordingSink

RETAINED = Retention(retain_bytes=1 << 30)
SINK = "sink-0"
THREE = ("default/a", "default/b", "kube-public/c")


class PickySink(RecordingSink):
    """Takes everything but what was added, while it is picky."""

    picky = False

    async def deliver(self, batch: Sequence[Record]) -> Receipt:
        for place, record in enumerate(batch):
            if self.picky and isinstance(record, Delta) and record.op == "added":
                await super().deliver(batch[:place])
                behind = range(place + 1, len(batch))
                return Receipt(pending=[*behind], rejected={place: "too new"}, answers={place: "only what was updated"})
        return await super().deliver(batch)


@asynccontextmanager
async def a_bridge(state: Path, sink: RecordingSink) -> AsyncIterator[tuple[World, AdminClient]]:
    async with running(sink, state=state, retention=RETAINED, restart_on_cluster_change=True) as world:
        await world.until_ready()
        async with AdminClient(state) as client:
            yield world, client


@asynccontextmanager
async def the_files(state: Path) -> AsyncIterator[OfflineOperations]:
    sinks = {SINK: StartPolicy.SNAPSHOT}
    async with await Outbox.open(state, sinks, report=discard, retention=RETAINED, only_existing=True) as outbox:
        yield OfflineOperations(outbox, "test")


async def rejected(world: World) -> None:
    """Its sink refuses the first record of an object."""
    world.cluster.create("configmaps", a_config_map("a"))
    await until(lambda: world.bridge.status().sinks[0].dead_letters == 1)


async def rejected_and_parked(world: World) -> None:
    """And a second one waits behind it."""
    await rejected(world)
    world.cluster.patch("configmaps", "a", {"data": {"value": "2"}})
    await until(lambda: world.bridge.status().sinks[0].parked == 1)


async def has_maps(world: World, sink: RecordingSink, *keys: str) -> None:
    """The sink has ConfigMaps of these keys, and nothing is left to deliver."""
    for key in keys:
        namespace, _, name = key.partition("/")
        world.cluster.create("configmaps", a_config_map(name, namespace=namespace))
    await sink.until(lambda sink: len(sink.records) == len(keys))
    await until(lambda: not world.bridge.status().sinks[0].backlog_records)


def test_every_declared_command_is_carried_out() -> None:
    assert [name for name in COMMANDS if getattr(OfflineOperations, name) is getattr(AdminOperations, name)] == []


@pytest.mark.parametrize("name", ["cm", "configmap", "ConfigMap", "configmaps"])
async def test_a_replay_takes_a_resource_by_any_of_kubectls_names(tmp_path: Path, name: str) -> None:
    async with a_bridge(tmp_path, RecordingSink()) as (world, client):
        world.cluster.create("configmaps", a_config_map("a"))
        await until(
            lambda: world.bridge.status().sinks[0].delivered and not world.bridge.status().sinks[0].backlog_records
        )
        request = ReplayRequest(SINK, "beginning", resource=name)
        assert (await client.replay(request)).records == 1
        with pytest.raises(UnknownTarget, match="po has no records; resources with records: configmaps"):
            await client.replay(ReplayRequest(SINK, "beginning", resource="po"))
    async with the_files(tmp_path) as admin:
        assert await admin._name_of(name) == "configmaps"


async def test_a_running_bridge_that_has_nothing_to_do_replays_at_once(tmp_path: Path) -> None:
    sink = RecordingSink()
    async with a_bridge(tmp_path, sink) as (world, client):
        await has_maps(world, sink, *THREE)

        some = ReplayRequest(SINK, "beginning", resource="configmaps", namespace="default")
        assert await client.replay(some) == Replayed(2, 1, 2)
        await sink.until(lambda sink: len(sink.records) == 5)
        await until(lambda: not world.bridge.status().sinks[0].backfill)
        assert await client.replay(ReplayRequest(SINK, 3)) == Replayed(1, 3, 3)
        await sink.until(lambda sink: len(sink.records) == 6)

    *first, again_1, again_2, once_more = sink.deltas
    assert [msgspec.structs.replace(each, replay=0) for each in (again_1, again_2, once_more)] == first, "as before"
    assert [again_1.replay, again_2.replay, once_more.replay] == [1, 1, 2], "and in which replay"


async def test_an_idle_bridge_begins_a_snapshot_at_once(tmp_path: Path) -> None:
    sink = RecordingSink()
    async with a_bridge(tmp_path, sink) as (world, client):
        await has_maps(world, sink, *THREE)

        begun = await client.snapshot(SnapshotRequest(SINK, "cm", "default", "object.metadata.name != 'a'"))
        assert (begun.objects, begun.resource, begun.id) == (1, "configmaps", f"snapshot/{SINK}/3/1")
        await sink.until(lambda sink: len(sink.records) == 6)
        await until(lambda: not world.bridge.status().sinks[0].backfill)
        assert [(each.state, each.left) for each in await client.snapshots()] == [("delivered", 0)]
        assert [each.key for each in sink.deltas[3:]] == ["default/b"]
        with pytest.raises(UnknownTarget, match="no snapshot on demand under way"):
            await client.cancel_snapshot(SINK)
        with pytest.raises(UnknownTarget, match="there is no sink nobody"):
            await client.snapshot(SnapshotRequest("nobody"))
        with pytest.raises(UnknownTarget, match="po has no records"):
            await client.snapshot(SnapshotRequest(SINK, "po"))


async def test_the_end_of_a_snapshot_tells_what_the_bridge_watches_and_how_that_goes(tmp_path: Path) -> None:
    sink = RecordingSink()
    wanted = (Wanted("configmaps", (Scope("default", "tier=web"),)), Wanted("secrets"))
    async with running(sink, wanted=wanted, state=tmp_path) as world:
        world.cluster.misbehave.forbid("secrets")
        await until(lambda: world.reported(ResourceRefused) and world.reported(WatchOpened))
        async with AdminClient(tmp_path) as client:
            await client.snapshot(SnapshotRequest(SINK))
            await sink.until(lambda sink: len(sink.records) == 2)

    began, ended = (msgspec.json.decode(notice_data(each)) for each in sink.records if isinstance(each, Snapshot))
    assert "watched" not in began
    assert ended["watched"] == [
        {"resource": "configmaps", "state": "live", "namespace": "default", "label_selector": "tier=web"},
        {"resource": "secrets", "state": "refused"},
    ]


async def test_a_snapshot_before_the_first_discovery_does_not_tell_what_is_watched(tmp_path: Path) -> None:
    sink = RecordingSink()
    async with running(sink, state=tmp_path) as world:
        world.cluster.misbehave.fail(StatusError(500, "InternalError", "etcd is away"))
        await until(lambda: world.reported(DiscoveryFailed))
        async with AdminClient(tmp_path) as client:
            await client.snapshot(SnapshotRequest(SINK))
            await sink.until(lambda sink: len(sink.records) == 2)

    assert isinstance(ended := sink.records[-1], Snapshot)
    assert ended.watched is None


async def test_a_paused_sink_gets_its_snapshot_when_it_is_resumed(tmp_path: Path) -> None:
    sink = RecordingSink()
    async with a_bridge(tmp_path, sink) as (world, client):
        await has_maps(world, sink, "default/a")
        await client.pause_sink(SINK)
        await client.snapshot(SnapshotRequest(SINK))
        world.cluster.patch("configmaps", "a", {"data": {"value": "2"}})
        assert [(each.state, each.left) for each in await client.snapshots()] == [("delivering", 1)]
        await client.resume_sink(SINK)
        await sink.until(lambda sink: sink.delivered()[1:] == ["sync default/a", "updated default/a"])


async def test_a_snapshot_asked_of_the_files_follows_the_next_start(tmp_path: Path) -> None:
    sink = RecordingSink()
    async with a_bridge(tmp_path, sink) as (world, _):
        await has_maps(world, sink, "default/a")
    async with the_files(tmp_path) as admin:
        assert (await admin.snapshot(SnapshotRequest(SINK))).objects == 1
        await admin.cancel_snapshot(SINK)
        assert (await admin.snapshot(SnapshotRequest(SINK))).number == 2
    async with a_bridge(tmp_path, sink) as (_, client):
        await sink.until(lambda sink: "sync default/a" in sink.delivered()[1:])
        [status] = await client.snapshots()
        assert status.number == 2


async def test_an_idle_bridge_delivers_a_retried_dead_letter_at_once(tmp_path: Path) -> None:
    sink = PickySink()
    sink.picky = True
    async with a_bridge(tmp_path, sink) as (world, client):
        await rejected_and_parked(world)
        dead_letters = await client.dead_letters(SINK)
        assert [(each.op, each.key, each.parked) for each in dead_letters] == [
            ("added", "default/a", False),
            ("updated", "default/a", True),
        ]
        assert (dead_letters[0].reason, dead_letters[0].answer) == ("too new", "only what was updated")
        assert b'"value":"2"' in await client.dead_letter_body(dead_letters[1].number)

        sink.picky = False
        assert await client.retry(SINK, [dead_letters[0].number]) == 2
        await sink.until(lambda sink: sink.delivered() == ["added default/a", "updated default/a"])
        await until(lambda: not world.bridge.status().sinks[0].dead_letters)


async def test_records_behind_a_dropped_letter_are_delivered_at_once(tmp_path: Path) -> None:
    sink = PickySink()
    sink.picky = True
    async with a_bridge(tmp_path, sink) as (world, client):
        await rejected_and_parked(world)
        [rejected, _] = await client.dead_letters(SINK)
        assert await client.drop(SINK, [rejected.number]) == 1
        await sink.until(lambda sink: sink.delivered() == ["updated default/a"])


async def test_what_is_asked_of_the_files_waits_for_the_next_bridge(tmp_path: Path) -> None:
    sink = PickySink()
    sink.picky = True
    async with a_bridge(tmp_path, sink) as (world, _):
        await rejected(world)
    async with the_files(tmp_path) as admin:
        [dead_letter] = await admin.dead_letters()
        assert (await admin.state_check()).problems == []
        [cursor] = (await admin.cursors()).sinks
        assert (cursor.sink, cursor.settled, cursor.backlog_records) == (SINK, 1, 0)
        assert await admin.retry(SINK) == 1
        assert await admin.replay(ReplayRequest(SINK, "beginning")) == Replayed(1, 1, 1)

    async with await Outbox.open(tmp_path, {SINK: StartPolicy.SNAPSHOT}, report=discard, retention=RETAINED) as outbox:
        assert outbox.sinks.dead_letters[SINK].retrying
        assert [each.number for each in await outbox.sinks.dead_letters[SINK].next_retries(10)] == [dead_letter.number]
        assert outbox.sinks.backlog_records(SINK) == 1


class GoneSink(RecordingSink):
    """Wants no more records, while it is gone."""

    gone = False
    attempts = 0

    async def deliver(self, batch: Sequence[Record]) -> Receipt:
        if self.gone:
            self.attempts += 1
            failure = RetryLater("answers 410", unavailable=True, gone=True)
            return Receipt(pending=range(len(batch)), failure=failure)
        return await super().deliver(batch)


class ShySink(RecordingSink):
    """Asks to be left alone for an hour, while it is shy."""

    shy = False

    async def deliver(self, batch: Sequence[Record]) -> Receipt:
        if self.shy:
            return Receipt(pending=range(len(batch)), failure=RetryLater("answers 503", after=3600.0, unavailable=True))
        return await super().deliver(batch)


async def test_a_sink_that_asked_for_an_hour_is_tried_on_request(tmp_path: Path) -> None:
    sink = ShySink()
    sink.shy = True
    async with a_bridge(tmp_path, sink) as (world, client):
        world.cluster.create("configmaps", a_config_map("a"))
        await until(lambda: world.bridge.status().sinks[0].state is SinkState.WAITING)
        status = world.bridge.status().sinks[0]
        assert status.asked == 3600.0
        assert 3590 < (status.retry_in or 0) < 3601
        [cursor] = (await client.cursors()).sinks
        assert (cursor.asked, cursor.last_error) == (3600.0, "answers 503")
        assert 3590 < (cursor.retry_in or 0) < 3601

        sink.shy = False
        assert await client.retry_sink(SINK)
        await sink.until(lambda sink: sink.delivered() == ["added default/a"])
        assert world.bridge.status().sinks[0].asked is None


async def test_a_pause_survives_a_crash_until_it_is_resumed(tmp_path: Path) -> None:
    sink = RecordingSink()
    async with a_bridge(tmp_path, sink) as (world, client):
        assert await client.pause_sink(SINK)
        assert not await client.pause_sink(SINK)
        world.cluster.create("configmaps", a_config_map("a"))
        await until(lambda: world.bridge.status().sinks[0].backlog_records == 1)
        assert world.bridge.status().sinks[0].state is SinkState.PAUSED
        assert world.reported(SinkPaused)
    async with a_bridge(tmp_path, sink) as (world, client):
        assert world.reported(SinkPaused), "it is said at each start"
        assert world.bridge.status().sinks[0].state is SinkState.PAUSED
        assert [each.paused for each in (await client.cursors()).sinks] == [True]
        assert sink.records == []
        assert await client.resume_sink(SINK)
        assert world.reported(SinkResumed)
        await sink.until(lambda sink: sink.records)


async def test_a_destination_that_is_gone_stays_so_until_resumed(tmp_path: Path) -> None:
    sink = GoneSink()
    async with a_bridge(tmp_path, sink) as (world, client):
        sink.gone = True
        world.cluster.create("configmaps", a_config_map("a"))
        await until(lambda: world.bridge.status().sinks[0].state is SinkState.GONE)
        [status] = world.bridge.status().sinks
        assert (status.last_error, status.well, status.backlog_records) == ("answers 410", False, 1)
        assert "[!] sink " in readiness(world.bridge.status())
        assert "gone backlog=1" in readiness(world.bridge.status())
        assert "reason: answers 410" in readiness(world.bridge.status())
        [cursor] = (await client.cursors()).sinks
        assert (cursor.gone, cursor.last_error) == (True, "answers 410")
        assert not await client.pause_sink(SINK), "it is paused in any case"
    async with the_files(tmp_path) as admin:
        assert [each.gone for each in (await admin.cursors()).sinks] == [True]
    async with a_bridge(tmp_path, sink) as (world, client):
        [status] = world.bridge.status().sinks
        assert (status.state, sink.attempts) == (SinkState.GONE, 1), "a start is no reason to try again"
        assert "gone for good (HTTP 410)" in status.last_error
        assert world.reported(DestinationGone)
        sink.gone = False
        assert await client.resume_sink(SINK)
        await sink.until(lambda sink: sink.delivered()[:1] == ["added default/a"])
        assert not world.bridge.status().sinks[0].last_error
    async with the_files(tmp_path) as admin:
        assert [each.gone for each in (await admin.cursors()).sinks] == [False]


async def test_a_pause_of_the_files_counts_at_the_next_start(tmp_path: Path) -> None:
    sink = RecordingSink()
    async with a_bridge(tmp_path, sink):
        pass
    async with the_files(tmp_path) as admin:
        assert await admin.pause_sink(SINK)
        assert not await admin.retry_sink(SINK)
        with pytest.raises(UnknownTarget, match="there is no sink nobody"):
            await admin.pause_sink("nobody")
    async with a_bridge(tmp_path, sink) as (world, _):
        assert world.bridge.status().sinks[0].state is SinkState.PAUSED
    async with the_files(tmp_path) as admin:
        assert await admin.resume_sink(SINK)
    async with a_bridge(tmp_path, sink) as (world, _):
        await until(lambda: world.bridge.status().sinks[0].state is SinkState.IDLE)
