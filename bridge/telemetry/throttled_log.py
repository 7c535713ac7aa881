"""Where lines go, and how often the same trouble makes one."""

from __future__ import annotations

from collections.abc import Callable, Hashable

import structlog

from bridge.telemetry.log_stream import NAME
from bridge.telemetry.log_throttle import LogThrottle

LONGEST_REASON = 2000
"""Characters."""


class ThrottledLog:
    """The log, with a memory for troubles."""

    def __init__(self, clock: Callable[[], float]) -> None:
        """``clock`` is in seconds and never goes back."""
        self.log = structlog.stdlib.get_logger(NAME)
        self._repeats = LogThrottle(clock)

    def trouble(self, subject: Hashable, text: str, reason: str, *, level: str = "warning", **fields: object) -> None:
        """One line now, and one every half minute while it goes on, with how often it came in between."""
        times = self._repeats.tell(subject, reason)
        if times is not None:
            often = {"times": times} if times > 1 else {}
            getattr(self.log, level)(text, **fields, **often, reason=reason[:LONGEST_REASON])

    def over(self, subject: Hashable) -> bool:
        """The subject is well. True where its trouble was told, so that its end should be too."""
        return self._repeats.over(subject)

    def forget(self, subject: Hashable) -> None:
        self._repeats.forget(subject)
