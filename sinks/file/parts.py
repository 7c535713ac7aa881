"""The closed parts of a rotated file, for the sink that writes them: when the open file becomes one, which parts are
removed, and which have to wait for a reader.

A part of the sink is called ``<file>.<time>.<first>-<last>``, as the reader library knows it
(``kubedelta_reader.sources.parts``).
``PartRetention`` chooses the parts that are to be removed, the oldest first, as far as the options say; it removes no
file (``closed_parts`` does). Whoever may read a part may lock it, and for ever: the sink removes a locked part in the
end (``PartRetention.may_stay``).
"""

from __future__ import annotations

import fcntl
import os
import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

from kubedelta_reader.sources.lines import first_line
from kubedelta_reader.sources.parts import OWN, ClosedPart, parts_of

from sinks.file.lines import time_in
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


# ── Names ────────────────────────────────────────────────────────────────────

_TIME = "%Y%m%dT%H%M%S%fZ"
TEMPORARY = ".tmp"
"""Behind the name of a compressed part that is not whole yet."""
SUFFIX_BYTES = len(".20261122T221530123456Z.") + 20 + len("-") + 20 + len(".zst") + len(TEMPORARY)
"""Most bytes behind the name of the file."""
_LEFTOVER = re.compile(rf"{OWN}\.zst{re.escape(TEMPORARY)}")


def closed_at(part: ClosedPart) -> datetime | None:
    """None for parts of logrotate, and for a time that no clock shows."""
    try:
        return datetime.strptime(part.time, _TIME).replace(tzinfo=UTC)
    except ValueError:
        return None


def name_of_part(path: Path, first: int, last: int, now: datetime) -> Path:
    """A free name behind all parts that are there. Raises OSError."""
    newest = next((when for part in reversed(parts_of(path)) if (when := closed_at(part))), None)
    closed = now if newest is None else max(now, newest + timedelta(microseconds=1))
    while True:
        name = path.with_name(f"{path.name}.{closed.astimezone(UTC).strftime(_TIME)}.{first:020d}-{last:020d}")
        if not os.path.lexists(name) and not os.path.lexists(f"{name}.zst"):
            return name
        closed += timedelta(microseconds=1)


def leftovers_of(path: Path) -> list[Path]:
    """Compressed parts that a crash left half. Raises OSError."""
    with os.scandir(path.parent) as entries:
        names = [entry.name for entry in entries if entry.is_file(follow_symlinks=False)]
    return [
        path.with_name(name)
        for name in sorted(names)
        if name.startswith(path.name) and _LEFTOVER.fullmatch(name, len(path.name))
    ]


def private(path: str, flags: int) -> int:
    """Opens a file beside the parts, for ``open``: for nobody else, and no symbolic link."""
    return os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)


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
        """The parts to remove, of ``parts``: all of the sink that are there, oldest first; what is known of others is
        forgotten. Without ``by_size`` only number and age count, since parts may become smaller yet."""
        there = {part.stem for part in parts}
        self._locked = {stem: since for stem, since in self._locked.items() if stem in there}
        self._closed = {stem: when for stem, when in self._closed.items() if stem in there}
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
            closed = closed_at(part)
            age = 0.0 if closed is None else (self._wall() - closed).total_seconds()
            self._closed[part.stem] = self._now() - max(0.0, age)
        return self._closed[part.stem] + self._age - self._now()


# ── Locks of readers ─────────────────────────────────────────────────────────

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
