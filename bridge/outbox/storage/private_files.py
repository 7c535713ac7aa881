"""Files that only the bridge's user may open. A symbolic link is refused, never followed.

SQLite gives its companion files the mode of the database, which is therefore created before SQLite opens it. A umask
would apply to the whole process, and files of the file sink are for its group.
"""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress

from bridge.outbox.errors import StateUnusable

OWNER_ALONE = 0o600
_OTHERS = 0o077
_MOUNTED = frozenset({"lost+found"})


def open_private(directory: int, name: str, flags: int) -> int:
    """A descriptor of the regular file ``name``, with mode 0600 from now on; created if ``flags`` have O_CREAT.
    ``directory`` is a descriptor. Raises OSError, and StateUnusable for anything but a regular file.

    Not for a file that this process has open through SQLite: POSIX drops all locks of the process on a file when any of
    its descriptors is closed.
    """
    try:
        # O_NONBLOCK: the open of a FIFO would wait for its other end.
        file = os.open(name, flags | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK, OWNER_ALONE, dir_fd=directory)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO, errno.EISDIR):
            raise StateUnusable(no_file(name)) from error
        raise
    found = os.fstat(file)
    if not stat.S_ISREG(found.st_mode):
        os.close(file)
        raise StateUnusable(no_file(name))
    if stat.S_IMODE(found.st_mode) != OWNER_ALONE:
        with suppress(PermissionError):  # The file belongs to another user: see exposed_file.
            os.fchmod(file, OWNER_ALONE)
    return file


def exposed_file(file: int) -> bool:
    """True if another user may open the file in spite of its mode."""
    found = os.fstat(file)
    return bool(found.st_mode & _OTHERS) or found.st_uid not in (os.geteuid(), 0)


def close_directory(directory: int) -> str:
    """Takes all access of others from a directory of this user. Returns why others may enter in spite of that; empty if
    they cannot. A directory with the sticky bit, or with other directories inside, keeps its mode: a mistake in the
    configuration must not close /tmp or /var/lib."""
    found = os.fstat(directory)
    mode = stat.S_IMODE(found.st_mode)
    if not mode & _OTHERS:
        return ""
    if found.st_uid != os.geteuid():
        return f"it belongs to uid {found.st_uid} and has mode {mode:o}; this process has uid {os.geteuid()}"
    if mode & stat.S_ISVTX or _has_directories(directory):
        return f"it has mode {mode:o}, and other programs use it too"
    try:
        os.fchmod(directory, mode & ~_OTHERS)
    except OSError as error:
        return f"it has mode {mode:o}, which cannot be changed: {error.strerror}"
    return ""


def _has_directories(directory: int) -> bool:
    with os.scandir(directory) as entries:
        return any(each.is_dir(follow_symlinks=False) and each.name not in _MOUNTED for each in entries)


def no_file(name: str) -> str:
    """The error for a name that is no regular file."""
    return f"state.directory: {name} is no regular file (a symbolic link is not followed): put the file itself there"
