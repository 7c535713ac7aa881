"""Rows that say which programs changed an object, while a sink beside them gets what it always got."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

from bridge.playground import Playground
from tests.kit.bridge_process import BridgeProcess, Metrics


def config(cluster: Playground, folder: Path) -> dict[str, Any]:
    rows = {"type": "file", "path": str(folder / "rows.ndjson"), "format": "row", "include": ["managers"]}
    return {
        "cluster": {"name": "testbed", "server": cluster.url},
        "resources": [{"resource": "configmaps", "namespaces": ["shop"]}],
        "sinks": {"rows": rows, "whole": {"type": "file", "path": str(folder / "whole.ndjson")}},
    }


def read(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


def has_two(now: Metrics) -> bool:
    return now.value("sink_delivered_records_total", sink="rows") > 1


async def test_rows_name_the_managers_of_each_step(tmp_path: Path) -> None:
    async with Playground() as cluster:
        made = {"metadata": {"name": "flags", "namespace": "shop"}, "data": {"a": "1"}}
        cluster.create("configmaps", made, manager="helm")
        bridge = BridgeProcess(tmp_path / "bridge", config(cluster, tmp_path))
        async with bridge.started():
            await bridge.until_live("configmaps")
            cluster.patch("configmaps", "flags", {"data": {"b": "2"}}, namespace="shop", manager="kubectl-edit")
            await bridge.until("the edit is there", has_two)
            await bridge.until_delivered("rows", "whole")
            await asyncio.to_thread(bridge.kill9)
            cluster.patch("configmaps", "flags", {"data": {"c": "3"}}, namespace="shop", manager="operator")
            cluster.delete("configmaps", "flags", namespace="shop")
            await asyncio.to_thread(bridge.start)
            await bridge.until("the end is there", lambda now: now.value("records_committed_total") == 2)
            await bridge.until_delivered("rows", "whole")

    rows = read(tmp_path / "rows.ndjson")
    found = {(row["op"], row["resource_version"]): row["managers"] for row in rows}
    named = [managers and [each["manager"] for each in managers] for managers in found.values()]
    assert named == [["helm"], ["kubectl-edit"], ["operator"], None]
    edit, *_ = [
        row["managers"][0] for row in rows if row["managers"] and row["managers"][0]["manager"] == "kubectl-edit"
    ]
    assert edit.keys() == {"manager", "operation", "subresource", "time"}
    states = {
        (each["op"], each["resourceversion"]): each["data"] for each in read(tmp_path / "whole.ndjson") if "op" in each
    }
    assert {(row["op"], row["resource_version"]): row["object"] for row in rows} == states
    assert not any("managedFields" in state["metadata"] for state in states.values())
