"""Facts of bridge.delivery and the sinks: deliveries, failures, and the circuit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class SinkInsecure:
    """The configuration sends a sink's credentials over a network unencrypted. Reported once, at the start."""

    sink: str
    reason: str


@dataclass(frozen=True, slots=True)
class SinkOpened:
    sink: str


@dataclass(frozen=True, slots=True)
class SinkPaused:
    """An operator paused the sink, now or before this start. ``max_backlog`` still holds."""

    sink: str


@dataclass(frozen=True, slots=True)
class SinkResumed:
    sink: str


@dataclass(frozen=True, slots=True)
class DestinationCreated:
    """The sink created a missing part of the destination, such as a stream, which begins empty."""

    sink: str
    what: str
    again: bool
    """True if the sink had delivered into it in this run: these records are lost."""


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
class RecordRejected:
    """The destination rejected a record for good. It becomes a dead letter."""

    sink: str
    record: str
    reason: str


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


@dataclass(frozen=True, slots=True)
class RecordsLeftBehind:
    """The bridge ends while this sink has a backlog: the grace period is over, or the next attempt would be later. The
    backlog is delivered after the next start."""

    sink: str
    records: int


DeliveryFact: TypeAlias = (
    SinkInsecure
    | SinkOpened
    | SinkPaused
    | SinkResumed
    | DestinationCreated
    | BatchDelivered
    | DeliveryDelayed
    | RecordRejected
    | RecordsParked
    | CircuitOpened
    | CircuitClosed
    | RecordsLeftBehind
)
