"""Keeps the parts that ``kubedelta verify`` has not read from being removed: by shared locks, which end with their
process."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


class ReadingLock:
    """A shared lock on the closed part that is read next. The sink removes parts from the oldest on, and stops at a
    locked one: so the newer parts stay too."""

    def __init__(self) -> None:
        self._fd = -1

    def move_to(self, part: Path | None) -> None:
        """Locks another part, or None, and then releases the former one. Without effect on a part that is gone."""
        fd = -1
        if part is not None:
            with suppress(OSError):
                fd = os.open(part, os.O_RDONLY | os.O_CLOEXEC)
                fcntl.flock(fd, fcntl.LOCK_SH)  # The sink holds its lock no longer than a removal takes.
        if self._fd >= 0:
            os.close(self._fd)
        self._fd = fd


@contextmanager
def unread(part: Path) -> Iterator[bool]:
    """Whether no reader has the part locked; if so, none gets the lock inside the context. Raises OSError."""
    fd = os.open(part, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        yield True
    finally:
        os.close(fd)
