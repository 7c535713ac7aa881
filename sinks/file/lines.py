"""Finds the last lines of a plain file; and in a line the sequence number and the time of its record, while the object
in it stays undecoded. The lines of a reader are found by the library (``kubedelta_reader.sources.lines``)."""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import UTC, datetime

import msgspec
from kubedelta_reader.sources.lines import MAX_LINE, end_of_last_line

UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


class _Numbered(msgspec.Struct):
    sequence: int | str = 0


class _LineHead(msgspec.Struct):
    """Of an event of any form."""

    sequence: int | str = 0
    source: str | _Numbered = ""
    time: str = ""
    ts_ms: int = 0


_decode = msgspec.json.Decoder(_LineHead).decode
_LARGEST = 10**20 - 1


def sequence_in(line: bytes) -> int:
    """The sequence number of a line; 0 for a line without a number."""
    try:
        head = _decode(line)
        number = head.sequence if isinstance(head.source, str) else head.source.sequence
        return min(max(int(number), 0), _LARGEST)
    except (*UNREADABLE, ValueError):
        return 0


def time_in(line: bytes) -> float | None:
    """When the bridge saw the change, in seconds since 1970; None for a line without a time."""
    try:
        head = _decode(line)
        if head.ts_ms:
            return head.ts_ms / 1000
        return datetime.fromisoformat(head.time).replace(tzinfo=UTC).timestamp()
    except (*UNREADABLE, ValueError, OverflowError):
        return None


def last_line(fd: int) -> bytes:
    """Empty in a file without a whole line, and in place of a line that is too long. Raises OSError."""
    return next(lines_backward(fd, os.fstat(fd).st_size), None) or b""


def lines_backward(fd: int, end: int) -> Iterator[bytes | None]:
    """Whole lines before the offset ``end``, the last one first; None for a line that is too long. Raises OSError."""
    end = end_of_last_line(fd, end)
    while end > 0:
        start = end_of_last_line(fd, end - 1)
        length = end - start - 1
        yield os.pread(fd, length, start) if length <= MAX_LINE else None
        end = start
