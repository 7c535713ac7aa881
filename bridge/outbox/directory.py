"""The directory of the state: who holds it, whether its files lie where they were opened, what the next start finds."""

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

from bridge.outbox import mark
from bridge.outbox.errors import StateUnusable
from bridge.outbox.mark import Mark
from bridge.outbox.private import close_directory, exposed_file, no_file, open_private

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
    """Bytes."""

    path: Path
    file: int
    wal: int
    """The write-ahead log beside it."""
    free: int
    """On the disk."""


def is_held(directory: Path) -> bool:
    """Whether a process holds it. Who holds it does not notice; who does not is kept for some microseconds from taking
    it. Raises OSError."""
    file = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(file)
    return False


def unusable(directory: Path) -> str:
    """Why a start could not use the files that lie there, in words; empty where it could. Opens none. Raises
    OSError."""
    for each in sorted(directory.iterdir()):
        if not _is_ours(each.name):
            continue
        with suppress(FileNotFoundError):  # A running bridge takes some away.
            if not stat.S_ISREG(each.lstat().st_mode):
                return no_file(each.name)
            if not os.access(each, os.R_OK | os.W_OK) and each.exists():
                return f"state.directory: cannot open {each}: permission denied"
    return ""


def _is_ours(name: str) -> bool:
    return name in _BESIDE or name.startswith(FILE)


class Holder:
    """Holds ``state.directory`` until ``release``, or until the process ends, however it ends (flock).

    The directory itself is locked, and the file ``lock`` in it: whoever removes that file lets nobody in, and in a
    directory that others may read, only who may open the file could hold it. The files of the state are closed to
    everybody else, those that were there before included."""

    def __init__(self, directory: Path) -> None:
        """Raises StateUnusable."""
        self.directory = directory
        self._files: dict[str, Identity] = {}
        self.counted: Callable[[], tuple[int, int] | tuple[None, None]] = lambda: (None, None)
        """The newest sequence number that was given, and the newest epoch that may have begun, for the mark."""
        if not directory.is_dir():
            what = "is no directory" if directory.exists() else "does not exist"
            raise StateUnusable(f"state.directory: {directory} {what}: make it, or mount a volume there")
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
            with suppress(OSError):  # On a full disk: it is held all the same.
                os.ftruncate(self._lock, 0)
                os.pwrite(self._lock, f"{os.getpid()}\n".encode(), 0)
            self.exposed = self._close_to_others()
            """Why others may reach the state; empty where they may not."""
        except BaseException:
            self.release()
            raise

    def release(self) -> None:
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
        for name in os.listdir(self._fd):  # noqa: PTH208  # of the directory that is held, whatever its name is now
            if not _is_ours(name):
                continue
            with self._explained():
                try:
                    file = open_private(self._fd, name, os.O_RDONLY)
                except FileNotFoundError:
                    continue  # A reader of another process has ended, and SQLite took the companions away.
            reason = reason or (f"{name} belongs to another user" if exposed_file(file) else "")
            os.close(file)
        return reason

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            what = f"open {error.filename}" if str(error.filename).startswith(FILE) else "write"
            raise StateUnusable(f"state.directory: cannot {what} in {self.directory}: {error.strerror}") from error

    # ── The file ─────────────────────────────────────────────────────────────

    @property
    def file(self) -> Path:
        return self.directory / FILE

    def make_file(self) -> bool:
        """The database, empty and closed to others, where there is none. SQLite gives the files beside it the mode that
        it has. Whether there was none. Raises OSError."""
        try:
            os.close(open_private(self._fd, FILE, os.O_RDWR | os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return False
        return True

    def has(self, name: str) -> bool:
        return self._identity(name) is not None

    def disk(self) -> Disk:
        return Disk(self.file, self._size(FILE), self._size(WAL), self.free_bytes())

    def free_bytes(self) -> int:
        """What the disk has left for us."""
        found = os.fstatvfs(self._fd)
        return found.f_bavail * found.f_frsize

    def _size(self, name: str) -> int:
        try:
            return os.stat(name, dir_fd=self._fd, follow_symlinks=False).st_size
        except OSError:
            return 0

    # ── Whether it is there ──────────────────────────────────────────────────

    def remember_files(self) -> None:
        """They are open from now on: see ``gone``."""
        found = {name: self._identity(name) for name in _NAMES}
        self._files = {name: identity for name, identity in found.items() if identity is not None}

    def gone(self) -> str:
        """Why the files that are open are not those that lie there now, in words; empty where they are. Five looks at
        names: some 10 µs."""
        if moved := self._moved():
            return moved
        for name, identity in self._files.items():
            if self._identity(name) != identity:
                what = "was replaced" if self.has(name) else "was removed"
                return f"{self.directory / name} {what} while it was in use"
        if self._files and not self._size(FILE):
            return f"{self.file} was emptied while it was in use"
        return ""

    def _moved(self) -> str:
        try:
            now = self.directory.stat()
        except (FileNotFoundError, NotADirectoryError):
            return f"{self.directory} was removed, or moved away, while it was in use"
        except OSError:
            return ""  # Nobody can tell now.
        if (now.st_dev, now.st_ino) == _identity_of(os.fstat(self._fd)):
            return ""
        return f"{self.directory} is another directory than it was"

    def _identity(self, name: str) -> Identity | None:
        try:
            return _identity_of(os.stat(name, dir_fd=self._fd, follow_symlinks=False))
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError:
            return self._files.get(name)  # Nobody can tell now.

    # ── For the next start ───────────────────────────────────────────────────

    def mark_damaged(self, reason: str) -> bool:
        """Let the next start move the database aside. Whether it will."""
        return mark.leave(self._fd, Mark(reason, *self.counted()))

    def mark_gone(self, reason: str) -> bool:
        """Let the next start begin behind what was told. Whether it will: a directory that is gone as a whole takes no
        mark, and one that lies in its place does only where it is nobody's state."""
        told = Mark(reason, *self.counted())
        return self._leave_to_successor(told) if self._moved() else mark.leave(self._fd, told)

    def _leave_to_successor(self, told: Mark) -> bool:
        try:
            successor = os.open(self.directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError:
            return False
        try:
            fcntl.flock(successor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if any(name.startswith(FILE) and name != mark.NAME for name in os.listdir(successor)):  # noqa: PTH208
                return False
            return mark.leave(successor, told)
        except OSError:
            return False
        finally:
            os.close(successor)

    def mark(self) -> Mark | None:
        """What an earlier process left, that gave the database up. Raises StateUnusable."""
        return mark.found(self._fd)

    def move_aside(self) -> Path | None:
        """Make room for a new database. The old one stays beside it for who wants to look, until the next one does: two
        of them could fill a small volume. None where there was nothing to move."""
        earlier = list(self.directory.glob(f"{FILE}.*.aside*"))
        now = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
        aside = self.directory / f"{FILE}.{now}.aside"
        while aside.exists():
            aside = aside.with_name(aside.name + "x")
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
        """A new database has taken the damaged one's place, and says so by itself."""
        with suppress(FileNotFoundError):
            os.unlink(mark.NAME, dir_fd=self._fd)


def _identity_of(found: os.stat_result) -> Identity:
    return found.st_dev, found.st_ino
