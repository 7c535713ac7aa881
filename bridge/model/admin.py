"""Values of the operator's commands, which rooms share: requests and answers of ``kubedelta cursors``, ``replay``,
``snapshot``, ``dead-letters``, ``state check``, ``reload`` and ``tail``. The commands are declared in
``app.admin.commands``.
"""

from __future__ import annotations

import msgspec


class CursorStatus(msgspec.Struct, frozen=True):
    """A sink's cursor and backlog."""

    sink: str
    settled: int
    """Every record up to this sequence number is settled."""
    backlog_records: int
    backlog_bytes: int
    oldest_seconds: float
    """Age of the oldest unsettled record; 0 for an empty backlog."""
    configured: bool
    """False for a removed sink, whose backlog is kept for ``state.forget_sinks_after``."""
    backfill: str = ""
    """``snapshot``, ``compacted``, ``dropped`` or ``replay`` while a backfill is under way; else empty."""
    backfill_left: int = 0
    """Records that the backfill still has to deliver."""
    paused: bool = False
    """An operator paused it, or its destination ended deliveries."""
    retry_in: float | None = None
    """Seconds until the next attempt; None unless the sink waits."""
    asked: float | None = None
    """Seconds that the destination asked for (Retry-After), if it did."""
    last_error: str = ""
    """The last failure of the destination; empty after a success, and without a running bridge."""
    gone: bool = False
    """The destination wants no more records (HTTP 410): the sink waits until an operator resumes it."""
    fenced: bool = False
    """Another process has taken the destination over: the sink waits until an operator resumes it."""


class Cursors(msgspec.Struct, frozen=True):
    """The replayable range of the log, and every sink's cursor."""

    first: int
    """Sequence number of the oldest record that can be replayed; ``last + 1`` without records."""
    last: int
    """Sequence number of the newest record; 0 before the first."""
    sinks: list[CursorStatus]
    retains: bool = True
    """Whether settled records are kept (``state.retain``)."""


class DeadLetter(msgspec.Struct, frozen=True):
    """A record that a destination rejected, or that is parked behind a rejected record of its object."""

    number: int
    """Its number in ``show``, ``retry`` and ``drop``."""
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
    """True if the record was never tried, because an earlier record of its object was rejected."""
    retrying: bool = False
    """Marked for retry."""
    answer: str = ""
    """The beginning of the destination's answer, without credentials; empty if the reason is all of it."""


class DeadLetterChain(msgspec.Struct, frozen=True):
    """The dead letters that a retry of ``first`` delivers: those of its object if records are parked behind it, else
    itself alone."""

    first: DeadLetter
    rejected: int
    """Its dead letters that the destination rejected."""
    parked: int
    """Its others."""


class ReplayRequest(msgspec.Struct, frozen=True):
    """Records to replay to a sink."""

    sink: str
    start: int | str
    """A sequence number; a time in the form of records (RFC 3339, UTC, microseconds); or ``beginning``."""
    resource: str | None = None
    """kubectl's name; None for all."""
    namespace: str | None = None


class Replayed(msgspec.Struct, frozen=True):
    """The planned replay: number of records, and the range of their sequence numbers."""

    records: int
    first: int
    last: int


class SnapshotRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Objects of the ledger for a sink. Conditions hold together; None for no condition."""

    sink: str
    resource: str | None = None
    """kubectl's name."""
    namespace: str | None = None
    where: str | None = None
    """A CEL expression, as in ``select``."""


class ReloadRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A request to read the configuration file again."""

    allow_deletes: int = 0
    """Objects that may be exported as deleted because of the change; below 1,000, 1,000 may."""


class Reloaded(msgspec.Struct, frozen=True):
    """The answer to a ReloadRequest. The configuration is in effect, or refused as a whole."""

    configuration: str
    """The file that the bridge has read."""
    changes: list[str] = []
    """In words; empty if no option has another value."""
    problems: list[str] = []
    """The reasons of a refusal; empty if the configuration is in effect."""
    deletes: dict[str, int] = {}
    """Resource, or path of a selection → objects that are exported as deleted."""


class StateReport(msgspec.Struct, frozen=True):
    """The result of an integrity check of the database."""

    path: str
    sqlite: str
    format: int
    cluster: str
    """uid of the namespace kube-system; empty if it was never read."""
    problems: list[str]
    """Findings of the integrity check; empty for an intact database."""
    records: int = 0
    objects: int = 0
    informers: int = 0
    sinks: int = 0
    dead_letters: int = 0
    file_bytes: int = 0
    wal_bytes: int = 0
    free_bytes: int = 0
    """Bytes of free pages inside the file, which SQLite uses again."""
    bytes_by_key: dict[str, int] = {}
    """Id of an encryption key → bytes of content under it; the empty text → bytes of plain content."""
    shard: str = ""
    """The shard whose objects the state has, in words; empty for all objects."""


class About(msgspec.Struct, frozen=True):
    """Identity of the running bridge. Empty fields without a running bridge."""

    pid: int = 0
    file: str = ""
    """The real path of its configuration file."""
    listen: str = ""
    """host:port of its web server."""


class Followed(msgspec.Struct, frozen=True, omit_defaults=True):
    """Committed records, and how many are missing behind them."""

    records: list[msgspec.Raw] = []
    """CloudEvents in the structured form."""
    dropped: int = 0
    """Records that came faster than the follower took them."""
    rejected: list[str] = []
    """Why there are no events for further records: an expression in the options of the sink fails on them."""


class UnknownTarget(LookupError):
    """The requested sink, dead letter or record does not exist. The message has the existing ones."""


class DiskFull(UnknownTarget):
    """The state has no room for the change."""
