"""The bridge's logger, with throttled lines for repeated failures."""

from __future__ import annotations

from collections.abc import Callable, Hashable

import structlog

from bridge.telemetry.log_stream import NAME
from bridge.telemetry.log_throttle import LogThrottle

LONGEST_REASON = 2000
"""Characters."""


class ThrottledLog:
    """The logger, and a throttle for repeated failures."""

    def __init__(self, clock: Callable[[], float]) -> None:
        """``clock``: monotonic seconds."""
        self.log = structlog.stdlib.get_logger(NAME)
        self._throttle = LogThrottle(clock)
        self.over = self._throttle.over
        """Notes that a subject recovered. Returns whether its failure was logged: then its recovery should be too."""
        self.forget = self._throttle.forget

    def failure(self, subject: Hashable, text: str, reason: str, *, level: str = "warning", **fields: object) -> None:
        """Logs a failure: a line now, and a line every half minute while it repeats, with its count in between."""
        times = self._throttle.due(subject, reason)
        if times is not None:
            often = {"times": times} if times > 1 else {}
            getattr(self.log, level)(text, **fields, **often, reason=reason[:LONGEST_REASON])
