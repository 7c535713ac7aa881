"""Whether work grows no faster than its input: in CPU time of this thread, and by the ratio of two sizes.

Beside other work a CPU is slower, at any moment and for any reason, so one comparison says nothing. Work that is a
product of two sizes fails each comparison; linear work passes one of a few.
"""

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
"""Seconds. What takes less on the larger input is not looked at further: it is no product of two sizes."""
_TRIES = 10


def grows_linearly(call: Callable[[int], Callable[[], object]], small: int, large: int) -> bool:
    """``call`` makes the work for an input of this size; only the work is measured. Linear work of the large size takes
    ``large / small`` times that of the small one, quadratic work the square of it; halfway between is the limit."""
    most = (large / small) ** 1.5
    small_work, large_work = call(small), call(large)
    for _ in range(_TRIES):
        whole = cpu_seconds(large_work)
        if whole < _ENOUGH or whole < most * cpu_seconds(small_work):
            return True
    return False


def is_linear(call: Callable[[str], object], text: Callable[[int], str], longest: int = LONGEST) -> bool:
    """``text``: a text of about this length. Lengths grow slowly at first, so that an exponential call is found out
    before it takes for ever. Up to ``LONGEST_OPTION``, only that is judged."""

    def work(length: int) -> Callable[[], object]:
        made = text(length)
        return lambda: call(made)

    for length in _FIRST:
        first = work(length)
        if not any(cpu_seconds(first) < _TOO_LONG for _ in range(3)):
            return False
    return longest <= LONGEST_OPTION or grows_linearly(work, longest // 4, longest)


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
