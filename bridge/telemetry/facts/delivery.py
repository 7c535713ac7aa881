"""Facts of bridge.delivery and the sinks: deliveries, failures, and the circuit."""

from __future__ import annotations

from typing import TypeAlias

import msgspec


class SinkInsecure(msgspec.Struct, frozen=True):
    """The configuration sends a sink's credentials over a network unencrypted. Reported when the sink begins, at the
    start or by a reload."""

    sink: str
    reason: str


class SinkCautioned(msgspec.Struct, frozen=True):
    """The options of a sink give up a promise of the bridge. Reported once, at the start."""

    sink: str
    reason: str


class SinkOpened(msgspec.Struct, frozen=True):
    sink: str


class SinkPaused(msgspec.Struct, frozen=True):
    """An operator paused the sink, now or before this start. ``max_backlog`` still holds."""

    sink: str


class DestinationGone(msgspec.Struct, frozen=True):
    """The destination wants no more records, now or before this start. Deliveries end until an operator resumes the
    sink; ``max_backlog`` still holds."""

    sink: str
    reason: str


class SinkFenced(msgspec.Struct, frozen=True):
    """Another process has taken the destination over, now or before this start. Deliveries end until an operator
    resumes the sink; ``max_backlog`` still holds."""

    sink: str
    reason: str


class LeadershipDoubted(msgspec.Struct, frozen=True):
    """The destination may know a later leader than this replica. Nothing is sent to it until the Lease is renewed; a
    replica that has lost the Lease steps down."""

    sink: str
    reason: str


class ProgressRead(msgspec.Struct, frozen=True):
    """A sink has read its progress in the destination, when it was opened."""

    sink: str
    records: int
    """Records that the cursor on disk did not know as delivered; they are not delivered again."""
    unknown: str = ""
    """Why the progress there is not of this state directory; empty if it is, or if there is none. Records may be
    delivered again, with the same ids."""


class SinkResumed(msgspec.Struct, frozen=True):
    sink: str


class DestinationCreated(msgspec.Struct, frozen=True):
    """The sink created a missing part of the destination, such as a stream, which begins empty."""

    sink: str
    what: str
    again: bool
    """True if the sink had delivered into it in this run: these records are lost."""


class DestinationLost(msgspec.Struct, frozen=True):
    """The destination has lost records that it had stored. The sink has put a Gap in front of later records."""

    sink: str
    reason: str


class DestinationChanged(msgspec.Struct, frozen=True):
    """A change of the destination that its owner made, with consequences for consumers."""

    sink: str
    what: str


class BatchDelivered(msgspec.Struct, frozen=True, gc=False):
    """The destination has stored these records; they are settled."""

    sink: str
    records: int
    bytes: int
    seconds: float


class DeliveryDelayed(msgspec.Struct, frozen=True):
    """A delivery failed. The next attempt is in ``retry_after`` seconds."""

    sink: str
    records: int
    """Records of this attempt; 0 if the sink could not be opened."""
    reason: str
    retry_after: float
    backlog_records: int
    """The sink's backlog, in records."""
    asked: float | None = None
    """Seconds that the destination asked for (Retry-After), if it did."""


class StatesNotCompared(msgspec.Struct, frozen=True):
    """The states before and after a change are too large, or cannot be read: what a sink's ``include`` asks for has the
    object as a whole."""

    sink: str
    resource: str
    key: str
    reason: str
    """Without any value of the object."""


class RecordRejected(msgspec.Struct, frozen=True):
    """The destination rejected a record for good. It is a dead letter."""

    sink: str
    record: str
    """Its id."""
    reason: str
    number: int = 0
    """Of the dead letter; 0 if it was one already, before a crash."""
    resource: str = ""
    """Empty for a notice, as ``key``."""
    key: str = ""


class RecordsParked(msgspec.Struct, frozen=True):
    """Records were parked: an earlier record of their object was rejected. They wait as dead letters."""

    sink: str
    records: int
    objects: int
    total: int = 0
    """Parked records of the sink by now."""


class CircuitOpened(msgspec.Struct, frozen=True):
    """Deliveries to this sink failed in a row. From now on a single delivery at a time is tried."""

    sink: str
    failures: int
    reason: str


class CircuitClosed(msgspec.Struct, frozen=True):
    """Deliveries to the sink succeed again."""

    sink: str
    seconds: float
    """Duration of the outage."""


class RecordsLeftBehind(msgspec.Struct, frozen=True):
    """The bridge ends while this sink has a backlog: the grace period is over, or the next attempt would be later. The
    backlog is delivered after the next start."""

    sink: str
    records: int


DeliveryFact: TypeAlias = (
    SinkInsecure
    | SinkCautioned
    | SinkOpened
    | SinkPaused
    | DestinationGone
    | SinkFenced
    | LeadershipDoubted
    | ProgressRead
    | SinkResumed
    | DestinationCreated
    | DestinationLost
    | DestinationChanged
    | BatchDelivered
    | DeliveryDelayed
    | StatesNotCompared
    | RecordRejected
    | RecordsParked
    | CircuitOpened
    | CircuitClosed
    | RecordsLeftBehind
)
