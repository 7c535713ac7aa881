"""Writes small files that nobody else may read, and which survive a power cut."""

from __future__ import annotations

import os
from pathlib import Path


def write_private(file: Path, text: str) -> None:
    """Writes a small file. Durable on return, with mode 0600; a crash leaves the former file, or this one. The caller
    holds a lock against other writers. Blocks. Raises OSError."""
    part = file.with_name(file.name + ".part")
    part.unlink(missing_ok=True)
    with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "w") as written:
        written.write(text)
        written.flush()
        os.fsync(written.fileno())
    part.rename(file)
    sync_folder(file.parent)


def sync_folder(folder: Path) -> None:
    """Behind it, no power cut takes the names of files in the folder. Raises OSError."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
