"""The closed parts of a rotated file, for the sink that writes them: when the open file becomes one, which parts are
removed, and which have to wait for a reader.

How a part is called, and the lock of a reader, are the library's (``kubedelta_reader.sources.parts``).
``PartRetention`` chooses the parts that are to be removed, the oldest first, as far as the options say; it removes no
file (``closed_parts`` does). Whoever may read a part may lock it, and for ever: the sink removes a locked part in the
end (``PartRetention.may_stay``).
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from kubedelta_reader.sources.lines import first_line, time_in
from kubedelta_reader.sources.parts import ClosedPart

from sinks.file.options import Rotation

# ── Closing the open file ────────────────────────────────────────────────────


class Age:
    """Counted by a clock that is never set. Only for lines of an earlier run the age is estimated, by the time in the
    first line."""

    def __init__(self, most: float) -> None:
        """``most``: seconds; 0 for no bound."""
        self._most = most
        self._began: float | None = None
        """When the first line was written; None without lines."""

    def begin(self, fd: int) -> None:
        """Another file was opened. Raises OSError."""
        status = os.fstat(fd)
        self._began = None
        if self._most and status.st_size:
            seen = time_in(first_line(fd)) or status.st_mtime
            self._began = time.monotonic() - max(0.0, time.time() - seen)

    def written(self) -> None:
        """A line was written."""
        if self._began is None:
            self._began = time.monotonic()

    def left(self) -> float | None:
        """Seconds until the bound, at least 0; None without lines or without a bound."""
        if not self._most or self._began is None:
            return None
        return max(0.0, self._began + self._most - time.monotonic())

    @property
    def is_over(self) -> bool:
        return self.left() == 0


# ── Removal ──────────────────────────────────────────────────────────────────

LONGEST_READ = 3600.0
"""Seconds."""


class PartRetention:
    """The age of a part is estimated once in a process, by the time in its name, and counted from then on by a clock
    that is never set. ``now``: seconds of that clock. ``wall``: the clock of the machine."""

    def __init__(
        self,
        rotation: Rotation,
        *,
        now: Callable[[], float] = time.monotonic,
        wall: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._parts = rotation.retain_parts
        self._bytes = rotation.retain_bytes
        self._age = float(rotation.retain_age or 0)
        self._now = now
        self._wall = wall
        self._locked: dict[str, float] = {}
        """Part → when it was first left because of a lock, on the clock of ``now``."""
        self._closed: dict[str, float] = {}
        """Part → when it was closed, on the clock of ``now``."""

    @property
    def is_bounded(self) -> bool:
        return any(bound is not None for bound in (self._parts, self._bytes)) or bool(self._age)

    def surplus(self, parts: Sequence[ClosedPart], *, by_size: bool) -> Sequence[ClosedPart]:
        """The parts to remove, of ``parts``: those of the sink, oldest first. Without ``by_size`` only number and age
        count, since parts may become smaller yet."""
        first = 0 if self._parts is None else max(0, len(parts) - self._parts)
        if by_size and self._bytes is not None:
            total = 0
            for index in range(len(parts) - 1, first - 1, -1):
                total += parts[index].status.st_size
                if total > self._bytes:
                    first = index + 1
                    break
        while self._age and first < len(parts) and self._left(parts[first]) <= 0:
            first += 1
        return parts[:first]

    def may_stay(self, part: ClosedPart) -> bool:
        """Whether a part that is to be removed, and that somebody has locked, stays for now: for an hour, which is long
        for the reading of a part."""
        return self._now() < self._locked.setdefault(part.stem, self._now()) + LONGEST_READ

    def due_in(self, parts: Sequence[ClosedPart]) -> float | None:
        """Seconds until the oldest part is too old; None without a bound, or without parts."""
        return max(0.0, self._left(parts[0])) if self._age and parts else None

    def _left(self, part: ClosedPart) -> float:
        if part.stem not in self._closed:
            age = 0.0 if part.closed is None else (self._wall() - part.closed).total_seconds()
            self._closed[part.stem] = self._now() - max(0.0, age)
        return self._closed[part.stem] + self._age - self._now()


# ── Files that others may open ──────────────────────────────────────────────


def private(path: str, flags: int) -> int:
    """Opens a file beside the parts, for ``open``: for nobody else, and no symbolic link."""
    return os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)


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
