"""Facts of bridge.delivery and the sinks: commits and selections, backlogs, deliveries, failures, and the circuit."""

from __future__ import annotations

from collections.abc import Mapping

from bridge.model.change import Op
from bridge.telemetry.fact_log import FactLog
from bridge.telemetry.facts import Counts, Fact, Metric, ResourceFact
from bridge.telemetry.facts.outbox import GAPS

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

    bytes: int
    ops: Mapping[Op, int]
    """How many records have each op."""

    def log(self, log: FactLog) -> None:
        if log.is_debug():
            log.debug("batch committed", **self.named, records=sum(self.ops.values()), bytes=self.bytes)

    def counts(self) -> Counts:
        name = self.resource.name
        for op, count in self.ops.items():
            yield (COMMITTED, name, op), count
        yield (COMMITTED_BYTES, name), self.bytes


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


# ── Backlogs ─────────────────────────────────────────────────────────────────

COMPACTIONS = Metric("sink_compactions", "Times the sink's backlog was compacted.", "sink")
COMPACTED = Metric("sink_compacted_records", "Superseded records that a compaction left out.", "sink")
BACKLOG_DROPS = Metric("sink_backlog_drops", "Times the sink's backlog was dropped.", "sink")


class RecordsLost(Fact, frozen=True):
    """The sink gets a Gap record in the place of these records."""

    sink: str
    first: int
    last: int
    count: int

    def log(self, log: FactLog) -> None:
        text = "records are lost for the sink; it gets a Gap record in their place"
        log.error(text, sink=self.sink, records=self.count, first=self.first, last=self.last)

    def counts(self) -> Counts:
        yield (GAPS, self.sink), self.count


class ListenerOverrun(RecordsLost, frozen=True):
    """Records left the outbox before this sink had them."""


class IntakeBlocked(Fact, frozen=True):
    """A sink's backlog is at its bound, with ``when_full: block``: reading from the API server stops, for every sink,
    until this sink has caught up."""

    counter = Metric("sink_intake_blocks", "Times the sink's backlog stopped reading from the API server.", "sink")

    sink: str
    records: int

    def log(self, log: FactLog) -> None:
        text = "intake blocked, for every sink, until this sink has caught up: its backlog is at max_backlog"
        log.error(text, sink=self.sink, records=self.records, when_full="block")


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


class BacklogDropped(RecordsLost, frozen=True):
    """A sink's backlog was at its bound, and these records were dropped."""

    def counts(self) -> Counts:
        yield (BACKLOG_DROPS, self.sink), 1
        yield from super().counts()


# ── Sinks ────────────────────────────────────────────────────────────────────


class SinkInsecure(Fact, frozen=True):
    """The configuration sends a sink's credentials over a network unencrypted. Reported when the sink begins, at the
    start or by a reload."""

    level = "warning"
    sentence = "sink sends credentials in clear text"

    sink: str
    reason: str


class SinkCautioned(Fact, frozen=True):
    """The options of a sink give up a promise of the bridge. Reported once, at the start."""

    level = "warning"
    sentence = "the sink's options give up a promise"

    sink: str
    reason: str


class SinkOpened(Fact, frozen=True):
    counter = Metric("sink_opens", "Times the destination was reached and the sink opened.", "sink")

    sink: str

    def log(self, log: FactLog) -> None:
        # The failure is over without a line of its own: the destination has stored no record yet.
        log.over(("delayed", self.sink))
        log.info("sink is set up", sink=self.sink)


class SinkPaused(Fact, frozen=True):
    """An operator paused the sink, now or before this start. ``max_backlog`` still holds."""

    level = "warning"
    sentence = "sink is paused until kubedelta sinks resume"

    sink: str


class DestinationGone(Fact, frozen=True):
    """The destination wants no more records, now or before this start. Deliveries end until an operator resumes the
    sink; ``max_backlog`` still holds."""

    level = "error"
    sentence = "the destination wants no more records: the sink waits for kubedelta sinks resume"

    sink: str
    reason: str


class SinkFenced(Fact, frozen=True):
    """Another process has taken the destination over, now or before this start. Deliveries end until an operator
    resumes the sink; ``max_backlog`` still holds."""

    level = "error"
    sentence = "another bridge has taken the destination over: the sink waits for kubedelta sinks resume"

    sink: str
    reason: str


