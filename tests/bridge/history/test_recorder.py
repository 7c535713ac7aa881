"""A build that is interrupted anywhere."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from threading import Barrier

import pytest

from bridge.history import NotInHistory
from bridge.history.recorder import Recorder
from tests.bridge.history.killed_build import churn, content
from tests.bridge.history.streams import EVERYTHING, build

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("at", range(5, 60, 9))
def test_a_build_that_fails_in_a_batch_goes_on_as_if_it_had_not(tmp_path: Path, at: int) -> None:
    events = churn().events
    whole = build(tmp_path / "whole.db", events)

    def broken(count: int) -> None:
        with closing(Recorder(tmp_path / "k8s.db", "a test", EVERYTHING)) as recorder, recorder.batch(b"100"):
            for event in events[:count]:
                recorder.record(event)
            raise InterruptedError

    build(tmp_path / "k8s.db", events[: at // 2])
    with pytest.raises(InterruptedError):
        broken(at)
    build(tmp_path / "k8s.db", events, batch=7)

    assert content(tmp_path / "k8s.db") == content(whole)


def test_two_builds_cannot_write_one_file(tmp_path: Path) -> None:
    event = churn().events[0]
    path = build(tmp_path / "k8s.db", [])

    with (
        closing(Recorder(path, "a test", EVERYTHING)) as one,
        closing(Recorder(path, "a test", EVERYTHING)) as other,
    ):
        with one.batch(b"1"):
            one.record(event)
        with pytest.raises(NotInHistory, match="another build writes"), other.batch(b"1"):
            other.record(event)


def test_a_build_that_is_killed_anywhere_goes_on_as_if_it_had_not_been(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.bridge.history.killed_build", str(tmp_path)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}

    ended = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)

    assert int(ended.stdout) > 50, ended.stdout


def test_builds_that_begin_at_the_same_time_make_one_private_file(tmp_path: Path) -> None:
    path = tmp_path / "k8s.db"
    path.touch(0o666)
    path.chmod(0o666)
    together = Barrier(8)

    def begin() -> bytes:
        together.wait()
        with closing(Recorder(path, "a test", EVERYTHING)) as recorder:
            return recorder.position

    with ThreadPoolExecutor(8) as threads:
        assert {each.result() for each in [threads.submit(begin) for _ in range(8)]} == {b""}
    assert path.stat().st_mode & 0o777 == 0o600
