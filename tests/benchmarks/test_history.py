"""The simulated day of the benchmark of histories."""

from __future__ import annotations

from pathlib import Path

from benchmarks.history import Day, build
from bridge.history import HistoryFile
from bridge.history.recorder import HistoryBounds


def test_each_line_of_the_day_is_a_step(tmp_path: Path) -> None:
    day = Day(3000)

    build(tmp_path / "k8s.db", day, HistoryBounds(1e9, 1 << 40))

    with HistoryFile.open(tmp_path / "k8s.db") as history:
        assert history.size().steps == 3000
        assert {each.name for each in history.resources} == {"pods", "deployments.apps", "widgets.example.com", "nodes"}
