"""Reads how often each thread of this process slept, and its CPU time; the threads of C libraries are included."""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_TASKS = Path("/proc/self/task")
_THREAD_CPU_CLOCK = 6


@dataclass(frozen=True, slots=True)
class Thread:
    """A thread by its kernel id: voluntary context switches, each of which ends with a wake-up, and CPU nanoseconds."""

    id: int
    name: str
    wake_ups: int
    cpu: int

    def __sub__(self, earlier: Thread) -> Thread:
        return Thread(self.id, self.name, self.wake_ups - earlier.wake_ups, self.cpu - earlier.cpu)


def threads() -> tuple[Thread, ...]:
    """All living threads in the order of their start. Empty where the system has no /proc."""
    if not _TASKS.is_dir():
        return ()
    names = {thread.native_id: thread.name for thread in threading.enumerate()}
    found = []
    for task in sorted(_TASKS.iterdir(), key=lambda each: int(each.name)):
        with suppress(OSError, StopIteration):  # The thread has ended since.
            number = int(task.name)
            name = names.get(number) or (task / "comm").read_text().strip()
            found.append(Thread(number, name, _wake_ups(task), _cpu(number)))
    return tuple(found)


def since(now: tuple[Thread, ...], earlier: tuple[Thread, ...]) -> tuple[Thread, ...]:
    """Each thread without its earlier figures."""
    before = {thread.id: thread for thread in earlier}
    return tuple(thread - before[thread.id] if thread.id in before else thread for thread in now)


def _wake_ups(task: Path) -> int:
    lines = (task / "status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("voluntary_ctxt_switches:"))


def _cpu(number: int) -> int:
    """By clock_gettime(2): the clock of a thread's CPU time, whoever started the thread."""
    return time.clock_gettime_ns((~number << 3) | _THREAD_CPU_CLOCK)
