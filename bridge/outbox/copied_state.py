"""Copies of the database for replicas: the base copy that a leader sends, and the database that a follower has.

The state of another replica begins with a ``BaseCopy``: a consistent copy of the open database, in a file without a
name. ``CopiedState`` is the database of a follower: the leader's, a few transactions behind. Nothing of the bridge runs
on it. It begins as a base copy (a whole file), and every frame of the leader makes it one commit newer. A frame that
does not fit ends its history: then only another base copy helps.

Commits of a follower are not forced to disk one by one: they survive the end of the process, however it ends, and what
a power cut takes away is missing at the end, so that ``history`` still says what is there (SQLite's WAL with
synchronous=NORMAL). Whoever leads closes this first, and opens an Outbox in the same directory.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection
from contextlib import closing, suppress
from pathlib import Path
from typing import BinaryIO

import apsw

from bridge.model.primitives.shard import Shard
from bridge.outbox.commits import CommitHistory, LargePatchset, history_of, newest_term
from bridge.outbox.encryption import Cipher, missing_keys
from bridge.outbox.errors import Damaged, StateUnusable, UnknownFormat
from bridge.outbox.integrity import find_damage
from bridge.outbox.storage import schema
from bridge.outbox.storage.database import CHECKPOINT_BYTES, connect_file, open_reader, page_bytes, understood, usable
from bridge.outbox.storage.directory_lock import COMPANIONS, FILE, open_private
from bridge.outbox.storage.state_directory import StateDirectory

# ── The copy that a leader sends ─────────────────────────────────────────────


NAME = f"{FILE}.copy"
_STEP = 1 << 20
"""Bytes of a step."""


class BaseCopy:
    """The database as of one moment, page by page (SQLite's backup API): a read transaction holds that moment, so that
    the writer goes on, and nothing is copied twice. Meanwhile the write-ahead log grows. Every method blocks."""

    def __init__(self, directory: Path, step: int = _STEP) -> None:
        """``step``: bytes. Raises OSError if the disk has too little room, and what ``open_reader`` raises."""
        self._folder = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            self._reader = open_reader(directory.resolve() / FILE)
        except BaseException:
            os.close(self._folder)
            raise
        try:
            self._reader.execute("BEGIN")
            self.history = history_of(self._reader)  # From here on, the transaction holds its moment.
            self.bytes = int(self._reader.pragma("page_count")) * page_bytes(self._reader)
            self._pages = max(1, step // page_bytes(self._reader))
            self._remove()
            self._expect_room()
            os.close(open_private(self._folder, NAME, os.O_RDWR | os.O_CREAT | os.O_EXCL))
            self._target = _empty_database(directory / NAME, like=self._reader)
            self._backup = self._target.backup("main", self._reader, "main")
        except BaseException:
            self.close()
            raise

    def step(self) -> bool:
        """Copies the next part. Returns whether all is copied."""
        self._backup.step(self._pages)
        return self._backup.done

    def file(self) -> BinaryIO:
        """The whole copy, at its beginning, after the last step. The disk keeps it until it is closed, and no longer,
        however this process ends."""
        self._backup.finish()
        self._target.close()
        found = os.open(NAME, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW, dir_fd=self._folder)
        self._remove()
        return os.fdopen(found, "rb")

    def close(self) -> None:
        """Ends the read transaction, and removes what is unfinished."""
        for name in ("_backup", "_target", "_reader"):
            if (opened := getattr(self, name, None)) is not None:
                with suppress(apsw.Error):
                    opened.close()
        self._remove()
        os.close(self._folder)

    def _remove(self) -> None:
        with suppress(FileNotFoundError):
            os.unlink(NAME, dir_fd=self._folder)

    def _expect_room(self) -> None:
        found = os.fstatvfs(self._folder)
        if found.f_bavail * found.f_frsize < 2 * self.bytes:
            raise OSError(28, f"a copy of {self.bytes} bytes needs twice as much free space")


def _empty_database(file: Path, *, like: apsw.Connection) -> apsw.Connection:
    """A database whose first page is on disk: it says whether pages have checksums, and SQLite's cksumvfs computes none
    for a page that is written before it. Pages that come out of the write-ahead log have none yet, and a copy larger
    than the page cache writes them as they come."""
    target = connect_file(file)
    target.pragma("journal_mode", "off")
    target.pragma("synchronous", "off")
    target.reserve_bytes("main", like.reserve_bytes("main"))
    target.pragma("page_size", page_bytes(like))
    target.pragma("user_version", 1)
    return target


# ── The database of a follower ───────────────────────────────────────────────


NO_HISTORY = CommitHistory((), 0)


class CopiedState:
    """Holds the lock of the directory from its creation to ``close``. Every method blocks; one thread at a time."""

    def __init__(self, directory: Path) -> None:
        """Opens the database that is there, if a follower can go on with it; a base copy takes the place of a damaged
        one. Raises StateError, also for a database that a later version wrote: it stays as it is."""
        self._files = StateDirectory(directory)
        self._connection: apsw.Connection | None = None
        self._incoming: BinaryIO | None = None
        self._diverged = False
        try:
            self._connect()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Ends the copy, with everything in the database file that was applied."""
        self._disconnect()
        self.discard_incoming()
        self._files.release()

    # ── The database ─────────────────────────────────────────────────────────

    def _connect(self) -> None:
        if self._files.mark() is not None or not self._files.has(FILE):
            return  # A base copy takes the place of a damaged one.
        with usable(self._files.file):
            connection = connect_file(self._files.file)
            try:
                connection.set_busy_timeout(10_000)
                if schema.format_for_followers(connection) is None:
                    connection.close()
                    return
                connection.pragma("journal_mode", "wal")
                connection.pragma("synchronous", "normal")
                connection.pragma("wal_autocheckpoint", CHECKPOINT_BYTES // page_bytes(connection))
                connection.pragma("journal_size_limit", 4 * CHECKPOINT_BYTES)
                connection.pragma("cache_size", -16 * 1024)
            except BaseException:
                connection.close()
                raise
        self._connection = connection

    def _disconnect(self) -> None:
        if self._connection is not None:
            with suppress(apsw.Error):
                self._connection.pragma("wal_checkpoint(truncate)")
            self._connection.close()
            self._connection = None

    @property
    def format(self) -> int:
        """Of the database; 0 without one."""
        return 0 if self._connection is None else schema.format_for_followers(self._connection) or 0

    def history(self) -> CommitHistory:
        """Empty for a database that needs a base copy. Raises Damaged."""
        if self._connection is None or self._diverged:
            return NO_HISTORY
        with understood():
            return history_of(self._connection)

    def newest_term(self) -> int:
        """Of all terms that led to the database, whatever its history; 0 without any. Raises Damaged."""
        if self._connection is None:
            return 0
        with understood():
            return newest_term(self._connection)

    def free_bytes(self) -> int:
        """Of the disk."""
        return self._files.free_bytes()

    # ── Frames ───────────────────────────────────────────────────────────────

    def apply(self, patchsets: Collection[bytes | LargePatchset]) -> int:
        """Applies the patchsets of consecutive commits in one transaction, and returns the newest commit. Raises
        Damaged if one of them does not follow the state here; then nothing of them is applied, and the state has no
        history any more: only a base copy helps. Raises apsw.FullError and apsw.IOError on a full disk; nothing is
        applied then, either."""
        connection = self._connection
        if connection is None:
            raise Damaged("there is no database to which a frame could be applied")
        with understood():
            tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}
            before = history_of(connection).commit
            try:
                with connection:
                    for patchset in patchsets:
                        _apply(connection, patchset, tables)
                    commit = history_of(connection).commit
                    if commit != before + len(patchsets):
                        raise Damaged(f"{len(patchsets)} frames led from commit {before} to {commit}")
            except (apsw.AbortError, apsw.ConstraintError, apsw.SchemaChangeError, apsw.MismatchError) as error:
                self._diverged = True
                raise Damaged(f"a frame behind commit {before} does not fit the state here: {error}") from error
            except Damaged:
                self._diverged = True
                raise
            return commit

    # ── A base copy ──────────────────────────────────────────────────────────

    def begin_incoming(self) -> None:
        """Begins a base copy; the database here stays until ``install``. Raises OSError."""
        self.discard_incoming()
        self._incoming = self._files.begin_file().open("r+b")

    def write_incoming(self, part: bytes) -> None:
        """Appends a part. Raises OSError."""
        if self._incoming is None:
            raise RuntimeError("no base copy was begun")
        self._incoming.write(part)

    def discard_incoming(self) -> None:
        if self._incoming is not None:
            self._incoming.close()
            self._incoming = None

    def install(self, cipher: Cipher | None, shard: Shard | None) -> CommitHistory:
        """Examines the base copy, and puts it in the place of the database here, durably. A kill before leaves the
        former one. Raises Damaged and StateError for a file that cannot be used."""
        if self._incoming is None:
            raise RuntimeError("no base copy was begun")
        self._incoming.flush()
        os.fsync(self._incoming.fileno())
        file = Path(self._incoming.name)
        self.discard_incoming()
        with understood():
            if damage := find_damage(file, cipher):
                raise Damaged(damage)
            with closing(connect_file(file)) as database:
                try:
                    found = schema.format_for_followers(database)
                except UnknownFormat as error:
                    raise UnknownFormat(f"the copy of the leader's state cannot be used: {error}") from error
                if found is None:
                    raise Damaged("the copy of the leader's state has not the tables of its format")
                if missing := missing_keys(database, cipher):
                    raise StateUnusable(
                        f"the leader's state has content under the key {missing[0]}: give state.encryption that key"
                    )
        self._disconnect()
        for suffix in COMPANIONS[1:]:  # A write-ahead log of the former file would be taken for one of the new file.
            with suppress(FileNotFoundError):
                (self._files.directory / (FILE + suffix)).unlink()
        self._files.keep_shard(shard)
        self._files.finish_file()
        self._files.remove_mark()
        self._diverged = False
        self._connect()
        return self.history()


def _apply(connection: apsw.Connection, patchset: bytes | LargePatchset, tables: Collection[str]) -> None:
    unknown: list[str] = []

    def known(table: str) -> bool:
        if table not in tables:
            unknown.append(table)
        return True

    source: bytes | Callable[[int], bytes] = patchset if isinstance(patchset, bytes) else patchset.reader()
    apsw.Changeset.apply(source, connection, filter=known)
    if unknown:
        raise Damaged(f"a frame has the table {unknown[0]}, which the state here has not")
