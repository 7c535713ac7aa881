"""The log as facts write to it. It remembers earlier facts: a repeated failure is logged at once, and then every half
minute while it repeats, with its count in between; the end of a failure is logged where the failure was; and a state is
logged when it changes.

This module decides which lines there are. ``logs`` has the logger that writes them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

Level: TypeAlias = Literal["debug", "info", "warning", "error"]

PERIOD = 30.0
"""Seconds in which the same failure is logged once, even if it recovers in between."""
LONGEST_REASON = 2000
"""Characters."""
_MOST_REASONS = 16
_CHANGING = re.compile(r"\d+")


@dataclass(slots=True)
class _Failure:
    logged_at: float
    unlogged: int = 0


@dataclass(slots=True)
class _Subject:
    failures: dict[str, _Failure] = field(default_factory=dict)
    failing: bool = False
    """A failure was logged, and its end was not."""


class LogThrottle:
    """The time of the last line, by subject (bounded by the configuration) and reason. Reasons that differ only in
    numbers (ports, versions, seconds) are equal."""

    def __init__(self, clock: Callable[[], float]) -> None:
        """``clock``: monotonic seconds."""
        self._clock = clock
        self._subjects: dict[Hashable, _Subject] = {}

    def due(self, subject: Hashable, reason: str) -> int | None:
        """Counts a failure. Returns the count since the last line, if a line is due now; else None."""
        about = self._subjects.setdefault(subject, _Subject())
        alike = _CHANGING.sub("#", reason)
        # Removed and inserted anew below, so that the first reason is always the one of longest ago.
        failure = about.failures.pop(alike, None)
        now = self._clock()
        if failure is not None and now - failure.logged_at < PERIOD:
            about.failures[alike] = _Failure(failure.logged_at, failure.unlogged + 1)
            return None
        if len(about.failures) == _MOST_REASONS:
            del about.failures[next(iter(about.failures))]
        about.failures[alike] = _Failure(now)
        about.failing = True
        return failure.unlogged + 1 if failure else 1

    def over(self, subject: Hashable) -> bool:
        """Notes that the subject recovered. Returns whether its failure was logged, so that its recovery should be
        too."""
        about = self._subjects.get(subject)
        if about is None or not about.failing:
            return False
        about.failing = False
        return True

    def forget(self, subject: Hashable) -> None:
        self._subjects.pop(subject, None)


class FactLog:
    """Writes the lines of facts. ``failure``, ``over``, ``change`` and ``forget`` take the subject that a line is
    about, such as a sink and the name of its trouble."""

    def __init__(
        self,
        write: Callable[[Level, str, dict[str, object]], None],
        is_debug: Callable[[], bool],
        clock: Callable[[], float],
    ) -> None:
        """``write``: takes a line's level, text and fields. ``is_debug``: whether debug lines are written. ``clock``:
        monotonic seconds."""
        self._write = write
        self.is_debug = is_debug
        """Asked before the line of a batch: a line that no reader gets costs more than the counters of its batch."""
        self._throttle = LogThrottle(clock)
        self._states: dict[Hashable, object] = {}

    def write(self, level: Level, text: str, /, **fields: object) -> None:
        self._write(level, text, fields)

    def debug(self, text: str, /, **fields: object) -> None:
        self._write("debug", text, fields)

    def info(self, text: str, /, **fields: object) -> None:
        self._write("info", text, fields)

    def warning(self, text: str, /, **fields: object) -> None:
        self._write("warning", text, fields)

    def error(self, text: str, /, **fields: object) -> None:
        self._write("error", text, fields)

    def failure(self, subject: Hashable, text: str, reason: str, level: Level = "warning", /, **fields: object) -> None:
        """Logs a failure: a line now, and a line every half minute while it repeats, with its count in between."""
        times = self._throttle.due(subject, reason)
        if times is not None:
            often = {"times": times} if times > 1 else {}
            self._write(level, text, {**fields, **often, "reason": reason[:LONGEST_REASON]})

    def over(self, subject: Hashable) -> bool:
        """Notes that a subject recovered. Returns whether its failure was logged: then its recovery should be too."""
        return self._throttle.over(subject)

    def change(self, subject: Hashable, state: object) -> object:
        """Notes the state of a subject. Returns the state before; None if there was none."""
        before = self._states.get(subject)
        self._states[subject] = state
        return before

    def forget(self, subject: Hashable) -> object:
        """Forgets failures and state of a subject. Returns the state."""
        self._throttle.forget(subject)
        return self._states.pop(subject, None)
