"""A process that is measured from outside: what it used by the kernel's own count, whoever wrote it."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_PR_SET_PDEATHSIG = 1
_CPUCLOCK_SCHED = 2
_libc = ctypes.CDLL(None)


class ChildFailed(Exception):
    """It ended when it should not have, or not when it should. The text has the end of its log."""


@dataclass(frozen=True, slots=True)
class Usage:
    """Of a whole process, from its start to its end."""

    cpu_seconds: float
    switches: int
    """Voluntary context switches."""
    code: int


class Child:
    """Started by the constructor, and killed with the process that measures it."""

    def __init__(self, command: Sequence[str | Path], environ: Mapping[str, str], log: Path) -> None:
        self._log = log
        self._usage: Usage | None = None
        self._peak = 0
        self.started_ns = time.time_ns()
        """When it was started, in nanoseconds since 1970."""
        # A contender in Python would compile itself at each start, and pay for it in the measured time.
        inherited = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                [str(part) for part in command],
                env={**inherited, **environ},
                cwd=log.parent,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=_die_with_parent,
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def ended(self) -> bool:
        return self._usage is not None or self._reaped(os.WNOHANG)

    def cpu_seconds(self) -> float:
        """Used by all its threads until now; until its end, when it has ended."""
        if self._usage is None:
            try:
                return time.clock_gettime(_process_clock(self.pid))
            except OSError:
                self._reaped(0)
        return self._whole().cpu_seconds

    def switches(self) -> int:
        """Voluntary context switches of its living threads until now; of all its threads, when it has ended."""
        if not self.ended:
            with suppress(ChildFailed):
                return sum(self._switches_of(task) for task in self._tasks())
        return self._whole().switches

    def written_bytes(self) -> int | None:
        """Bytes that its writes have sent to disks until now; None when it has ended. Files in memory count 0."""
        try:
            return _named(Path(f"/proc/{self.pid}/io").read_text(), "write_bytes") if not self.ended else None
        except OSError:
            return None

    def age_seconds(self) -> float:
        """Since it was started."""
        return (time.time_ns() - self.started_ns) / 1e9

    def resident_bytes(self) -> int:
        """Memory that it holds now. Raises ChildFailed when it has ended."""
        return self._status("VmRSS")

    def peak_bytes(self) -> int:
        """The most memory that it has held. Once it has ended, as of the last time that this was asked."""
        # Not ru_maxrss: that of a fresh process begins with what its parent held.
        if not self.ended:
            with suppress(ChildFailed):
                self._peak = self._status("VmHWM")
        return self._peak

    def wait(self, timeout: float) -> Usage:
        """Until it ends by itself. Raises ChildFailed when it does not, or ends with anything but 0."""
        deadline = time.monotonic() + timeout
        while not self.ended:
            if time.monotonic() > deadline:
                self.kill()
                raise ChildFailed(f"it had not ended after {timeout:.0f} s\n{self.log_tail()}")
            time.sleep(0.005)
        usage = self._whole()
        if usage.code != 0:
            raise ChildFailed(f"it ended with {usage.code}\n{self.log_tail()}")
        return usage

    def stop(self, timeout: float = 40) -> Usage:
        """SIGTERM, and its end. Raises ChildFailed."""
        if not self.ended:
            os.kill(self.pid, signal.SIGTERM)
        return self.wait(timeout)

    def kill(self) -> None:
        if not self.ended:
            os.kill(self.pid, signal.SIGKILL)
            self._reaped(0)

    def log_tail(self, lines: int = 20) -> str:
        return "\n".join(self._log.read_text(errors="replace").splitlines()[-lines:])

    def output(self) -> str:
        """All that it wrote."""
        return self._log.read_text(errors="replace")

    def _whole(self) -> Usage:
        if self._usage is None:
            raise RuntimeError("it has not ended")
        return self._usage

    def _reaped(self, options: int) -> bool:
        pid, status, used = os.wait4(self.pid, options)
        if pid == 0:
            return False
        self._usage = Usage(used.ru_utime + used.ru_stime, used.ru_nvcsw, os.waitstatus_to_exitcode(status))
        self._process.returncode = self._usage.code  # Popen must not wait for it again.
        return True

    def _status(self, name: str) -> int:
        try:
            return _named(Path(f"/proc/{self.pid}/status").read_text(), name) * 1024
        except (OSError, LookupError):  # A process that has ended has no memory, and one that was waited for no file.
            raise ChildFailed(f"it ended early\n{self.log_tail()}") from None

    def _tasks(self) -> list[Path]:
        try:
            return list(Path(f"/proc/{self.pid}/task").iterdir())
        except OSError:
            raise ChildFailed(f"it ended early\n{self.log_tail()}") from None

    @staticmethod
    def _switches_of(task: Path) -> int:
        try:
            return _named((task / "status").read_text(), "voluntary_ctxt_switches")
        except OSError:  # The thread has ended since.
            return 0


def _named(text: str, name: str) -> int:
    """The number of a line of /proc. Raises LookupError."""
    for line in text.splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1])
    raise LookupError(name)


def _process_clock(pid: int) -> int:
    """The clock of a process's CPU time, clock_getcpuclockid(3): exact, where /proc counts in hundredths."""
    return (~pid << 3) | _CPUCLOCK_SCHED


def _die_with_parent() -> None:
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
