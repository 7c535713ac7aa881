"""Keeps the parts that ``kubedelta verify`` has not read from being removed: by shared locks, which end with their
process.

Whoever may read a part may lock it, too, and for ever. So nobody waits for a lock without a bound: a reader goes on
without one, and the sink removes a locked part in the end (``PartRetention.may_stay``).
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_LONGEST_WAIT = 5.0
"""Seconds. The sink holds its lock no longer than a removal takes."""
_LOOK = 0.01


class ReadingLock:
    """A shared lock on the closed part that is read next. The sink removes parts from the oldest on, and stops at a
    locked one: so the newer parts stay too."""

    def __init__(self) -> None:
        self._fd = -1

    def move_to(self, part: Path | None) -> None:
        """Locks another part, or None, and then releases the former one. Without effect on a part that is gone."""
        fd = -1 if part is None else _locked(part)
        if self._fd >= 0:
            os.close(self._fd)
        self._fd = fd


def _locked(part: Path) -> int:
    """A descriptor with a lock on the part, under the name that it has now; -1 for a part that is gone. The sink may
    put the compressed part in the place of the plain one meanwhile: a lock on a file without a name keeps nothing."""
    plain = part.with_suffix("") if part.suffix == ".zst" else part
    for name in (part, plain.with_name(f"{plain.name}.zst")):
        with suppress(OSError):
            fd = os.open(name, os.O_RDONLY | os.O_CLOEXEC)
            try:
                _share(fd)
                if os.path.samestat(os.fstat(fd), name.stat()):
                    return fd
            except OSError:
                pass
            os.close(fd)
    return -1


def _share(fd: int) -> None:
    """Raises BlockingIOError when somebody else has locked the part for long."""
    deadline = time.monotonic() + _LONGEST_WAIT
    while True:
        try:
            fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise
            time.sleep(_LOOK)
        else:
            return


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
