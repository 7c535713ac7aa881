"""A look at the noise of a cluster: the paths that change most often, and what was not looked at."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest

from bridge.checks import noise
from bridge.checks.check import check_all
from bridge.checks.findings import CheckResult, Finding
from bridge.kube import Catalogue, KubeClient
from bridge.model.answers import Expired, Refused
from bridge.model.object import ApiObject
from bridge.model.primitives.field_path import FieldPath
from bridge.model.resource import Resource, Scope
from bridge.plan.entries import Resolution
from bridge.plan.plan import Wanted
from tests.bridge.checks.test_check import NOWHERE, a_plan
from tests.kit.bridges import a_config_map
from tests.kit.deadlines import until
from tests.kit.playground import Playground
from tests.kit.scripted_source import Quiet, ScriptedSource, deleted, modified, opened, page
from tests.kit.virtual_time import run_in_virtual_time

CONFIG_MAPS = Resource("", "v1", "configmaps", "ConfigMap", namespaced=True)
SECONDS = 10.0


def a_map(version: int, name: str = "a", uid: str = "u", **data: Any) -> ApiObject:
    body = {"kind": "ConfigMap", "apiVersion": "v1", "data": data}
    body["metadata"] = {"name": name, "uid": uid, "resourceVersion": str(version)}
    return ApiObject(name, uid, str(version), msgspec.json.encode(body))


class OneSource:
    """A client of a cluster with a single resource."""

    def __init__(self, source: ScriptedSource) -> None:
        self._source = source

    def lister_watcher(self, *_: object, **__: object) -> ScriptedSource:
        return self._source


def noise_of(tmp_path: Path, *script: Any, wanted: Wanted | None = None) -> tuple[list[Finding], float]:
    """The findings, and the seconds that they took."""
    plan = a_plan(tmp_path, NOWHERE, *([wanted] if wanted else []))
    client = cast("KubeClient", OneSource(ScriptedSource(*script)))
    resolution = Resolution({("configmaps", Scope()): CONFIG_MAPS}, {}, {})

    async def look() -> tuple[list[Finding], float]:
        began = asyncio.get_running_loop().time()
        findings = noise.check_noise(plan, client, Catalogue(), resolution, SECONDS)
        return [each async for each in findings], asyncio.get_running_loop().time() - began

    return run_in_virtual_time(look())


def test_updates_are_compared_with_the_state_before(tmp_path: Path) -> None:
    source = opened(
        modified(a_map(2, x=2)),
        Quiet(1),
        modified(a_map(3, x=3), a_map(4, "new", "v", x=1)),
        modified(a_map(5, "new", "v", x=2), a_map(6, x=4, y=1)),
    )

    [finding], seconds = noise_of(tmp_path, page(a_map(1, x=1), at=1), source)

    assert (finding.verdict, seconds) == (CheckResult.NOTE, SECONDS)
    assert "in 10 s, 4 updates" in finding.detail
    assert "of 1 further update the state before is unknown" in finding.detail
    assert [(each.path, each.per_second, each.share) for each in finding.noise] == [
        ("data.x", 0.4, 1.0),
        ("data.y", 0.1, 0.25),
    ]
    assert "- data.x" in finding.manifest


def test_another_object_of_the_same_name_is_no_update(tmp_path: Path) -> None:
    source = opened(modified(a_map(2, uid="v", x=2)), deleted(a_map(3, uid="v", x=2)), modified(a_map(4, x=3)))
    [finding], _ = noise_of(tmp_path, page(a_map(1, x=1), at=1), source)
    assert finding.verdict is CheckResult.RIGHT
    assert finding.detail == "no update was compared in 10 s; of 2 further updates the state before is unknown"


def test_changes_that_are_ignored_already_are_no_noise(tmp_path: Path) -> None:
    ignoring = Wanted("configmaps", ignore_changes=(FieldPath.parsed("data.x"),))
    source = opened(modified(a_map(2, x=2)), modified(a_map(3, x=3, y=1)))

    [finding], _ = noise_of(tmp_path, page(a_map(1, x=1), at=1), source, wanted=ignoring)

    assert [each.path for each in finding.noise] == ["data.y"]
    assert "ignore_changes has ignored 1 further update" in finding.detail


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ([Refused(403, "forbidden")], "after 0 objects, the list ended: forbidden"),
        ([page(at=1), Expired("too old")], "the watch ended early: too old"),
        ([page(a_map(1), at=1, next_page="more"), opened()], "the list was read up to 1 object"),
    ],
    ids=["a list that is refused", "a watch that expires", "a long list"],
)
def test_what_was_not_looked_at_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: list[Any], reason: str
) -> None:
    monkeypatch.setattr(noise, "MOST_LISTED", 1)
    findings, _ = noise_of(tmp_path, *script)
    assert [each.subject for each in findings] == ["noise: configmaps", "noise"]
    assert (findings[0].verdict, reason in findings[0].detail) == (CheckResult.NOTE, True)


def test_kept_states_are_bounded_and_the_newest_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(noise, "MOST_KEPT", 4_000)
    maps = [a_map(each, f"m{each}", f"u{each}", x=1) for each in (8, *range(1, 8))]
    later = [a_map(10 + each, f"m{each}", f"u{each}", x=2) for each in (1, 8)]

    findings, _ = noise_of(tmp_path, page(*maps, at=9), opened(modified(*later)))

    assert "oldest states were not kept" in findings[0].detail
    assert "in 10 s, 1 update" in findings[1].detail


async def test_a_live_cluster_names_its_noise(tmp_path: Path) -> None:
    async with Playground() as cluster:
        for name in ("a", "b"):
            cluster.create("configmaps", a_config_map(name))

        async def make_noise() -> None:
            await cluster.until_watched("configmaps")
            for value in range(5):
                cluster.update("configmaps", a_config_map("a", str(value + 2)))
            cluster.create("configmaps", a_config_map("ended"))
            await until(lambda: cluster.misbehave.hang_up("configmaps") > 0)

        # The watch ends when its server hangs up, long before its time.
        async with asyncio.TaskGroup() as group:
            group.create_task(make_noise())
            findings = [each async for each in check_all(a_plan(tmp_path, cluster.url), None, noise=600.0)]

    begun, finding = [each for each in findings if each.subject == "noise"]
    assert "watched for 600 s" in begun.detail
    assert [(each.resource, each.path, each.updates) for each in finding.noise] == [("configmaps", "data.value", 5)]
    assert "ended early" in next(each.detail for each in findings if each.subject == "noise: configmaps")


async def test_a_check_looks_at_noise_on_request_alone(tmp_path: Path) -> None:
    async with Playground() as cluster:
        findings = [each async for each in check_all(a_plan(tmp_path, cluster.url), None)]
    assert [each for each in findings if each.subject.startswith("noise")] == []
