"""Processes of the bridge that fork from a process which has imported it.

A fork has its own memory, streams, signals and exit code, like any process of ``python -m bridge``. It only lacks the
import, which takes longer than most tests, and the clearing of all modules at its end, which takes as long as a short
command: a group of tests starts hundreds of bridges. What happens before ``main``, and behind what Python runs at
exit, is not tested this way.
"""

from __future__ import annotations

import atexit
import ctypes
import gc
import importlib
import json
import os
import pkgutil
import random
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, NoReturn

from tests.kit.numbering import count_from_one

_LARGEST = 1 << 20
"""Bytes of a request, which has all variables of the environment."""

_SET_PDEATHSIG = 1  # prctl(2)


class Forked:
    """A process of the bridge. Has the methods of ``subprocess.Popen`` that tests call."""

    def __init__(self, pid: int, status: int) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._status = status

    def poll(self) -> int | None:
        return self._read(0)

    def wait(self, timeout: float | None = None) -> int:
        """The exit code; negative for a signal. Raises subprocess.TimeoutExpired after so many seconds."""
        code = self._read(timeout)
        if code is None:
            raise subprocess.TimeoutExpired("bridge", timeout or 0)
        return code

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            with suppress(ProcessLookupError):  # The server has reaped it, and is about to say so.
                os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def _read(self, timeout: float | None) -> int | None:
        if self.returncode is None and select.select([self._status], [], [], timeout)[0]:
            self.returncode = int(os.read(self._status, 16))
            os.close(self._status)
        return self.returncode


class ForkServer:
    """The process that has imported the bridge. Ends, with its forks, when the test process ends."""

    def __init__(self) -> None:
        self._channel, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            command = [sys.executable, "-m", "tests.kit.fork_server", str(theirs.fileno())]
            repository = Path(__file__).parents[2]
            self._process = subprocess.Popen(
                command, cwd=repository, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL, start_new_session=True
            )
        self._lock = threading.Lock()

    def start(
        self,
        words: Sequence[str],
        stdout: int,
        stderr: int,
        *,
        folder: Path | None = None,
        environ: Mapping[str, str] | None = None,
        code: str = "",
        modules: Sequence[str] = (),
    ) -> Forked:
        """A process of ``kubedelta WORDS…`` with these streams, in a session of its own. Returns before ``main``
        begins. ``environ`` is added to the environment. With ``code`` it is a process of ``python -c CODE WORDS…``;
        the server imports ``modules`` first, once for all processes that use them."""
        status, theirs = os.pipe()
        request = {
            "words": list(words),
            "folder": str(folder or Path.cwd()),
            "environ": {**os.environ, **(environ or {})},
            "code": code,
            "modules": list(modules),
        }
        try:
            with self._lock:
                socket.send_fds(self._channel, [json.dumps(request).encode()], [stdout, stderr, theirs])
                pid = int(self._channel.recv(32))
        finally:
            os.close(theirs)
        return Forked(pid, status)

    def close(self) -> None:
        self._channel.close()
        self._process.wait()


@cache
def fork_server() -> ForkServer:
    """The one of this test process, started when it is first asked for."""
    server = ForkServer()
    atexit.register(server.close)
    return server


# ── The process of the server ────────────────────────────────────────────────


def _import_all() -> None:
    import bridge.cli
    from bridge.cli.settings import sink_options
    from config.schema import settings_type
    from sinks import registry

    for kind in registry.BUILT_IN:
        kind.load()
    for module in pkgutil.iter_modules(bridge.cli.__path__, "bridge.cli."):
        importlib.import_module(module.name)
    for name in ("bridge.cli.command_line", "bridge.app", "bridge.checks.check", "bridge.playground"):
        importlib.import_module(name)
    settings_type(sink_options())  # Takes as long as all modules of a room.
    count_from_one()
    gc.collect()
    gc.freeze()


def _serve(channel: socket.socket) -> int:
    """Returns, in a fork, the exit code of its command."""
    _import_all()
    running: dict[int, tuple[int, int]] = {}
    while True:
        ready, _, _ = select.select([channel.fileno(), *running], [], [])
        for ended in set(ready) & running.keys():
            pid, status = running.pop(ended)
            os.close(ended)
            with suppress(BrokenPipeError):  # The test may be gone.
                os.write(status, str(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])).encode())
            os.close(status)
        if channel.fileno() in ready:
            text, descriptors, _, _ = socket.recv_fds(channel, _LARGEST, 3)
            if not text:
                for pid, _ in running.values():
                    os.kill(pid, signal.SIGKILL)
                return 0
            request = json.loads(text)
            for module in request["modules"]:
                importlib.import_module(module)
            if not (pid := os.fork()):
                channel.close()
                for pidfd, (_, status) in running.items():
                    os.close(pidfd)
                    os.close(status)
                return _become(request, descriptors)
            for descriptor in descriptors[:2]:
                os.close(descriptor)
            running[os.pidfd_open(pid)] = pid, descriptors[2]
            channel.send(str(pid).encode())


def _become(request: dict[str, Any], descriptors: Sequence[int]) -> int:
    from bridge.cli import main

    ctypes.CDLL(None).prctl(_SET_PDEATHSIG, signal.SIGKILL)
    os.setsid()
    stdout, stderr, status = descriptors
    os.dup2(stdout, 1)
    os.dup2(stderr, 2)
    for descriptor in {stdout, stderr, status}:
        os.close(descriptor)
    # Those of the server remember that theirs can seek.
    sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", encoding="utf-8", errors="backslashreplace", buffering=1, closefd=False)  # noqa: SIM115
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environ"])
    random.seed()  # Otherwise all forks would jitter alike.
    # A shell's background job, and so the server, may ignore it.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.argv[1:] = request["words"]
    if code := request["code"]:
        exec(code, {"__name__": "__main__"})
        return 0
    return main()


def _end(code: int) -> NoReturn:
    """As Python ends, up to its modules: each object that is cleared is a page of memory that the fork copies."""
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except OSError:
        raise SystemExit(code) from None  # What Python says of it, it says itself.
    os._exit(code)


if __name__ == "__main__":
    try:
        code = _serve(socket.socket(fileno=int(sys.argv[1])))
    except SystemExit as ended:
        if not isinstance(ended.code, int):
            raise
        code = ended.code
    _end(code)
