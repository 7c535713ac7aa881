"""What a process has open."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from pathlib import Path


def open_files(pid: int | str = "self") -> Counter[str]:
    """How many sockets, pipes, event polls, and files of each path."""
    found: Counter[str] = Counter()
    for each in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(FileNotFoundError):  # The listing itself, and what the process has just closed.
            found[str(each.readlink()).partition(":[")[0]] += 1
    return found
