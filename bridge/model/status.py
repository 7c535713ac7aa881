"""The state of the bridge at a moment: for /readyz, the gauges and the status line."""

from __future__ import annotations

from enum import IntEnum, StrEnum

import msgspec

from bridge.model.primitives.shard import Shard


class InformerState(StrEnum):
    UNKNOWN = "unknown"
    """A configured resource that this cluster does not serve, or that was not looked up yet."""
    LISTING = "listing"
    """The first list is under way."""
    LIVE = "live"
    """Synced, and a watch is open."""
    RECONNECTING = "reconnecting"
    """Synced, and between two watches, or listing again."""
    REFUSED = "refused"
    """The API server refuses the bridge (rights, a missing resource): the operator must act."""


class SinkState(StrEnum):
    OPENING = "opening"
    """The destination was not reached yet."""
    IDLE = "idle"
    """The backlog is empty."""
    DELIVERING = "delivering"
    WAITING = "waiting"
    """After a failure, until the next attempt."""
    PAUSED = "paused"
    """Paused by an operator, until an operator resumes it."""
    GONE = "gone"
    """The destination wants no more records (HTTP 410): no delivery until an operator resumes the sink."""
    FENCED = "fenced"
    """Another process has taken the destination over: no delivery until an operator resumes the sink."""


class PauseCause(IntEnum):
    """Why a sink is paused, by its number in the state directory. False if it is not."""

    NONE = 0
    OPERATOR = 1
    GONE = 2
    """The destination wants no more records."""
    FENCED = 3
    """Another process has taken the destination over."""


class CircuitState(StrEnum):
    CLOSED = "closed"
    """Deliveries succeed, or fail once in a while."""
    OPEN = "open"
    """Deliveries failed in a row: no attempt until a pause is over."""
    HALF_OPEN = "half-open"
    """One delivery is tried, and decides."""


OTHERS_FIRST = "other resources are listed first"
"""The reason of an informer that waits for its turn. Not a failure."""


class InformerStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The informer of a resource in a scope."""

    resource: str
    """kubectl's name."""
    scope: str
    state: InformerState
    synced: bool
    live: bool
    objects: int = 0
    queued: int = 0
    """Deltas in the DeltaFIFO, not processed yet."""
    last_contact: float | None = None
    """Seconds since the API server last sent a byte, bookmarks included; None before the first."""
    reason: str = ""
    """Why the informer is not live; empty while it is."""

    @property
    def ready(self) -> bool:
        return self.synced and self.live


class SinkStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A sink, its backlog and its last failure."""

    name: str
    type: str
    state: SinkState
    backlog_records: int = 0
    """Records in the outbox that this sink has not settled: its backlog."""
    backlog_bytes: int = 0
    """Bytes of the backlog in the outbox."""
    backlog_seconds: float = 0.0
    """Age of its oldest record; 0 for an empty backlog."""
    window: int = 0
    """Records of the backlog in memory."""
    delivered: int = 0
    """Records since the start."""
    rejected: int = 0
    dead_letters: int = 0
    """Rejected records, and records parked behind them."""
    parked: int = 0
    """Of the dead letters, the parked records."""
    backfill: str = ""
    """The backfill under way: ``snapshot``, ``compacted``, ``dropped``, ``replay``; else empty."""
    backfill_left: int = 0
    """Records that the backfill still has to deliver."""
    circuit: CircuitState = CircuitState.CLOSED
    last_error: str = ""
    """The last failure; empty after a success."""
    retry_in: float | None = None
    """Seconds until the next attempt; None unless waiting."""
    asked: float | None = None
    """Seconds that the destination asked for (Retry-After), if it did."""

    @property
    def fails(self) -> bool:
        """The last attempt failed, also while the next is under way."""
        return bool(self.last_error) or self.circuit is not CircuitState.CLOSED or self.state is SinkState.WAITING

    @property
    def well(self) -> bool:
        """Whether deliveries succeed and no operator is needed: no failure since the last success, no dead letter."""
        moving = self.state in (SinkState.IDLE, SinkState.DELIVERING) and self.circuit is CircuitState.CLOSED
        return moving and not self.last_error and not self.dead_letters


class ElectionState(StrEnum):
    """See bridge.replication.deciding."""

    STARTING = "starting"
    FOLLOWING = "following"
    ACQUIRING = "acquiring"
    TAKING_OVER = "taking-over"
    LEADING = "leading"
    STEPPING_DOWN = "stepping-down"
    RELEASING = "releasing"
    ENDED = "ended"


def replica_of(identity: str) -> str:
    """The name of the replica: an identity is that of one process of it (``name_random``)."""
    return identity.rpartition("_")[0]


class FollowerStatus(msgspec.Struct, frozen=True):
    """A follower, as its leader sees it."""

    name: str
    in_sync: bool
    """It would take over without a loss, and deliveries wait for it."""
    commits: int
    """Behind the leader."""
    seconds: float
    """Since the oldest of them."""


class ElectionStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The election, as this replica sees it."""

    state: ElectionState
    identity: str
    holder: str = ""
    term: int = 0
    """The newest known term."""
    in_sync: bool = False
    """Of a follower: it has everything that any destination can have. Of a leader: some follower has."""
    reason: str = ""
    """Why a follower is not in sync; empty if it is, and for a leader."""
    renewed_seconds: float | None = None
    """Since the Lease was seen to change; None before it was read."""
    followers: tuple[FollowerStatus, ...] = ()
    """Of a leader: those that are connected."""

    @property
    def leads(self) -> bool:
        return self.state in (ElectionState.LEADING, ElectionState.RELEASING)


class ConfigurationStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The configuration file, and the last time that it was read."""

    digest: str
    """Of the configuration in effect: the first digits of the file's SHA-256. Empty for a pipe."""
    loaded_at: float
    """When the file was read last and is in effect since, or was found unchanged; seconds since 1970."""
    refused_at: float = 0.0
    """When the last refused change was read; 0 without any."""
    refused: str = ""
    """Why the file as it is now is not in effect; empty if it is."""
    tried_again: bool = False
    """The file that is refused has no fault: the bridge tries it again by itself."""
    changed: int = 0
    """Reloads that changed an option."""
    unchanged: int = 0
    """Reloads that found every option as it was."""
    refusals: int = 0
    """Refused reloads."""


class BridgeStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The state of the whole bridge. Frozen, so that a thread may read it."""

    informers: tuple[InformerStatus, ...]
    """An entry for each informer, and for each configured name without an informer. A wildcard that covers no resource
    at this moment counts as synced and live."""
    sinks: tuple[SinkStatus, ...]
    outbox_records: int = 0
    outbox_bytes: int = 0
    """Bytes of all records, compressed."""
    outbox_oldest_seconds: float = 0.0
    """Age of the oldest record, settled or not; 0 for an empty outbox."""
    outbox_file_bytes: int = 0
    outbox_wal_bytes: int = 0
    disk_free_bytes: int | None = None
    """On the disk of ``state.directory``; None if unknown."""
    ledger_objects: int = 0
    """Objects that were exported, and not yet exported as deleted."""
    intake_blocked: str = ""
    """Why the bridge does not read from the API server; empty while it does."""
    disk_full: bool = False
    """That is because the state has no room for more."""
    configuration: ConfigurationStatus | None = None
    """None for a bridge without a file."""
    changing: bool = False
    """A change of the configuration replaces informers, all of which were ready before; true for some seconds."""
    shard: Shard | None = None
    """The part of all objects that the bridge has; None for all."""
    election: ElectionStatus | None = None
    """None without an election: the bridge always delivers."""
    state_directory: str = ""
    """Its admin socket is there, whatever the configuration file says by now."""

    @property
    def ready(self) -> bool:
        """Whether every configured resource is synced, its watch is open, and its changes are taken in; during a change
        of the configuration, whether that was so before. Sinks do not count, since a failing sink has a backlog, except
        a sink with ``when_full: block`` that stops the intake. A follower watches nothing, and is ready while it is in
        sync: so no roll-out takes the last replica away that could take over without a loss."""
        if self.election is not None and not self.election.leads:
            return self.election.in_sync
        return not self.intake_blocked and (self.changing or self.all_live)

    @property
    def all_live(self) -> bool:
        """Whether every configured resource is synced, and its watch is open."""
        return bool(self.informers) and all(each.ready for each in self.informers)


class SnapshotState(StrEnum):
    DELIVERING = "delivering"
    DELIVERED = "delivered"
    CANCELLED = "cancelled"


class SnapshotStatus(msgspec.Struct, frozen=True):
    """The newest snapshot on demand of a sink."""

    sink: str
    number: int
    """Ends the ids of its records."""
    id: str
    """The attribute ``snapshot`` of its records."""
    state: SnapshotState
    objects: int
    left: int
    """Objects that are not delivered: yet, or any more, if it is cancelled."""
    began: str
    """RFC 3339, as ``ended``."""
    ended: str = ""
    """Empty while it is delivered."""
    resource: str | None = None
    """See admin.SnapshotRequest, as the next two."""
    namespace: str | None = None
    where: str | None = None
