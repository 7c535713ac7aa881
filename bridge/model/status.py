"""How things stand at one moment: what /readyz, the gauges and the status line are made of."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol


class InformerState(StrEnum):
    UNKNOWN = "unknown"
    """The configuration names a resource that this cluster does not have, or that was not looked up yet."""
    LISTING = "listing"
    """The first list is under way."""
    LIVE = "live"
    """Synced, and a watch is open."""
    RECONNECTING = "reconnecting"
    """Synced, and between two watches or two lists."""
    REFUSED = "refused"
    """The API server will not serve it to us until somebody changes something."""


class SinkState(StrEnum):
    OPENING = "opening"
    """It is not set up yet."""
    IDLE = "idle"
    """Everything that was there is delivered."""
    DELIVERING = "delivering"
    WAITING = "waiting"
    """The destination could not take records; they are delivered again after a while."""
    PAUSED = "paused"
    """An operator paused it: nothing is delivered until somebody resumes it."""


class CircuitState(StrEnum):
    CLOSED = "closed"
    """Deliveries go through, or fail once in a while."""
    OPEN = "open"
    """They failed in a row: nothing is tried until a pause is over."""
    HALF_OPEN = "half-open"
    """One delivery tries whether the destination is back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InformerStatus:
    """One resource in one scope."""

    resource: str
    """As kubectl names it."""
    scope: str
    state: InformerState
    synced: bool
    live: bool
    objects: int = 0
    queued: int = 0
    """Deltas that were heard and not processed yet."""
    last_contact: float | None = None
    """Seconds since the API server last said anything, bookmarks included; None before it did."""
    reason: str = ""
    """Why it is not live, where it is not."""

    @property
    def ready(self) -> bool:
        return self.synced and self.live


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkStatus:
    name: str
    type: str
    state: SinkState
    lag: int = 0
    """Records that are in the outbox and that this sink has not settled: its backlog."""
    lag_bytes: int = 0
    """What these take in the outbox."""
    lag_seconds: float = 0.0
    """Age of the oldest of them; 0 where there is none."""
    window: int = 0
    """Of these, records held ready in memory."""
    delivered: int = 0
    """Records since the start."""
    rejected: int = 0
    dead_letters: int = 0
    """Records that the destination refused for good, and those parked behind them."""
    parked: int = 0
    """Of these, records that were not tried."""
    backfill: str = ""
    """What is told before the log goes on: ``snapshot``, ``compacted``, ``dropped``, ``replay``; empty for nothing."""
    backfill_left: int = 0
    """Records of it."""
    circuit: CircuitState = CircuitState.CLOSED
    last_error: str = ""
    """What it last could not do; empty since it could."""
    retry_in: float | None = None
    """Seconds until it tries again, while it is waiting."""
    asked: float | None = None
    """Seconds that the destination asked to be left alone, where that is why it waits."""

    @property
    def well(self) -> bool:
        """It takes what there is, and nothing waits for an operator: no record failed when it was last tried, and
        there is no dead letter."""
        moving = self.state in (SinkState.IDLE, SinkState.DELIVERING) and self.circuit is CircuitState.CLOSED
        return moving and not self.last_error and not self.dead_letters


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusSnapshot:
    informers: tuple[InformerStatus, ...]
    """One for each informer, and one for each configured name that has none (yet). A wildcard that covers nothing at
    this moment is synced and live: there is nothing to wait for."""
    sinks: tuple[SinkStatus, ...]
    outbox_records: int = 0
    outbox_bytes: int = 0
    """What these take, compressed."""
    outbox_oldest_seconds: float = 0.0
    """Age of the oldest record, settled or not; 0 where there is none."""
    outbox_file_bytes: int = 0
    outbox_wal_bytes: int = 0
    disk_free_bytes: int | None = None
    """On the disk of ``state.directory``; None where that is not known."""
    ledger_objects: int = 0
    """Objects that were told and not told deleted."""
    intake_blocked: str = ""
    """Why nothing is read from the API server; empty while it is."""

    @property
    def ready(self) -> bool:
        """Every configured resource is synced, its watch is live, and what it brings is taken in. Sinks do not decide:
        theirs is a backlog, until one with ``when_full: block`` stops the intake."""
        return bool(self.informers) and not self.intake_blocked and all(each.ready for each in self.informers)


class StatusSource(Protocol):
    """The running bridge."""

    def snapshot(self) -> StatusSnapshot: ...

    def alive(self) -> bool:
        """False where only a new process can help: an informer or a worker that should run has stopped moving. Never
        because of the API server or a sink."""
        ...
