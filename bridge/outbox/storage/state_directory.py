"""The state directory: its files, whether the open ones still have their names, its shard, and the mark for the next
start.

The directory is not created: a volume that is not mounted would be a new state, and every object would be exported
again.

Whether the open files still have their names is checked twice a second (once while no record comes) and not at each
commit: records exported in between are covered by the numbers of the mark, and a kill loses the mark at any rhythm.
inotify would notice at once, but needs a thread, and a kernel with free watches.

Two small files stand beside the database. By the mark (``Mark``), a process that loses the database informs the next
start. The other has the shard whose objects the state has; a state of all objects has no such file. Another number of
shards begins new states, and every object comes once more. A single process carries more than an API server sends, so
shards are for the very largest clusters, which choose their number once. To hand positions, dead letters and progress
from old shards to new ones would take a protocol of its own.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, TypeAlias

import msgspec

from bridge.model.primitives.shard import Shard
from bridge.outbox.errors import Damaged, StateUnusable
from bridge.outbox.storage.directory_lock import COMPANIONS, FILE, WAL, DirectoryLock, open_private

_NAMES = tuple(FILE + suffix for suffix in COMPANIONS)
UNFINISHED = f"{FILE}.new"
_JOURNAL = "-journal"
"""SQLite's rollback journal, which exists until the file has a write-ahead log."""

MARK = f"{FILE}.damaged"
_MOST_OF_MARK = 64 * 1024
"""Bytes of a mark that are read."""
_UNKNOWN = "unknown damage"

SHARD = "shard"
_UNFINISHED_SHARD = f"{SHARD}.new"
_MOST_OF_SHARD = 1024
"""Bytes of the shard's file that are read."""

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


class Mark(msgspec.Struct, frozen=True, omit_defaults=True):
    """Makes the next start move the database aside and begin behind these numbers, with a Gap."""

    reason: str = _UNKNOWN
    last: Annotated[int, msgspec.Meta(ge=0, lt=1 << 62)] | None = None
    """The largest sequence number with which a record can have left; None if unknown."""
    epoch: Annotated[int, msgspec.Meta(ge=0, lt=1 << 31)] | None = None
    """Upper bound of the epochs begun; None if unknown."""


