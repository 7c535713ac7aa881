"""Reads a file with a key."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from bridge.outbox import StateError

SHORTEST: Final = 32
LONGEST: Final = 4096
"""Bytes of a key."""


def read_key_file(file: Path, option: str) -> bytes:
    """The key, without white space around it. ``option`` names the file in errors. Raises StateError with the file's
    name, and never with its content."""
    try:
        # O_NONBLOCK: a named pipe in the place of the file would block the start.
        with os.fdopen(os.open(file, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK), "rb") as opened:
            content = opened.read(LONGEST + 1)
    except OSError as error:
        raise StateError(f"{option}: cannot read {file}: {error.strerror}") from error
    key = content.strip()
    if len(content) > LONGEST or len(key) < SHORTEST:
        found = f"more than {LONGEST}" if len(content) > LONGEST else str(len(key))
        raise StateError(
            f"{option}: {file} has {found} bytes; a key of {SHORTEST} to {LONGEST} bytes is expected, such as the"
            " output of `openssl rand -hex 32`"
        )
    return key
