"""How many examples a property is tried with."""

from __future__ import annotations

import os
from typing import Any

from hypothesis import settings

TIMES = int(os.environ.get("KUBEDELTA_EXAMPLES", "1"))
"""`make soak` tries so many times the examples of the default suite, and others each time; the default suite tries the
same ones each time, so that luck fails nobody's change."""


def examples(number: int = 50, **more: Any) -> settings:
    """``number`` in the default suite. ``more``: other settings of hypothesis."""
    return settings(max_examples=number * TIMES, derandomize=TIMES == 1, **more)
