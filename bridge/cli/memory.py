"""Sets how the process takes memory and gives it back."""

from __future__ import annotations

import ctypes
import gc

COLLECTIONS = (20_000, 20, 10)
"""Thresholds of the garbage collector. By default it runs after every 700 new objects, the objects of some
dozen events, and finds little: reference counts free the objects of a batch."""
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_LARGE = 512 << 10
"""Bytes. Bodies and pages of ordinary objects are smaller."""
_SPARE = 8 << 20
"""Bytes at the end of the heap that are kept for the next batch."""


def tune_memory() -> None:
    """Collects garbage less often, and returns the memory of large objects to the system as soon as they are freed.

    Once a block above its threshold was freed, glibc takes blocks of that size from the heap (mallopt(3), "dynamic mmap
    threshold"): after a list of objects of a megabyte, the holes between them stayed with the process, more than
    100 MiB. The system's pages for such a block cost some 5 ms of CPU for an object of a megabyte; smaller objects pay
    nothing. Other C libraries keep their ways.
    """
    gc.freeze()  # Objects so far live as long as the process: collections skip them from now on.
    gc.set_threshold(*COLLECTIONS)
    libc = ctypes.CDLL(None)
    if hasattr(libc, "mallopt"):
        libc.mallopt(_M_MMAP_THRESHOLD, _LARGE)
        libc.mallopt(_M_TRIM_THRESHOLD, _SPARE)
