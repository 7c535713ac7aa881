"""What an operator may ask of the state, and what is answered: for ``kubedelta cursors``, ``replay``, ``dead-letters``
and ``state check``, on a running bridge through its admin socket, or on the files of a stopped one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import msgspec


class Cursor(msgspec.Struct, frozen=True):
    """How far one sink has come."""

    sink: str
    settled: int
    """Everything up to this sequence number is settled."""
    backlog_records: int
    backlog_bytes: int
    oldest_seconds: float
    """Age of the oldest record that is not settled; 0 where there is none."""
    configured: bool
    """False for a sink that the configuration no longer names; its backlog is kept for ``state.forget_sinks_after``."""
    backfill: str = ""
    """``snapshot``, ``compacted``, ``dropped`` or ``replay`` while something other than the log is told first."""
    backfill_left: int = 0
    """Records of it."""
    paused: bool = False
    """An operator paused it."""
    retry_in: float | None = None
    """Seconds until it is tried again, where it waits for that now."""
    asked: float | None = None
    """Seconds that the destination asked to be left alone, where that is why."""
    trouble: str = ""
    """What the destination last could not do; empty since it could, and where no bridge runs."""


class Cursors(msgspec.Struct, frozen=True):
    first: int
    """Sequence number of the oldest record that can be replayed; ``last + 1`` where there is none."""
    last: int
    """Of the newest record; 0 before the first."""
    sinks: list[Cursor]


class DeadLetter(msgspec.Struct, frozen=True):
    """A record that a sink did not take, or one that waits behind such a record of the same object."""

    number: int
    """Names it in ``show``, ``retry`` and ``drop``."""
    sink: str
    sequence: int
    id: str
    resource: str
    key: str
    op: str
    time: str
    """When the bridge saw the change."""
    reason: str
    parked: bool
    """It was never tried: an earlier record of its object was rejected."""
    retrying: bool = False
    """It will be delivered again."""
    answer: str = ""
    """The beginning of what the destination answered, without credentials of ours; empty where it said nothing more
    than the reason."""


class ReplayRequest(msgspec.Struct, frozen=True):
    sink: str
    start: int | str
    """A sequence number; or a time in the form that records have (RFC 3339, UTC, microseconds); or ``beginning``."""
    resource: str | None = None
    """As kubectl names it; None for all."""
    namespace: str | None = None


class Replayed(msgspec.Struct, frozen=True):
    """Records that a sink will be told once more, before it goes on."""

    records: int
    first: int
    last: int


class StateReport(msgspec.Struct, frozen=True):
    path: str
    sqlite: str
    format: int
    cluster: str
    """uid of the namespace kube-system; empty where it was never read."""
    problems: list[str]
    """What the integrity check found; empty where all is well."""
    records: int
    objects: int
    informers: int
    sinks: int
    dead_letters: int
    file_bytes: int
    wal_bytes: int
    free_bytes: int
    """Inside the file, to be used again."""


class About(msgspec.Struct, frozen=True):
    """Which bridge runs."""

    pid: int = 0
    file: str = ""
    """The configuration that it was started with, by its real path."""
    listen: str = ""
    """host:port of its web server."""


class UnknownTarget(LookupError):
    """There is no sink, no dead letter, or no record as asked for. The message says what there is."""


class AdminOperations(Protocol):
    """Every method raises UnknownTarget where what it is asked for does not exist."""

    async def cursors(self) -> Cursors: ...

    async def replay(self, request: ReplayRequest) -> Replayed:
        """Tell a sink again what it has settled. What it has not settled yet follows behind."""
        ...

    async def dead_letters(self, sink: str | None = None, *, after: int = 0, limit: int = 1000) -> Sequence[DeadLetter]:
        """In the order of their numbers, behind ``after``."""
        ...

    async def dead_letter_body(self, number: int) -> bytes:
        """The object in it, as JSON."""
        ...

    async def retry(self, sink: str, numbers: Sequence[int] | None = None) -> int:
        """Deliver again: these, or all of this sink. A letter takes those parked behind it along. Returns how many."""
        ...

    async def drop(self, sink: str, numbers: Sequence[int] | None = None) -> int:
        """Give up: these, or all of this sink. What is parked behind a dropped letter is delivered. Returns how many
        were dropped."""
        ...

    async def retry_sink(self, sink: str) -> bool:
        """Try this sink now, however long it still was to wait. False where it did not wait."""
        ...

    async def pause_sink(self, sink: str) -> bool:
        """Deliver nothing to it until it is resumed, whatever is restarted meanwhile; its backlog keeps its bounds.
        False where it was paused already."""
        ...

    async def resume_sink(self, sink: str) -> bool:
        """False where it was not paused."""
        ...

    async def state_check(self) -> StateReport:
        """Reads the whole database: seconds for each gigabyte."""
        ...
