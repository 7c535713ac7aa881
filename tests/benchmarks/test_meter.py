"""Readings of a contender: figures per event, from counts before and after."""

from __future__ import annotations

import os
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.build import FSYNCS, CannotBuild, provide
from benchmarks.meter import Reading, acknowledged_ms, per_event


def test_figures_are_differences_per_event() -> None:
    before = Reading(cpu_seconds=1.0, switches=100, written_bytes=1_000, fsyncs=7)
    after = Reading(cpu_seconds=1.5, switches=1_100, written_bytes=5_000, fsyncs=27)

    assert per_event(before, after, 100) == {"cpu_us": 5_000, "switches": 10, "written_bytes": 40, "fsyncs": 0.2}


def test_a_count_that_is_missing_at_the_end_has_no_figure() -> None:
    before = Reading(cpu_seconds=1.0, switches=100, written_bytes=1_000, fsyncs=None)
    after = Reading(cpu_seconds=1.5, switches=1_100, written_bytes=None, fsyncs=None)

    assert set(per_event(before, after, 100)) == {"cpu_us", "switches"}


def test_a_wait_is_the_mean_of_the_deliveries_between() -> None:
    assert acknowledged_ms((1.0, 10), (1.6, 40)) == {"acknowledged_ms": pytest.approx(20)}
    assert acknowledged_ms((1.0, 10), (1.0, 10)) == {}
    assert acknowledged_ms(None, (1.0, 10)) == {}


def test_the_preloaded_counter_counts_fsyncs(tmp_path: Path) -> None:
    try:
        counter = provide(FSYNCS, print) / "fsyncs.so"
    except CannotBuild as error:
        pytest.skip(f"left out: {error}")
    counts = tmp_path / "fsyncs"
    counts.write_bytes(bytes(8))
    code = "import os; file = os.open('data', os.O_CREAT | os.O_RDWR); os.fsync(file); os.fdatasync(file)"
    environ = os.environ | {"LD_PRELOAD": str(counter), "FSYNCS": str(counts)}
    subprocess.run([sys.executable, "-c", code], env=environ, cwd=tmp_path, check=True)

    assert struct.unpack("<Q", counts.read_bytes()) == (2,)
