"""Whether a call takes linear time: in CPU time of this thread, so that a busy machine does not matter."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from typing import Final

LONGEST: Final = 8_192
"""Characters, at which growth is judged."""
LONGEST_OPTION: Final = 1_024
"""Characters of an operator's text, which must take no time that is noticed."""
_FIRST = (16, 20, 24, 28, 32, 40, 48, 56, 64, 80, 96, 128, 192, 256, 512, 1024)
_TOO_LONG = 0.1
"""Seconds, for a text of these lengths."""
_ENOUGH = 0.004
"""Seconds. A call that takes less on a text of ``LONGEST`` is not looked at further: it is no product of two sizes."""
_MOST_FACTOR = 9
"""Of a fourfold size: 4 is linear, 16 is quadratic."""


def is_linear(call: Callable[[str], object], text: Callable[[int], str], longest: int = LONGEST) -> bool:
    """``text``: a text of about this length. The least of several runs counts, and lengths grow slowly at first, so
    that an exponential call is found out before it takes for ever. Up to ``LONGEST_OPTION``, only that is judged."""
    for length in _FIRST:
        if _least(call, text(length), _TOO_LONG) > _TOO_LONG:
            return False
    if longest <= LONGEST_OPTION:
        return True
    whole, quarter = text(longest), text(longest // 4)
    if _least(call, whole, _ENOUGH) < _ENOUGH:
        return True
    return any(_seconds(call, whole) < _MOST_FACTOR * _seconds(call, quarter) for _ in range(7))


def _least(call: Callable[[str], object], text: str, enough: float) -> float:
    """Of at most three runs; the first that takes less than ``enough`` is the last."""
    least = float("inf")
    for _ in range(3):
        least = min(least, _seconds(call, text))
        if least < enough:
            break
    return least


def cpu_seconds(call: Callable[[], object]) -> float:
    """CPU time of this thread, without a collection of the garbage that other tests left: that depends on these."""
    collects = gc.isenabled()
    gc.disable()
    try:
        began = time.thread_time()
        call()
        return time.thread_time() - began
    finally:
        if collects:
            gc.enable()


def _seconds(call: Callable[[str], object], text: str) -> float:
    return cpu_seconds(lambda: call(text))
