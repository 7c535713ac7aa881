"""Times of arrival: from the write in an object to the line in a file."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest

from benchmarks.arrivals import Follower, latency_ms
from tests.kit.deadlines import BUSY

OBJECT = b'{"data":{"metadata":{"annotations":{"load.kubedelta.test/written":"%019d"}}}}'
SECOND = 1_000_000_000


def test_latency_is_from_the_write_to_the_arrival() -> None:
    assert latency_ms(OBJECT % (5 * SECOND), 5 * SECOND + 7_500_000, since_ns=5 * SECOND) == 7.5


def test_earlier_objects_and_other_records_have_no_latency() -> None:
    assert latency_ms(OBJECT % (5 * SECOND), 6 * SECOND, since_ns=5 * SECOND + 1) is None
    assert latency_ms(b'{"op":"gap"}', 6 * SECOND, since_ns=0) is None


@pytest.mark.skipif(sys.platform != "linux", reason="inotify")
def test_a_follower_has_the_time_of_every_line_after_its_start(tmp_path: Path) -> None:
    path = tmp_path / "deltas.ndjson"
    path.write_bytes(b"before\n")
    follower = Follower(path).start()
    began = time.time_ns()
    with path.open("ab", buffering=0) as file:
        file.write(b"one\ntw")
        deadline = time.monotonic() + 5 * BUSY
        while len(follower.lines) < 1:
            assert time.monotonic() < deadline
        seen = time.time_ns()
        file.write(b"o\nthree")
    follower.stop()

    assert [line for _, line in follower.lines] == [b"one", b"two"]
    assert began <= follower.lines[0][0] <= seen <= follower.lines[1][0]
