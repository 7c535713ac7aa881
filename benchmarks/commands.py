"""What the commands that measure have in common."""

from __future__ import annotations

import os
import platform
from importlib.metadata import version
from typing import Any


def machine() -> dict[str, Any]:
    """What a report says of the machine and the versions: rounds of one report have it in common."""
    return {
        "cores": os.cpu_count(),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "kubedelta": version("kubedelta"),
    }


def names(text: str) -> list[str]:
    """Of an argument: names with commas."""
    return [each.strip() for each in text.split(",") if each.strip()]
