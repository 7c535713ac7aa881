"""The result of a check."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from bridge.operations.check.noise import NoisyPath


class CheckResult(StrEnum):
    RIGHT = "ok"
    NOTE = "note"
    """Worth knowing; no change is needed."""
    WRONG = "wrong"
    """The configuration, a permission, or a file or service that they refer to must change."""
    UNREACHABLE = "unreachable"


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
