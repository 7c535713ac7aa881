"""What was measured: every round of every contender, and the medians that count."""

from __future__ import annotations

import json
import statistics
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Self

from benchmarks.meter import Figures


@dataclass(slots=True)
class Measured:
    """One contender in one case."""

    rounds: list[Figures] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    """Why a round has no figures."""

    def median(self, figure: str) -> float | None:
        """None where no round has it."""
        found = [each[figure] for each in self.rounds if figure in each]
        return statistics.median(found) if found else None


@dataclass(slots=True)
class Results:
    """Written after every run, so that an interrupted benchmark has what it came to."""

    about: dict[str, Any]
    """The machine, the scale and the versions."""
    titles: dict[str, str]
    """Of cases, in their order."""
    measured: dict[str, dict[str, Measured]] = field(default_factory=dict)
    """Case → contender."""
    notes: dict[str, str] = field(default_factory=dict)
    """Case → circumstances that a reader of its figures must know."""

    def of(self, case: str, contender: str) -> Measured:
        """An empty one where nothing was measured yet, which is kept."""
        return self.measured.setdefault(case, {}).setdefault(contender, Measured())

    def median(self, case: str, contender: str, figure: str) -> float | None:
        found = self.measured.get(case, {}).get(contender)
        return found.median(figure) if found else None

    def ratio(self, over: tuple[str, str, str], under: tuple[str, str, str]) -> float | None:
        """Of two medians, each named by case, contender and figure. None where one is missing or the second is 0."""
        above, below = self.median(*over), self.median(*under)
        return above / below if above is not None and below else None

    def write(self, path: Path) -> None:
        path.write_text(json.dumps(asdict(self), indent=1) + "\n")

    @classmethod
    def read(cls, path: Path) -> Self:
        found = json.loads(path.read_text())
        measured = {
            case: {name: Measured(**each) for name, each in contenders.items()}
            for case, contenders in found["measured"].items()
        }
        return cls(found["about"], found["titles"], measured, found.get("notes", {}))