class StateDirectory:
    """The files of the state in a locked directory: the database, the identity of its open files, and the mark."""

    def __init__(self, directory: Path) -> None:
        """Raises StateUnusable."""
        self.directory = directory
        self._lock = DirectoryLock(directory)
        self._fd = self._lock.fd
        self.exposed = self._lock.exposed
        """Why other users may reach the state, in words; empty if they cannot."""
        self._files: dict[str, Identity] = {}
        self._count: Callable[[], tuple[int, int]] | None = None

    def count_by(self, count: Callable[[], tuple[int, int]]) -> None:
        """Lets marks have numbers from now on: ``count`` returns the newest sequence number that was assigned, and an
        upper bound of the epochs begun. Any thread calls it."""
        self._count = count

    def release(self) -> None:
        """Releases the directory."""
        self._lock.release()

    # ── The file ─────────────────────────────────────────────────────────────

    @property
    def file(self) -> Path:
        """Path of the database."""
        return self.directory / FILE

    def begin_file(self) -> Path:
        """Creates an empty file for a database, with mode 0600; SQLite gives its companion files the same mode. The
        file has another name until ``finish_file``. What a killed process left under that name is removed. Raises
        OSError."""
        for suffix in (*COMPANIONS, _JOURNAL):
            with suppress(FileNotFoundError):
                os.unlink(UNFINISHED + suffix, dir_fd=self._fd)
        os.close(open_private(self._fd, UNFINISHED, os.O_RDWR | os.O_CREAT | os.O_EXCL))
        return self.directory / UNFINISHED

    def finish_file(self) -> None:
        """Gives the file its name, durably. Call when the database has its tables and is closed. Raises OSError."""
        os.rename(UNFINISHED, FILE, src_dir_fd=self._fd, dst_dir_fd=self._fd)
        os.fsync(self._fd)

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

    # ── The shard ────────────────────────────────────────────────────────────

    def shard(self) -> Shard | None:
        """The shard whose objects the state has; None for all objects. Raises StateUnusable."""
        return _read_shard(self._fd)

    def keep_shard(self, shard: Shard | None) -> None:
        """Makes the state that of this shard. A kill leaves the former file or the new one; durable on return. Raises
        StateUnusable."""
        try:
            self._write_shard(shard)
        except OSError as error:
            raise StateUnusable(f"state.directory: cannot write {self.directory / SHARD}: {error.strerror}") from error

    def _write_shard(self, shard: Shard | None) -> None:
        with suppress(FileNotFoundError):
            os.unlink(_UNFINISHED_SHARD if shard is not None else SHARD, dir_fd=self._fd)
        if shard is not None:
            file = open_private(self._fd, _UNFINISHED_SHARD, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
            try:
                os.write(file, msgspec.json.encode(shard))
                os.fsync(file)
            finally:
                os.close(file)
            os.rename(_UNFINISHED_SHARD, SHARD, src_dir_fd=self._fd, dst_dir_fd=self._fd)
        os.fsync(self._fd)

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

    def require_files(self) -> None:
        """Raises Damaged if the open files no longer have their names: whatever is written then disappears with the
        process."""
        if not (gone := self.gone()):
            return
        mark = self._mark(gone)
        has_mark = self._leave_to_successor(mark) if self._moved() else _leave_mark(self._fd, mark)
        if has_mark:
            raise Damaged(f"{gone}: the next start begins behind record {mark.last}, and every sink gets a Gap first")
        raise Damaged(
            f"{gone}. The next start finds no mark there: on an empty directory it exports every object again, with "
            f"record 1 in epoch 1 and without a Gap. The last record was {mark.last}, in epoch {mark.epoch} at most. "
            "If the directory was moved, move it back; otherwise let consumers forget the ids that they remember"
        )

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

    def mark_damaged(self, reason: str) -> None:
        """Leaves a mark, if the disk allows, after which the next start moves the database aside."""
        _leave_mark(self._fd, self._mark(reason))

    def _mark(self, reason: str) -> Mark:
        return Mark(reason) if self._count is None else Mark(reason, *self._count())

    def _leave_to_successor(self, left: Mark) -> bool:
        """Returns False without a place for the mark: the directory was removed, or another bridge's state has its
        name."""
        try:
            successor = os.open(self.directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError:
            return False
        try:
            fcntl.flock(successor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if any(name.startswith(FILE) and name != MARK for name in os.listdir(successor)):  # noqa: PTH208
                return False
            return _leave_mark(successor, left)
        except OSError:
            return False
        finally:
            os.close(successor)

    def mark(self) -> Mark | None:
        """The mark of an earlier process that gave up the database; None without a mark. Raises StateUnusable."""
        content = _content(self._fd, MARK, _MOST_OF_MARK)
        if content is None:
            return None
        try:
            return msgspec.json.decode(content, type=Mark)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):  # A bit flip must not hide the mark.
            return Mark(content.decode(errors="replace") or _UNKNOWN)

    def move_aside(self) -> Path | None:
        """Renames the database to make room for a new one. Returns the new path, or None without a database. The file
        stays for examination until the next is moved aside: two of them could fill a small volume."""
        earlier = list(self.directory.glob(f"{FILE}.*.aside*"))
        now = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
        aside = self.directory / f"{FILE}.{now}.aside"
        while aside.exists():
            aside = aside.with_name(aside.name + "x")
        # The database file last: a crash in between leaves it without its log, and the mark still says so.
        for suffix in reversed(COMPANIONS):
            part = self.directory / (FILE + suffix)
            if part.exists():
                part.rename(aside.with_name(aside.name + suffix))
        if not aside.exists():
            return None
        for each in earlier:
            each.unlink()
        return aside

    def remove_mark(self) -> None:
        """Removes the mark. Call after the new database is durable, since it carries the numbers of the mark."""
        with suppress(FileNotFoundError):
            os.unlink(MARK, dir_fd=self._fd)


def _identity_of(found: os.stat_result) -> Identity:
    return found.st_dev, found.st_ino


def _leave_mark(directory: int, mark: Mark) -> bool:
    """Writes the mark and syncs the file and the directory, as far as the disk allows: a full disk has room for the
    name, not for the content. Returns True if a mark exists afterwards. ``directory`` is a descriptor."""
    try:
        file = open_private(directory, MARK, os.O_WRONLY | os.O_CREAT)
    except OSError:
        return False
    try:
        content = msgspec.json.encode(mark)
        with suppress(OSError):
            os.pwrite(file, content, 0)  # Over an older mark, without O_TRUNC: on a full disk the old one stays.
            os.ftruncate(file, len(content))
            os.fsync(file)
            os.fsync(directory)
    finally:
        os.close(file)
    return True


def _read_shard(directory: int) -> Shard | None:
    """``directory`` is a descriptor."""
    content = _content(directory, SHARD, _MOST_OF_SHARD)
    if content is None:
        return None
    try:
        return msgspec.json.decode(content, type=Shard)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise StateUnusable(
            f"state.directory: the file {SHARD} cannot be read ({error}): restore it from a backup, such as "
            '{"of":4,"index":2,"by":"uid"}'
        ) from error


def _content(directory: int, name: str, most: int) -> bytes | None:
    """The beginning of a file beside the database; None without the file. ``directory`` is a descriptor."""
    try:
        file = open_private(directory, name, os.O_RDONLY)
    except FileNotFoundError:
        return None
    try:
        return os.pread(file, most, 0)
    finally:
        os.close(file)


def shard_in(directory: Path) -> Shard | None:
    """The shard of a directory that another process may hold; None for all objects. Raises StateUnusable and
    OSError."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        return _read_shard(descriptor)
    finally:
        os.close(descriptor)
