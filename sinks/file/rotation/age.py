"""The age of the open file, from its first line."""

from __future__ import annotations

import os
import time

from sinks.file.reading.line_head import time_in
from sinks.file.reading.lines import first_line


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
