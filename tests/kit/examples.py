"""How many examples a property is tried with."""

from __future__ import annotations

import os
from typing import Any

from hypothesis import settings

TIMES = int(os.environ.get("KUBEDELTA_EXAMPLES", "1"))
"""`make soak` tries so many times the examples of the default suite."""


def examples(number: int = 50, **more: Any) -> settings:
    """``number`` in the default suite. ``more``: other settings of hypothesis."""
    return settings(max_examples=number * TIMES, **more)
