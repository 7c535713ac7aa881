"""The socket file of a state directory: made on one side, found on the other.

The path of a unix socket may have about 107 bytes, and state directories may be deeper. On Linux the file is therefore
reached through an open descriptor, in /proc. Elsewhere its path is used as it is.
"""

from __future__ import annotations

import os
import socket
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from bridge.admin.protocol import SOCKET

_DESCRIPTORS = Path("/proc/self/fd")
_OWNER_ALONE = 0o600


class SocketFile:
    """A bound socket in ``directory``, until ``remove``. A file that a killed process left is replaced.

    Only who holds the lock of the directory may make one: nothing tells the socket of a living process from one that
    was left. Raises OSError; FileExistsError where something that is no socket has the name, which is left alone.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
        try:
            self._remove_stale(directory / SOCKET)
            self.socket = self._bound(directory / SOCKET)
            self._identity = self._identify()
        except BaseException:
            os.close(self._directory)
            raise

    def remove(self) -> None:
        """Closes the socket. Its file goes, unless another one has taken the name since."""
        self.socket.close()
        with suppress(FileNotFoundError):
            if self._identify() == self._identity:
                os.unlink(SOCKET, dir_fd=self._directory)
        os.close(self._directory)

    def _remove_stale(self, path: Path) -> None:
        with suppress(FileNotFoundError):
            _expect_socket(path, self._look())
            os.unlink(SOCKET, dir_fd=self._directory)

    def _bound(self, path: Path) -> socket.socket:
        made = socket.socket(socket.AF_UNIX)
        try:
            if _DESCRIPTORS.is_dir():
                # Linux gives the file the mode of the socket. A umask would be that of every thread.
                os.fchmod(made.fileno(), _OWNER_ALONE)
                made.bind(f"{_DESCRIPTORS}/{self._directory}/{SOCKET}")
            else:
                made.bind(str(path))
                path.chmod(_OWNER_ALONE)  # in time: nobody can connect before it listens
        except BaseException:
            made.close()
            raise
        return made

    def _look(self) -> os.stat_result:
        return os.stat(SOCKET, dir_fd=self._directory, follow_symlinks=False)

    def _identify(self) -> tuple[int, int]:
        seen = self._look()
        return seen.st_dev, seen.st_ino


def expect_room(directory: Path) -> None:
    """For whoever only looks whether a socket could be made: raises FileExistsError where something else has the
    name, and other OSErrors."""
    path = directory / SOCKET
    with suppress(FileNotFoundError):
        _expect_socket(path, path.lstat())


@contextmanager
def found(directory: Path) -> Iterator[str]:
    """A path of its socket that is short enough to connect to, while inside.

    Raises FileNotFoundError where there is none, FileExistsError where something else has the name (a symlink is not
    followed), and other OSErrors.
    """
    path = directory / SOCKET
    if not _DESCRIPTORS.is_dir():
        _expect_socket(path, path.lstat())
        yield str(path)
        return
    descriptor = os.open(path, os.O_PATH | os.O_NOFOLLOW)
    try:
        _expect_socket(path, os.fstat(descriptor))
        yield f"{_DESCRIPTORS}/{descriptor}"
    finally:
        os.close(descriptor)


def _expect_socket(path: Path, seen: os.stat_result) -> None:
    if not stat.S_ISSOCK(seen.st_mode):
        raise FileExistsError(f"{path} is no socket, and only a socket may have this name: remove it")
