"""Finds the configuration of a command line that names none with ``-c``."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

VARIABLE = "KUBEDELTA_CONFIG"
PLACES = ("kubedelta.yaml", "/etc/kubedelta/kubedelta.yaml")
"""In the working directory of an operator; where the image and the chart have it."""

NO_FILE = f"there is no configuration: {VARIABLE} is not set, and there is no {' and no '.join(PLACES)}"


@dataclass(frozen=True, slots=True)
class DefaultFile:
    path: Path
    origin: str
    """Why it is this file, in words."""

    def __str__(self) -> str:
        return f"{self.path} ({self.origin})"


def default_file() -> DefaultFile | None:
    """By precedence: the file that ``KUBEDELTA_CONFIG`` names, even if it is missing; else the first of the places that
    has a file. None without one."""
    if named := os.environ.get(VARIABLE):
        return DefaultFile(Path(named), f"from {VARIABLE}")
    found = next((path for path in map(Path, PLACES) if path.is_file()), None)
    return None if found is None else DefaultFile(found, "the default")
