"""A process measured from outside: what it used, while it runs and after its end."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from benchmarks.processes import Child, ChildFailed

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads Linux's clocks of other processes")

BUSY = "import time\nwhile time.process_time() < 0.3: pass\n"
START = Callable[[str], Child]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[START]:
    started: list[Child] = []

    def begin(code: str) -> Child:
        started.append(Child([sys.executable, "-c", code], {"SAYS": "a word"}, tmp_path / "log"))
        return started[-1]

    yield begin
    for child in started:
        child.kill()


def wait_for(file: Path, child: Child) -> None:
    while not file.exists():
        assert not child.ended


def test_cpu_is_counted_while_it_runs(start: START, tmp_path: Path) -> None:
    child = start(f"{BUSY}open('busy', 'w').close()\nwhile True: time.sleep(60)")
    wait_for(tmp_path / "busy", child)

    assert 0.3 <= child.cpu_seconds() < 3


def test_cpu_is_that_of_the_whole_process_after_its_end(start: START) -> None:
    child = start(BUSY)
    usage = child.wait(30)

    assert usage.cpu_seconds >= 0.3
    assert child.cpu_seconds() == usage.cpu_seconds
    assert child.ended


def test_switches_of_all_threads_are_counted(start: START, tmp_path: Path) -> None:
    child = start(
        "import threading, time\n"
        "def naps():\n    for _ in range(100): time.sleep(0.001)\n    open('slept', 'w').close()\n    time.sleep(60)\n"
        "threading.Thread(target=naps, daemon=True).start()\ntime.sleep(60)"
    )
    wait_for(tmp_path / "slept", child)

    assert child.switches() >= 100


def test_switches_are_known_after_the_end(start: START) -> None:
    child = start("import time\nfor _ in range(50): time.sleep(0.001)")

    assert child.wait(30).switches >= 50
    assert child.switches() == child.wait(30).switches


def test_written_bytes_are_counted_until_the_end(start: START, tmp_path: Path) -> None:
    child = start("open('data', 'wb').write(bytes(1_000_000))\nopen('wrote', 'w').close()\nimport time\ntime.sleep(60)")
    wait_for(tmp_path / "wrote", child)
    assert child.written_bytes() is not None
    child.kill()

    assert child.written_bytes() is None


def test_its_peak_is_known_after_it_is_gone(start: START, tmp_path: Path) -> None:
    child = start("held = bytearray(80_000_000)\ndel held\nopen('held', 'w').close()\nimport time\ntime.sleep(60)")
    wait_for(tmp_path / "held", child)
    assert child.peak_bytes() > 80e6 > child.resident_bytes()
    child.kill()

    assert child.peak_bytes() > 80e6


def test_a_child_that_fails_is_reported_with_its_output(start: START) -> None:
    with pytest.raises(ChildFailed, match=r"it ended with 3\na word"):
        start("import os, sys; print(os.environ['SAYS']); sys.exit(3)").wait(30)


def test_who_does_not_end_is_ended(start: START) -> None:
    child = start("import time; time.sleep(60)")
    with pytest.raises(ChildFailed, match="had not ended"):
        child.wait(0.1)

    assert child.ended


def test_it_is_asked_to_end(start: START, tmp_path: Path) -> None:
    child = start(
        "import signal, sys, time\n"
        "signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))\n"
        "open('ready', 'w').close()\ntime.sleep(60)"
    )
    wait_for(tmp_path / "ready", child)

    assert child.stop().code == 0
