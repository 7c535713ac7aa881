"""Connections to the database file, and queries that always have a row. The connection that writes is not opened over a
write-ahead log that lost its end.

Pages have checksums (SQLite's own extension, which apsw brings), and errors are examined where they leave. Types that
every query checked in every row would cost more, and a flipped bit is still a valid number: a cursor that skips
records. The checksums cost less than 1 µs an event.
"""

from __future__ import annotations

import ctypes
import os
import struct
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import apsw
import apsw.sqlite_extra

from bridge.outbox.errors import Damaged, StateUnusable
from bridge.outbox.storage import schema

PAGE_BYTES = 4 * 1024
"""Page size of a new file. A change of one object dirties a page of the ledger and often a page of the log; with 4 KiB
that is a quarter of the bytes that pages of 16 KiB would cost."""
_CHECKSUM_BYTES = 8
"""Reserved at the end of each page for SQLite's cksumvfs, which verifies the page at every read from disk: a flipped
bit raises an error instead of changing a value. A file created without checksums stays without. Any SQLite can read a
file with checksums; only a SQLite with this VFS may write it."""
_DAMAGE = (apsw.SQLITE_IOERR_DATA, apsw.SQLITE_IOERR_CORRUPTFS, apsw.SQLITE_IOERR_SHORT_READ)
"""Extended codes of damage: a wrong checksum, an error of the file system, and a truncated file."""
CHECKPOINT_BYTES = 16 << 20
"""Size of the write-ahead log after which the writer checkpoints."""


def open_writer(file: Path, *, made: bool = False) -> apsw.Connection:
    """The only connection that writes. ``made``: the file was created just now, and is empty. Raises StateUnusable (for
    a file of an earlier format, too), UnknownFormat and Damaged."""
    return _open_writer(file, made=made, migrates=False)[0]


def open_and_migrate(file: Path) -> tuple[apsw.Connection, int]:
    """The only connection that writes, and the format that the file had: one other than FORMAT was migrated just now.
    Raises StateUnusable, UnknownFormat and Damaged."""
    return _open_writer(file, made=False, migrates=True)


def _open_writer(file: Path, *, made: bool, migrates: bool) -> tuple[apsw.Connection, int]:
    with usable(file):
        new = made or not file.exists()
        connection = connect_file(file, apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE)
        try:
            connection.set_busy_timeout(10_000)
            found = schema.recognise(connection, new=new)
            if found != schema.FORMAT and not migrates:
                raise StateUnusable(schema.waits_for_migration(connection.filename, found))
            _require_whole_log(connection, file)
            if new:
                # Page layout has to be set before the first table exists.
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
        return connection, found


def page_bytes(connection: apsw.Connection) -> int:
    """Page size of the file in bytes."""
    return int(connection.pragma("page_size"))


def open_reader(file: Path) -> apsw.Connection:
    """A connection for short reads. Never writes; checkpoints are the writer's."""
    with usable(file):
        connection = connect_file(file, apsw.SQLITE_OPEN_READWRITE)
        connection.set_busy_timeout(10_000)
        connection.pragma("query_only", True)
        connection.pragma("wal_autocheckpoint", 0)
        connection.pragma("cache_size", -2 * 1024)
        return connection


def close(connection: apsw.Connection, *, gone: bool) -> None:
    """Closes a connection. ``gone``: the open file no longer has its name. SQLite's last close removes the companion
    files by name; with ``gone`` these names may belong to another database, and the files stay."""
    if gone:
        keep = ctypes.c_int(1)
        connection.file_control("main", apsw.SQLITE_FCNTL_PERSIST_WAL, ctypes.addressof(keep))
    connection.close()


def connect_file(file: Path, flags: int = apsw.SQLITE_OPEN_READWRITE) -> apsw.Connection:
    """A connection that verifies checksums, with nothing set."""
    # SQLITE_OPEN_NOFOLLOW refuses links anywhere in the path. Only the file must not be a link, so the directory is
    # resolved first.
    return apsw.Connection(str(file.parent.resolve() / file.name), flags=flags | apsw.SQLITE_OPEN_NOFOLLOW, vfs=_VFS)


def is_damage(error: BaseException) -> bool:
    """True for the errors that SQLite raises on a damaged file."""
    if isinstance(error, apsw.CorruptError | apsw.NotADBError):
        return True
    return isinstance(error, apsw.IOError) and getattr(error, "extendedresult", 0) in _DAMAGE


def _load_checksums() -> str | None:
    """The name of the VFS that verifies checksums; None if apsw was built without SQLite's extensions."""
    try:
        with closing(apsw.Connection(":memory:")) as connection:
            apsw.sqlite_extra.load(connection, "cksumvfs")
    except (apsw.sqlite_extra.NotAvailable, apsw.Error):
        return None
    return "cksmvfs"


_VFS = _load_checksums()


@contextmanager
def understood() -> Iterator[None]:
    """Raises Damaged in place of SQLite's errors for it."""
    try:
        yield
    except apsw.Error as error:
        # On damage and on a full disk, SQLite itself rolls back. A ``with connection`` then fails at its own rollback,
        # and raises that in place of the first error.
        first = error.__context__ if isinstance(error.__context__, apsw.Error) else error
        if is_damage(first):
            raise Damaged(str(first)) from first
        raise first from None


