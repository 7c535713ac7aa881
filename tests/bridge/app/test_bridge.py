"""The whole bridge in one process, on the playground, into sinks in memory."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from bridge.kube import ApiError, ClusterAccess, KubeClient, connect
from bridge.model.answers import Failed
from bridge.model.change import Evidence
from bridge.model.policies import BacklogBounds, WhenFull
from bridge.model.record import Gap
from bridge.model.resource import Scope
from bridge.plan.entries import Resolution, resolve_wanted
from bridge.plan.plan import PlanRefused, SinkPlan, Wanted
from bridge.playground import StatusError
from bridge.telemetry.facts import Fact
from bridge.telemetry.facts.cluster import ResourceUnknown
from bridge.telemetry.facts.delivery import BacklogDropped, RecordsLeftBehind
from bridge.telemetry.facts.informer import ResourceRefused, WatchOpened
from tests.kit.bridges import World, a_bridge, a_config_map
from tests.kit.deadlines import until
from tests.kit.playground import Playground
from tests.kit.sinks import RecordingSink, StuckSink

DEFINITIONS = "customresourcedefinitions.apiextensions.k8s.io"


def a_definition(plural: str = "widgets", group: str = "example.test", version: str = "v1") -> dict[str, Any]:
    names = {"plural": plural, "singular": plural[:-1], "kind": plural[:-1].title()}
    schema = {"openAPIV3Schema": {"type": "object"}}
    served = {"name": version, "served": True, "storage": True, "schema": schema}
    return {
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {"group": group, "scope": "Namespaced", "names": names, "versions": [served]},
    }


@asynccontextmanager
async def running(
    *sinks: RecordingSink,
    wanted: tuple[Wanted, ...] = (Wanted("configmaps"),),
    options: Mapping[str, dict[str, Any]] | None = None,
    **plan: Any,
) -> AsyncIterator[World]:
    with TemporaryDirectory() as state:
        given = {"state": Path(state)} | plan
        async with on_playground(_plans(sinks, options or {}), wanted, **given) as world:
            yield world


def _plans(sinks: Sequence[RecordingSink], options: Mapping[str, dict[str, Any]]) -> tuple[SinkPlan, ...]:
    return tuple(
        SinkPlan(name=name, type="memory", make=lambda sink=sink: sink, max_batch=100, **options.get(name, {}))  # type: ignore[misc]
        for name, sink in ((f"sink-{number}", sink) for number, sink in enumerate(sinks))
    )


@asynccontextmanager
async def on_playground(plans: tuple[SinkPlan, ...], wanted: tuple[Wanted, ...], **plan: Any) -> AsyncIterator[World]:
    facts: list[Fact] = []
    async with Playground(bookmark_interval=0.2) as cluster:
        bridge = a_bridge(cluster, facts, sinks=plans, wanted=wanted, **plan)
        async with asyncio.TaskGroup() as tasks:
            running = tasks.create_task(bridge.run())
            yield World(cluster, bridge, facts)
            bridge.stop()
            await running


async def test_objects_and_their_changes_reach_every_sink_in_order() -> None:
    one, other = RecordingSink(), RecordingSink()
    async with running(one, other) as world:
        world.cluster.create("configmaps", a_config_map("a"))
        await world.until_ready()
        world.cluster.patch("configmaps", "a", {"data": {"value": "2"}})
        world.cluster.delete("configmaps", "a")
        for sink in (one, other):
            await sink.until(lambda sink: "deleted default/a" in sink.delivered())

    for sink in (one, other):
        assert [delivered for delivered in sink.delivered() if delivered.endswith("default/a")] == [
            "added default/a",
            "updated default/a",
            "deleted default/a",
        ]
        assert [delta.sequence for delta in sink.deltas] == sorted(delta.sequence for delta in sink.deltas)


async def test_a_stuck_sink_blocks_nobody_and_its_backlog_is_bounded() -> None:
    stuck, live, other = StuckSink(), RecordingSink(), RecordingSink()
    bounded = {"sink-0": {"bounds": BacklogBounds(records=200), "when_full": WhenFull.DROP}}
    async with running(stuck, live, other, options=bounded) as world:
        await world.until_ready()
        world.cluster.create("configmaps", a_config_map("a"))
        await stuck.holding.wait()
        for value in range(1000):
            world.cluster.patch("configmaps", "a", {"data": {"value": str(value)}})
            if value % 50 == 0:
                await live.until(lambda sink, value=value: len(sink.records) >= value - 100)  # type: ignore[misc]
        for sink in (live, other):
            await sink.until(lambda sink: len(sink.records) == 1001)
            versions = [int(delta.resource_version) for delta in sink.deltas]
            assert versions == sorted(set(versions))
        await until(lambda: world.bridge.status().sinks[0].backlog_records <= 200)
        assert world.bridge.status().ready

        stuck.loose.set()
        await stuck.until(lambda sink: sink.deltas and sink.deltas[-1].sequence == 1001)

    gaps = [record for record in stuck.records if isinstance(record, Gap)]
    assert sum(gap.count or 0 for gap in gaps) + len(stuck.deltas) == 1001, "what it did not get, it was reported of"
    assert [record.sequence for record in stuck.records] == sorted(record.sequence for record in stuck.records)
    assert {fact.sink for fact in world.reported(BacklogDropped)} == {"sink-0"}


async def test_new_custom_resources_are_followed_and_gone_ones_deleted() -> None:
    sink = RecordingSink()
    async with running(sink, wanted=(Wanted("widgets.example.test"),)) as world:
        await until(lambda: world.reported(ResourceUnknown))
        assert not world.bridge.status().ready

        world.cluster.create(DEFINITIONS, a_definition())
        world.cluster.create("widgets.example.test", {"metadata": {"name": "w", "namespace": "default"}})
        await sink.until(lambda sink: "added default/w" in sink.delivered())
        await world.until_ready()

        world.cluster.delete(DEFINITIONS, "widgets.example.test")
        await sink.until(lambda sink: "deleted default/w" in sink.delivered())
        await until(lambda: world.bridge.status().informers[0].state == "unknown")

    assert sink.delivered() == ["added default/w", "deleted default/w"]


async def test_a_resource_is_followed_into_its_next_served_version() -> None:
    sink = RecordingSink()
    async with running(sink, wanted=(Wanted("widgets.example.test"),)) as world:
        world.cluster.create(DEFINITIONS, a_definition(version="v1beta1"))
        for name in ("changed", "kept"):
            world.cluster.create("widgets.example.test", {"metadata": {"name": name, "namespace": "default"}})
        await sink.until(lambda sink: len(sink.deltas) == 2)
        await world.until_ready()

        status = world.cluster.get(DEFINITIONS, "widgets.example.test")["status"]
        world.cluster.update(DEFINITIONS, {**a_definition(version="v1"), "status": status})
        world.cluster.misbehave.reset()
        await until(lambda: any(fact.resource.version == "v1" for fact in world.reported(WatchOpened)))
        world.cluster.patch("widgets.example.test", "changed", {"spec": {"n": 2}})
        await sink.until(lambda sink: "updated default/changed" in sink.delivered())

    assert sorted(sink.delivered()) == ["added default/changed", "added default/kept", "updated default/changed"]
    assert [delta.resource.version for delta in sink.deltas] == ["v1beta1", "v1beta1", "v1"]


async def test_missed_deletes_are_exported_when_a_resource_is_released() -> None:
    sink = RecordingSink()
    async with running(sink, wanted=(Wanted("widgets.example.test"),)) as world:
        world.cluster.create(DEFINITIONS, a_definition())
        world.cluster.create(
            "widgets.example.test", {"metadata": {"name": "w", "namespace": "default"}, "spec": {"n": 1}}
        )
        await sink.until(lambda sink: "added default/w" in sink.delivered())
        await world.until_ready()
        world.cluster.misbehave.lose_event("widgets.example.test")

        world.cluster.delete(DEFINITIONS, "widgets.example.test")
        await sink.until(lambda sink: "deleted default/w" in sink.delivered())

    deleted = sink.deltas[-1]
    assert deleted.evidence is Evidence.UNWATCHED
    assert b'"spec":{"n":1}' in deleted.body, "with its last known state"


async def test_a_refused_resource_is_named_and_blocks_no_other() -> None:
    sink = RecordingSink()
    async with running(sink, wanted=(Wanted("configmaps"), Wanted("secrets"))) as world:
        rule = world.cluster.misbehave.forbid("secrets")
        world.cluster.create("configmaps", a_config_map("a"))
        await sink.until(lambda sink: "added default/a" in sink.delivered())
        await until(lambda: world.reported(ResourceRefused))
        refused = {each.resource: each for each in world.bridge.status().informers}["secrets"]
        assert (refused.state, refused.ready) == ("refused", False)
        assert "secrets" in refused.reason
        assert not world.bridge.status().ready

        rule.stop()
        await world.until_ready()

    assert {fact.resource.name for fact in world.reported(ResourceRefused)} == {"secrets"}


@pytest.mark.parametrize("status", [500, 503, 429, 403])
async def test_a_resource_that_fails_holds_up_no_empty_one(status: int) -> None:
    """A definition with a failing conversion webhook, or a group that is away, beside an empty namespace."""
    sink = RecordingSink()
    wanted = (Wanted("widgets.example.test"), Wanted("configmaps", (Scope("default"),)))
    async with running(sink, wanted=wanted) as world:
        world.cluster.create(DEFINITIONS, a_definition())
        world.cluster.create("widgets.example.test", {"metadata": {"name": "w", "namespace": "default"}})
        await sink.until(lambda sink: "added default/w" in sink.delivered())
        await world.until_ready()

        error = StatusError(status, "Refused", "conversion webhook for example.test/v1 failed")
        with world.cluster.misbehave.fail(error, "widgets.example.test"):
            for turn in range(3):
                world.cluster.misbehave.reset()
                world.cluster.create("configmaps", a_config_map(f"new-{turn}"))
                await sink.until(lambda sink, turn=turn: f"added default/new-{turn}" in sink.delivered())  # type: ignore[misc]
        await world.until_ready()

    assert sorted(sink.delivered()) == [
        "added default/new-0",
        "added default/new-1",
        "added default/new-2",
        "added default/w",
    ]
    assert {delta.epoch for delta in sink.deltas} == {1}


async def test_synced_is_not_live_and_readiness_asks_for_both() -> None:
    sink = RecordingSink()
    async with running(sink) as world:
        await world.until_ready()
        async with world.cluster.refusing_connections():
            world.cluster.misbehave.reset("configmaps")
            await until(lambda: not world.bridge.status().ready)
            (cut_off,) = world.bridge.status().informers
            assert (cut_off.synced, cut_off.live, cut_off.state) == (True, False, "reconnecting")
            assert world.bridge.alive(), "a dead API server is no reason to be restarted"
        await world.until_ready()


async def test_only_objects_in_scope_are_exported_and_leaving_deletes() -> None:
    sink = RecordingSink()
    wanted = Wanted("configmaps", (Scope("default", "tier=web"),))
    async with running(sink, wanted=(wanted,)) as world:
        await world.until_ready()
        world.cluster.create("configmaps", a_config_map("elsewhere", namespace="kube-system", tier="web"))
        world.cluster.create("configmaps", a_config_map("other", tier="db"))
        world.cluster.create("configmaps", a_config_map("a", tier="web"))
        world.cluster.patch("configmaps", "a", {"metadata": {"labels": {"tier": "db"}}})
        await sink.until(lambda sink: "deleted default/a" in sink.delivered())

    assert sink.delivered() == ["added default/a", "deleted default/a"]


async def resolved(*wanted: Wanted) -> Resolution:
    async with Playground() as cluster, connect(ClusterAccess(server=cluster.url)) as client:
        return resolve_wanted(wanted, await client.discover())


async def test_two_names_of_one_resource_are_refused_at_the_start(tmp_path: Path) -> None:
    sink = RecordingSink()
    wanted = (Wanted("configmaps"), Wanted("cm", (Scope("default"),)), Wanted("*", (Scope("default"),)))
    async with Playground() as cluster:
        cluster.create("configmaps", a_config_map("a"))
        bridge = a_bridge(cluster, [], tmp_path, _plans([sink], {}), wanted)
        with pytest.raises(PlanRefused, match=r"^resources: cm: configmaps means configmaps as well, and an object"):
            await bridge.run()
    assert sink.deltas == []


async def test_the_status_says_why_nothing_could_be_looked_up_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    fails, get = [True], KubeClient.get

    async def get_or_fail(self: KubeClient, path: str) -> bytes:
        if fails:
            raise ApiError(f"GET {path}", Failed("HTTP 503: starting"))
        return await get(self, path)

    monkeypatch.setattr(KubeClient, "get", get_or_fail)
    async with running(RecordingSink()) as world:
        await until(lambda: "HTTP 503: starting" in world.bridge.status().informers[0].reason)
        fails.clear()
        await world.until_ready()


async def test_of_names_and_wildcards_an_object_belongs_to_the_first() -> None:
    everywhere, default = Scope(), Scope("default")
    found = await resolved(Wanted("configmaps"), Wanted("cm", (default,)), Wanted("*", (default,)))
    scopes = [scope for name, scope in found.desired if name == "configmaps"]
    assert (scopes, found.twice) == ([everywhere], ("cm",))
    assert ("secrets", default) in found.desired


async def test_the_third_name_of_a_resource_may_not_equal_the_second() -> None:
    public, default = Scope("kube-public"), Scope("default")
    found = await resolved(
        Wanted("configmaps", (public,)), Wanted("cm", (default,)), Wanted("ConfigMap", (Scope("default", "tier=web"),))
    )
    assert found.desired.keys() == {("configmaps", public), ("configmaps", default)}
    assert found.unresolved == {"ConfigMap": "cm means configmaps as well, and an object has one entry"}
    assert found.twice == ("ConfigMap",)


async def test_a_resync_reaches_its_sink_without_asking_the_server() -> None:
    due, other = RecordingSink(), RecordingSink()
    async with running(due, other, options={"sink-0": {"resync_seconds": 0.1}}) as world:
        world.cluster.create("configmaps", a_config_map("a"))
        await due.until(lambda sink: sink.delivered().count("sync default/a") >= 2)
        asked = len(world.cluster.seen("list", "configmaps")) + len(world.cluster.seen("watch", "configmaps"))
    assert asked == 1
    assert other.delivered() == ["added default/a"]


async def test_stopping_delivers_what_was_read() -> None:
    stuck = StuckSink()
    async with running(stuck) as world:
        world.cluster.create("configmaps", a_config_map("a"))
        await stuck.holding.wait()
        world.cluster.create("configmaps", a_config_map("b"))
        await until(lambda: world.bridge.status().sinks[0].backlog_records == 2)
        world.bridge.stop()
        asyncio.get_running_loop().call_later(0.1, stuck.loose.set)

    assert stuck.delivered() == ["added default/a", "added default/b"]


async def test_a_sink_stuck_at_the_end_gets_the_grace_and_no_more() -> None:
    stuck = StuckSink()
    async with running(stuck, grace_seconds=0.1) as world:
        world.cluster.create("configmaps", a_config_map("a"))
        await stuck.holding.wait()

    assert stuck.records == []
    assert world.reported(RecordsLeftBehind) == [RecordsLeftBehind("sink-0", 1)]


async def test_a_reused_version_after_a_restore_is_exported_as_it_is() -> None:
    sink = RecordingSink()
    async with running(sink, idle_timeout=0.5) as world:
        world.cluster.create("configmaps", a_config_map("a"))
        world.cluster.create("configmaps", a_config_map("same"))
        await world.until_ready()
        snapshot = world.cluster.snapshot()
        lost = world.cluster.patch("configmaps", "a", {"data": {"value": "lost"}})
        for name in ("gone-0", "gone-1", "gone-2"):
            world.cluster.create("configmaps", a_config_map(name))
        await sink.until(lambda sink: "added default/gone-2" in sink.delivered())

        world.cluster.restore(snapshot)
        other = world.cluster.patch("configmaps", "a", {"data": {"value": "other"}})
        assert other["metadata"]["resourceVersion"] == lost["metadata"]["resourceVersion"]
        await sink.until(lambda sink: "deleted default/gone-2" in sink.delivered())

    delivered = [delta.body for delta in sink.deltas if delta.key == "default/a"]
    assert [b'"other"' in body for body in delivered] == [False, False, True]
    assert [delivered for delivered in sink.delivered() if delivered.endswith("same")] == ["added default/same"], (
        "exported once"
    )


async def test_a_delete_made_by_a_restore_has_the_last_version() -> None:
    sink = RecordingSink()
    async with running(sink, idle_timeout=0.5) as world:
        world.cluster.create("configmaps", a_config_map("a"))
        await world.until_ready()
        snapshot = world.cluster.snapshot()
        world.cluster.create("configmaps", a_config_map("b"))
        world.cluster.patch("configmaps", "b", {"data": {"value": "lost"}})
        await sink.until(lambda sink: b"lost" in sink.deltas[-1].body)

        world.cluster.restore(snapshot)
        await sink.until(lambda sink: "deleted default/b" in sink.delivered())
        world.cluster.create("configmaps", a_config_map("b"))
        await sink.until(lambda sink: sink.delivered()[-1] == "added default/b")

    lost, deleted, anew = sink.deltas[-3:]
    assert (lost.epoch, deleted.epoch, anew.epoch) == (1, 2, 2)
    assert int(lost.resource_version) == int(deleted.resource_version) > int(anew.resource_version)
    assert lost.sequence < deleted.sequence < anew.sequence


async def test_an_empty_wildcard_is_ready_and_watches_what_appears() -> None:
    async with running(RecordingSink(), wanted=(Wanted("*.nothing.example.com"),)) as world:
        await world.until_ready()
        [status] = world.bridge.status().informers
        assert (status.state, status.ready) == ("live", True)
        assert "serves no resources" in status.reason
        assert [fact.name for fact in world.reported(ResourceUnknown)] == ["*.nothing.example.com"]
