"""A small disk that can be full, or read-only."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

MEBIBYTE = 1024 * 1024
SIZE = 24 * MEBIBYTE


class CannotMount(Exception):
    """Not Linux, or not permitted."""


@dataclass(frozen=True, slots=True)
class SmallDisk:
    folder: Path

    @property
    def free(self) -> int:
        return shutil.disk_usage(self.folder).free

    def fill(self, leave: int = 0) -> int:
        """Until no more than this many bytes are free. Returns how many it took."""
        with (self.folder / "filler").open("ab", buffering=0) as filler:
            before = filler.tell()
            try:
                while (more := self.free - leave) > 0:
                    filler.write(bytes(min(more, MEBIBYTE)))
            except OSError as error:
                if error.errno != errno.ENOSPC:
                    raise
            return os.fstat(filler.fileno()).st_size - before

    def make_room(self) -> None:
        (self.folder / "filler").unlink()

    def enlarge(self, size: int) -> None:
        """To this many bytes, as an operator enlarges a volume. What is not used costs nothing."""
        _as_root("mount", "-o", f"remount,size={size}", str(self.folder))

    def make_read_only(self) -> None:
        _as_root("mount", "-o", "remount,ro", str(self.folder))


@contextmanager
def mounted_small_disk(folder: Path, size: int = SIZE) -> Iterator[SmallDisk]:
    """Mounted there until the `with` ends. Raises CannotMount."""
    folder.mkdir()
    _as_root("mount", "-t", "tmpfs", "-o", f"size={size},uid={os.getuid()},mode=700", "tmpfs", str(folder))
    try:
        yield SmallDisk(folder)
    finally:
        _as_root("umount", "--lazy", str(folder))  # A process that was just killed may still hold it.


def _as_root(*command: str) -> None:
    sudo = () if os.getuid() == 0 else ("sudo", "--non-interactive")
    try:
        done = subprocess.run([*sudo, *command], capture_output=True, text=True, timeout=10, check=False)
    except OSError as error:
        raise CannotMount(str(error)) from error
    if done.returncode != 0:
        raise CannotMount(done.stderr.strip())
