"""The time between two looks at something that announces no change."""

from __future__ import annotations


class PollInterval:
    """``shortest`` seconds after a change, and twice as long after each look without a change, up to ``longest``: a
    process that wakes for nothing finds its caches cold, and takes a third of a millisecond for it."""

    def __init__(self, shortest: float, longest: float) -> None:
        self._shortest, self._longest = shortest, longest
        self.seconds = shortest

    def looked(self, *, changed: bool) -> None:
        self.seconds = self._shortest if changed else min(2 * self.seconds, self._longest)
