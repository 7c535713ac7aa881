"""The directory and the file: who may use them, and how they are opened."""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import apsw

from bridge.outbox import schema
from bridge.outbox.errors import Damaged, StateUnusable

FILE = "outbox.db"
LOCK = "lock"
_DAMAGED = "outbox.db.damaged"
"""Written by a process that met damage; the next one moves the database aside."""
_COMPANIONS = ("", "-wal", "-shm")

PAGE_BYTES = 4 * 1024
"""Of a file that is made now. A change of one object writes a page of the ledger and often one of the log: small pages
are a quarter of that to write."""
CHECKPOINT_BYTES = 16 << 20
"""Of the write-ahead log, after which the writer takes it into the file."""


@dataclass(frozen=True, slots=True)
class Disk:
    """Bytes."""

    path: Path
    file: int
    wal: int
    """The write-ahead log beside it."""
    free: int
    """On the disk."""


class Holder:
    """Holds ``state.directory`` until ``release``, or until the process ends, however it ends (flock)."""

    def __init__(self, directory: Path) -> None:
        """Raises StateUnusable."""
        self.directory = directory
        if not directory.is_dir():
            what = "is no directory" if directory.exists() else "does not exist"
            raise StateUnusable(f"state.directory: {directory} {what}: make it, or mount a volume there")
        try:
            self._lock = os.open(directory / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        except OSError as error:
            raise StateUnusable(f"state.directory: cannot write in {directory}: {error.strerror}") from error
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = os.pread(self._lock, 20, 0).decode("ascii", "replace").strip()
            os.close(self._lock)
            raise StateUnusable(
                f"state.directory: {directory} is held by another process ({holder or 'unknown'}): one bridge at a time"
            ) from error
        with suppress(OSError):  # On a full disk: it is held all the same.
            os.ftruncate(self._lock, 0)
            os.pwrite(self._lock, f"{os.getpid()}\n".encode(), 0)

    def release(self) -> None:
        os.close(self._lock)

    # ── The file ─────────────────────────────────────────────────────────────

    @property
    def file(self) -> Path:
        return self.directory / FILE

    def mark_damaged(self, reason: str) -> None:
        """Let the next start move the database aside."""
        with suppress(OSError):  # On a full disk there is room for the marker, and none for the reason in it.
            (self.directory / _DAMAGED).write_text(reason)

    def damage(self) -> str:
        """Why an earlier process gave the database up; empty where none did."""
        marker = self.directory / _DAMAGED
        return (marker.read_text() or "unknown damage") if marker.exists() else ""

    def move_aside(self) -> Path:
        """Make room for a new database. The old one stays beside it for who wants to look, until the next one does: two
        of them could fill a small volume."""
        earlier = list(self.directory.glob(f"{FILE}.*.aside*"))
        now = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
        aside = self.directory / f"{FILE}.{now}.aside"
        while aside.exists():
            aside = aside.with_name(aside.name + "x")
        for suffix in reversed(_COMPANIONS):
            part = self.directory / (FILE + suffix)
            if part.exists():
                part.rename(aside.with_name(aside.name + suffix))
        if aside.exists():
            for each in earlier:
                each.unlink()
        return aside

    def mended(self) -> None:
        """A new database has taken the damaged one's place, and says so by itself."""
        (self.directory / _DAMAGED).unlink(missing_ok=True)

    def free_bytes(self) -> int:
        """What the disk has left for us."""
        return shutil.disk_usage(self.directory).free

    def disk(self) -> Disk:
        return Disk(self.file, _size(self.file), _size(Path(f"{self.file}-wal")), self.free_bytes())


def _size(file: Path) -> int:
    try:
        return file.stat().st_size
    except FileNotFoundError:
        return 0


def open_writer(file: Path) -> apsw.Connection:
    """The one connection that writes. Raises StateUnusable, UnknownFormat and Damaged."""
    with usable(file):
        new = not file.exists()
        connection = apsw.Connection(str(file))
        try:
            connection.set_busy_timeout(10_000)
            schema.recognise(connection, new=new)
            if new:
                connection.pragma("page_size", PAGE_BYTES)
                connection.pragma("auto_vacuum", "incremental")
            connection.pragma("journal_mode", "wal")
            connection.pragma("synchronous", "full")
            connection.pragma("wal_autocheckpoint", CHECKPOINT_BYTES // page_bytes(connection))
            connection.pragma("journal_size_limit", 4 * CHECKPOINT_BYTES)
            connection.pragma("cache_size", -16 * 1024)
            schema.prepare(connection)
        except BaseException:
            connection.close()
            raise
        return connection


def page_bytes(connection: apsw.Connection) -> int:
    return int(connection.pragma("page_size"))


def open_reader(file: Path) -> apsw.Connection:
    """A connection for short reads. It never writes, and leaves checkpoints to the writer."""
    with usable(file):
        connection = apsw.Connection(str(file), flags=apsw.SQLITE_OPEN_READWRITE)
        connection.set_busy_timeout(10_000)
        connection.pragma("query_only", True)
        connection.pragma("wal_autocheckpoint", 0)
        connection.pragma("cache_size", -2 * 1024)
        return connection


@contextmanager
def understood() -> Iterator[None]:
    """Raises Damaged in place of what SQLite calls it."""
    try:
        yield
    except (apsw.CorruptError, apsw.NotADBError) as error:
        raise Damaged(str(error)) from error


@contextmanager
def usable(file: Path) -> Iterator[None]:
    """While it is opened. Raises StateUnusable and Damaged in place of what SQLite calls it."""
    try:
        with understood():
            yield
    except (apsw.ReadOnlyError, apsw.CantOpenError, apsw.PermissionsError) as error:
        raise StateUnusable(f"state.directory: cannot write {file}: {error}") from error
    except (apsw.FullError, apsw.IOError) as error:
        raise StateUnusable(f"state.directory: cannot use {file}: {error}: make room, or see to the disk") from error
