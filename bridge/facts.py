"""What happened, as frozen records in the past tense. Rooms report them; telemetry alone counts and logs them.

A fact is about a request, a batch or a state, never about a single event: nothing here may cost per event.
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
    """The configuration asks for a connection that others can read or pose on. Reported once, when it is made."""

    server: str
    reason: str


@dataclass(frozen=True, slots=True)
class SinkInsecure:
    """The configuration sends a sink's credentials over a network unencrypted. Reported once, at the start."""

    sink: str
    reason: str


@dataclass(frozen=True, slots=True)
class PluginComplained:
    """A credential plugin ended, and had written something to its standard error. It may hold a secret."""

    command: str
    text: str
    """The last few thousand characters."""


@dataclass(frozen=True, slots=True)
class GroupStale:
    """The API server cannot say what this API group serves now (an aggregated server is down). What it served when
    last seen is kept. Reported once for every time it becomes so."""

    group: str
    """With its version: ``metrics.k8s.io/v1beta1``."""
    reason: str


@dataclass(frozen=True, slots=True)
class DiscoveryRejected:
    """Something in a discovery document is not accepted, and is not served as far as the bridge is concerned. Reported
    once for as long as the document says it."""

    name: str
    """Where it stands, what it is called (escaped), and what is expected."""


# ── Informers ────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class ListEnded:
    """A complete list has been taken in and compared."""

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
    """A list or a watch was not answered as asked; it is tried again after ``retry_after`` seconds."""

    resource: Resource
    scope: Scope
    verb: str
    reason: str
    retry_after: float


@dataclass(frozen=True, slots=True)
class ResourceRefused:
    """The API server will not serve this resource to us (401, 403, 404) until somebody changes something."""

    resource: Resource
    scope: Scope
    status: int
    reason: str
    retry_after: float


@dataclass(frozen=True, slots=True)
class InputUnreadable:
    """Something the server sent could not be told apart and was left out; a relist will mend what it can."""

    resource: Resource
    scope: Scope
    reason: str


@dataclass(frozen=True, slots=True)
class ObjectLeftBare:
    """An object is too deep or too large to be taken in: of this version, nothing is told but which object it is."""

    resource: Resource
    scope: Scope
    reason: str
    """Names the object."""


@dataclass(frozen=True, slots=True)
class HistoryLookedAt:
    """After the API server was out of sight: whether its history is the known one."""

    store: str
    """Which one behind the API server; empty for the one that has most of its objects."""
    outcome: str
    """``same``, ``other``, ``unknown`` (what would prove it is forgotten: everything is compared) or ``failed`` (it is
    asked again)."""
    reason: str


@dataclass(frozen=True, slots=True)
class VersionsRanBackwards:
    """The API server has another history than before: its store was restored. A new epoch began."""

    resource: Resource
    scope: Scope
    was: str
    now: str


@dataclass(frozen=True, slots=True)
class InformerStarted:
    """It begins to list and watch, or to watch from where it was."""

    resource: Resource
    scope: Scope


@dataclass(frozen=True, slots=True)
class InformerSynced:
    resource: Resource
    scope: Scope
    objects: int


@dataclass(frozen=True, slots=True)
class InformerStopped:
    """Its resource went away, or the bridge is ending: its labels may be forgotten."""

    resource: Resource
    scope: Scope


@dataclass(frozen=True, slots=True)
class ResourceUnknown:
    """A name in the configuration means nothing on this cluster (yet)."""

    name: str
    reason: str


@dataclass(frozen=True, slots=True)
class DiscoveryFailed:
    reason: str
    retry_after: float


# ── Outbox and sinks ─────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class BatchCommitted:
    """Records of one informer are in the outbox."""

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
    """The sink has stored these; they are settled."""

    sink: str
    records: int
    bytes: int
    seconds: float


@dataclass(frozen=True, slots=True)
class DeliveryDelayed:
    """The sink could not take records now; they are delivered again after ``retry_after`` seconds."""

    sink: str
    records: int
    """Of this attempt; 0 where the sink could not be opened."""
    reason: str
    retry_after: float
    behind: int
    """Records that this sink has not settled."""
    asked: float | None = None
    """Seconds that the destination asked for, where it did (Retry-After)."""


@dataclass(frozen=True, slots=True)
class SinkPaused:
    """An operator paused the sink, now or before this start. Its backlog has its bounds all the same."""

    sink: str


@dataclass(frozen=True, slots=True)
class SinkResumed:
    sink: str


@dataclass(frozen=True, slots=True)
class DestinationMade:
    """Something was missing at the destination, such as a stream, and the sink made it: it begins empty."""

    sink: str
    what: str
    again: bool
    """The sink had delivered into it in this run: what it held is gone."""


@dataclass(frozen=True, slots=True)
class RecordRejected:
    """The sink will never take this record. It goes to the dead letters, with its reason."""

    sink: str
    record: str
    reason: str


