"""The promise of readers: each destination that keeps records has one class that reads them again, for ``kubedelta
verify``, ``kubedelta tail`` and ``kubedelta history build``.

The built-in ones are sources of the reader library, made of the options of their sink. A reader gives records as they
stand at the destination, and knows nothing of their contents. What a record says is read behind it (``stored_record``).
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Any, Protocol

from kubedelta_reader import Record


class ReadPurpose(StrEnum):
    """Why the records are read. The value names the reader among the clients of the destination."""

    VERIFY = "verify"
    """Every record counts. What is damaged ends the reading, what nobody has read stays (closed parts of a file are
    locked), and each ``read`` looks for new topics first. Headers suffice: a payload may be empty."""
    TAIL = "tail"
    """Records are shown as they come. Damage is passed over, nothing is locked, notices that say the same come once,
    and a look for new topics comes every few seconds."""
    HISTORY = "history"
    """Every record counts, with its payload. Damage is a record without data, and nothing is locked."""


@dataclass(frozen=True, slots=True)
class ReadFilter:
    """A filter of objects. A reader may return more objects than match, but none less. None matches any."""

    group: str | None = None
    """Empty for the core group."""
    version: str | None = None
    plural: str | None = None
    kind: str | None = None
    namespace: str | None = None
    """Empty for objects without namespace."""


ANY_OBJECT = (ReadFilter(),)


class CannotRead(Exception):
    """The destination cannot be read, and a retry cannot help. The message has the reason."""


class RecordReader(Protocol):
    """Reads the records of a destination from a position on, and changes nothing there. Call ``open`` until it finds
    the destination, then ``begin`` or ``last`` for another position than the oldest record, then ``read`` any number of
    times, and ``close`` once, also after a failed ``open``. Runs on the event loop and never blocks it.

    Failures of a destination or a network are raised as Unavailable (a SinkUnavailable is one), by every method but
    ``close``.
    """

    def __init__(self, name: str, options: Any, *, cluster: str, purpose: ReadPurpose) -> None:
        """``options``: of the class that the sink's type names. Raises CannotRead."""

    async def open(self) -> str:
        """Returns a short description of the destination for the operator. Raises NoDestination, and may be called
        again then."""
        ...

    async def begin(self, since: datetime | None) -> None:
        """``read`` begins with the first record of that time or later; None for the oldest record. Raises CannotRead if
        the destination keeps no records."""
        ...

    async def last(self, count: int, accepts: Callable[[Record], bool]) -> Sequence[Record]:
        """The last records that ``accepts`` takes, in their order, as far back as the destination can look. ``read``
        goes on behind the newest record."""
        ...

    def read(self, sought: Sequence[ReadFilter] = ANY_OBJECT) -> AsyncGenerator[Sequence[Record]]:
        """Yields records in batches, from the end of the previous ``read`` to the present end. Records of one object
        come in the destination's order. After a failure the next ``read`` goes on behind the records that were yielded
        before. May wait a fraction of a second for a record."""
        ...

    @property
    def notes(self) -> Sequence[str]:
        """Findings for the operator so far, such as a torn line."""
        ...

    @property
    def left(self) -> int | None:
        """Records that the present ``read`` has still to read; None if unknown."""
        ...

    async def close(self) -> None: ...


FIRST_LOOK_BACK = 100
_LONGEST_LOOK_BACK = 100_000
"""Records of a stream or a partition among which the last ones are sought."""


def look_backs(first: int, end: int, count: int) -> Iterator[int]:
    """Where to begin to seek the last ``count`` of the records from ``first`` to ``end``: each time further back,
    until the caller has found so many. Empty for a count of 0."""
    back = max(count, FIRST_LOOK_BACK)
    while count and first < end:
        start = max(first, end - back)
        yield start
        if start == first or back >= _LONGEST_LOOK_BACK:
            return
        back = min(10 * back, _LONGEST_LOOK_BACK)


@dataclass(frozen=True, slots=True)
class CheckedSeals:
    """What the seals of a file's closed parts say."""

    seals: Path
    faults: Sequence[str]
    """Sentences for the operator; empty where everything is as it was sealed."""
    sealed: int
    """Parts that are there and as they were sealed."""
    removed: int
    """Parts that retention removed."""
    unsealed: Sequence[str]
    """Parts without a seal: closed a moment ago, or before sealing began."""
    last: str
    """SHA-256 of the last line. Kept elsewhere, it shows later whether lines at the end are missing."""
