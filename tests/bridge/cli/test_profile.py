"""``kubedelta run --profile-stages``, from outside."""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bridge.app.profiling import STAGES, Profile, Row, Thread
from bridge.cli.run import profile_tables
from bridge.playground import Playground
from tests.kit.bridge_process import BridgeProcess
from tests.kit.deadlines import until


class ProfiledBridge(BridgeProcess):
    forks = False  # Before Python 3.13, a fork's main thread has the native id of its parent's.

    def words(self) -> Sequence[str]:
        return [*super().words(), "--profile-stages"]


def a_config_map(number: int) -> dict[str, Any]:
    return {"metadata": {"name": f"object-{number}", "namespace": "default"}, "data": {"value": "1"}}


def tables(log: str) -> dict[str, dict[str, list[str]]]:
    """Title → stage → the other cells of its line."""
    found: dict[str, dict[str, list[str]]] = {}
    title = ""
    for line in log.splitlines():
        if " s of CPU in " in line:
            title = line.partition(":")[0]
            found[title] = {}
        elif title and not line.startswith("{"):
            name, *cells = line.split("  ")
            found[title][name] = [cell.strip() for cell in cells if cell.strip()]
    return found


async def test_a_bridge_prints_its_profile_on_sigusr1_and_at_its_end(tmp_path: Path) -> None:
    copy = tmp_path / "copy.ndjson"
    async with Playground(bookmark_interval=0.2) as cluster:
        for number in range(20):
            cluster.create("configmaps", a_config_map(number))
        config = {
            "cluster": {"name": "test", "server": cluster.url},
            "resources": ["configmaps"],
            "sinks": {"copy": {"type": "file", "path": str(copy), "start": "earliest"}},
        }
        bridge = ProfiledBridge(tmp_path, config)
        async with bridge.started():
            await bridge.until_delivered()
            os.kill(bridge.pid, signal.SIGUSR1)
            await until(lambda: "this profile" in bridge.log.read_text())
            for number in range(20, 25):
                cluster.create("configmaps", a_config_map(number))
            await bridge.until("it has them all", lambda metrics: metrics.value("records_committed_total") == 25)
    found = tables(bridge.log.read_text())
    assert list(found) == ["Since the last profile", "The whole run"]
    expected = ["STAGE", *(stage.name.lower() for stage in STAGES)]
    assert all(list(lines)[: len(expected)] == expected for lines in found.values())
    assert found["Since the last profile"]["deliver"][-1] == "20"
    assert found["The whole run"]["deliver"][-1] == "25"
    running = found["Since the last profile"]
    assert {"MainThread", "outbox writer"} < set(running)
    assert int(running["all threads"][0]) >= int(running["MainThread"][0]) > 0


def test_a_line_has_microseconds_per_record_and_the_cpu_share() -> None:
    rows = (Row("commit", 3_000_000, calls=12, records=1_000), Row("rest: event loop", 1_000_000, calls=40))
    threads = (Thread(7, "MainThread", 2_500, 3_500_000), Thread(8, "rdk:main", 500, 500_000))
    assert profile_tables("The whole run", Profile(2_000_000_000, 4_000_000, rows, threads)).splitlines() == [
        "The whole run: 0.00 s of CPU in 2.0 s, 1000 records, 500 a second",
        "STAGE             µs/RECORD  SHARE  CALLS  RECORDS",
        "commit            3.0        75.0%  12     1000",
        "rest: event loop  -          25.0%  40     -",
        "THREAD       WAKE-UPS  WAKE-UPS/RECORD  µs/RECORD",
        "MainThread   2500      2.50             3.50",
        "rdk:main     500       0.50             0.50",
        "all threads  3000      3.00             4.00",
    ]


def test_without_records_there_are_no_figures_per_record() -> None:
    profile = Profile(2_000_000_000, 4_000_000, (Row("commit", 3_000_000),), (Thread(7, "MainThread", 9, 1_000),))
    assert profile_tables("The whole run", profile).splitlines()[-1] == "all threads  9         -                -"
