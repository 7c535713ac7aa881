"""A bridge process that ignores heartbeats: they reach no sink, through a kill and a lost position; ``verify`` knows
them."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bridge.playground import Playground
from bridge.playground.manifests import config_map
from tests.kit.bridge_process import BridgeProcess
from tests.kit.playground import Playground as Misbehaving
from tests.kit.received import from_file, received_lists

NAMES = ("a", "b", "c")
VERIFY = ("verify", "copy", "--settle", "500ms")


def config(cluster: Playground, folder: Path, *, ignores: bool = True) -> Mapping[str, Any]:
    resource = {"resource": "configmaps", "namespaces": ["default"], "redact": ["data.secret"]}
    return {
        "cluster": {"name": "testbed", "server": cluster.url},
        "resources": [{**resource, "ignore_changes": ["data.beat"]} if ignores else resource],
        "sinks": {"copy": {"type": "file", "path": str(folder / "copy.ndjson")}},
    }


def beat(cluster: Playground, value: str) -> None:
    for name in NAMES:
        cluster.patch("configmaps", name, {"data": {"beat": value}})


def steps(folder: Path) -> list[str]:
    """What happened, without what a killed bridge had sent and sends again."""
    received = {each.unique_id: each for each in received_lists(from_file(folder / "copy.ndjson"))}
    return [f"{each.op} {each.subject.rpartition('/')[2]}" for each in received.values()]


async def test_heartbeats_reach_no_sink_and_verify_knows_them(tmp_path: Path) -> None:
    async with Misbehaving() as cluster:
        for name in NAMES:
            cluster.create("configmaps", config_map(name, {"beat": "0", "secret": "s3cr3t"}))
        bridge = BridgeProcess(tmp_path / "bridge", config(cluster, tmp_path))
        async with bridge.started():
            beat(cluster, "1")
            await bridge.until("heartbeats are counted", lambda metrics: metrics.value("changes_ignored_total") == 3)
            await bridge.until_delivered()
            assert (await bridge.kubedelta(*VERIFY)).code == 0, "beside the running bridge"
            await asyncio.to_thread(bridge.kill9)
            beat(cluster, "2")
            cluster.misbehave.expire_history()
            await asyncio.to_thread(bridge.start)
            await bridge.until("the list is compared", lambda metrics: metrics.value("changes_ignored_total") == 3)
            cluster.patch("configmaps", "a", {"data": {"value": "new"}})
            await bridge.until("a change came", lambda _: len(steps(tmp_path)) == 4)
            beat(cluster, "3")
            await bridge.until_delivered()
        assert steps(tmp_path)[3:] == ["updated a"]
        beat(cluster, "4")
        assert (await bridge.kubedelta(*VERIFY)).code == 0

        cluster.patch("configmaps", "b", {"data": {"value": "missed"}})
        code, said, _ = await bridge.kubedelta(*VERIFY)
        assert (code, "stale    configmaps default/b" in said, "default/c" in said) == (1, True, False)

        bridge.state = tmp_path / "elsewhere"
        bridge.state.mkdir()
        code, out, err = await bridge.kubedelta(*VERIFY)
        assert code == 0
        assert "objects have older versions, of resources with ignore_changes: without the state" in out + err
