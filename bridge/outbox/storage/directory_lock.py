"""The lock of the state directory, and the modes of the files in it."""

from __future__ import annotations

import fcntl
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from bridge.outbox.errors import StateUnusable
from bridge.outbox.storage.private_files import close_directory, exposed_file, no_file, open_private

FILE = "outbox.db"
WAL = "outbox.db-wal"
COMPANIONS = ("", "-wal", "-shm")
"""Suffixes of ``FILE``: SQLite keeps the write-ahead log and its shared index beside the database."""
LOCK = "lock"
_BESIDE = (LOCK, "redaction.key")


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
