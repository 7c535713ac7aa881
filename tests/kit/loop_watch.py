"""Notices an event loop that stands still, and tells a loop that waits for a CPU from a loop that waits for a call."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

_BEAT = 0.01
"""Seconds between two turns of the loop, and between two looks at it."""


class LoopWatch:
    """Measures from a thread of its own. A standstill is the CPU time of the loop's thread since the loop's last turn,
    and the beats at which that thread slept. A thread that waits for a CPU is runnable: on a busy machine that may take
    seconds, and is no fault of the loop."""

    def __init__(self) -> None:
        self.longest = 0.0
        """Seconds of the longest standstill."""
        thread = threading.current_thread()
        assert thread.ident is not None
        self._stat = Path(f"/proc/self/task/{thread.native_id}/stat")
        self._cpu_clock = time.pthread_getcpuclockid(thread.ident)
        self._cpu = self._slept = 0.0
        self._over = threading.Event()
        self.turned()

    def turned(self) -> None:
        """The loop has come round."""
        self._note()
        self._cpu, self._slept = time.clock_gettime(self._cpu_clock), 0.0

    def look(self) -> None:
        """Looks at the loop until ``stop``."""
        while not self._over.wait(_BEAT):
            if self._is_asleep():
                self._slept += _BEAT
            self._note()

    def stop(self) -> None:
        self._over.set()
        self._note()

    def _note(self) -> None:
        computed = time.clock_gettime(self._cpu_clock) - self._cpu if self._cpu else 0.0
        self.longest = max(self.longest, self._slept + computed)

    def _is_asleep(self) -> bool:
        # proc_pid_stat(5): the state follows the name in brackets, which may hold anything.
        return self._stat.read_text().rpartition(")")[2].split()[0] != "R"


@asynccontextmanager
async def watched_loop() -> AsyncIterator[LoopWatch]:
    """Watches the running loop until the end of the block."""
    watch = LoopWatch()

    async def turn() -> None:
        while True:
            await asyncio.sleep(_BEAT)
            watch.turned()

    turning = asyncio.get_running_loop().create_task(turn())
    looking = threading.Thread(target=watch.look, name="asyncio_beside")
    looking.start()
    try:
        yield watch
    finally:
        watch.stop()
        turning.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await turning
        looking.join()
