"""Forces written lines onto the disk, as the option ``fsync`` says."""

from __future__ import annotations

import os
import threading
import time

from sinks.file.options import FileOptions, Fsync

FULL = 1000
"""Lines of a full batch: more are waiting, and one fsync for so many costs little."""
_INTERVAL = 1.0
"""Seconds, where the options have none."""
_force_to_disk = getattr(os, "fdatasync", os.fsync)  # macOS has no fdatasync.


class Syncing:
    """With ``interval``, the time between two fsyncs is at least that of ``fsync_interval``, except for full
    batches."""

    def __init__(self, options: FileOptions) -> None:
        self.is_on = options.fsync is not Fsync.NEVER
        self._interval = float(options.fsync_interval or _INTERVAL) if options.fsync is Fsync.INTERVAL else 0.0
        self._last = -self._interval
        self._interrupted = threading.Event()

    def begin(self) -> None:
        """Before lines are written."""
        self._interrupted.clear()

    def force(self, fd: int, lines: int) -> None:
        """Returns when the disk has the ``lines`` that were written. Waits for the interval, until ``interrupt``.
        Raises OSError."""
        if not self.is_on:
            return
        if self._interval and lines < FULL:
            self._interrupted.wait(max(0.0, self._last + self._interval - time.monotonic()))
        _force_to_disk(fd)
        self._last = time.monotonic()

    def interrupt(self) -> None:
        """From another thread: the fsync follows at once."""
        self._interrupted.set()
