"""Facts: events of the bridge as frozen records, named in the past tense. Rooms report facts; only telemetry counts and
logs them.

A fact is about a request, a batch or a state, and never about a single change, so that reporting stays cheap.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from bridge.model.resource import Resource, Scope

# ── The API server ───────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class ConnectionInsecure:
    """The configuration asks for a connection to the API server without encryption or verification. Reported once, at
    the start."""

    server: str
    reason: str


@dataclass(frozen=True, slots=True)
class SinkInsecure:
    """The configuration sends a sink's credentials over a network unencrypted. Reported once, at the start."""

    sink: str
    reason: str


@dataclass(frozen=True, slots=True)
class PluginComplained:
    """A credential plugin ended, and had written to its standard error. The text may hold a secret."""

    command: str
    text: str
    """The last few thousand characters of standard error."""


@dataclass(frozen=True, slots=True)
class GroupStale:
    """The API server cannot discover this API group (its aggregated server is down). The group's resources of the last
    discovery are kept. Reported once for each such outage."""

    group: str
    """Group and version: ``metrics.k8s.io/v1beta1``."""
    reason: str


@dataclass(frozen=True, slots=True)
class DiscoveryRejected:
    """A name in a discovery document is invalid, and the bridge ignores its entry. Reported once, until the document
    changes."""

    name: str
    """The name (escaped), its position in the document, and the expected form."""


# ── Informers ────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class ListEnded:
    """A complete list was received and compared with the store."""

    resource: Resource
    scope: Scope
    objects: int
    seconds: float
    relist: bool


@dataclass(frozen=True, slots=True)
class WatchOpened:
    resource: Resource
    scope: Scope


@dataclass(frozen=True, slots=True)
class WatchEnded:
    resource: Resource
    scope: Scope
    reason: str
    seconds: float
    events: int


@dataclass(frozen=True, slots=True)
class RequestFailed:
    """A list or a watch failed. The next attempt is in ``retry_after`` seconds."""

    resource: Resource
    scope: Scope
    verb: str
    reason: str
    retry_after: float


@dataclass(frozen=True, slots=True)
class ResourceRefused:
    """The API server refuses this resource (401, 403, 404, 405): the operator must act."""

    resource: Resource
    scope: Scope
    status: int
    reason: str
    retry_after: float


@dataclass(frozen=True, slots=True)
class InputUnreadable:
    """An item or a line of the API server could not be read, and was skipped. A relist follows."""

    resource: Resource
    scope: Scope
    reason: str


@dataclass(frozen=True, slots=True)
class ObjectLeftBare:
    """A version of an object is nested too deeply, or too large. Only its identity is exported."""

    resource: Resource
    scope: Scope
    reason: str
    """Names the object."""


@dataclass(frozen=True, slots=True)
class HistoryLookedAt:
    """The result of a check, after an interrupted watch, whether the API server's history is the known history."""

    store: str
    """The aggregated server; empty for the API server's own store."""
    outcome: str
    """``same``, ``other``, ``unknown`` (the API server has forgotten the proof: all objects are compared) or ``failed``
    (the check is repeated)."""
    reason: str


@dataclass(frozen=True, slots=True)
class VersionsRanBackwards:
    """The API server's versions are older than before: its store was restored. A new epoch began."""

    resource: Resource
    scope: Scope
    was: str
    now: str


@dataclass(frozen=True, slots=True)
class InformerStarted:
    """The informer begins with a list, or resumes its watch at the saved position."""

    resource: Resource
    scope: Scope


@dataclass(frozen=True, slots=True)
class InformerSynced:
    resource: Resource
    scope: Scope
    objects: int


@dataclass(frozen=True, slots=True)
class InformerStopped:
    """The resource went away, or the bridge is ending. Its metrics labels may be dropped."""

    resource: Resource
    scope: Scope


@dataclass(frozen=True, slots=True)
class ResourceUnknown:
    """No resource of this cluster has this configured name (yet)."""

    name: str
    reason: str


@dataclass(frozen=True, slots=True)
class DiscoveryFailed:
    reason: str
    retry_after: float


# ── Outbox and sinks ─────────────────────────────────────────────────────────


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
class SinkOpened:
    sink: str


@dataclass(frozen=True, slots=True)
class BatchDelivered:
    """The destination has stored these records; they are settled."""

    sink: str
    records: int
    bytes: int
    seconds: float


@dataclass(frozen=True, slots=True)
class DeliveryDelayed:
    """A delivery failed. The next attempt is in ``retry_after`` seconds."""

    sink: str
    records: int
    """Records of this attempt; 0 if the sink could not be opened."""
    reason: str
    retry_after: float
    behind: int
    """The sink's backlog, in records."""
    asked: float | None = None
    """Seconds that the destination asked for (Retry-After), if it did."""


@dataclass(frozen=True, slots=True)
class SinkPaused:
    """An operator paused the sink, now or before this start. ``max_backlog`` still holds."""

    sink: str


@dataclass(frozen=True, slots=True)
class SinkResumed:
    sink: str


@dataclass(frozen=True, slots=True)
class DestinationMade:
    """The sink created a missing part of the destination, such as a stream, which begins empty."""

    sink: str
    what: str
    again: bool
    """True if the sink had delivered into it in this run: these records are lost."""


@dataclass(frozen=True, slots=True)
class RecordRejected:
    """The destination rejected a record for good. It becomes a dead letter."""

    sink: str
    record: str
    reason: str


@dataclass(frozen=True, slots=True)
class RecordsLeftBehind:
    """The bridge ends while this sink has a backlog: the grace period is over, or the next attempt would be later. The
    backlog is delivered after the next start."""

    sink: str
    records: int


