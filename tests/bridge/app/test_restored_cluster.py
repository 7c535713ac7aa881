"""An API server whose store was restored from a backup, and has passed all versions of before when the bridge looks."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from bridge.model.change import Op
from bridge.model.record import Delta
from bridge.model.resource import Scope
from bridge.plan.plan import Wanted
from bridge.playground.objects.store import StoreSnapshot
from bridge.telemetry.facts.informer import HistoryChecked, ListCompleted, VersionsRanBackwards
from tests.bridge.app.test_restart import CONFIG_MAPS, Run, life
from tests.kit.bridges import a_config_map
from tests.kit.deadlines import until
from tests.kit.playground import Playground

BOTH = (*CONFIG_MAPS, Wanted("secrets", (Scope("default"),)))


def write(cluster: Playground, times: int, name: str = "busy") -> None:
    for turn in range(times):
        cluster.patch("configmaps", name, {"data": {"value": f"{cluster.version}-{turn}"}})


def live_through(cluster: Playground) -> None:
    """Before the backup."""
    for name in ("busy", "changed", "deleted", "untouched"):
        cluster.create("configmaps", a_config_map(name))
    cluster.create("secrets", a_config_map("quiet"))


def be_forgotten(cluster: Playground) -> None:
    """After the backup, and exported."""
    cluster.patch("configmaps", "changed", {"data": {"value": "lost"}})
    cluster.delete("configmaps", "deleted")
    cluster.create("configmaps", a_config_map("lost"))
    cluster.create("secrets", a_config_map("lost"))
    write(cluster, 20)


def be_restored(cluster: Playground, backup: StoreSnapshot) -> None:
    """Nobody watches; and more happens than happened before."""
    reached = int(cluster.version)
    cluster.restore(backup)
    cluster.patch("configmaps", "changed", {"data": {"value": "anew"}})
    cluster.create("secrets", a_config_map("anew"))
    write(cluster, reached - int(cluster.version) + 5)


def state_received(deltas: Sequence[Delta]) -> dict[tuple[str, str], bytes]:
    """What a consumer knows that drops what has a source and an id that it has seen."""
    state: dict[tuple[str, str], bytes] = {}
    seen: dict[tuple[int, str], bytes] = {}
    for delta in deltas:
        identity = (delta.epoch, f"{delta.resource.name} {delta.unique_id}")
        assert seen.setdefault(identity, delta.body) == delta.body, "an id names two states"
        if delta.op is Op.DELETED:
            state.pop((delta.resource.name, delta.key), None)
        else:
            state[delta.resource.name, delta.key] = delta.body
    return state


def names(state: dict[tuple[str, str], bytes]) -> set[str]:
    return {f"{resource} {key}" for resource, key in state}


async def until_received(run: Run, before: Sequence[Delta] = ()) -> None:
    """The exported state is that of the cluster."""
    await until(lambda: is_received([*before, *run.sink.deltas]))


def is_received(deltas: Sequence[Delta]) -> bool:
    state = state_received(deltas)
    return names(state) == EXPECTED and b"anew" in state[CHANGED]


EXPECTED = {
    "configmaps default/busy",
    "configmaps default/changed",
    "configmaps default/deleted",
    "configmaps default/untouched",
    "secrets default/quiet",
    "secrets default/anew",
}
CHANGED = ("configmaps", "default/changed")


def outcomes(run: Run) -> list[str]:
    return [fact.outcome for fact in run.reported(HistoryChecked)]


@pytest.mark.parametrize("compacted", [False, True], ids=["with its history", "without its history"])
async def test_a_restore_is_noticed_after_versions_passed_the_position(tmp_path: Path, compacted: bool) -> None:
    async with Playground(bookmark_interval=0.2) as cluster:
        live_through(cluster)
        backup = cluster.snapshot()
        async with life(tmp_path, cluster, BOTH) as first:
            be_forgotten(cluster)
            await first.sink.until(lambda sink: b"lost" in sink.deltas[-1].body or len(sink.deltas) >= 25)
            await first.until_settled()
        be_restored(cluster, backup)
        if compacted:
            cluster.misbehave.expire_history()
        async with life(tmp_path, cluster, BOTH) as second:
            await until_received(second, first.sink.deltas)

    if not compacted:
        assert outcomes(second)[0] == "other"
        assert {fact.resource.name for fact in second.reported(VersionsRanBackwards)} == {
            "configmaps",
            "secrets",
        }
    assert second.sink.deltas[-1].epoch == 2


async def test_a_restore_is_noticed_under_a_running_watch(tmp_path: Path) -> None:
    async with Playground(bookmark_interval=0.2) as cluster:
        live_through(cluster)
        backup = cluster.snapshot()
        async with life(tmp_path, cluster, BOTH) as run:
            be_forgotten(cluster)
            await run.sink.until(lambda sink: len(sink.deltas) >= 29)
            await run.until_settled()
            be_restored(cluster, backup)
            await until_received(run)
            await _goes_on(run, cluster, "later")

    assert outcomes(run).count("other") == 1, "all informers together"
    assert max(delta.epoch for delta in run.sink.deltas) == 2


async def _goes_on(run: Run, cluster: Playground, name: str) -> None:
    cluster.create("configmaps", a_config_map(name))
    await run.sink.until(lambda sink: sink.deltas[-1].key == f"default/{name}")


async def test_a_broken_connection_begins_no_epoch_and_lists_nothing(tmp_path: Path) -> None:
    async with Playground(bookmark_interval=0.2) as cluster:
        live_through(cluster)
        async with life(tmp_path, cluster, BOTH) as run:
            for turn in range(3):
                write(cluster, 3)
                cluster.misbehave.reset()
                await _goes_on(run, cluster, f"after-{turn}")
                await run.until_settled()
            lists = [fact for fact in run.reported(ListCompleted) if fact.relist]

    assert set(outcomes(run)) == {"same"}
    assert not lists
    assert {delta.epoch for delta in run.sink.deltas} == {1}


async def test_a_restore_is_noticed_where_all_it_undid_came_and_went(tmp_path: Path) -> None:
    """Nothing that is known was undone; and what was made anew has versions that were passed."""
    async with Playground(bookmark_interval=0.2) as cluster:
        live_through(cluster)
        backup = cluster.snapshot()
        async with life(tmp_path, cluster, BOTH) as first:
            for number in range(10):
                cluster.create("configmaps", a_config_map(f"fleeting-{number}"))
                cluster.delete("configmaps", f"fleeting-{number}")
            await first.sink.until(lambda sink: len(sink.deltas) >= 25)
            await first.until_settled()
        be_restored(cluster, backup)
        async with life(tmp_path, cluster, BOTH) as second:
            await until_received(second, first.sink.deltas)

    assert outcomes(second)[0] == "other"
