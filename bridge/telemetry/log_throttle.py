"""Which of many equal troubles are told."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field

PERIOD = 30.0
"""Seconds in which the same trouble is told once, also when it comes and goes in between."""
_MOST_REASONS = 16
_CHANGING = re.compile(r"\d+")


@dataclass(slots=True)
class _Trouble:
    told_at: float
    untold: int = 0


@dataclass(slots=True)
class _Subject:
    troubles: dict[str, _Trouble] = field(default_factory=dict)
    troubled: bool = False
    """A trouble was told, and its end was not."""


class LogThrottle:
    """Remembers what was told when, by subject (bounded by the configuration) and reason. Numbers in a reason (ports,
    versions, seconds) do not make it another reason."""

    def __init__(self, clock: Callable[[], float]) -> None:
        """``clock`` is in seconds and never goes back."""
        self._clock = clock
        self._subjects: dict[Hashable, _Subject] = {}

    def tell(self, subject: Hashable, reason: str) -> int | None:
        """How often it came since it was last told, this time included; None where it is too early to tell again."""
        about = self._subjects.setdefault(subject, _Subject())
        alike = _CHANGING.sub("#", reason)
        trouble = about.troubles.pop(alike, None)
        now = self._clock()
        if trouble is not None and now - trouble.told_at < PERIOD:
            about.troubles[alike] = _Trouble(trouble.told_at, trouble.untold + 1)
            return None
        if len(about.troubles) == _MOST_REASONS:
            del about.troubles[next(iter(about.troubles))]
        about.troubles[alike] = _Trouble(now)
        about.troubled = True
        return trouble.untold + 1 if trouble else 1

    def over(self, subject: Hashable) -> bool:
        """The subject is well. True where a trouble was told, so that its end should be too."""
        about = self._subjects.get(subject)
        if about is None or not about.troubled:
            return False
        about.troubled = False
        return True

    def forget(self, subject: Hashable) -> None:
        self._subjects.pop(subject, None)
