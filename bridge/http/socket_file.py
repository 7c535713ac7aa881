"""The file of the admin socket in the state directory, which the server creates and the client opens.

The file's mode admits its owner alone. The path of a unix socket may have about 107 bytes, and state directories may be
deeper. On Linux the file is therefore reached through an open descriptor, in /proc; elsewhere by its path.
"""

from __future__ import annotations

import os
import socket
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

SOCKET = "admin.sock"

_DESCRIPTORS = Path("/proc/self/fd")
_OWNER_ALONE = 0o600


class SocketFile:
    """A bound socket in ``directory``, until ``remove``. Replaces the file of a killed process.

    The caller must hold the lock of the directory, since the socket file of a running process looks like a file that
    was left behind. Raises OSError; FileExistsError if the name belongs to a file other than a socket, which stays.
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
        """Closes the socket, and removes its file unless another process has replaced it."""
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
                # Linux gives the file the mode of the socket. A umask would affect every thread.
                os.fchmod(made.fileno(), _OWNER_ALONE)
                made.bind(f"{_DESCRIPTORS}/{self._directory}/{SOCKET}")
            else:
                made.bind(str(path))
                path.chmod(_OWNER_ALONE)  # In time: clients cannot connect before ``listen``.
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
    """Checks that a socket could be created: raises FileExistsError if another kind of file has the name, and other
    OSErrors."""
    path = directory / SOCKET
    with suppress(FileNotFoundError):
        _expect_socket(path, path.lstat())


@contextmanager
def found(directory: Path) -> Iterator[str]:
    """Yields a path of the socket that is short enough to connect to.

    Raises FileNotFoundError without a socket, FileExistsError if another kind of file has the name (symlinks are not
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
        raise FileExistsError(f"{path} is not a socket, and the bridge needs this name for its socket: remove it")
