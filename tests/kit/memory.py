"""A folder for temporary files that is in memory: ``python -m tests.kit.memory`` prints it, or the usual one.

Tests of the rooms sync thousands of files. Their crashes are kills and copies of files, which lose no byte that was
written; so a disk, which takes milliseconds for a sync, would show no more.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

MEMORY = Path("/dev/shm")
ROOM = 2 << 30
"""Bytes free. The largest test writes some hundred MiB."""


def folder() -> Path:
    """``MEMORY`` where programs may be run in it and it has room, as it does not in most containers."""
    usual = Path(tempfile.gettempdir())
    if "TMPDIR" in os.environ or not os.access(MEMORY, os.W_OK):
        return usual
    found = os.statvfs(MEMORY)
    fits = found.f_bavail * found.f_frsize >= ROOM and not found.f_flag & os.ST_NOEXEC
    return MEMORY if fits else usual


if __name__ == "__main__":
    print(folder())