@dataclass(frozen=True, slots=True)
class RecordsLeftBehind:
    """The bridge ends, and this sink has not settled everything that was read: the grace is over, or its next attempt
    would have come later. The rest is delivered after the next start."""

    sink: str
    records: int


@dataclass(frozen=True, slots=True)
class ListenerOverrun:
    """A sink was so far behind that records left the outbox before it had them. It got a Gap record."""

    sink: str
    first: int
    last: int
    count: int


# ── The state on disk ────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class OutboxOpened:
    path: str
    sqlite: str
    """Version of the library."""
    records: int
    objects: int
    """In the ledger."""


@dataclass(frozen=True, slots=True)
class OutboxFull:
    """There is no room for a transaction. Nothing is read from the API server meanwhile; sinks go on."""

    reason: str
    retry_after: float


@dataclass(frozen=True, slots=True)
class OutboxHasRoom:
    """Transactions go through again."""

    seconds: float
    """How long they did not."""


@dataclass(frozen=True, slots=True)
class OutboxRebuilt:
    """The database was damaged, or gone. What was left was moved aside; everything is told again as ``sync``, behind a
    Gap record."""

    aside: str
    """Where it lies now; empty where nothing was left."""
    reason: str
    sinks: tuple[str, ...]
    """Those that get the Gap."""


@dataclass(frozen=True, slots=True)
class StateExposed:
    """Others than the bridge's user may reach the files of the state, and that cannot be changed from here."""

    directory: str
    reason: str


@dataclass(frozen=True, slots=True)
class ClusterChanged:
    """The state belonged to another cluster, and ``state.on_cluster_change`` is ``restart``: it is compared with this
    one, in a new epoch."""

    was: str
    now: str


@dataclass(frozen=True, slots=True)
class ClusterUnidentified:
    """The uid of the namespace kube-system cannot be read, so that another cluster behind the same state would not be
    noticed."""

    reason: str


@dataclass(frozen=True, slots=True)
class ScopeChanged:
    """Less of a resource is watched than before: the configuration changed, or what its names mean."""

    resource: str
    left: int
    """Objects that are no longer covered; they are told as deleted."""


@dataclass(frozen=True, slots=True)
class SinkForgotten:
    """It was not configured for ``state.forget_sinks_after``: what it had not settled is given up."""

    sink: str
    records: int


@dataclass(frozen=True, slots=True)
class IntakeBlocked:
    """A sink's backlog is at its bound and its policy is ``block``: nothing is read from the API server, for any sink,
    until this one has caught up."""

    sink: str
    records: int


@dataclass(frozen=True, slots=True)
class IntakeResumed:
    sink: str
    seconds: float


@dataclass(frozen=True, slots=True)
class BacklogCompacted:
    """A sink's backlog was at its bound: it gets the newest state of each object, not the steps in between."""

    sink: str
    before: int
    after: int


@dataclass(frozen=True, slots=True)
class BacklogDropped:
    """A sink's backlog was at its bound: it gets a Gap record in place of these."""

    sink: str
    first: int
    last: int
    count: int


@dataclass(frozen=True, slots=True)
class SnapshotBegan:
    """A sink is told every known object."""

    sink: str
    objects: int


@dataclass(frozen=True, slots=True)
class SnapshotEnded:
    sink: str
    objects: int


# ── Delivery beyond the ordinary ─────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class RecordsParked:
    """Later records of objects whose earlier record was rejected: they wait in the dead letters."""

    sink: str
    records: int
    objects: int


@dataclass(frozen=True, slots=True)
class CircuitOpened:
    """Attempts at this sink failed in a row. From here on one at a time tries whether it is back."""

    sink: str
    failures: int
    reason: str


@dataclass(frozen=True, slots=True)
class CircuitClosed:
    """The sink takes records again."""

    sink: str
    seconds: float
    """How long it did not."""


# ── The process ──────────────────────────────────────────────────────────────


class Heed(StrEnum):
    """What is done about a signal."""

    STOP = "stop"
    """Nothing more is read, and sinks finish within the grace."""
    AT_ONCE = "at once"
    """The process ends now, as if it were killed: it was told to stop before."""
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
    """The bridge does not begin: its file cannot be used."""

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
    """How long it ran."""
    waiting: Mapping[str, int]
    """Sink → records that it has not settled. Empty where the state was not opened."""


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
    """Why a connection was cut."""

    CROWDED = "crowded"
    """There were too many at once."""
    SLOW = "slow"
    """Its request, or the reading of its answer, took too long."""


@dataclass(frozen=True, slots=True)
class OperatorCommand:
    """Somebody asked something of the running bridge over its admin socket, and was answered."""

    command: str
    """``replay hook from 1200``."""
    result: str
    """``42 records``, or why it was not done."""
    done: bool
    uid: int | None
    """Of the process that asked, where the system tells."""
    pid: int | None
    continued: bool = False
    """A further page of a command that was reported before."""


@dataclass(frozen=True, slots=True)
class ConnectionCut:
    """A server of the bridge has cut the connection of a client."""

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
    """For a room used as a library, where nobody listens."""
