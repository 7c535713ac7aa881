"""The state directory: its lock, the identity of the open files, and the mark for the next start."""

from __future__ import annotations

import fcntl
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeAlias

from bridge.outbox.errors import StateUnusable
from bridge.outbox.storage import mark
from bridge.outbox.storage.mark import Mark
from bridge.outbox.storage.private_files import close_directory, exposed_file, no_file, open_private

FILE = "outbox.db"
WAL = "outbox.db-wal"
LOCK = "lock"
_BESIDE = (LOCK, "redaction.key")
_COMPANIONS = ("", "-wal", "-shm")
_NAMES = tuple(FILE + suffix for suffix in _COMPANIONS)

Identity: TypeAlias = tuple[int, int]
"""Device and inode."""


@dataclass(frozen=True, slots=True)
class Disk:
    """Paths and sizes of the state, in bytes."""

    path: Path
    file: int
    wal: int
    """Size of the write-ahead log."""
    free: int
    """Free space of the file system."""


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


class StateDirectory:
    """Locks ``state.directory`` until ``release`` or the end of the process, however it ends (flock).

    Two locks: on the directory, since a file ``lock`` could be removed and created anew by a second bridge; and on that
    file, since any user who can read a directory can lock it. All files of the state, old ones included, get mode 0600.
    """

    def __init__(self, directory: Path) -> None:
        """Raises StateUnusable."""
        self.directory = directory
        self._files: dict[str, Identity] = {}
        self.counted: Callable[[], tuple[int, int] | tuple[None, None]] = lambda: (None, None)
        """The newest assigned sequence number, and an upper bound of the epochs begun; both go into the mark."""
        if not directory.is_dir():
            state = "is no directory" if directory.exists() else "does not exist"
            raise StateUnusable(f"state.directory: {directory} {state}: make it, or mount a volume there")
        with self._explained():
            self._fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            self._take(self._fd)
            with self._explained():
                self._lock = open_private(self._fd, LOCK, os.O_RDWR | os.O_CREAT)
        except BaseException:
            os.close(self._fd)
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
        os.close(self._fd)

    def _take(self, file: int) -> None:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise StateUnusable(
                f"state.directory: {self.directory} is held by another process ({self._holder() or 'unknown'}): one "
                "bridge at a time"
            ) from error
        except OSError as error:
            raise StateUnusable(f"state.directory: cannot lock {self.directory}: {error.strerror}") from error

    def _holder(self) -> str:
        with suppress(OSError, StateUnusable):
            file = os.open(LOCK, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=self._fd)
            try:
                return os.pread(file, 20, 0).decode("ascii", "replace").strip()
            finally:
                os.close(file)
        return ""

    def _close_to_others(self) -> str:
        reason = close_directory(self._fd)
        for name in os.listdir(self._fd):  # noqa: PTH208  # by descriptor: the locked directory may have another name
            if not _is_ours(name):
                continue
            with self._explained():
                try:
                    file = open_private(self._fd, name, os.O_RDONLY)
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
            raise StateUnusable(f"state.directory: cannot {action} in {self.directory}: {error.strerror}") from error

    # ── The file ─────────────────────────────────────────────────────────────

    @property
    def file(self) -> Path:
        """Path of the database."""
        return self.directory / FILE

    def make_file(self) -> bool:
        """Creates the database file, empty and with mode 0600; SQLite gives its companion files the same mode. Returns
        False if the file existed. Raises OSError."""
        try:
            os.close(open_private(self._fd, FILE, os.O_RDWR | os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return False
        return True

    def has(self, name: str) -> bool:
        """True if the directory has a file of this name."""
        return self._identity(name) is not None

    def disk(self) -> Disk:
        """Sizes of the files, and the free space."""
        return Disk(self.file, self._size(FILE), self._size(WAL), self.free_bytes())

    def free_bytes(self) -> int:
        """Bytes that the file system has left for this user."""
        found = os.fstatvfs(self._fd)
        return found.f_bavail * found.f_frsize

    def _size(self, name: str) -> int:
        try:
            return os.stat(name, dir_fd=self._fd, follow_symlinks=False).st_size
        except OSError:
            return 0

    # ── Identity of the files ────────────────────────────────────────────────

    def remember_files(self) -> None:
        """Records device and inode of the open files. See ``gone``."""
        found = {name: self._identity(name) for name in _NAMES}
        self._files = {name: identity for name, identity in found.items() if identity is not None}

    def gone(self) -> str:
        """Why the open files are not the ones that have their names now, in words; empty if they are. Five stat calls:
        about 10 µs."""
        if moved := self._moved():
            return moved
        for name, identity in self._files.items():
            if self._identity(name) != identity:
                change = "was replaced" if self.has(name) else "was removed"
                return f"{self.directory / name} {change} while it was in use"
        if self._files and not self._size(FILE):
            return f"{self.file} was emptied while it was in use"
        return ""

    def _moved(self) -> str:
        try:
            now = self.directory.stat()
        except (FileNotFoundError, NotADirectoryError):
            return f"{self.directory} was removed, or moved away, while it was in use"
        except OSError:
            return ""  # An I/O error proves no change; the next look decides.
        if (now.st_dev, now.st_ino) == _identity_of(os.fstat(self._fd)):
            return ""
        return f"{self.directory} is another directory than it was"

    def _identity(self, name: str) -> Identity | None:
        try:
            return _identity_of(os.stat(name, dir_fd=self._fd, follow_symlinks=False))
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError:
            return self._files.get(name)  # An I/O error proves no change; the next look decides.

    # ── For the next start ───────────────────────────────────────────────────

    def mark_damaged(self, reason: str) -> bool:
        """Leaves a mark, after which the next start moves the database aside. Returns False if no mark could be
        written."""
        return mark.leave(self._fd, Mark(reason, *self.counted()))

    def mark_gone(self, reason: str) -> bool:
        """Leaves a mark, after which the next start numbers its records behind the exported ones. Returns False without
        a place for the mark: the directory was removed, or another bridge's state has its name."""
        left = Mark(reason, *self.counted())
        return self._leave_to_successor(left) if self._moved() else mark.leave(self._fd, left)

    def _leave_to_successor(self, left: Mark) -> bool:
        try:
            successor = os.open(self.directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError:
            return False
        try:
            fcntl.flock(successor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if any(name.startswith(FILE) and name != mark.NAME for name in os.listdir(successor)):  # noqa: PTH208
                return False
            return mark.leave(successor, left)
        except OSError:
            return False
        finally:
            os.close(successor)

    def mark(self) -> Mark | None:
        """The mark of an earlier process that gave up the database; None without a mark. Raises StateUnusable."""
        return mark.found(self._fd)

    def move_aside(self) -> Path | None:
        """Renames the database to make room for a new one. Returns the new path, or None without a database. The file
        stays for examination until the next is moved aside: two of them could fill a small volume."""
        earlier = list(self.directory.glob(f"{FILE}.*.aside*"))
        now = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
        aside = self.directory / f"{FILE}.{now}.aside"
        while aside.exists():
            aside = aside.with_name(aside.name + "x")
        # The database file last: a crash in between leaves it without its log, and the mark still says so.
        for suffix in reversed(_COMPANIONS):
            part = self.directory / (FILE + suffix)
            if part.exists():
                part.rename(aside.with_name(aside.name + suffix))
        if not aside.exists():
            return None
        for each in earlier:
            each.unlink()
        return aside

    def mended(self) -> None:
        """Removes the mark. Call after the new database is durable, since it carries the numbers of the mark."""
        with suppress(FileNotFoundError):
            os.unlink(mark.NAME, dir_fd=self._fd)


def _identity_of(found: os.stat_result) -> Identity:
    return found.st_dev, found.st_ino
