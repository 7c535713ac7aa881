"""Facts of bridge.outbox and bridge.pipelines: commits, the state directory, backlogs and backfills."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from bridge.model.resource import Resource, Scope


@dataclass(frozen=True, slots=True)
class BatchCommitted:
    """Records of an informer are durable in the outbox."""

    resource: Resource
    scope: Scope
    records: int
    bytes: int
    added: int
    updated: int
    deleted: int


@dataclass(frozen=True, slots=True)
class OutboxOpened:
    path: str
    sqlite: str
    """Version of the SQLite library."""
    records: int
    objects: int
    """Objects in the ledger."""


@dataclass(frozen=True, slots=True)
class OutboxFull:
    """The disk has no space for a transaction. Reading from the API server stops; sinks go on."""

    reason: str
    retry_after: float


@dataclass(frozen=True, slots=True)
class OutboxHasRoom:
    """Transactions succeed again."""

    seconds: float
    """Duration of the outage."""


@dataclass(frozen=True, slots=True)
class OutboxRebuilt:
    """The database was damaged, or gone. Its remains were moved aside. Every sink gets a Gap record, then every object
    as ``sync``."""

    aside: str
    """The path of the old database; empty if no file was left."""
    reason: str
    sinks: tuple[str, ...]
    """Sinks that get the Gap record."""


@dataclass(frozen=True, slots=True)
class StateExposed:
    """Other users may read the files of the state, and the bridge cannot change that."""

    directory: str
    reason: str


@dataclass(frozen=True, slots=True)
class SinkForgotten:
    """A removed sink's backlog was dropped after ``state.forget_sinks_after``."""

    sink: str
    records: int


@dataclass(frozen=True, slots=True)
class ListenerOverrun:
    """Records left the outbox before this sink had them. It gets a Gap record."""

    sink: str
    first: int
    last: int
    count: int


@dataclass(frozen=True, slots=True)
class IntakeBlocked:
    """A sink's backlog is at its bound, with ``when_full: block``: reading from the API server stops, for every sink,
    until this sink has caught up."""

    sink: str
    records: int


@dataclass(frozen=True, slots=True)
class IntakeResumed:
    sink: str
    seconds: float


@dataclass(frozen=True, slots=True)
class BacklogCompacted:
    """A sink's backlog was at its bound, and was reduced to the newest record of each object."""

    sink: str
    before: int
    after: int


@dataclass(frozen=True, slots=True)
class BacklogDropped:
    """A sink's backlog was at its bound, and these records were dropped. The sink gets a Gap record in their place."""

    sink: str
    first: int
    last: int
    count: int


@dataclass(frozen=True, slots=True)
class SnapshotBegan:
    """The backfill of a snapshot began: every known object, for this sink."""

    sink: str
    objects: int


@dataclass(frozen=True, slots=True)
class SnapshotEnded:
    sink: str
    objects: int


OutboxFact: TypeAlias = (
    BatchCommitted
    | OutboxOpened
    | OutboxFull
    | OutboxHasRoom
    | OutboxRebuilt
    | StateExposed
    | SinkForgotten
    | ListenerOverrun
    | IntakeBlocked
    | IntakeResumed
    | BacklogCompacted
    | BacklogDropped
    | SnapshotBegan
    | SnapshotEnded
)