class LeadershipDoubted(Fact, frozen=True):
    """The destination may know a later leader than this replica. Nothing is sent to it until the Lease is renewed; a
    replica that has lost the Lease steps down."""

    level = "warning"
    sentence = "the destination may know another leader: the sink waits until the Lease is renewed"

    sink: str
    reason: str


class ProgressRead(Fact, frozen=True):
    """A sink has read its progress in the destination, when it was opened."""

    sink: str
    records: int
    """Records that the cursor on disk did not know as delivered; they are not delivered again."""
    unknown: str = ""
    """Why the progress there is not of this state directory; empty if it is, or if there is none. Records may be
    delivered again, with the same ids."""

    def log(self, log: FactLog) -> None:
        if self.unknown:
            text = "the progress in the destination is of another state: records may be delivered again, equal ids"
            log.warning(text, sink=self.sink, reason=self.unknown)
        else:
            log.info("progress read from the destination", sink=self.sink, delivered_before=self.records)


class SinkResumed(Fact, frozen=True):
    sentence = "sink is resumed"

    sink: str


# ── Destinations ─────────────────────────────────────────────────────────────

DESTINATION_LOSSES = Metric("sink_destination_losses", "Times the destination lost records that it had stored.", "sink")


class DestinationCreated(Fact, frozen=True):
    """The sink created a missing part of the destination, such as a stream, which begins empty."""

    counter = Metric("sink_destinations_created", "Missing streams that the sink created, empty.", "sink")

    sink: str
    what: str
    again: bool
    """True if the sink had delivered into it in this run: these records are lost."""

    def log(self, log: FactLog) -> None:
        if self.again:
            text = "the sink's destination was gone, and is created again, empty; see kubedelta replay"
            log.warning(text, sink=self.sink, destination=self.what)
        else:
            text = "the sink's destination did not exist, and is created"
            log.info(text, sink=self.sink, destination=self.what)


class DestinationLost(Fact, frozen=True):
    """The destination has lost records that it had stored. The sink has put a Gap in front of later records."""

    level = "error"
    sentence = (
        "the destination has lost records that it had stored; a Gap says so in front of later records; see kubedelta "
        "replay"
    )

    sink: str
    reason: str

    def counts(self) -> Counts:
        yield (DESTINATION_LOSSES, self.sink), 1
        yield (GAPS, self.sink), 1


class DestinationChanged(Fact, frozen=True):
    """A change of the destination that its owner made, with consequences for consumers."""

    counter = Metric("sink_destination_changes", "Changes of the destination that its consumers must know.", "sink")

    sink: str
    what: str

    def log(self, log: FactLog) -> None:
        log.warning("the sink's destination has changed", sink=self.sink, change=self.what)


# ── Deliveries ───────────────────────────────────────────────────────────────

DELIVERED_RECORDS = Metric("sink_delivered_records", "Records that the destination has stored.", "sink")
DELIVERED_BYTES = Metric("sink_delivered_bytes", "Bytes of object bodies that the destination has stored.", "sink")
DELIVERY_SECONDS = Metric(
    "sink_delivery_seconds",
    "Seconds from the start of a batch's delivery to the destination's answer.",
    "sink",
    kind="histogram",
    # From the write of a file to a broker near its timeout.
    buckets=(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30),
)


class BatchDelivered(Fact, frozen=True, gc=False):
    """The destination has stored these records; they are settled."""

    sink: str
    records: int
    bytes: int
    seconds: float

    def log(self, log: FactLog) -> None:
        if not log.change(("flowing", self.sink), True):
            delayed = log.over(("delayed", self.sink))
            if not log.change(("delivers", self.sink), True):
                log.info("sink delivers", sink=self.sink)
            elif delayed:
                log.info("sink delivers again", sink=self.sink)
        if log.is_debug():
            log.debug("batch delivered", sink=self.sink, records=self.records, seconds=round(self.seconds, 4))

    def counts(self) -> Counts:
        yield (DELIVERED_RECORDS, self.sink), self.records
        yield (DELIVERED_BYTES, self.sink), self.bytes
        yield (DELIVERY_SECONDS, self.sink), self.seconds


