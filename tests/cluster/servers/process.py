"""A server process: started and awaited, killed, frozen, started again on the same ports and data."""

from __future__ import annotations

import os
import signal
import socket
import ssl
import subprocess
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from pathlib import Path
from typing import Any, Protocol, Self
from urllib.parse import urlsplit

_DIES_WITH_PARENT = """
import ctypes, os, signal, sys
if sys.platform == "linux":
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG, prctl(2)
    if os.getppid() != int(sys.argv[1]):
        sys.exit("the test process is gone")
signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # Python ignores it, and what is ignored stays so over exec
os.execvp(sys.argv[2], sys.argv[2:])
"""

_spawner = ThreadPoolExecutor(max_workers=1, thread_name_prefix="testbed-spawner")
"""Linux sends the death signal when the *thread* that started the child ends, so one that lives as long as the process
starts them all. A test may then restart a server from any thread."""


class Process(Protocol):
    """What a server needs of its process: a part of ``subprocess.Popen``."""

    pid: int

    @property
    def returncode(self) -> int | Any: ...
    def poll(self) -> int | None: ...
    def wait(self, timeout: float | None = None) -> int: ...
    def send_signal(self, sig: int, /) -> None: ...
    def terminate(self) -> None: ...
    def kill(self) -> None: ...


class ServerFailed(Exception):
    """The server ended or was not ready in time. The text has the last lines of its log."""


class Server(ABC):
    """A process, its folder and its log. Not started by the constructor.

    All methods block: an event loop with other work calls them through `asyncio.to_thread`.
    """

    start_timeout = 120.0
    """Seconds until it must be ready. Far more than a calm machine needs."""

    stop_timeout = 15.0
    """Seconds that a polite end may take before the process is killed."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.log = folder / "log"
        self.start_seconds = 0.0
        """How long the last start took until the server was ready."""
        self._process: Process | None = None

    @abstractmethod
    def command(self) -> Sequence[str | Path]:
        """The command line, the same for every start."""

    @abstractmethod
    def is_ready(self) -> bool:
        """Look once, for a second at most. False for whatever goes wrong."""

    def prepare(self) -> None:  # noqa: B027 (most servers need nothing)
        """Called before every start."""

    @property
    def pid(self) -> int:
        """Of the running process. Raises ServerFailed when there is none."""
        return self._running().pid

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self) -> Self:
        """Start the process and wait until it is ready. Raises ServerFailed."""
        began = time.monotonic()
        self.launch()
        self.wait_until_ready()
        self.start_seconds = time.monotonic() - began
        return self

    def launch(self) -> None:
        """Start the process, ready or not. Raises ServerFailed when it runs already."""
        if self.running:
            raise ServerFailed(f"{self} runs already")
        self.prepare()
        with self.log.open("ab") as log:
            self._process = self.spawn(log.fileno())

    def spawn(self, log: int) -> Process:
        """Start the process. Its output goes to the file descriptor ``log``."""
        return _spawn([str(part) for part in self.command()], self.folder, log)

    def wait_until_ready(self) -> None:
        """Of a process that was launched. Raises ServerFailed, and then it does not run any more."""
        try:
            self._wait_until_ready(self._launched(), time.monotonic() + self.start_timeout)
        except BaseException:
            self.kill9()
            raise

    def stop(self) -> None:
        """End the process politely, and by force when that takes too long. Nothing to do when it does not run."""
        if self._process is None:
            return
        if self.running:
            self.resume()
            self._process.terminate()
            try:
                self._process.wait(self.stop_timeout)
            except subprocess.TimeoutExpired:
                self._process.kill()
        self._process.wait()
        self._process = None

    def kill9(self) -> None:
        """Kill the process and reap it. It has no chance to say goodbye."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def restart(self) -> Self:
        """Stop it if it runs, and start it on the same ports and data."""
        self.stop()
        return self.start()

    def heal(self) -> Self:
        """Dead or frozen, it runs again."""
        if not self.running:
            return self.start()
        self.resume()
        return self

    def pause(self) -> None:
        """Freeze the process: connections stay open and nobody answers. Returns when each of its threads stands still:
        on a busy machine they go on for a while after the signal."""
        process = self._running()
        process.send_signal(signal.SIGSTOP)
        deadline = time.monotonic() + self.stop_timeout
        while not _stands_still(process.pid):
            if time.monotonic() > deadline:
                raise ServerFailed(f"{self} did not stand still within {self.stop_timeout:.0f} s\n{self.log_tail()}")
            time.sleep(0.005)

    def resume(self) -> None:
        self._running().send_signal(signal.SIGCONT)

    def log_tail(self, lines: int = 30) -> str:
        """The last lines of the log, of all starts."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:]) if self.log.exists() else ""

    def __str__(self) -> str:
        return f"{type(self).__name__} in {self.folder}"

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _launched(self) -> Process:
        if self._process is None:
            raise ServerFailed(f"{self} does not run\n{self.log_tail()}")
        return self._process

    def _running(self) -> Process:
        process = self._launched()
        if process.poll() is not None:
            raise ServerFailed(f"{self} does not run\n{self.log_tail()}")
        return process

    def _wait_until_ready(self, process: Process, deadline: float) -> None:
        while not self.is_ready():
            if time.monotonic() > deadline:
                raise ServerFailed(f"{self} was not ready within {self.start_timeout:.0f} s\n{self.log_tail()}")
            try:
                code = process.wait(timeout=0.05)
            except subprocess.TimeoutExpired:
                continue
            raise ServerFailed(f"{self} ended with {code} before it was ready\n{self.log_tail()}")


def says_ok(url: str, tls: ssl.SSLContext | None = None) -> bool:
    """Whether a GET is answered with 2xx within a second. Asked twenty times a second while a server starts: a client
    of httpx would take a tenth of a processor."""
    parts = urlsplit(url)
    host, port = parts.hostname or "", parts.port
    connection = (
        HTTPSConnection(host, port, timeout=1, context=tls or _trusts_anybody())
        if parts.scheme == "https"
        else HTTPConnection(host, port, timeout=1)
    )
    try:
        connection.request("GET", f"{parts.path}?{parts.query}" if parts.query else parts.path)
        return connection.getresponse().status // 100 == 2
    except (OSError, HTTPException):
        return False
    finally:
        connection.close()


def listens(port: int) -> bool:
    """Whether a connection to this port of loopback is taken."""
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex(("127.0.0.1", port)) == 0


@cache
def _trusts_anybody() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def _spawn(command: list[str], folder: Path, log: int) -> subprocess.Popen[bytes]:
    """The process has a session of its own: Ctrl-C ends the tests, and they end the servers."""
    wrapped = [sys.executable, "-I", "-S", "-c", _DIES_WITH_PARENT, str(os.getpid()), *command]

    def start() -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            wrapped, cwd=folder, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, start_new_session=True
        )

    return _spawner.submit(start).result()


def _stands_still(pid: int) -> bool:
    """Every thread is stopped, as Linux reports it; elsewhere nobody can know."""
    tasks = Path(f"/proc/{pid}/task")
    if not tasks.exists():
        return True
    try:
        states = [(task / "stat").read_text().rpartition(")")[2].split()[0] for task in tasks.iterdir()]
    except (FileNotFoundError, ProcessLookupError):  # A thread ended meanwhile.
        return False
    return all(state in "Tt" for state in states)
