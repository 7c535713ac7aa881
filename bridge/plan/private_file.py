"""Small files of the state directory that only the bridge's user may read."""

from __future__ import annotations

import os
from pathlib import Path


def write_private(file: Path, text: str) -> None:
    """Durable on return, with mode 0600; a crash leaves the former file, or this one. The caller holds the lock of the
    directory. Blocks. Raises OSError."""
    part = file.with_name(file.name + ".part")
    part.unlink(missing_ok=True)
    with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "w") as written:
        written.write(text)
        written.flush()
        os.fsync(written.fileno())
    part.rename(file)
    directory = os.open(file.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
