"""Whether SQLite took all of its write-ahead log that was ever promised to be durable.

Of the log of a killed process SQLite takes the frames up to the first one whose checksum is wrong: so it leaves out a
last transaction that was not written to its end. Where a bit flips in the middle, it leaves out all that follows as
well, and says nothing; and where some of that was in the database file already, it reads pages of two different times.
A transaction begins when the one before it is on the disk: so where the log goes on behind one that was left out, that
one was whole once.
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
"""The magic number of a log whose checksums are made of little-endian words."""
_FRAME = struct.Struct(">4xI8s8x")


class _Frame(NamedTuple):
    commits: int
    """Pages that the database has then; 0 where its transaction goes on."""
    salts: bytes
    """Those of the header, but in what is left of an older log."""


def require_whole(connection: apsw.Connection, file: Path) -> None:
    """Called when ``connection`` has read something and nobody has written: then SQLite has taken what it takes. Raises
    Damaged."""
    log = file.with_name(f"{file.name}-wal")
    if not log.exists() or log.stat().st_size <= _HEADER_BYTES:
        return
    taken, _ = connection.wal_checkpoint("main", apsw.SQLITE_CHECKPOINT_NOOP)
    left_out = False
    for frame in _frames_behind(log, max(0, taken), connection.pragma("page_size")):
        if left_out:
            raise Damaged(f"{log.name} is damaged behind its frame {max(0, taken)}, and goes on behind that")
        left_out = bool(frame.commits)


def _is_whole(header: bytes) -> bool:
    """Then SQLite believes it, and takes the frames that have its salts."""
    order = "<" if header[:4] == _LITTLE_ENDIAN.to_bytes(4, "big") else ">"
    words = struct.unpack(f"{order}6I", header[:24])
    first = second = 0
    for one, other in zip(words[::2], words[1::2], strict=True):
        first = (first + one + second) & 0xFFFFFFFF
        second = (second + other + first) & 0xFFFFFFFF
    return (first, second) == struct.unpack(">2I", header[24:])


def _frames_behind(log: Path, taken: int, page_bytes: int) -> Iterator[_Frame]:
    """Those of the newest log, in order."""
    with log.open("rb") as content:
        header = content.read(_HEADER_BYTES)
        salts = header[_SALTS] if _is_whole(header) else content.read(_FRAME.size)[8:16]
        size = _FRAME.size + page_bytes
        for place in range(_HEADER_BYTES + taken * size, os.fstat(content.fileno()).st_size - size + 1, size):
            content.seek(place)
            frame = _Frame._make(_FRAME.unpack(content.read(_FRAME.size)))
            if frame.salts == salts:
                yield frame
