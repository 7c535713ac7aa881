"""``kubedelta demo``, as somebody meets it who has just cloned the repository."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from select import select
from typing import TypeVar
from urllib.request import urlopen

from bridge.app.page.server import EVENTS
from tests.kit.deadlines import BUSY

T = TypeVar("T")
DEMO = [sys.executable, "-m", "bridge", "demo"]
LINE = re.compile(r"^\d\d:\d\d:\d\d\.\d{3} [+~=-] (added|updated|deleted|sync) +\S+ +\S+  @\d+(  \w+)?$", re.MULTILINE)
TOTALS = re.compile(r"(\d+) deltas, [\d.]+/s\s+·\s+added (\d+) updated (\d+) deleted (\d+)")
COLOURS = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")


def test_a_demo_of_three_seconds_ends_with_0_and_totals() -> None:
    began = time.monotonic()
    ran = subprocess.run([*DEMO, "--for", "3s"], capture_output=True, text=True, timeout=120 * BUSY)
    seconds = time.monotonic() - began

    assert (ran.returncode, ran.stderr) == (0, "")
    received = Counter(match[1] for match in LINE.finditer(ran.stdout))
    *lines, totals = ran.stdout.splitlines()
    assert sum(received.values()) == len(lines), "each line has one delta, whole, without colours"
    match = TOTALS.fullmatch(totals)
    assert match is not None
    assert [int(each) for each in match.groups()] == [
        len(lines),
        *(received[op] for op in ("added", "updated", "deleted")),
    ]
    assert seconds > 3
    print(f"{totals}  ({seconds:.1f} s with its start)")


def test_on_a_terminal_the_summary_stays_below_until_ctrl_c() -> None:
    with terminal(columns=200, rows=30) as (demo, screen):
        screen.read_until(r"~ updated")
        screen.read_until(r"deltas, .*[1-9]\d* of [1-9]\d* watches live")
        seen = screen.text
        screen.type("\x03")
        screen.read_to_the_end()
        code = demo.wait(60 * BUSY)

    assert code == 0
    assert "Traceback" not in screen.text
    assert "\x1b[32m" in seen, "what is added is green"
    assert "\x1b[?25l" in seen, "the cursor is hidden while the summary is redrawn"
    assert screen.text.rindex("\x1b[?25h") > screen.text.rindex("\x1b[?25l"), "and shown again"
    drawn = [line for line in COLOURS.sub("", screen.text).replace("\r", "\n").split("\n") if line.strip()]
    totals = TOTALS.fullmatch(drawn[-1])
    assert totals is not None, drawn[-3:]
    assert int(totals[1]) == sum(LINE.match(line.strip()) is not None for line in drawn)


def test_in_80_columns_there_are_a_page_rates_and_new_resources_until_the_end() -> None:
    with terminal(80, 24, "--rate", "40") as (demo, screen), ExitStack() as viewing:
        address = screen.read_until(r"page: (http://127\.0\.0\.1:\d+/)")[1]
        page = screen.meanwhile(lambda: viewing.enter_context(urlopen(address)).read())
        stream = screen.meanwhile(lambda: viewing.enter_context(urlopen(f"{address}{EVENTS.removeprefix('/')}")))
        first = screen.meanwhile(lambda: b"".join(iter(stream.readline, b"\n")))
        screen.read_until(r"\d+ deltas, [\d.]+/s · queued \d+ · outbox \d+ · backlog \d+ · \d+ of \d+ watches live")
        screen.read_until(r"36mcertificates\.")
        screen.type("\x03")
        screen.read_to_the_end()
        code = demo.wait(60 * BUSY)

    assert b"kubedelta" in page
    assert b'"playground"' in first, "the picture of this bridge"
    assert code == 0


def test_the_history_that_a_demo_names_answers_while_it_runs() -> None:
    with terminal(80, 30, "--rate", "40") as (_, screen):
        screen.read_until(r"kubedelta history deploy/web -n shop")
        screen.read_until(r"updated.*shop/web\x1b")
        named = re.search(r"export KUBEDELTA_HISTORY=(\S+?k8s.db)", COLOURS.sub("", screen.text))
        assert named is not None
        environ = {**os.environ, "KUBEDELTA_HISTORY": named[1]}
        command = [*DEMO[:-1], "history", "deploy/web", "-n", "shop"]
        ran = screen.meanwhile(lambda: subprocess.run(command, env=environ, capture_output=True, text=True, check=True))

    assert "+ added" in ran.stdout


class Screen:
    """The other end of a terminal."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self.text = ""
        """All that was written to it until now, with its escape sequences."""

    def read_until(self, pattern: str, timeout: float = 60) -> re.Match[str]:
        """Raises TimeoutError (seconds)."""
        deadline = time.monotonic() + timeout
        while not (found := re.search(pattern, self.text)):
            if not self._read(deadline):
                raise TimeoutError(f"no {pattern!r} within {timeout:.0f} s, but\n{self.text[-2000:]}")
        return found

    def read_to_the_end(self, timeout: float = 60) -> None:
        deadline = time.monotonic() + timeout
        while self._read(deadline):
            pass

    def meanwhile(self, work: Callable[[], T]) -> T:
        """Reads on while ``work`` runs: a program whose terminal nobody reads stands still."""
        with ThreadPoolExecutor(1) as thread:
            result = thread.submit(work)
            while not result.done():
                self._read(time.monotonic() + 0.05)
            return result.result()

    def type(self, keys: str) -> None:
        os.write(self._descriptor, keys.encode())

    def _read(self, deadline: float) -> bool:
        if not select([self._descriptor], [], [], max(0, deadline - time.monotonic()))[0]:
            return False
        try:
            chunk = os.read(self._descriptor, 65536)
        except OSError:  # Linux says so where the last process has left the terminal.
            return False
        self.text += chunk.decode(errors="replace")
        return bool(chunk)


_ON_ITS_TERMINAL = (
    "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execv(sys.argv[1], sys.argv[1:])"
)


@contextmanager
def terminal(columns: int, rows: int, *words: str) -> Iterator[tuple[subprocess.Popen[bytes], Screen]]:
    """A demo on a terminal of its own, where Ctrl-C is a signal. It is killed if it has not ended."""
    ours, its = pty.openpty()
    fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    environ = {**os.environ, "TERM": "xterm-256color"}
    for name in ("NO_COLOR", "COLUMNS", "LINES", "CI"):
        environ.pop(name, None)
    try:
        with subprocess.Popen(
            [sys.executable, "-c", _ON_ITS_TERMINAL, *DEMO, *words],
            stdin=its, stdout=its, stderr=its, start_new_session=True, env=environ,
        ) as demo:  # fmt: skip
            os.close(its)
            try:
                yield demo, Screen(ours)
            finally:
                demo.kill()
    finally:
        os.close(ours)
