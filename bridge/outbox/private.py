"""Files that the bridge's user alone may open. A symbolic link in place of one is refused, never followed."""

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
    """A descriptor of the regular file ``name``, which nobody else may open from now on; made where ``flags`` have
    O_CREAT. ``directory`` is a descriptor. Raises OSError, and StateUnusable where the name is no regular file.

    Not for a file that this process has open through SQLite: closing the descriptor would take SQLite's locks."""
    try:
        # O_NONBLOCK: a FIFO of this name holds up nobody.
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
        with suppress(PermissionError):  # It belongs to somebody else: see exposed_file.
            os.fchmod(file, OWNER_ALONE)
    return file


def exposed_file(file: int) -> bool:
    """Somebody else may open it all the same."""
    found = os.fstat(file)
    return bool(found.st_mode & _OTHERS) or found.st_uid not in (os.geteuid(), 0)


def close_directory(directory: int) -> str:
    """Close a directory that belongs to this user to everybody else. Returns why others may enter it all the same;
    empty where they may not. A directory that holds other directories, or has the sticky bit, is shared with others:
    closing /tmp or /var/lib by a mistake in the configuration would hurt them."""
    found = os.fstat(directory)
    mode = stat.S_IMODE(found.st_mode)
    if not mode & _OTHERS:
        return ""
    if found.st_uid != os.geteuid():
        return f"it belongs to uid {found.st_uid} and has mode {mode:o}; this process has uid {os.geteuid()}"
    if mode & stat.S_ISVTX or _has_directories(directory):
        return f"it has mode {mode:o}, and is used for other things as well"
    try:
        os.fchmod(directory, mode & ~_OTHERS)
    except OSError as error:
        return f"it has mode {mode:o}, which cannot be changed: {error.strerror}"
    return ""


def _has_directories(directory: int) -> bool:
    with os.scandir(directory) as entries:
        return any(each.is_dir(follow_symlinks=False) and each.name not in _MOUNTED for each in entries)


def no_file(name: str) -> str:
    """What to say of something else that has the name of a file."""
    return f"state.directory: {name} is no regular file (a symbolic link is not followed): put the file itself there"
