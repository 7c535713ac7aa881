"""Somebody removes the database, the lock or the whole directory under a running bridge."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bridge.playground import Playground
from bridge.playground.manifests import config_map
from tests.kit.bridge_process import BridgeProcess

DAMAGED, NOT_CONFIGURED_RIGHT = 74, 78


def _bridge(folder: Path, server: str) -> BridgeProcess:
    return BridgeProcess(
        folder,
        {
            "cluster": {"name": "test", "server": server},
            "resources": ["configmaps"],
            "sinks": {"copy": {"type": "file", "path": str(folder / "deltas.ndjson")}},
        },
    )


def _received(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "deltas.ndjson").read_text().splitlines()]


def _remove_database(state: Path) -> None:
    for each in state.glob("outbox.db*"):
        each.unlink()


def _remove_everything(state: Path) -> None:
    for each in state.iterdir():
        each.unlink()


def _make_anew(state: Path) -> None:
    shutil.rmtree(state)
    state.mkdir()


@pytest.mark.parametrize("harm", [_remove_database, _remove_everything, _make_anew])
async def test_a_removed_database_ends_the_bridge_and_makes_a_gap(tmp_path: Path, harm: Callable[[Path], None]) -> None:
    async with Playground() as cluster:
        bridge = _bridge(tmp_path, cluster.url)
        for number in range(20):
            cluster.create("configmaps", config_map(f"before-{number}"))
        await asyncio.to_thread(bridge.start)
        try:
            await bridge.until("all is reported", lambda now: now.value("sink_delivered_records_total") == 20)
            harm(bridge.state)
            assert await asyncio.to_thread(bridge.wait) == DAMAGED
        finally:
            bridge.kill9()
        last = max(int(each["sequence"]) for each in _received(tmp_path))

        cluster.delete("configmaps", "before-0")
        async with bridge.started():
            await bridge.until("all is reported again", lambda now: now.value("sink_delivered_records_total") == 20)
            now = await bridge.metrics()

    gap, *again = _received(tmp_path)[20:]
    print(f"the newest record was {last}; the next start began with {gap['type']} {gap['sequence']}")
    assert gap["type"] == "kubedelta.gap.v1"
    assert int(gap["sequence"]) > last
    assert {each["op"] for each in again} == {"sync"}
    assert len(again) == 19
    assert {each["source"] for each in again} == {"/clusters/test/epochs/3"}, "no id comes again"
    assert now.value("gap_records_total", sink="copy") == 1
    assert now.value("outbox_rebuilds_total") == 1


async def test_a_directory_that_is_removed_as_a_whole_is_said_loudly(tmp_path: Path) -> None:
    async with Playground() as cluster:
        bridge = _bridge(tmp_path, cluster.url)
        await asyncio.to_thread(bridge.start)
        try:
            shutil.rmtree(bridge.state)
            assert await asyncio.to_thread(bridge.wait) == DAMAGED
        finally:
            bridge.kill9()
        said = bridge.log_tail()
        assert "was removed, or moved away, while it was in use. The next start finds no mark there" in said
        assert await asyncio.to_thread(bridge.ended) == NOT_CONFIGURED_RIGHT
