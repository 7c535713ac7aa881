"""Keeps the state directory for one bridge and its user: locks the directory, and closes its files to others.

Two bridges on one database would number different records alike, so a start takes the lock or raises StateUnusable.
The files have mode 0600, since they have what the cluster has. A symbolic link is refused, never followed. SQLite gives
its companion files the mode of the database, which is therefore created before SQLite opens it. A umask would apply to
the whole process, and files of the file sink are for its group.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from bridge.outbox.errors import StateUnusable

FILE = "outbox.db"
WAL = "outbox.db-wal"
COMPANIONS = ("", "-wal", "-shm")
"""Suffixes of ``FILE``: SQLite keeps the write-ahead log and its shared index beside the database."""
LOCK = "lock"
_BESIDE = (LOCK, "redaction.key")

OWNER_ALONE = 0o600
_OTHERS = 0o077
_MOUNTED = frozenset({"lost+found"})


class DirectoryLock:
    """Locks ``state.directory`` until ``release`` or the end of the process, however it ends (flock).

    Two locks: on the directory, since a file ``lock`` could be removed and created anew by a second bridge; and on that
    file, since any user who can read a directory can lock it. All files of the state, old ones included, get mode 0600.
    """

    def __init__(self, directory: Path) -> None:
        """Raises StateUnusable."""
        self._directory = directory
        if not directory.is_dir():
            state = "is no directory" if directory.exists() else "does not exist"
            raise StateUnusable(f"state.directory: {directory} {state}: make it, or mount a volume there")
        with self._explained():
            self.fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            """Descriptor of the directory, valid whatever name the directory has later."""
        try:
            self._take(self.fd)
            with self._explained():
                self._lock = open_private(self.fd, LOCK, os.O_RDWR | os.O_CREAT)
        except BaseException:
            os.close(self.fd)
            raise
        try:
            self._take(self._lock)
            with suppress(OSError):  # On a full disk the lock holds without the process id.
                os.ftruncate(self._lock, 0)
                os.pwrite(self._lock, f"{os.getpid()}\n".encode(), 0)
            self.exposed = self._close_to_others()
            """Why other users may reach the state, in words; empty if they cannot."""
        except BaseException:
            self.release()
            raise

    def release(self) -> None:
        """Releases both locks."""
        os.close(self._lock)
        os.close(self.fd)

    def _take(self, file: int) -> None:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise StateUnusable(
                f"state.directory: {self._directory} is held by another process ({self._holder() or 'unknown'}): one "
                "bridge at a time"
            ) from error
        except OSError as error:
            raise StateUnusable(f"state.directory: cannot lock {self._directory}: {error.strerror}") from error

    def _holder(self) -> str:
        with suppress(OSError, StateUnusable):
            file = os.open(LOCK, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=self.fd)
            try:
                return os.pread(file, 20, 0).decode("ascii", "replace").strip()
            finally:
                os.close(file)
        return ""

    def _close_to_others(self) -> str:
        reason = close_directory(self.fd)
        for name in os.listdir(self.fd):  # noqa: PTH208  # by descriptor: the locked directory may have another name
            if not _is_ours(name):
                continue
            with self._explained():
                try:
                    file = open_private(self.fd, name, os.O_RDONLY)
                except FileNotFoundError:
                    continue  # The last reader of another process has ended, and SQLite removed the companions.
            reason = reason or (f"{name} belongs to another user" if exposed_file(file) else "")
            os.close(file)
        return reason

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            action = f"open {error.filename}" if str(error.filename).startswith(FILE) else "write"
            raise StateUnusable(f"state.directory: cannot {action} in {self._directory}: {error.strerror}") from error


def is_held(directory: Path) -> bool:
    """True if a process holds the directory. The test takes a shared lock for some microseconds; a bridge that starts
    in that time is refused. Raises OSError."""
    file = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(file)
    return False


def unusable(directory: Path) -> str:
    """Why a start could not use the files of the directory, in words; empty if it could. Opens no file. Raises
    OSError."""
    for each in sorted(directory.iterdir()):
        if not _is_ours(each.name):
            continue
        with suppress(FileNotFoundError):  # A running bridge removes companion files at any time.
            if not stat.S_ISREG(each.lstat().st_mode):
                return no_file(each.name)
            if not os.access(each, os.R_OK | os.W_OK) and each.exists():
                return f"state.directory: cannot open {each}: permission denied"
    return ""


def _is_ours(name: str) -> bool:
    return name in _BESIDE or name.startswith(FILE)


# ── Private files ────────────────────────────────────────────────────────────


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


def no_file(name: str) -> str:
    """The error for a name that is no regular file."""
    return f"state.directory: {name} is no regular file (a symbolic link is not followed): put the file itself there"


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
