"""The figures of a profile: CPU time by stage, and by thread how often it slept, and its CPU time. The threads of C
libraries are included."""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from bridge.app.stages import Stage

# ── Threads ──────────────────────────────────────────────────────────────────

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


# ── Stages ───────────────────────────────────────────────────────────────────

STAGES = tuple(stage for stage in Stage if stage is not Stage.NONE)
EVENT_LOOP = "rest: event loop"
OTHER_THREADS = "rest: other threads"
PROFILE = "this profile"


@dataclass(frozen=True, slots=True)
class Row:
    """A stage: its CPU nanoseconds, how often it was entered from another stage, and its number of records. Calls of
    the event loop are its turns."""

    name: str
    cpu: int
    calls: int = 0
    records: int = 0

    def __sub__(self, other: Row) -> Row:
        return Row(self.name, self.cpu - other.cpu, self.calls - other.calls, self.records - other.records)


@dataclass(frozen=True, slots=True)
class Profile:
    """Elapsed and CPU nanoseconds of the whole process. The rows add up to ``cpu``."""

    elapsed: int
    cpu: int
    rows: tuple[Row, ...]
    threads: tuple[Thread, ...] = ()

    @property
    def records(self) -> int:
        """Number of committed records."""
        return self[Stage.COMMIT.name.lower()].records

    def __sub__(self, earlier: Profile) -> Profile:
        rows = tuple(row - before for row, before in zip(self.rows, earlier.rows, strict=True))
        threads = since(self.threads, earlier.threads)
        return Profile(self.elapsed - earlier.elapsed, self.cpu - earlier.cpu, rows, threads)

    def __getitem__(self, name: str) -> Row:
        return next(row for row in self.rows if row.name == name)
