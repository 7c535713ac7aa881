"""Files of secrets and certificates that were renewed after a client had read them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path


class RenewedFiles:
    """Create it before the client reads the files."""

    def __init__(self, paths: Iterable[Path]) -> None:
        self._seen = {path: _stamp(path) for path in paths}

    def found(self) -> bool:
        """Whether a file was replaced or changed since. A missing file does not count: it may be on its way."""
        return any(_stamp(path) not in (None, seen) for path, seen in self._seen.items())


def _stamp(path: Path) -> tuple[int, int, int] | None:
    """None if the file is missing."""
    try:
        # Kubernetes renews a mounted Secret by moving a link, which changes the inode.
        status = path.stat()
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns, status.st_size
