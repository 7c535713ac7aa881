"""A copy of another replica's state becomes the state of an empty directory."""

from __future__ import annotations

import os
from contextlib import closing
from pathlib import Path

import apsw

from bridge.model.primitives.shard import Shard
from bridge.outbox.checks.integrity import find_damage
from bridge.outbox.encryption.cipher import Cipher
from bridge.outbox.encryption.key_registry import missing_keys
from bridge.outbox.errors import Damaged
from bridge.outbox.storage.database import open_writer, understood
from bridge.outbox.storage.state_directory import StateDirectory


class Installation:
    """The copy has another name until ``install``: a kill before leaves an empty directory, and a kill behind it the
    whole state. Holds the lock of the directory until ``close``. Every method blocks."""

    def __init__(self, directory: Path) -> None:
        """Raises StateError and OSError."""
        self._directory = StateDirectory(directory)
        try:
            self._file = self._directory.begin_file()
            self._opened = self._file.open("r+b")
        except BaseException:
            self._directory.release()
            raise

    def free_bytes(self) -> int:
        """On the disk."""
        return self._directory.free_bytes()

    def write(self, part: bytes) -> None:
        """Appends to the file. Raises OSError."""
        self._opened.write(part)

    def install(self, frontier: str, cipher: Cipher | None, shard: Shard | None) -> None:
        """Examines the copy, makes it another replica's, and gives it its name; mode 0600, durable on return.
        ``frontier``: as in the Lease. ``shard``: of both replicas, since the copy does not say it. Raises Damaged and
        StateError for a file that cannot be used."""
        self._opened.flush()
        os.fsync(self._opened.fileno())
        self._opened.close()
        with understood():
            if damage := find_damage(self._file, cipher):
                raise Damaged(damage)
            with closing(open_writer(self._file, migrates=_any_format)) as database:
                if missing := missing_keys(database, cipher):
                    raise Damaged(f"it has content under the key {missing[0]}, which is not in state.encryption")
                with database:
                    _make_own(database, frontier)
        self._directory.keep_shard(shard)
        self._directory.finish_file()

    def close(self) -> None:
        self._opened.close()
        self._directory.release()


def _any_format(_found: int) -> None:
    pass


def _make_own(database: apsw.Connection, frontier: str) -> None:
    """Takes away what is true of the other replica alone: that it has led, how far destinations have got by its own
    numbers, its starts, and its dead letters, which stay with it."""
    database.execute("UPDATE meta SET term = 0, frontier = ?", (frontier,))
    database.execute("UPDATE cursors SET birth = lower(hex(randomblob(16)))")
    database.execute("DELETE FROM starts")
    database.execute("DELETE FROM dead_letters")
