"""What all servers of the testbed have in common: they start or say why not, and end, whatever happens."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.cluster.servers import Server, ServerFailed
from tests.kit.deadlines import BUSY

REPOSITORY = Path(__file__).parents[2]


class Sleeper(Server):
    """A server that needs nothing but Python, for what all servers have in common."""

    def __init__(self, folder: Path, code: str = "import time; print('up', flush=True); time.sleep(600)") -> None:
        super().__init__(folder)
        self._code = code

    def command(self) -> Sequence[str | Path]:
        return [sys.executable, "-c", self._code]

    def is_ready(self) -> bool:
        return self.log_tail().endswith("up")


def is_gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


def ends_within(seconds: float, pid: int) -> bool:
    """Wait for the end of any process, a child or not."""
    try:
        process = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([process], [], [], seconds)[0])
    finally:
        os.close(process)


def test_a_server_that_ends_at_once_is_reported_with_its_log(tmp_path: Path) -> None:
    server = Sleeper(tmp_path, "import sys; sys.exit('no such flag: --colour')")

    with pytest.raises(ServerFailed, match=r"(?s)ended with 1 before it was ready.*no such flag: --colour"):
        server.start()


def test_a_server_that_never_gets_ready_is_reported_and_killed(tmp_path: Path) -> None:
    server = Sleeper(tmp_path, "import os, time; print(os.getpid(), flush=True); time.sleep(600)")
    server.start_timeout = 3.0

    with pytest.raises(ServerFailed, match="was not ready within 3 s"):
        server.start()

    assert is_gone(int(server.log_tail()))


def test_a_server_that_ignores_the_polite_end_is_killed(tmp_path: Path) -> None:
    deaf = (
        "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); time.sleep(600)"
    )
    server = Sleeper(tmp_path, deaf).start()
    server.stop_timeout = 0.2
    pid = server.pid

    server.stop()

    assert is_gone(pid)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux notifies a child that its parent died")
def test_a_server_outlives_the_thread_that_started_it(tmp_path: Path) -> None:
    """The death signal follows the thread that starts a process, and the threads of an event loop end with it."""
    server = Sleeper(tmp_path)
    try:
        thread = threading.Thread(target=server.start)
        thread.start()
        thread.join()

        assert not ends_within(0.5, server.pid)
    finally:
        server.stop()


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux notifies a child that its parent died")
def test_servers_die_with_a_killed_test_process(tmp_path: Path) -> None:
    code = """
import sys
from pathlib import Path
from typing import NamedTuple
from tests.cluster.test_servers import Sleeper
print(Sleeper(Path(sys.argv[1])).start().pid, flush=True)
sys.stdin.read()
"""
    command = [sys.executable, "-c", code, str(tmp_path)]
    with subprocess.Popen(command, cwd=REPOSITORY, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as tests:
        assert tests.stdout is not None
        server = int(tests.stdout.readline())
        tests.send_signal(signal.SIGKILL)

        assert ends_within(10 * BUSY, server)
