"""Facts of bridge.outbox: the state directory, and backfills."""

from __future__ import annotations

from bridge.telemetry.fact_log import FactLog
from bridge.telemetry.facts import Counts, Fact, Metric

# ── The state ────────────────────────────────────────────────────────────────

OUTBOX_REBUILDS = Metric("outbox_rebuilds", "Damaged databases that were moved aside and replaced.")
GAPS = Metric("gap_records", "Records replaced by a Gap; 1 for an unknown number.", "sink")
FORGOTTEN_SINKS = Metric("forgotten_sinks", "Removed sinks whose backlog was dropped.")
FORGOTTEN_RECORDS = Metric("forgotten_records", "Records in the backlogs of forgotten sinks.")


class OutboxOpened(Fact, frozen=True):
    sentence = "state is open"

    path: str
    sqlite: str
    """Version of the SQLite library."""
    records: int
    objects: int
    """Objects in the ledger."""


class OutboxFull(Fact, frozen=True):
    """The disk has no space for a transaction. Reading from the API server stops; sinks go on."""

    counter = Metric("outbox_full", "Transactions that found no space on the disk and are retried.")

    reason: str
    retry_after: float

    def log(self, log: FactLog) -> None:
        text = "intake blocked: no disk space for the state; sinks go on"
        log.failure("room", text, self.reason, "error", retry_in=round(self.retry_after, 1))


class OutboxHasRoom(Fact, frozen=True):
    """Transactions succeed again."""

    seconds: float
    """Duration of the outage."""

    def log(self, log: FactLog) -> None:
        if log.over("room"):
            log.info("intake resumed: the disk has space again", seconds=round(self.seconds, 1))


class OutboxRebuilt(Fact, frozen=True):
    """The database was damaged, or gone. Its remains were moved aside. Every sink gets a Gap record, then every object
    as ``sync``."""

    aside: str
    """The path of the old database; empty if no file was left."""
    reason: str
    sinks: tuple[str, ...]
    """Sinks that get the Gap record."""

    def log(self, log: FactLog) -> None:
        text = "the state was damaged or gone, and is rebuilt: sinks get a Gap record, then every object as sync"
        log.error(text, aside=self.aside or "no file was left", reason=self.reason)

    def counts(self) -> Counts:
        yield (OUTBOX_REBUILDS,), 1
        for sink in self.sinks:
            yield (GAPS, sink), 1


class StateMigrated(Fact, frozen=True):
    """The database was of an earlier format, and is of this version's format now."""

    sentence = "the state is migrated to this version's format"

    file: str
    was: int


class ReplicasLeft(Fact, frozen=True):
    """A bridge without an election began with the state of a replica: each sink gets a Gap, and a snapshot."""

    level = "warning"
    sentence = (
        "this is the state of one of several replicas, and another may have delivered what it lacks: each sink gets a "
        "Gap, then a snapshot"
    )

    file: str


class StateExposed(Fact, frozen=True):
    """Other users may read the files of the state, and the bridge cannot change that."""

    level = "warning"
    sentence = "other users may read the files of the state: restrict the directory to the bridge's user (chmod 700)"

    directory: str
    reason: str


class SinkForgotten(Fact, frozen=True):
    """A removed sink's backlog was dropped after ``state.forget_sinks_after``. Its metrics have no label of the sink,
    which is not configured."""

    sink: str
    records: int

    def log(self, log: FactLog) -> None:
        text = "sink is forgotten: it was not configured for state.forget_sinks_after"
        log.write("warning" if self.records else "info", text, sink=self.sink, records=self.records)

    def counts(self) -> Counts:
        yield (FORGOTTEN_SINKS,), 1
        yield (FORGOTTEN_RECORDS,), self.records


# ── Backfills ────────────────────────────────────────────────────────────────


class SnapshotBegan(Fact, frozen=True):
    """The backfill of a snapshot began: known objects, for this sink."""

    sentence = "snapshot began"
    counter = Metric("sink_snapshots", "Snapshots that began: with a new sink, on demand, by schedule.", "sink")

    sink: str
    objects: int


class SnapshotEnded(Fact, frozen=True):
    sentence = "snapshot ended"

    sink: str
    objects: int


class SnapshotCancelled(Fact, frozen=True):
    """An operator has cancelled a snapshot on demand. The sink gets no notice of its end."""

    sink: str
    left: int
    """Objects of it that the sink does not get."""

    def log(self, log: FactLog) -> None:
        log.info("snapshot cancelled", sink=self.sink, objects_left=self.left)
