"""Finds committed transactions that SQLite ignores in a damaged write-ahead log.

After a crash SQLite reads the log up to the first frame with a wrong checksum: an unfinished last transaction is
ignored, as it should be. A bit flip in the middle makes SQLite ignore all later transactions too, without an error; if
some of their pages were in the database file already, SQLite then mixes pages of two moments. A transaction begins only
after the sync of the previous one. So a log that goes on behind an ignored transaction proves that this transaction was
complete once.

https://sqlite.org/fileformat2.html#the_write_ahead_log
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import apsw

from bridge.outbox.errors import Damaged

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


def require_whole(connection: apsw.Connection, file: Path) -> None:
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
