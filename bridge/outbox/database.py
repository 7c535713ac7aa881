"""The database file: how it is opened and closed."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import apsw
import apsw.sqlite_extra

from bridge.outbox import schema, wal
from bridge.outbox.errors import Damaged, StateUnusable

PAGE_BYTES = 4 * 1024
"""Of a file that is made now. A change of one object writes a page of the ledger and often one of the log: small pages
are a quarter of that to write."""
_CHECKSUM_BYTES = 8
"""At the end of each page: SQLite's cksumvfs looks at them whenever the page is read from the disk, so that a flipped
bit is not taken for another number. A file that was made without them goes on without. Any SQLite can read one that has
them; only one with this layer may write it."""
_DAMAGE = (apsw.SQLITE_IOERR_DATA, apsw.SQLITE_IOERR_CORRUPTFS, apsw.SQLITE_IOERR_SHORT_READ)
"""A wrong checksum, one of the file system, or a file that is shorter than it was."""
CHECKPOINT_BYTES = 16 << 20
"""Of the write-ahead log, after which the writer takes it into the file."""


def open_writer(file: Path, *, made: bool = False) -> apsw.Connection:
    """The one connection that writes. ``made``: the file was made just now, and is empty. Raises StateUnusable,
    UnknownFormat and Damaged."""
    with usable(file):
        new = made or not file.exists()
        connection = _connect(file, apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE)
        try:
            connection.set_busy_timeout(10_000)
            schema.recognise(connection, new=new)
            wal.require_whole(connection, file)
            if new:
                if _VFS:
                    connection.reserve_bytes("main", _CHECKSUM_BYTES)
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
        connection = _connect(file, apsw.SQLITE_OPEN_READWRITE)
        connection.set_busy_timeout(10_000)
        connection.pragma("query_only", True)
        connection.pragma("wal_autocheckpoint", 0)
        connection.pragma("cache_size", -2 * 1024)
        return connection


def close(connection: apsw.Connection, *, gone: bool) -> None:
    """``gone``: the file does not lie where it was opened. SQLite removes the files beside it by their names when the
    last connection is closed; then these names may be those of another database, and are let alone."""
    if gone:
        keep = ctypes.c_int(1)
        connection.file_control("main", apsw.SQLITE_FCNTL_PERSIST_WAL, ctypes.addressof(keep))
    connection.close()


def _connect(file: Path, flags: int) -> apsw.Connection:
    # SQLite refuses a symbolic link anywhere in the path; the directory may be reached through one, the file may not.
    return apsw.Connection(str(file.parent.resolve() / file.name), flags=flags | apsw.SQLITE_OPEN_NOFOLLOW, vfs=_VFS)


def is_damage(error: BaseException) -> bool:
    """What SQLite says where it read what cannot be."""
    if isinstance(error, apsw.CorruptError | apsw.NotADBError):
        return True
    return isinstance(error, apsw.IOError) and getattr(error, "extendedresult", 0) in _DAMAGE


def _load_checksums() -> str | None:
    """The name of the layer that does it; None where apsw was built without SQLite's extensions."""
    try:
        with closing(apsw.Connection(":memory:")) as connection:
            apsw.sqlite_extra.load(connection, "cksumvfs")
    except (apsw.sqlite_extra.NotAvailable, apsw.Error):
        return None
    return "cksmvfs"


_VFS = _load_checksums()


@contextmanager
def understood() -> Iterator[None]:
    """Raises Damaged in place of what SQLite calls it."""
    try:
        yield
    except apsw.Error as error:
        if not is_damage(error):
            raise
        raise Damaged(str(error)) from error


@contextmanager
def usable(file: Path) -> Iterator[None]:
    """While it is opened. Raises StateUnusable and Damaged in place of what SQLite calls it."""
    try:
        with understood():
            yield
    except (apsw.ReadOnlyError, apsw.CantOpenError, apsw.PermissionsError) as error:
        raise StateUnusable(f"state.directory: cannot write {file}: {error}") from error
    except (apsw.BusyError, apsw.LockedError) as error:
        raise StateUnusable(f"state.directory: another process holds {file} for itself: end it") from error
    except (apsw.FullError, apsw.IOError) as error:
        raise StateUnusable(f"state.directory: cannot use {file}: {error}: make room, or see to the disk") from error
