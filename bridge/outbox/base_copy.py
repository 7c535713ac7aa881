"""A consistent copy of the open database in a file without a name: the state of another replica begins with it."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

import apsw

from bridge.outbox.commits import history_of
from bridge.outbox.storage.database import connect_file, open_reader, page_bytes
from bridge.outbox.storage.directory_lock import FILE
from bridge.outbox.storage.private_files import open_private

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