@contextmanager
def usable(file: Path) -> Iterator[None]:
    """For the time of opening: raises StateUnusable and Damaged in place of SQLite's errors."""
    try:
        with understood():
            yield
    except (apsw.ReadOnlyError, apsw.CantOpenError, apsw.PermissionsError) as error:
        raise StateUnusable(f"state.directory: cannot write {file}: {error}") from error
    except (apsw.BusyError, apsw.LockedError) as error:
        raise StateUnusable(f"state.directory: another process holds {file} for itself: end it") from error
    except (apsw.FullError, apsw.IOError) as error:
        raise StateUnusable(f"state.directory: cannot use {file}: {error}: make room, or see to the disk") from error


# ── Committed transactions that SQLite would ignore ──────────────────────────

# After a crash SQLite reads the write-ahead log up to the first frame with a wrong checksum: an unfinished last
# transaction is ignored, as it should be. A bit flip in the middle makes SQLite ignore all later transactions too,
# without an error; if some of their pages were in the database file already, SQLite then mixes pages of two moments. A
# transaction begins only after the sync of the previous one. So a log that goes on behind an ignored transaction proves
# that this transaction was complete once. https://sqlite.org/fileformat2.html#the_write_ahead_log

_HEADER_BYTES = 32
_SALTS = slice(16, 24)
_LITTLE_ENDIAN = 0x377F0682
"""Magic number of a log whose checksums are computed over little-endian words."""
_FRAME = struct.Struct(">4xI8s8x")


class _Frame(NamedTuple):
    commits: int
    """Database size in pages after the commit; 0 inside a transaction."""
    salts: bytes
    """Equal to the header's salts, except in the rest of an older log."""


def _require_whole_log(connection: apsw.Connection, file: Path) -> None:
    """Raises Damaged if SQLite ignores a committed transaction. Call after a first read on ``connection`` and before
    any write: only then does SQLite's frame count describe the log that it found."""
    log = file.with_name(f"{file.name}-wal")
    if not log.exists() or log.stat().st_size <= _HEADER_BYTES:
        return
    taken, _ = connection.wal_checkpoint("main", apsw.SQLITE_CHECKPOINT_NOOP)
    left_out = False
    for frame in _frames_behind(log, max(0, taken), connection.pragma("page_size")):
        if left_out:
            raise Damaged(f"{log.name} is damaged behind frame {max(0, taken)}, and has later transactions")
        left_out = bool(frame.commits)


def _is_whole(header: bytes) -> bool:
    """True if the header's checksum is right: then SQLite accepts the frames that have its salts."""
    order = "<" if header[:4] == _LITTLE_ENDIAN.to_bytes(4, "big") else ">"
    words = struct.unpack(f"{order}6I", header[:24])
    first = second = 0
    for one, other in zip(words[::2], words[1::2], strict=True):
        first = (first + one + second) & 0xFFFFFFFF
        second = (second + other + first) & 0xFFFFFFFF
    return (first, second) == struct.unpack(">2I", header[24:])


def _frames_behind(log: Path, taken: int, page_bytes: int) -> Iterator[_Frame]:
    """The frames of the newest log behind the first ``taken``, in order."""
    with log.open("rb") as content:
        header = content.read(_HEADER_BYTES)
        salts = header[_SALTS] if _is_whole(header) else content.read(_FRAME.size)[8:16]
        size = _FRAME.size + page_bytes
        for offset in range(_HEADER_BYTES + taken * size, os.fstat(content.fileno()).st_size - size + 1, size):
            content.seek(offset)
            frame = _Frame._make(_FRAME.unpack(content.read(_FRAME.size)))
            if frame.salts == salts:
                yield frame


# ── Queries ──────────────────────────────────────────────────────────────────

# Rows of more than a few columns are read by name: a NamedTuple has the columns of a statement as its fields.

R = TypeVar("R", bound=NamedTuple)


def columns(row_type: type[R]) -> str:
    """The columns that a SELECT or INSERT of such rows names."""
    return ", ".join(row_type._fields)


def places(row_type: type[R]) -> str:
    """The parameters of an INSERT of such rows."""
    return ",".join("?" * len(row_type._fields))


def rows_of(database: apsw.Connection, row_type: type[R], query: str, values: Sequence[Any] = ()) -> Iterator[R]:
    """The rows of a query that selects the columns of ``row_type``."""
    return map(row_type._make, database.execute(query, values))


def row(database: apsw.Connection, query: str, values: Sequence[Any] = ()) -> tuple[Any, ...]:
    """The row of a query that always returns one. Raises Damaged without a row."""
    found = database.execute(query, values).fetchone()
    if found is None:
        raise Damaged(f"no row: {query}")
    return tuple(found)


def one(database: apsw.Connection, query: str, values: Sequence[Any] = ()) -> int:
    """The row's only value, as a number. Raises Damaged without a row."""
    return int(row(database, query, values)[0])
