"""The result of a check, for the operator."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar


class CheckResult(StrEnum):
    RIGHT = "ok"
    NOTE = "note"
    """Worth knowing; no change is needed."""
    WRONG = "wrong"
    """The configuration, a permission, or a file or service that they refer to must change."""
    UNREACHABLE = "unreachable"


@dataclass(frozen=True, slots=True)
class NoisyPath:
    """A path of a resource that changes often. Its share and those of other paths overlap, for an update may change
    several."""

    WHOLE: ClassVar = "*"
    """The whole object, or too much of it for a path."""
    NOWHERE: ClassVar = "(resourceVersion or managedFields alone)"

    resource: str
    path: str
    """As ``ignore_changes`` has it."""
    updates: int
    per_second: float
    share: float
    """Of all compared updates, between 0 and 1."""

    @property
    def can_be_ignored(self) -> bool:
        return self.path not in (self.WHOLE, self.NOWHERE)


@dataclass(frozen=True, slots=True)
class Finding:
    """A result of a check, for the operator."""

    subject: str
    """``cluster``, ``resources: pods``, ``sinks.audit``."""
    verdict: CheckResult
    detail: str
    rows: Sequence[tuple[str, str, int]] = ()
    """Sink, op and number of records; of a forecast only."""
    manifest: str = ""
    """YAML that mends it: missing rights, or entries of the configuration that ignore noise."""
    noise: Sequence[NoisyPath] = ()
    """The noisiest paths, of a look at the noise only."""

    def __str__(self) -> str:
        return f"{self.verdict:<11} {self.subject}: {self.detail}"
