"""``ignore_changes`` in a running bridge: across restarts, relists and restores."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bridge.model.primitives.field_path import FieldPath
from bridge.model.resource import Scope
from bridge.plan.plan import Wanted
from bridge.telemetry.facts.informer import ChangesIgnored, HistoryChecked, ListCompleted, VersionsRanBackwards
from tests.bridge.app.test_restart import CONFIG_MAPS, Run, life
from tests.kit.bridges import a_config_map
from tests.kit.deadlines import until
from tests.kit.playground import Playground

IGNORED = (FieldPath.parsed("data.beat"), FieldPath.parsed("metadata.annotations['example.com/at']"))
QUIET = (Wanted("configmaps", (Scope("default"),), ignore_changes=IGNORED),)
FEWER = (Wanted("configmaps", (Scope("default"),), ignore_changes=IGNORED[:1]),)


def beat(cluster: Playground, value: str, name: str = "a") -> None:
    annotations = {"example.com/at": value}
    cluster.patch("configmaps", name, {"data": {"beat": value}, "metadata": {"annotations": annotations}})


def change(cluster: Playground, value: str, name: str = "a") -> None:
    cluster.patch("configmaps", name, {"data": {"value": value}})


def received(run: Run) -> list[tuple[str, str]]:
    return [(delta.op, delta.key) for delta in run.sink.deltas]


async def until_ignored(run: Run, count: int) -> None:
    await until(lambda: sum(fact.count for fact in run.reported(ChangesIgnored)) >= count)


async def test_heartbeats_are_ignored_across_restarts_and_relists(tmp_path: Path) -> None:
    async with Playground(bookmark_interval=0.2) as cluster:
        cluster.create("configmaps", a_config_map("a"))
        async with life(tmp_path, cluster, QUIET) as first:
            for value in ("1", "2"):
                beat(cluster, value)
            await until_ignored(first, 2)
            change(cluster, "new")
            await first.sink.until(lambda sink: len(sink.deltas) == 2)
        beat(cluster, "3")
        async with life(tmp_path, cluster, QUIET) as resumed:
            beat(cluster, "4")
            await until_ignored(resumed, 1)
        beat(cluster, "5")
        cluster.misbehave.expire_history()
        async with life(tmp_path, cluster, QUIET) as relisted:
            change(cluster, "newer")
            await relisted.sink.until(lambda sink: len(sink.deltas) == 1)
        cluster.delete("configmaps", "a")
        cluster.misbehave.expire_history()
        async with life(tmp_path, cluster, QUIET) as last:
            pass

    assert received(first) == [("added", "default/a"), ("updated", "default/a")]
    assert received(resumed) == []
    assert received(relisted) == [("updated", "default/a")]
    assert b'"beat":"5"' in relisted.sink.deltas[0].body, "the newest values come with the next change"
    assert received(last) == [("deleted", "default/a")]
    assert last.sink.deltas[0].resource_version == relisted.sink.deltas[0].resource_version


@pytest.mark.parametrize("expired", [False, True])
@pytest.mark.parametrize("wanted", [CONFIG_MAPS, FEWER], ids=["none", "fewer"])
async def test_paths_that_are_ignored_no_more_are_exported(
    tmp_path: Path, wanted: tuple[Wanted, ...], expired: bool
) -> None:
    async with Playground(bookmark_interval=0.2) as cluster:
        for name in ("a", "b"):
            cluster.create("configmaps", a_config_map(name))
        async with life(tmp_path, cluster, QUIET) as first:
            for name in ("a", "b"):
                beat(cluster, "1", name)
            await until_ignored(first, 2)
        if expired:
            cluster.misbehave.expire_history()
        async with life(tmp_path, cluster, wanted) as second:
            pass
        async with life(tmp_path, cluster, wanted) as third:
            pass

    assert received(first) == [("added", "default/a"), ("added", "default/b")]
    assert sorted(received(second)) == [("updated", "default/a"), ("updated", "default/b")]
    assert not second.reported(VersionsRanBackwards)
    assert received(third) == []
    assert not third.reported(ListCompleted), "the position counts again"


async def test_objects_from_before_the_option_are_exported_once(tmp_path: Path) -> None:
    async with Playground(bookmark_interval=0.2) as cluster:
        cluster.create("configmaps", a_config_map("a"))
        async with life(tmp_path, cluster, CONFIG_MAPS):
            pass
        async with life(tmp_path, cluster, QUIET) as run:
            beat(cluster, "1")
            await run.sink.until(lambda sink: len(sink.deltas) == 1)
            beat(cluster, "2")
            await until_ignored(run, 1)

    assert received(run) == [("updated", "default/a")]


@pytest.mark.parametrize("compacted", [False, True], ids=["with its history", "without its history"])
async def test_an_ignored_change_is_no_other_history(tmp_path: Path, compacted: bool) -> None:
    """Proofs compare the known objects with the server's: in a run, and after a restart."""
    async with Playground(bookmark_interval=0.2) as cluster:
        cluster.create("configmaps", a_config_map("a"))
        async with life(tmp_path, cluster, QUIET) as first:
            beat(cluster, "1")
            await until_ignored(first, 1)
            await _proven(first, cluster)
        if compacted:
            cluster.misbehave.expire_history()
        async with life(tmp_path, cluster, QUIET) as second:
            await _proven(second, cluster)

    for run in (first, second):
        assert not run.reported(VersionsRanBackwards)
        assert "other" not in [fact.outcome for fact in run.reported(HistoryChecked)]
    assert received(second) == []


async def _proven(run: Run, cluster: Playground) -> None:
    before = len(run.reported(HistoryChecked))
    cluster.misbehave.reset()
    await until(lambda: len(run.reported(HistoryChecked)) > before)


@pytest.mark.parametrize("restarted", [False, True])
async def test_a_restore_shows_where_only_ignored_changes_were(tmp_path: Path, restarted: bool) -> None:
    """Since the backup, no state was exported; and the server's versions have passed the position."""

    def restore(backup: Any) -> None:
        reached = int(cluster.version)
        cluster.restore(backup)
        change(cluster, "in the new history", "b")
        while int(cluster.version) < reached + 5:
            change(cluster, cluster.version, "c")

    async with Playground(bookmark_interval=0.2) as cluster:
        for name in ("a", "b", "c"):
            cluster.create("configmaps", a_config_map(name))
        async with life(tmp_path, cluster, QUIET) as first:
            backup = cluster.snapshot()
            for value in range(5):
                beat(cluster, str(value))
            await until_ignored(first, 5)
            if not restarted:
                restore(backup)
                await first.sink.until(lambda sink: any(b"in the new" in delta.body for delta in sink.deltas))
        if restarted:
            restore(backup)
            async with life(tmp_path, cluster, QUIET) as second:
                await second.sink.until(lambda sink: any(b"in the new" in delta.body for delta in sink.deltas))

    found = second if restarted else first
    assert found.reported(VersionsRanBackwards)
