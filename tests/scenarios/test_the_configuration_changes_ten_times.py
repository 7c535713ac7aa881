"""The configuration of a running bridge changes ten times while everything that it watches is changing. No sink loses,
repeats or reorders a record."""

from __future__ import annotations

import asyncio
import os
import signal
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.cluster.kube_client import KubeClient, Manifest
from tests.kit.bridge_process import BridgeProcess
from tests.kit.churn import KINDS, churning
from tests.kit.judge import judge_all
from tests.kit.received import Received, assert_in_order, from_file, rebuilt, received_lists
from tests.kit.scene import Scene

BETWEEN = 10
"""Changes of the cluster between two changes of the configuration."""
PODS = [{"resource": "pods"}]
MAPS = [{"resource": "configmaps"}, {"resource": "secrets", "label_selector": "step"}]


def changes(scene: Scene, folder: Path) -> Sequence[tuple[str, Mapping[str, Any]]]:
    """Each change in the words of the log, and the sections that it writes. The four sinks are there at the end as in
    the beginning; an additional resource has come and gone, and so has the sink ``late``."""
    four = scene.sinks.section
    accounts = {"resource": "serviceaccounts", "namespaces": [scene.namespace]}
    late = {"type": "file", "path": str(folder / "late.ndjson")}
    resources = [{"resource": kind, "namespaces": [scene.namespace]} for kind in KINDS]
    without_live = {name: options for name, options in four.items() if name != "live"}

    def viewing(sinks: Mapping[str, Any], select: Any) -> dict[str, Any]:
        return {"sinks": {**sinks, "view": {"type": "file", "path": str(folder / "view.ndjson"), "select": select}}}

    return [
        ("sinks.view: added", viewing(four, PODS)),
        ("sinks.live: removed", viewing(without_live, PODS)),
        ("sinks.hook: changed", viewing({**without_live, "hook": {**four["hook"], "concurrency": 3}}, PODS)),
        ("resources: added", {"resources": [*resources, accounts]}),
        ("sinks.live: added", viewing({**four, "hook": {**four["hook"], "concurrency": 3}}, PODS)),
        ("sinks.view: changed", viewing(four, MAPS)),
        ("sinks.log: changed", viewing({**four, "log": {**four["log"], "compression": "zstd"}}, MAPS)),
        ("resources: removed", {"resources": resources}),
        ("sinks.late: added", viewing({**four, "copy": {**four["copy"], "window": 50}, "late": late}, MAPS)),
        ("sinks.late: removed", {**viewing(four, PODS), "telemetry": {"log_level": "debug"}}),
    ]


async def test_ten_changes_under_load_lose_and_repeat_nothing(scene: Scene, tmp_path: Path) -> None:
    bridge = scene.bridge()
    async with bridge.started():
        async with churning(scene.servers.api, scene.namespace, seed=14, pause=0.15, writers=3) as churn:
            async with KubeClient(scene.servers.api) as kube:
                for number in range(3):
                    account = {"metadata": {"name": f"account-{number}"}}
                    await kube.create(f"{scene.root}/serviceaccounts", account)
            await bridge.until("all kinds are there", lambda now: _has_all(now.value))
            for number, (said, sections) in enumerate(changes(scene, tmp_path)):
                await churn.until_made(BETWEEN)
                bridge.reconfigure(**sections)
                await _trigger(bridge, number)
                await bridge.until(f"change {number} is in effect", lambda _, said=said: _is_logged(bridge, said))  # type: ignore[misc]
            await churn.until_made(BETWEEN)
        await scene.until_received(bridge)
        metrics = await bridge.metrics()
        async with KubeClient(scene.servers.api) as kube:
            pods = (await kube.get(f"{scene.root}/pods"))["items"]

    assert metrics.value("config_reloads_total", outcome="refused") == 0
    assert metrics.value("config_reloads_total", outcome="changed") == 10
    assert metrics.value("reflector_relists_total") == 0
    happened = await scene.remember()
    streams = {name: _watched(stream) for name, stream in (await scene.sinks.delivered()).items()}
    for verdict in (await asyncio.to_thread(judge_all, streams, happened)).values():
        assert verdict.duplicates == verdict.relisted == verdict.skipped == 0, verdict
    _assert_view(tmp_path / "view.ndjson", pods)
    accounts = Counter(each.op for each in scene.written() if "/serviceaccounts/" in each.subject)
    assert accounts == {"added": 3, "deleted": 3}


def _has_all(value: Any) -> bool:
    return all(value("records_committed_total", resource=kind) for kind in KINDS)


async def _trigger(bridge: BridgeProcess, number: int) -> None:
    """By the file alone, by the signal, by the command: in turn."""
    match number % 3:
        case 1:
            os.kill(bridge.pid, signal.SIGHUP)
        case 2:
            done = await bridge.kubedelta("reload")
            assert done.code == 0, done.out + done.err


def _is_logged(bridge: BridgeProcess, said: str) -> bool:
    assert not bridge.logged("is refused"), bridge.logged("is refused")
    return bool(bridge.logged("the changed configuration is in effect", said))


def _watched(stream: Sequence[Received]) -> list[Received]:
    """Without the resource that came and went."""
    return [each for each in stream if "/serviceaccounts/" not in each.subject]


def _assert_view(file: Path, pods: Sequence[Manifest]) -> None:
    """Its state is the selected objects; no record is there twice, and those of an object are in order."""
    received = received_lists(from_file(file))
    held = {each["metadata"]["uid"]: each["metadata"]["resourceVersion"] for each in rebuilt(received).values()}
    assert held == {each["metadata"]["uid"]: each["metadata"]["resourceVersion"] for each in pods}
    assert [name for name, count in Counter(each.unique_id for each in received).items() if count > 1] == []
    assert_in_order(received, "view")
