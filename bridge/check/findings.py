"""What a check found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum


class Verdict(StrEnum):
    RIGHT = "ok"
    NOTE = "note"
    """Nothing has to change, and it is good to know."""
    WRONG = "wrong"
    """The configuration, a permission, or what they point at must change."""
    UNREACHABLE = "unreachable"


@dataclass(frozen=True, slots=True)
class Finding:
    subject: str
    """``cluster``, ``resources: pods``, ``sinks.audit``."""
    verdict: Verdict
    detail: str
    rows: Sequence[tuple[str, str, int]] = ()
    """Sink, op and number of records, where that is what was found."""

    def __str__(self) -> str:
        return f"{self.verdict:<11} {self.subject}: {self.detail}"
