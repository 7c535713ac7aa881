"""Steps that no watch announced, in a running bridge: redacted, judged and delivered as all others."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import msgspec

from bridge.informer import RecoveryLimits
from bridge.model.change import Evidence
from bridge.model.primitives.field_path import FieldPath
from bridge.model.record import Delta
from bridge.model.resource import Scope
from bridge.plan.plan import Wanted
from bridge.telemetry.facts.informer import RecoveryEnd, StepsRecovered
from bridge.views.selection import SelectorText
from tests.bridge.app.test_restart import CONFIG_MAPS, Run, evidence, life
from tests.kit.bridges import a_config_map
from tests.kit.playground import Playground

RECOVERY: dict[str, Any] = {"recovery": RecoveryLimits()}
BEATS = (Wanted("configmaps", (Scope("default"),), ignore_changes=(FieldPath.parsed("data.beat"),)),)


def change(cluster: Playground, *values: str, name: str = "a") -> None:
    for value in values:
        cluster.patch("configmaps", name, {"data": {"value": value}})


async def received(run: Run, count: int) -> None:
    await run.sink.until(lambda sink: len(sink.deltas) >= count)


def values(run: Run) -> list[tuple[str, Any, str]]:
    return [(each.op, _manifest(each)["data"].get("value"), each.evidence) for each in run.sink.deltas]


async def test_a_start_recovers_what_a_watch_cannot_show(tmp_path: Path) -> None:
    async with Playground(bookmark_interval=0.2) as cluster:
        cluster.create("configmaps", a_config_map("a"))
        cluster.create("configmaps", a_config_map("b"))
        async with life(tmp_path, cluster, **RECOVERY):
            pass
        change(cluster, "2", "3")
        last = cluster.delete("configmaps", "b")
        deleted_at = cluster.version
        cluster.create("configmaps", a_config_map("c"))
        cluster.misbehave.restart()
        async with life(tmp_path, cluster, **RECOVERY) as second:
            await received(second, 4)

    assert {each.evidence for each in second.sink.deltas} == {Evidence.RECOVERED}
    assert [each for each in values(second) if each[0] == "updated"] == [
        ("updated", "2", "recovered"),
        ("updated", "3", "recovered"),
    ]
    (deleted,) = (each for each in second.sink.deltas if each.op == "deleted")
    assert (deleted.uid, deleted.resource_version) == (last["metadata"]["uid"], deleted_at)
    assert _manifest(deleted)["metadata"]["resourceVersion"] == deleted_at
    (recovery,) = second.reported(StepsRecovered)
    assert (recovery.objects, recovery.steps, recovery.ended_by) == (3, 4, RecoveryEnd.COMPLETE)


async def test_a_second_start_has_nothing_to_recover(tmp_path: Path) -> None:
    async with Playground(bookmark_interval=0.2) as cluster:
        cluster.create("configmaps", a_config_map("a"))
        async with life(tmp_path, cluster, **RECOVERY):
            pass
        change(cluster, "2", "3")
        cluster.misbehave.restart()
        async with life(tmp_path, cluster, **RECOVERY) as second:
            await received(second, 2)
        cluster.misbehave.restart()
        async with life(tmp_path, cluster, **RECOVERY) as third:
            pass

    assert len(second.sink.deltas) == 2
    assert (third.sink.deltas, third.reported(StepsRecovered)) == ([], [])


async def test_recovered_secrets_are_redacted(tmp_path: Path) -> None:
    wanted = (Wanted("secrets", (Scope("default"),)),)
    secret = {"metadata": {"name": "s", "namespace": "default"}, "data": {"password": _base64("first")}}
    async with Playground(bookmark_interval=0.2) as cluster:
        cluster.create("secrets", secret)
        async with life(tmp_path, cluster, wanted, **RECOVERY) as first:
            pass
        for password in ("second", "third", "first"):
            cluster.patch("secrets", "s", {"data": {"password": _base64(password)}})
        cluster.delete("secrets", "s")
        cluster.misbehave.restart()
        async with life(tmp_path, cluster, wanted, **RECOVERY) as second:
            await received(second, 4)

    steps = second.sink.deltas
    assert [(each.op, each.evidence) for each in steps] == [*[("updated", "recovered")] * 3, ("deleted", "recovered")]
    digests = [_manifest(each)["data"]["password"] for each in (*first.sink.deltas, *steps)]
    assert digests[0] == digests[3] == digests[4], "an equal value has an equal digest"
    assert len(set(digests)) == 3
    assert all(base64.b64decode(each).startswith(b"hmac-sha256:") for each in digests)


async def test_recovered_steps_of_ignored_paths_alone_are_ignored(tmp_path: Path) -> None:
    async with Playground(bookmark_interval=0.2) as cluster:
        cluster.create("configmaps", a_config_map("a"))
        async with life(tmp_path, cluster, BEATS, **RECOVERY):
            pass
        cluster.patch("configmaps", "a", {"data": {"beat": "1"}})
        change(cluster, "2")
        cluster.patch("configmaps", "a", {"data": {"beat": "2"}})
        cluster.misbehave.restart()
        async with life(tmp_path, cluster, BEATS, **RECOVERY) as second:
            await received(second, 1)

    assert values(second) == [("updated", "2", "recovered")]


async def test_recovered_steps_pass_the_selection_of_a_sink(tmp_path: Path) -> None:
    """An object that leaves the selection is deleted for the sink, and added where it comes back."""
    selected = {"select": (SelectorText(resource="configmaps", label_selector="team=a"),), **RECOVERY}
    async with Playground(bookmark_interval=0.2) as cluster:
        cluster.create("configmaps", a_config_map("a", team="a"))
        cluster.create("configmaps", a_config_map("b", team="b"))
        async with life(tmp_path, cluster, **selected) as first:
            pass
        for value, team in (("2", "a"), ("3", "b"), ("4", "b"), ("5", "a")):
            cluster.patch("configmaps", "a", {"metadata": {"labels": {"team": team}}, "data": {"value": value}})
        change(cluster, "2", "3", name="b")
        cluster.delete("configmaps", "a")
        cluster.misbehave.restart()
        async with life(tmp_path, cluster, **selected) as second:
            await received(second, 4)

    assert values(first) == [("added", "1", "listed")]
    assert evidence(second.sink.deltas) == [
        ("updated", "default/a", "recovered"),
        ("deleted", "default/a", "unselected"),
        ("added", "default/a", "recovered"),
        ("deleted", "default/a", "recovered"),
    ]
    assert [value for op, value, _ in values(second) if op != "deleted"] == ["2", "5"]
    (recovery,) = second.reported(StepsRecovered)
    assert (recovery.objects, recovery.steps) == (2, 7), "also those of the object that is not selected"


async def test_without_the_option_the_newest_state_is_relisted(tmp_path: Path) -> None:
    unwanted = (Wanted("configmaps", (Scope("default"),), recover_steps=False),)
    async with Playground(bookmark_interval=0.2) as cluster:
        cluster.create("configmaps", a_config_map("a"))
        async with life(tmp_path, cluster):
            pass
        change(cluster, "2", "3")
        cluster.misbehave.restart()
        async with life(tmp_path, cluster, CONFIG_MAPS) as second:
            await received(second, 1)
        change(cluster, "4", "5")
        cluster.misbehave.restart()
        async with life(tmp_path, cluster, unwanted, **RECOVERY) as third:
            await received(third, 1)

    assert evidence(second.sink.deltas) == evidence(third.sink.deltas) == [("updated", "default/a", "relisted")]


def _manifest(delta: Delta) -> dict[str, Any]:
    return msgspec.json.decode(delta.body, type=dict[str, Any])


def _base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()
