"""Why the system forbids to write."""

from __future__ import annotations

import errno
import os
from pathlib import Path


def why_not_writable(path: Path) -> str:
    """The reason behind an ``os.access`` that says no, in the system's words: a volume that is mounted read-only is not
    mended by other rights. Raises OSError."""
    return os.strerror(errno.EROFS if os.statvfs(path).f_flag & os.ST_RDONLY else errno.EACCES)
