"""What happened, as frozen records in the past tense. Rooms report them; telemetry alone counts and logs them.

A fact is about a request, a batch or a state, never about a single event: nothing here may cost per event.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from bridge.model.resource import Resource, Scope

# ── The API server ───────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class ConnectionInsecure:
    """The configuration asks for a connection that others can read or pose on. Reported once, when it is made."""

    server: str
    reason: str


@dataclass(frozen=True, slots=True)
class GroupStale:
    """The API server cannot say what this API group serves now (an aggregated server is down). What it served when
    last seen is kept. Reported once for every time it becomes so."""

    group: str
    """With its version: ``metrics.k8s.io/v1beta1``."""
    reason: str


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
class VersionsRanBackwards:
    """The API server is at an older version than it was: its store was restored. A new epoch began."""

    resource: Resource
    scope: Scope
    was: str
    now: str


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
    reason: str
    retry_after: float


@dataclass(frozen=True, slots=True)
class RecordRejected:
    """The sink will never take this record. It is settled as lost to that sink, with its reason."""

    sink: str
    record: str
    reason: str


@dataclass(frozen=True, slots=True)
class RecordsLeftBehind:
    """The bridge ends, and the grace was over before this sink had settled everything that was read."""

    sink: str
    records: int


@dataclass(frozen=True, slots=True)
class ListenerOverrun:
    """A sink was so far behind that records left the outbox before it had them. It got a Gap record."""

    sink: str
    first: int
    last: int
    count: int


Fact: TypeAlias = (
    ConnectionInsecure
    | GroupStale
    | ListEnded
    | WatchOpened
    | WatchEnded
    | RequestFailed
    | ResourceRefused
    | InputUnreadable
    | VersionsRanBackwards
    | InformerSynced
    | InformerStopped
    | ResourceUnknown
    | DiscoveryFailed
    | BatchCommitted
    | SinkOpened
    | BatchDelivered
    | DeliveryDelayed
    | RecordRejected
    | RecordsLeftBehind
    | ListenerOverrun
)

Report: TypeAlias = Callable[[Fact], None]


def unheard(_fact: Fact) -> None:
    """For a room used as a library, where nobody listens."""
