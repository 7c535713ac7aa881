"""Two replicas are restarted with another ``select``, the leader last, while the objects change: what stays selected
loses no step, what leaves is deleted, and what enters is added, once. A sink that is new gets all."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.kube_client import KubeClient, Manifest
from tests.kit.bridge_process import BridgeProcess
from tests.kit.churn import churning
from tests.kit.judge import assert_complete, assert_makes_sense, assert_true
from tests.kit.received import (
    as_received,
    assert_in_order,
    assert_same_state,
    from_file,
    rebuilt,
    received_lists,
    repeats,
    without_repeats,
)
from tests.kit.scene import Scene
from tests.scenarios.test_two_replicas import PATIENT, JudgedReplicas, replicas

pytestmark = pytest.mark.long

STAYS, LEAVES, ENTERS = "configmaps", "secrets", "pods"
KIND = {STAYS: "ConfigMap", ENTERS: "Pod"}


def selecting(scene: Scene, *kinds: str, late: bool = False) -> dict[str, Any]:
    """``late``: there is one sink more."""
    select = [{"resource": kind} for kind in kinds]
    sinks = {name: each for name, each in scene.sinks.section.items() if name != "copy"}
    sinks |= {"late": {"type": "file", "path": str(late_file(scene))}} if late else {}
    return {"sinks": {name: {**options, "select": select} for name, options in sinks.items()}}


def late_file(scene: Scene) -> Path:
    return scene.folder / "late.ndjson"


@pytest.mark.parametrize("end", [BridgeProcess.stop, BridgeProcess.kill9], ids=["stopped", "killed"])
async def test_the_sinks_get_the_difference(scene: Scene, end: Any) -> None:
    async with replicas(scene, selecting(scene, STAYS, LEAVES), **PATIENT) as run:
        async with churning(scene.servers.api, scene.namespace, seed=3, pause=0.1) as churn:
            leader = await run.leader()
            other = run.other(leader)
            await churn.until_made(60)
            for each in (other, leader):
                if each is leader:
                    await run.until_in_sync(leader)
                await asyncio.to_thread(end, each)
                each.reconfigure(**selecting(scene, STAYS, ENTERS, late=True))
                if each is leader:  # Else it would have the Lease again.
                    await run.leader(other_than=leader)
                await asyncio.to_thread(each.start)
                await churn.until_made(40)
            await other.until("all sinks get the difference", lambda _: changed(other) == {"log", "live", "hook"}, 120)
            await run.until_ready()
            await churn.until_made(40)
            await run.until_equal()
        await run.until_received(*KIND.values())
        await other.until_delivered()
    await judged(scene, run)


async def judged(scene: Scene, run: JudgedReplicas) -> None:
    """Prints the counts."""
    happened = [each for each in await scene.remember() if is_of(STAYS, each.subject)]
    async with KubeClient(scene.servers.api) as kube:
        lists = {kind: await kube.get(f"{scene.root}/{kind}") for kind in KIND}
    want: dict[str, Manifest] = {}
    for kind, found in lists.items():
        want |= as_received(found, f"/api/v1/{kind}", KIND[kind])
    assert_same_state(rebuilt(received_lists(from_file(late_file(scene)))), want, "late")
    for name, stream in (await run.streams()).items():
        first = without_repeats(stream)
        assert_makes_sense(first, name)
        stays = [each for each in first if is_of(STAYS, each.subject)]
        assert_in_order(stays, name)
        assert_true(stays, happened, name)
        assert assert_complete(stays, happened, name) == 0, f"{name}: steps were skipped"
        assert_same_state(rebuilt(stream), want, name)
        left = {each.uid for each in first if each.evidence == "unselected"}
        last = {each.uid: each for each in first if is_of(LEAVES, each.subject)}
        entered = [each for each in first if each.evidence == "relisted" and is_of(ENTERS, each.subject)]
        assert left == {each.uid for each in last.values() if each.evidence == "unselected"}
        assert left
        assert entered
        print(
            f"{name}: {len(happened)} versions of what stays, 0 lost, {len(left)} objects left, {len(entered)} entered,"
            f" {repeats(stream)} records came again"
        )


def is_of(kind: str, subject: str) -> bool:
    return f"/{kind}/" in subject


def changed(replica: BridgeProcess) -> set[str]:
    """The sinks from which objects left."""
    lines = map(json.loads, replica.logged("the selection of a sink is another than before"))
    return {line["sink"] for line in lines if line["deleted"]}
