"""Facts of bridge.outbox and bridge.delivery: commits, the state directory, backlogs and backfills."""

from __future__ import annotations

from collections.abc import Mapping

from bridge.model.change import Op
from bridge.telemetry.fact_log import FactLog
from bridge.telemetry.facts import Counts, Fact, Metric, ResourceFact

# ── Commits ──────────────────────────────────────────────────────────────────

COMMITTED = Metric(
    "records_committed",
    "Records stored in the outbox.",
    "resource",
    op=tuple(Op),
)
COMMITTED_BYTES = Metric("records_committed_bytes", "Bytes of object bodies stored in the outbox.", "resource")


class BatchCommitted(ResourceFact, frozen=True, gc=False):
    """Records of an informer are durable in the outbox."""

    records: int
    bytes: int
    ops: Mapping[Op, int]
    """How many of the records have each op."""

    def log(self, log: FactLog) -> None:
        if log.is_debug():
            log.debug("batch committed", **self.named, records=self.records, bytes=self.bytes)

    def counts(self) -> Counts:
        name = self.resource.name
        for op, count in self.ops.items():
            yield (COMMITTED, name, op), count
        yield (COMMITTED_BYTES, name), self.bytes


# ── The state ────────────────────────────────────────────────────────────────

OUTBOX_FULL = Metric("outbox_full", "Transactions that found no space on the disk and are retried.")
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

    reason: str
    retry_after: float

    def log(self, log: FactLog) -> None:
        text = "intake blocked: no disk space for the state; sinks go on"
        log.failure("room", text, self.reason, "error", retry_in=round(self.retry_after, 1))

    def counts(self) -> Counts:
        yield (OUTBOX_FULL,), 1


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


# ── Backlogs ─────────────────────────────────────────────────────────────────

INTAKE_BLOCKS = Metric("sink_intake_blocks", "Times the sink's backlog stopped reading from the API server.", "sink")
COMPACTIONS = Metric("sink_compactions", "Times the sink's backlog was compacted.", "sink")
COMPACTED = Metric("sink_compacted_records", "Superseded records that a compaction left out.", "sink")
BACKLOG_DROPS = Metric("sink_backlog_drops", "Times the sink's backlog was dropped.", "sink")

_LOST = "records are lost for the sink; it gets a Gap record in their place"


class ListenerOverrun(Fact, frozen=True):
    """Records left the outbox before this sink had them. It gets a Gap record."""

    sink: str
    first: int
    last: int
    count: int

    def log(self, log: FactLog) -> None:
        log.error(_LOST, sink=self.sink, records=self.count, first=self.first, last=self.last)

    def counts(self) -> Counts:
        yield (GAPS, self.sink), self.count


class IntakeBlocked(Fact, frozen=True):
    """A sink's backlog is at its bound, with ``when_full: block``: reading from the API server stops, for every sink,
    until this sink has caught up."""

    sink: str
    records: int

    def log(self, log: FactLog) -> None:
        text = "intake blocked, for every sink, until this sink has caught up: its backlog is at max_backlog"
        log.error(text, sink=self.sink, records=self.records, when_full="block")

    def counts(self) -> Counts:
        yield (INTAKE_BLOCKS, self.sink), 1


class IntakeResumed(Fact, frozen=True):
    sink: str
    seconds: float

    def log(self, log: FactLog) -> None:
        log.info("intake resumed: the sink has caught up", sink=self.sink, seconds=round(self.seconds, 1))


class BacklogCompacted(Fact, frozen=True):
    """A sink's backlog was at its bound, and was reduced to the newest record of each object."""

    sink: str
    before: int
    after: int

    def log(self, log: FactLog) -> None:
        text = "backlog compacted: the sink gets the newest state of each object, without the steps in between"
        reason = "max_backlog was reached"
        subject = ("compacted", self.sink)
        log.failure(subject, text, reason, sink=self.sink, before=self.before, after=self.after)

    def counts(self) -> Counts:
        yield (COMPACTIONS, self.sink), 1
        yield (COMPACTED, self.sink), self.before - self.after


class BacklogDropped(Fact, frozen=True):
    """A sink's backlog was at its bound, and these records were dropped. The sink gets a Gap record in their place."""

    sink: str
    first: int
    last: int
    count: int

    def log(self, log: FactLog) -> None:
        log.error(_LOST, sink=self.sink, records=self.count, first=self.first, last=self.last)

    def counts(self) -> Counts:
        yield (BACKLOG_DROPS, self.sink), 1
        yield (GAPS, self.sink), self.count


# ── Backfills ────────────────────────────────────────────────────────────────

SNAPSHOTS = Metric("sink_snapshots", "Snapshots that began: with a new sink, on demand, by schedule.", "sink")


class SnapshotBegan(Fact, frozen=True):
    """The backfill of a snapshot began: known objects, for this sink."""

    sentence = "snapshot began"

    sink: str
    objects: int

    def counts(self) -> Counts:
        yield (SNAPSHOTS, self.sink), 1


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


# ── Selections ───────────────────────────────────────────────────────────────

EVALUATIONS = Metric(
    "failed_evaluations", "Evaluations of expressions in select that failed; on_error decided instead."
)


class SelectionChanged(Fact, frozen=True):
    """A sink's selection differs from that of the last run, or before a reload. The sink gets the difference behind its
    backlog. For a new sink, both figures are 0."""

    sentence = "the selection of a sink is another than before; the sink gets the difference"

    sink: str
    added: int
    """Records ``added`` for objects that the selection contains now."""
    deleted: int
    """Records ``deleted`` for objects that it does not contain any more."""
    number: int
    """The number of the selection, which ends the ids of these records."""


class SelectorUnserved(Fact, frozen=True):
    """An entry of a sink's ``select`` names a resource that the cluster does not serve at this moment."""

    level = "warning"
    sentence = (
        "an entry of a selection names a resource that is not served: until the next start or reload, it means a "
        "resource of this full name only"
    )

    sink: str
    option: str
    resource: str


class SelectionUnreadable(Fact, frozen=True):
    """The remembered selection of a sink that is not configured cannot be compiled. Until the sink returns, it counts
    without its expressions."""

    level = "warning"
    sentence = (
        "the remembered selection of a sink that is not configured cannot be evaluated: its backlog grows by all "
        "objects that the expressions might choose, until the sink returns or is forgotten"
    )

    sink: str
    reason: str


class ExpressionFailed(Fact, frozen=True):
    """The first failure of an expression of ``select``. The text has no value of the object."""

    expression: str
    resource: str
    key: str
    reason: str

    def log(self, log: FactLog) -> None:
        text = (
            "an expression of a selection fails on an object: on_error decides; later failures of the expression are "
            "only counted"
        )
        log.warning(text, expression=self.expression, resource=self.resource, object=self.key, reason=self.reason)


class EvaluationsFailed(Fact, frozen=True):
    """Evaluations of expressions that failed since the last such fact."""

    level = "debug"
    sentence = "expressions of selections failed"

    count: int

    def counts(self) -> Counts:
        yield (EVALUATIONS,), self.count
