"""The members of a line that name its record: sequence number and time. The object stays undecoded."""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec

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
