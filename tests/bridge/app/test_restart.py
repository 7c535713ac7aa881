"""What a bridge knows of the one that ran before it on the same state."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from bridge.app.bridge import Bridge
from bridge.informer import RecoveryLimits
from bridge.model.change import Evidence, Op
from bridge.model.policies import StartPolicy
from bridge.model.record import Delta, Gap, Snapshot
from bridge.model.resource import Scope
from bridge.outbox import OtherCluster
from bridge.plan.plan import SinkPlan, Wanted
from bridge.playground import StatusError
from bridge.playground.http.streams import DISCOVERY
from bridge.telemetry.facts import Fact
from bridge.telemetry.facts.cluster import ClusterChanged, ScopeChanged
from tests.kit.bridges import World, a_bridge, a_config_map
from tests.kit.deadlines import until
from tests.kit.playground import Playground
from tests.kit.sinks import RecordingSink

CONFIG_MAPS = (Wanted("configmaps", (Scope("default"),)),)


class Run(World):
    """One life of the bridge."""

    def __init__(self, cluster: Playground, bridge: Bridge, sink: RecordingSink, facts: list[Fact]) -> None:
        super().__init__(cluster, bridge, facts)
        self.sink = sink

    async def until_settled(self) -> None:
        await until(self._is_settled)

    def _is_settled(self) -> bool:
        standing = self.bridge.status()
        return standing.ready and not any(sink.backlog_records for sink in standing.sinks)


@asynccontextmanager
async def life(
    state: Path, cluster: Playground, wanted: tuple[Wanted, ...] = CONFIG_MAPS, *, name: str = "sink", **plan: Any
) -> AsyncIterator[Run]:
    sink, facts = RecordingSink(), list[Fact]()
    ready = plan.pop("ready", True)
    start = plan.pop("start", StartPolicy.SNAPSHOT)
    select = plan.pop("select", None)
    planned = SinkPlan(name=name, type="memory", make=lambda: sink, max_batch=100, start=start, select=select)
    bridge = a_bridge(cluster, facts, state, [planned], wanted, **plan)
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(bridge.run())
        run = Run(cluster, bridge, sink, facts)
        if ready:
            await run.until_settled()
        yield run
        if ready:
            await run.until_settled()
        bridge.stop()
        await running


def lists_and_watches(cluster: Playground) -> tuple[int, int]:
    """A look at one object, or at the version alone, is no list."""
    lists = [
        each
        for each in cluster.seen("list", "configmaps")
        if each.query.get("limit") != "1" and "metadata.name=" not in each.query.get("fieldSelector", "")
    ]
    return len(lists), len(cluster.seen("watch", "configmaps"))


def evidence(deltas: Sequence[Delta]) -> list[tuple[str, str, str]]:
    return [(delta.op, delta.key, delta.evidence) for delta in deltas]


async def test_a_watch_resumes_without_a_list_or_a_repetition(tmp_path: Path) -> None:
    async with Playground(bookmark_interval=0.2) as cluster:
        cluster.create("configmaps", a_config_map("a"))
        cluster.create("configmaps", a_config_map("b"))
        async with life(tmp_path, cluster) as first:
            pass
        before = lists_and_watches(cluster)
        cluster.patch("configmaps", "a", {"data": {"value": "2"}})
        cluster.delete("configmaps", "b")
        async with life(tmp_path, cluster) as second:
            await second.sink.until(lambda sink: len(sink.deltas) == 2)
        after = lists_and_watches(cluster)

    assert evidence(second.sink.deltas) == [("updated", "default/a", "watched"), ("deleted", "default/b", "watched")]
    assert after == (before[0], before[1] + 1), "one watch more, and no list"
    assert second.sink.deltas[0].sequence == first.sink.deltas[-1].sequence + 1


async def test_a_stop_within_the_window_loses_no_change(tmp_path: Path) -> None:
    """The second change waits for others when the bridge stops: it is neither awaited nor lost, nor sent twice."""
    async with Playground(bookmark_interval=600) as cluster:
        for name in ("a", "b"):
            cluster.create("configmaps", a_config_map(name))
        async with life(tmp_path, cluster, ready=False, latency=600.0) as first:
            await first.until_settled()
            cluster.patch("configmaps", "a", {"data": {"value": "2"}})  # after a pause: at once
            await first.sink.until(lambda sink: len(sink.deltas) == 3)
            cluster.patch("configmaps", "b", {"data": {"value": "2"}})
        before = lists_and_watches(cluster)
        async with life(tmp_path, cluster) as second:
            await second.sink.until(lambda sink: len(sink.deltas) == 1)
        after = lists_and_watches(cluster)

    assert [each.key for each in first.sink.deltas] == ["default/a", "default/b", "default/a"]
    assert evidence(second.sink.deltas) == [("updated", "default/b", "watched")]
    assert after == (before[0], before[1] + 1), "one watch more, and no list"


async def test_an_expired_position_exports_the_difference_alone(tmp_path: Path) -> None:
    async with Playground(bookmark_interval=0.2) as cluster:
        for name in ("kept", "changed", "deleted", "recreated"):
            cluster.create("configmaps", a_config_map(name))
        async with life(tmp_path, cluster):
            pass
        cluster.patch("configmaps", "changed", {"data": {"value": "2"}})
        last_state = cluster.get("configmaps", "deleted")
        cluster.delete("configmaps", "deleted")
        cluster.delete("configmaps", "recreated")
        cluster.create("configmaps", a_config_map("recreated"))
        cluster.create("configmaps", a_config_map("new"))
        cluster.misbehave.expire_history()
        async with life(tmp_path, cluster) as second:
            pass

    delivered = evidence(second.sink.deltas)
    assert {each[2] for each in delivered} == {Evidence.RELISTED}
    assert {each[:2] for each in delivered} == {
        ("updated", "default/changed"),
        ("deleted", "default/deleted"),
        ("deleted", "default/recreated"),
        ("added", "default/recreated"),
        ("added", "default/new"),
    }
    deleted = next(delta for delta in second.sink.deltas if delta.key == "default/deleted")
    assert deleted.uid == last_state["metadata"]["uid"]
    assert b'"value":"1"' in deleted.body


async def test_objects_that_left_the_scope_are_deleted_new_ones_added(tmp_path: Path) -> None:
    both = (Wanted("configmaps", (Scope("default"), Scope("kube-public"))),)
    other = (Wanted("configmaps", (Scope("kube-public"), Scope("kube-system"))),)
    async with Playground(bookmark_interval=0.2) as cluster:
        for namespace in ("default", "kube-public", "kube-system"):
            cluster.create("configmaps", a_config_map("a", namespace=namespace))
        async with life(tmp_path, cluster, both):
            pass
        async with life(tmp_path, cluster, other) as second:
            pass

    assert set(evidence(second.sink.deltas)) == {
        ("deleted", "default/a", "unwatched"),
        ("added", "kube-system/a", "listed"),
    }
    assert [fact.left for fact in second.reported(ScopeChanged)] == [1]


@pytest.mark.parametrize("recovery", [None, RecoveryLimits()], ids=["by the list", "where steps are looked for"])
async def test_what_a_changed_selector_leaves_out_is_no_delete(tmp_path: Path, recovery: RecoveryLimits | None) -> None:
    """A later list does not have three objects: two that the selector leaves out, and one that was deleted."""
    before = (Wanted("configmaps", (Scope("default", "tier"),)),)
    after = (Wanted("configmaps", (Scope("default", "tier in (api)"),)),)
    async with Playground(bookmark_interval=0.2) as cluster:
        for name, tier in (("web", "web"), ("db", "db"), ("gone", "api"), ("api", "api")):
            cluster.create("configmaps", a_config_map(name, tier=tier))
        async with life(tmp_path, cluster, before, recovery=recovery):
            pass
        cluster.delete("configmaps", "gone")
        cluster.create("configmaps", a_config_map("new", tier="api"))
        async with life(tmp_path, cluster, after, recovery=recovery) as second:
            pass

    assert sorted(evidence(second.sink.deltas)) == [
        ("added", "default/new", "relisted"),
        ("deleted", "default/db", "unwatched"),
        ("deleted", "default/gone", "relisted"),
        ("deleted", "default/web", "unwatched"),
    ]


async def test_a_delete_of_what_redaction_changed_is_a_delete(tmp_path: Path) -> None:
    """The state that the bridge keeps has a digest in place of the label that the selector reads, or no labels."""
    wanted = tuple(Wanted(resource, (Scope("default", "tier=web"),)) for resource in ("secrets", "configmaps"))
    deep: Any = "x"
    for _ in range(600):
        deep = [deep]
    metadata = {"name": "gone", "namespace": "default", "labels": {"tier": "web"}}
    async with Playground(bookmark_interval=0.2) as cluster:
        cluster.create("secrets", {"metadata": metadata, "data": {}})
        cluster.create("configmaps", {"metadata": metadata, "data": {"deep": deep}})
        async with life(tmp_path, cluster, wanted):
            pass
        cluster.delete("secrets", "gone")
        cluster.delete("configmaps", "gone")
        cluster.misbehave.expire_history()
        async with life(tmp_path, cluster, wanted) as second:
            pass

    assert evidence(second.sink.deltas) == [("deleted", "default/gone", "relisted")] * 2


@pytest.mark.parametrize("status", [401, 403, 404, 500, 503])
async def test_a_list_that_is_refused_deletes_nothing(tmp_path: Path, status: int) -> None:
    """Lost rights, a group whose server is away, a server that fails: 404 too, while discovery has the resource."""
    async with Playground(bookmark_interval=0.2) as cluster:
        cluster.create("configmaps", a_config_map("a"))
        async with life(tmp_path, cluster) as run:
            cluster.misbehave.fail(StatusError(status, "Refused", "the test refuses"), "configmaps", times=5)
            cluster.misbehave.restart()
            cluster.create("configmaps", a_config_map("b"))
            await run.sink.until(lambda sink: sink.deltas[-1].key == "default/b")

    assert [(delta.op, delta.key) for delta in run.sink.deltas] == [("added", "default/a"), ("added", "default/b")]


async def test_a_group_whose_server_is_away_deletes_nothing(tmp_path: Path) -> None:
    """Discovery lists a group whose server does not answer as stale, and later without its resources."""
    async with Playground(bookmark_interval=0.2) as cluster:
        cluster.create("configmaps", a_config_map("a"))
        async with life(tmp_path, cluster) as run:
            without = b'{"kind":"APIGroupDiscoveryList","items":[{"metadata":{},"versions":[{"version":"v1"}]}]}'
            accepted = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
            with cluster.misbehave.reply(without, DISCOVERY, content_type=accepted):
                asked = len(cluster.seen("list", "configmaps"))
                # Missing at two discoveries in a row: the bridge looks whether the resource is gone.
                await until(lambda: len(cluster.seen("list", "configmaps")) > asked)
            cluster.create("configmaps", a_config_map("b"))
            await run.sink.until(lambda sink: sink.deltas[-1].key == "default/b")

    assert [(delta.op, delta.key) for delta in run.sink.deltas] == [("added", "default/a"), ("added", "default/b")]


async def test_a_new_sink_gets_all_known_objects_between_two_notices(tmp_path: Path) -> None:
    async with Playground(bookmark_interval=0.2) as cluster:
        for name in ("a", "b"):
            cluster.create("configmaps", a_config_map(name))
        async with life(tmp_path, cluster):
            cluster.patch("configmaps", "a", {"data": {"value": "2"}})
        async with life(tmp_path, cluster, name="late") as second:
            cluster.delete("configmaps", "b")
            await second.sink.until(lambda sink: sink.deltas and sink.deltas[-1].op is Op.DELETED)

    kinds = [record.edge if isinstance(record, Snapshot) else record.op for record in second.sink.records]  # type: ignore[union-attr]
    assert kinds == ["began", "added", "added", "ended", "deleted"]
    assert [delta.key for delta in second.sink.deltas] == ["default/b", "default/a", "default/b"]
    assert b'"value":"2"' in second.sink.deltas[1].body
    assert [record.count for record in second.sink.records if isinstance(record, Snapshot)] == [2, 2]


async def test_the_state_of_another_cluster_is_refused(tmp_path: Path) -> None:
    async with Playground(bookmark_interval=0.2) as cluster, life(tmp_path, cluster):
        pass
    async with Playground(bookmark_interval=0.2) as other:
        with pytest.raises(BaseExceptionGroup) as refused:
            async with life(tmp_path, other):
                pass

    (error,) = leaves(refused.value)
    assert isinstance(error, OtherCluster)
    assert "state.on_cluster_change" in str(error)


async def test_another_clusters_state_is_compared_in_a_new_epoch(tmp_path: Path) -> None:
    async with Playground(bookmark_interval=0.2) as cluster:
        cluster.create("configmaps", a_config_map("both"))
        cluster.create("configmaps", a_config_map("there"))
        async with life(tmp_path, cluster):
            pass
    async with Playground(bookmark_interval=0.2) as other:
        other.create("configmaps", a_config_map("both"))
        other.create("configmaps", a_config_map("here"))
        async with life(tmp_path, other, restart_on_cluster_change=True) as second:
            pass

    assert [(delta.op, delta.key) for delta in second.sink.deltas] == [
        ("deleted", "default/both"),
        ("added", "default/both"),
        ("added", "default/here"),
        ("deleted", "default/there"),
    ]
    assert {delta.epoch for delta in second.sink.deltas} == {2}
    assert len(second.reported(ClusterChanged)) == 1


async def test_a_damaged_database_is_set_aside_and_resent_after_a_gap(tmp_path: Path) -> None:
    async with Playground(bookmark_interval=0.2) as cluster:
        for name in ("a", "b"):
            cluster.create("configmaps", a_config_map(name))
        async with life(tmp_path, cluster) as first:
            pass
        (tmp_path / "outbox.db").write_bytes(b"no database at all" * 1000)
        async with life(tmp_path, cluster) as second:
            cluster.create("configmaps", a_config_map("c"))
            await second.sink.until(lambda sink: len(sink.deltas) == 3)

    gap, *deltas = second.sink.records
    assert isinstance(gap, Gap)
    assert gap.count is None
    assert [(delta.op, delta.key) for delta in second.sink.deltas] == [
        ("sync", "default/a"),
        ("sync", "default/b"),
        ("added", "default/c"),
    ]
    assert gap.sequence > first.sink.deltas[-1].sequence
    assert len(deltas) == 3
    assert list(tmp_path.glob("outbox.db.*.aside"))  # noqa: ASYNC240


def leaves(error: BaseException) -> list[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        return [leaf for each in error.exceptions for leaf in leaves(each)]
    return [error]