@dataclass(frozen=True, slots=True)
class ListenerOverrun:
    """Records left the outbox before this sink had them. It gets a Gap record."""

    sink: str
    first: int
    last: int
    count: int


# ── The state on disk ────────────────────────────────────────────────────────


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
class ClusterChanged:
    """The state belonged to another cluster, and ``state.on_cluster_change`` is ``restart``: the bridge compares the
    state with this cluster, in a new epoch."""

    was: str
    now: str


@dataclass(frozen=True, slots=True)
class ClusterUnidentified:
    """The uid of the namespace kube-system cannot be read, so the bridge could not notice another cluster."""

    reason: str


@dataclass(frozen=True, slots=True)
class ScopeChanged:
    """Less of a resource is watched than before: the configuration changed, or the meaning of its names."""

    resource: str
    left: int
    """Objects that are no longer covered, and are exported as deleted."""


@dataclass(frozen=True, slots=True)
class SinkForgotten:
    """A removed sink's backlog was dropped after ``state.forget_sinks_after``."""

    sink: str
    records: int


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


# ── Delivery beyond the ordinary ─────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class RecordsParked:
    """Records were parked: an earlier record of their object was rejected. They wait as dead letters."""

    sink: str
    records: int
    objects: int


@dataclass(frozen=True, slots=True)
class CircuitOpened:
    """Deliveries to this sink failed in a row. From now on a single delivery at a time is tried."""

    sink: str
    failures: int
    reason: str


@dataclass(frozen=True, slots=True)
class CircuitClosed:
    """Deliveries to the sink succeed again."""

    sink: str
    seconds: float
    """Duration of the outage."""


# ── The process ──────────────────────────────────────────────────────────────


class Heed(StrEnum):
    """The bridge's reaction to a signal."""

    STOP = "stop"
    """Reading from the API server ends, and sinks finish within the grace period."""
    AT_ONCE = "at once"
    """The second signal to stop: the process ends now, as if killed."""
    IGNORED = "ignored"


@dataclass(frozen=True, slots=True, kw_only=True)
class BridgeStarted:
    """The first fact of a run."""

    version: str
    configuration: str
    """The file's path."""
    cluster: str
    resources: tuple[str, ...]
    sinks: Mapping[str, str]
    """Name → type."""
    address: str
    """``telemetry.listen``."""
    state: str
    """``state.directory``."""


@dataclass(frozen=True, slots=True)
class ConfigurationRefused:
    """The bridge does not start: its configuration has mistakes."""

    configuration: str
    problems: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class BridgeBroke:
    """The bridge ends because of a bug."""

    error: BaseException


@dataclass(frozen=True, slots=True)
class BridgeEnded:
    """The last fact of a run."""

    reason: str
    exit_code: int
    seconds: float
    """Duration of the run."""
    backlog: Mapping[str, int]
    """Sink → its backlog, in records. Empty if the state was not opened."""


@dataclass(frozen=True, slots=True)
class SignalReceived:
    signal: str
    """``SIGTERM``."""
    heed: Heed


# ── Clients of the bridge ────────────────────────────────────────────────────

TELEMETRY_SERVER = "telemetry.listen"
ADMIN_SERVER = "admin.sock"
SERVERS = (TELEMETRY_SERVER, ADMIN_SERVER)


class Cut(StrEnum):
    """The reason why a server of the bridge cut a connection."""

    CROWDED = "crowded"
    """Too many connections."""
    SLOW = "slow"
    """Sending the request, or reading the answer, took too long."""


@dataclass(frozen=True, slots=True)
class OperatorCommand:
    """The running bridge answered a command on its admin socket."""

    command: str
    """``replay hook from 1200``."""
    result: str
    """``42 records``, or the reason for the failure."""
    done: bool
    uid: int | None
    """User id of the client, if the system provides it."""
    pid: int | None
    continued: bool = False
    """True for a further page of the same command."""


@dataclass(frozen=True, slots=True)
class ConnectionCut:
    """A server of the bridge cut a client's connection."""

    server: str
    """One of ``SERVERS``."""
    why: Cut


Fact: TypeAlias = (
    ConnectionInsecure
    | SinkInsecure
    | PluginComplained
    | GroupStale
    | DiscoveryRejected
    | ListEnded
    | WatchOpened
    | WatchEnded
    | RequestFailed
    | ResourceRefused
    | InputUnreadable
    | ObjectLeftBare
    | HistoryLookedAt
    | VersionsRanBackwards
    | InformerStarted
    | InformerSynced
    | InformerStopped
    | ResourceUnknown
    | DiscoveryFailed
    | BatchCommitted
    | SinkOpened
    | BatchDelivered
    | DeliveryDelayed
    | SinkPaused
    | SinkResumed
    | DestinationMade
    | RecordRejected
    | RecordsLeftBehind
    | ListenerOverrun
    | OutboxOpened
    | OutboxFull
    | OutboxHasRoom
    | OutboxRebuilt
    | StateExposed
    | ClusterChanged
    | ClusterUnidentified
    | ScopeChanged
    | SinkForgotten
    | IntakeBlocked
    | IntakeResumed
    | BacklogCompacted
    | BacklogDropped
    | SnapshotBegan
    | SnapshotEnded
    | RecordsParked
    | CircuitOpened
    | CircuitClosed
    | BridgeStarted
    | ConfigurationRefused
    | BridgeBroke
    | BridgeEnded
    | SignalReceived
    | OperatorCommand
    | ConnectionCut
)

Report: TypeAlias = Callable[[Fact], None]


def unheard(_fact: Fact) -> None:
    """A Report that ignores facts, for rooms used as a library."""
