"""Chooses the closed parts that are to be removed: the oldest, as far as the options say. Removes no file."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime

from sinks.file.options import Rotation
from sinks.file.rotation.parts import ClosedPart

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
