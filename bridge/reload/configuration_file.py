"""Notices that the configuration file changed, also behind the symbolic links of a mounted ConfigMap.

A ``stat`` sees an editor's write, a rename, and the link that the kubelet replaces. inotify would need a watch on each
link of the path, and saves a system call every three seconds.
"""

from __future__ import annotations

import hashlib
import stat
from pathlib import Path
from typing import TypeAlias

from config.document import LARGEST

_DIGITS = 8
"""Enough to compare files, and too few to try passwords of a file on."""

_State: TypeAlias = tuple[int, int, int, int, int] | None
"""Device, inode, size, and the times of changes in nanoseconds; None without a regular file."""


class ConfigurationFile:
    """A file, compared with its state at the last ``read``. A look is a ``stat``: the kubelet replaces a link in front
    of the file, which then has another inode; editors write in place or rename. A pipe is never read again."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.digest = ""
        """The first digits of the SHA-256 of the content at the last ``read``; empty for a file that cannot be read."""
        self._read: _State = None
        self._seen: _State = None
        self.read()

    def read(self) -> None:
        """Notes state and digest. Call it before the content is used, so that no change in between is overlooked."""
        self._read = self._seen = self._look()
        self.digest = ""
        if self._read is not None:
            try:
                with self.path.open("rb") as opened:
                    self.digest = hashlib.sha256(opened.read(LARGEST + 1)).hexdigest()[:_DIGITS]
            except OSError:
                return

    def has_changed(self) -> bool:
        """True if this look and the one before found the same new state: its writer is done with it."""
        was, self._seen = self._seen, self._look()
        return self._seen == was and self._seen != self._read

    @property
    def is_changing(self) -> bool:
        """The last look found another state than the last ``read``."""
        return self._seen != self._read

    def _look(self) -> _State:
        try:
            found = self.path.stat()
        except OSError:
            return None
        if not stat.S_ISREG(found.st_mode):
            return None
        return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns
