"""How long to wait before the next attempt. Pure: the caller brings the time and the chance."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Backoff:
    """Doubling delays with full jitter: a wait is anywhere between 0 and the current ceiling.

    The ceiling falls back to ``initial`` after ``quiet`` seconds without an attempt that failed. client-go since 0.35
    also resets it every two minutes of one long outage, and so knocks twice as often at a server that is down; this
    does not.
    """

    initial: float = 0.8
    """Seconds."""
    maximum: float = 30.0
    quiet: float = 120.0
    _ceiling: float = 0.0
    _last_end: float = float("-inf")

    def next(self, now: float, chance: float, at_least: float | None = None) -> float:
        """Seconds to wait from ``now`` (any steady clock). ``chance`` is uniform in [0, 1). ``at_least`` is what the
        other side asked for (Retry-After); it is kept even where it is longer than ``maximum``."""
        if now - self._last_end > self.quiet or not self._ceiling:
            self._ceiling = self.initial
        else:
            self._ceiling = min(self._ceiling * 2, self.maximum)
        delay = self._ceiling * chance
        if at_least is not None:
            delay += at_least
        self._last_end = now + delay
        return delay

    def reset(self) -> None:
        """The other side is well again."""
        self._ceiling = 0.0
