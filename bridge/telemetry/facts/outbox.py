"""Facts of bridge.outbox and bridge.delivery: commits, the state directory, backlogs and backfills."""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from bridge.model.resource import Resource, Scope


class BatchCommitted(msgspec.Struct, frozen=True, gc=False):
    """Records of an informer are durable in the outbox."""

    resource: Resource
    scope: Scope
    records: int
    bytes: int
    added: int
    updated: int
    deleted: int


class OutboxOpened(msgspec.Struct, frozen=True):
    path: str
    sqlite: str
    """Version of the SQLite library."""
    records: int
    objects: int
    """Objects in the ledger."""


class OutboxFull(msgspec.Struct, frozen=True):
    """The disk has no space for a transaction. Reading from the API server stops; sinks go on."""

    reason: str
    retry_after: float


class OutboxHasRoom(msgspec.Struct, frozen=True):
    """Transactions succeed again."""

    seconds: float
    """Duration of the outage."""


class OutboxRebuilt(msgspec.Struct, frozen=True):
    """The database was damaged, or gone. Its remains were moved aside. Every sink gets a Gap record, then every object
    as ``sync``."""

    aside: str
    """The path of the old database; empty if no file was left."""
    reason: str
    sinks: tuple[str, ...]
    """Sinks that get the Gap record."""


class StateMigrated(msgspec.Struct, frozen=True):
    """The database was of an earlier format, and is of this version's format now."""

    file: str
    was: int


class ReplicasLeft(msgspec.Struct, frozen=True):
    """A bridge without an election began with the state of a replica: each sink gets a Gap, and a snapshot."""

    file: str


class StateExposed(msgspec.Struct, frozen=True):
    """Other users may read the files of the state, and the bridge cannot change that."""

    directory: str
    reason: str


class SinkForgotten(msgspec.Struct, frozen=True):
    """A removed sink's backlog was dropped after ``state.forget_sinks_after``."""

    sink: str
    records: int


class ListenerOverrun(msgspec.Struct, frozen=True):
    """Records left the outbox before this sink had them. It gets a Gap record."""

    sink: str
    first: int
    last: int
    count: int


class IntakeBlocked(msgspec.Struct, frozen=True):
    """A sink's backlog is at its bound, with ``when_full: block``: reading from the API server stops, for every sink,
    until this sink has caught up."""

    sink: str
    records: int


class IntakeResumed(msgspec.Struct, frozen=True):
    sink: str
    seconds: float


class BacklogCompacted(msgspec.Struct, frozen=True):
    """A sink's backlog was at its bound, and was reduced to the newest record of each object."""

    sink: str
    before: int
    after: int


class BacklogDropped(msgspec.Struct, frozen=True):
    """A sink's backlog was at its bound, and these records were dropped. The sink gets a Gap record in their place."""

    sink: str
    first: int
    last: int
    count: int


class SnapshotBegan(msgspec.Struct, frozen=True):
    """The backfill of a snapshot began: known objects, for this sink."""

    sink: str
    objects: int


class SnapshotEnded(msgspec.Struct, frozen=True):
    sink: str
    objects: int


class SnapshotCancelled(msgspec.Struct, frozen=True):
    """An operator has cancelled a snapshot on demand. The sink gets no notice of its end."""

    sink: str
    left: int
    """Objects of it that the sink does not get."""


class SelectionChanged(msgspec.Struct, frozen=True):
    """A sink's selection differs from that of the last run, or before a reload. The sink gets the difference behind its
    backlog. For a new sink, both figures are 0."""

    sink: str
    added: int
    """Records ``added`` for objects that the selection contains now."""
    deleted: int
    """Records ``deleted`` for objects that it does not contain any more."""
    number: int
    """The number of the selection, which ends the ids of these records."""


class SelectorUnserved(msgspec.Struct, frozen=True):
    """An entry of a sink's ``select`` names a resource that the cluster does not serve at this moment."""

    sink: str
    option: str
    resource: str


class SelectionUnreadable(msgspec.Struct, frozen=True):
    """The remembered selection of a sink that is not configured cannot be compiled. Until the sink returns, it counts
    without its expressions."""

    sink: str
    reason: str


class ExpressionFailed(msgspec.Struct, frozen=True):
    """The first failure of an expression of ``select``. The text has no value of the object."""

    expression: str
    resource: str
    key: str
    reason: str


class EvaluationsFailed(msgspec.Struct, frozen=True):
    """Evaluations of expressions that failed since the last such fact."""

    count: int


OutboxFact: TypeAlias = (
    BatchCommitted
    | OutboxOpened
    | OutboxFull
    | OutboxHasRoom
    | OutboxRebuilt
    | ReplicasLeft
    | StateMigrated
    | StateExposed
    | SinkForgotten
    | ListenerOverrun
    | IntakeBlocked
    | IntakeResumed
    | BacklogCompacted
    | BacklogDropped
    | SnapshotBegan
    | SnapshotEnded
    | SnapshotCancelled
    | SelectionChanged
    | SelectorUnserved
    | SelectionUnreadable
    | ExpressionFailed
    | EvaluationsFailed
)
