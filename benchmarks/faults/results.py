"""The counts of all faults, as JSON."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Self

from benchmarks.faults.counting import Counts


@dataclass(slots=True)
class Measured:
    """One fault."""

    rounds: int = 0
    seconds: float = 0
    """Of load."""
    sinks: dict[str, Counts] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)
    """Why rounds have no counts."""

    def add(self, rounds: int, seconds: float, sinks: dict[str, Counts]) -> None:
        self.rounds += rounds
        self.seconds += seconds
        for name, counts in sinks.items():
            self.sinks.setdefault(name, Counts()).add(counts)


@dataclass(slots=True)
class Results:
    about: dict[str, Any]
    """The day, the machine and the versions."""
    faults: dict[str, Measured] = field(default_factory=dict)

    def of(self, fault: str) -> Measured:
        return self.faults.setdefault(fault, Measured())

    def write(self, path: Path) -> None:
        path.write_text(json.dumps(asdict(self), indent=1) + "\n")

    @classmethod
    def read(cls, path: Path) -> Self:
        found = json.loads(path.read_text())
        return cls(found["about"], {name: _measured(each) for name, each in found["faults"].items()})


def _measured(found: dict[str, Any]) -> Measured:
    sinks = {name: Counts(**each) for name, each in found.pop("sinks").items()}
    return Measured(**found, sinks=sinks)