class DeliveryDelayed(Fact, frozen=True):
    """A delivery failed. The next attempt is in ``retry_after`` seconds."""

    counter = Metric("sink_retries", "Deliveries that failed and are retried.", "sink")

    sink: str
    records: int
    """Records of this attempt; 0 if the sink could not be opened."""
    reason: str
    retry_after: float
    backlog_records: int
    """The sink's backlog, in records."""
    asked: float | None = None
    """Seconds that the destination asked for (Retry-After), if it did."""

    def log(self, log: FactLog) -> None:
        log.forget(("flowing", self.sink))
        text = "delivery failed"
        waiting: dict[str, float] = {"backlog_records": self.backlog_records, "retry_in": round(self.retry_after, 1)}
        if self.asked:
            text += "; the destination asked for a pause, which kubedelta sinks retry ends"
            waiting["asked_seconds"] = round(self.asked, 1)
        log.failure(("delayed", self.sink), text, self.reason, sink=self.sink, **waiting)


class StatesNotCompared(Fact, frozen=True):
    """The states before and after a change are too large, or cannot be read: what a sink's ``include`` asks for has the
    object as a whole."""

    sink: str
    resource: str
    key: str
    reason: str
    """Without any value of the object."""

    def log(self, log: FactLog) -> None:
        text = "states before and after are not compared: include has the object as a whole"
        subject = ("uncompared", self.sink, self.resource)
        log.failure(subject, text, self.reason, sink=self.sink, resource=self.resource, object=self.key)


# ── Dead letters ─────────────────────────────────────────────────────────────

PARKED = Metric("sink_parked_records", "Records parked behind a rejected record of their object.", "sink")


class RecordRejected(Fact, frozen=True):
    """The destination rejected a record for good. It is a dead letter."""

    counter = Metric("sink_rejected_records", "Records that the destination rejected for good.", "sink")

    sink: str
    record: str
    """Its id."""
    reason: str
    number: int = 0
    """Of the dead letter; 0 if it was one already, before a crash."""
    resource: str = ""
    """Empty for a notice, as ``key``."""
    key: str = ""

    def log(self, log: FactLog) -> None:
        text = "destination rejected a record for good; it is a dead letter, see kubedelta dead-letters show"
        subject = {"dead_letter": self.number, "resource": self.resource, "object": self.key}
        named = {name: value for name, value in subject.items() if value}
        log.failure(("rejected", self.sink), text, self.reason, sink=self.sink, **named, record=self.record)


class RecordsParked(Fact, frozen=True):
    """Records were parked: an earlier record of their object was rejected. They wait as dead letters."""

    sink: str
    records: int
    objects: int
    total: int = 0
    """Parked records of the sink by now."""

    def log(self, log: FactLog) -> None:
        log.failure(
            ("parked", self.sink),
            "records are parked as dead letters",
            "an earlier record of their object was rejected",
            sink=self.sink,
            records=self.records,
            objects=self.objects,
            total=self.total,
        )

    def counts(self) -> Counts:
        yield (PARKED, self.sink), self.records


# ── The circuit, and the end ─────────────────────────────────────────────────


class CircuitOpened(Fact, frozen=True):
    """Deliveries to this sink failed in a row. From now on a single delivery at a time is tried."""

    counter = Metric("sink_circuit_opens", "Times the circuit opened.", "sink")

    sink: str
    failures: int
    reason: str

    def log(self, log: FactLog) -> None:
        often = "deliveries failed in a row" if self.failures > 1 else "a delivery failed"
        text = f"circuit open: {often}; one at a time is tried"
        log.failure(("circuit", self.sink), text, self.reason, sink=self.sink, failures=self.failures)


class CircuitClosed(Fact, frozen=True):
    """Deliveries to the sink succeed again."""

    sink: str
    seconds: float
    """Duration of the outage."""

    def log(self, log: FactLog) -> None:
        log.over(("delayed", self.sink))
        if log.over(("circuit", self.sink)):
            text = "circuit closed: deliveries succeed again"
            log.info(text, sink=self.sink, outage_seconds=round(self.seconds, 1))


class RecordsLeftBehind(Fact, frozen=True):
    """The bridge ends while this sink has a backlog: the grace period is over, or the next attempt would be later. The
    backlog is delivered after the next start."""

    sentence = "the bridge ends; the sink's backlog is delivered after the next start"

    sink: str
    records: int
