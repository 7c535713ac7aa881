"""Computes waits: before the next attempt, and between two looks at something that announces no change.

The caller passes the time and the jitter, and does the waiting.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Backoff:
    """Doubling delays with full jitter: a wait is uniform between 0 and the current ceiling.

    The ceiling falls back to ``initial`` after ``quiet`` seconds without a failed attempt. client-go since 0.35 also
    resets its ceiling every two minutes of a long outage, and so sends twice as many requests to a server that is
    down; this class does not.
    """

    initial: float = 0.8
    """Seconds."""
    maximum: float = 30.0
    quiet: float = 120.0
    _ceiling: float = 0.0
    _last_end: float = float("-inf")

    def next(self, now: float, jitter: float, at_least: float | None = None) -> float:
        """Seconds to wait from ``now`` (seconds of any monotonic clock). ``jitter``: uniform in [0, 1).
        ``at_least``: seconds that the server asked for (Retry-After), even if longer than ``maximum``; the jitter is
        added to them, so that clients spread."""
        if now - self._last_end > self.quiet or not self._ceiling:
            self._ceiling = self.initial
        else:
            self._ceiling = min(self._ceiling * 2, self.maximum)
        delay = self._ceiling * jitter
        if at_least is not None:
            delay += at_least
        # From the end of the wait: a wait longer than ``quiet`` would otherwise count as a quiet time.
        self._last_end = now + delay
        return delay

    def reset(self) -> None:
        """An attempt succeeded: the next delay begins at ``initial`` again."""
        self._ceiling = 0.0


class PollInterval:
    """``shortest`` seconds after a change, and twice as long after each look without a change, up to ``longest``: a
    process that wakes for nothing finds its caches cold, and takes a third of a millisecond for it."""

    def __init__(self, shortest: float, longest: float) -> None:
        self._shortest = shortest
        self._longest = longest
        self.seconds = shortest

    def looked(self, *, changed: bool) -> None:
        self.seconds = self._shortest if changed else min(2 * self.seconds, self._longest)
