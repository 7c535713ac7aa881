"""Counters between the outbox and the destinations, by sink.

Counters of batches bind their children once (see resource_counters).
"""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client import CollectorRegistry, Counter, Histogram

from bridge.facts import (
    BacklogCompacted,
    BacklogDropped,
    BatchDelivered,
    CircuitOpened,
    DeliveryDelayed,
    DestinationChanged,
    DestinationCreated,
    DestinationLost,
    Fact,
    IntakeBlocked,
    ListenerOverrun,
    OutboxRebuilt,
    RecordRejected,
    RecordsParked,
    SinkOpened,
    SnapshotBegan,
)

DELIVERY_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
"""Seconds: from the write of a file to a broker near its timeout."""


class SinkCounters:
    """Counters between the outbox and the destinations."""

    def __init__(self, registry: CollectorRegistry) -> None:
        def counter(name: str, text: str) -> Counter:
            return Counter(f"kubedelta_{name}_total", text, ("sink",), registry=registry)

        self._opened = counter("sink_opens", "Times the destination was reached and the sink opened.")
        self._records = counter("sink_delivered_records", "Records that the destination has stored.")
        self._bytes = counter("sink_delivered_bytes", "Bytes of object bodies that the destination has stored.")
        self._retries = counter("sink_retries", "Deliveries that failed and are retried.")
        self._rejected = counter("sink_rejected_records", "Records that the destination rejected for good.")
        self._parked = counter("sink_parked_records", "Records parked behind a rejected record of their object.")
        self._circuits = counter("sink_circuit_opens", "Times the circuit opened.")
        self._made = counter("sink_destinations_created", "Missing streams that the sink created, empty.")
        self._losses = counter("sink_destination_losses", "Times the destination lost records that it had stored.")
        self._changes = counter("sink_destination_changes", "Changes of the destination that its consumers must know.")
        self._snapshots = counter("sink_snapshots", "Snapshots that began: with a new sink, on demand, by schedule.")
        self._blocks = counter("sink_intake_blocks", "Times the sink's backlog stopped reading from the API server.")
        self._compactions = counter("sink_compactions", "Times the sink's backlog was compacted.")
        self._compacted = counter("sink_compacted_records", "Superseded records that a compaction left out.")
        self._drops = counter("sink_backlog_drops", "Times the sink's backlog was dropped.")
        self._gaps = counter("gap_records", "Records replaced by a Gap; 1 for an unknown number.")
        self._families = [each for each in vars(self).values() if isinstance(each, Counter)]
        self._seconds = Histogram(
            "kubedelta_sink_delivery_seconds",
            "Seconds from the start of a batch's delivery to the destination's answer.",
            ("sink",),
            buckets=DELIVERY_BUCKETS,
            registry=registry,
        )
        self._bound: dict[str, tuple[Counter, Counter, Histogram]] = {}

    def observe(self, fact: Fact) -> None:
        match fact:
            case BatchDelivered(sink):
                records, size, seconds = self._bound.get(sink) or self.bind(sink)
                records.inc(fact.records)
                size.inc(fact.bytes)
                seconds.observe(fact.seconds)
            case SinkOpened(sink):
                self._opened.labels(sink).inc()
            case DeliveryDelayed(sink):
                self._retries.labels(sink).inc()
            case RecordRejected(sink):
                self._rejected.labels(sink).inc()
            case RecordsParked(sink, records):
                self._parked.labels(sink).inc(records)
            case CircuitOpened(sink):
                self._circuits.labels(sink).inc()
            case DestinationCreated(sink):
                self._made.labels(sink).inc()
            case DestinationLost(sink):
                self._losses.labels(sink).inc()
                self._gaps.labels(sink).inc()
            case DestinationChanged(sink):
                self._changes.labels(sink).inc()
            case _:
                self._behind(fact)

    def _behind(self, fact: Fact) -> None:
        match fact:
            case ListenerOverrun(sink):
                self._gaps.labels(sink).inc(fact.count)
            case BacklogDropped(sink):
                self._drops.labels(sink).inc()
                self._gaps.labels(sink).inc(fact.count)
            case BacklogCompacted(sink):
                self._compactions.labels(sink).inc()
                self._compacted.labels(sink).inc(fact.before - fact.after)
            case IntakeBlocked(sink):
                self._blocks.labels(sink).inc()
            case SnapshotBegan(sink):
                self._snapshots.labels(sink).inc()
            case OutboxRebuilt(sinks=sinks):
                for sink in sinks:
                    self._gaps.labels(sink).inc()

    def bind(self, sink: str) -> tuple[Counter, Counter, Histogram]:
        """Creates all series of the sink at zero: a rate needs the zero before the first failure."""
        for family in self._families:
            family.labels(sink)
        bound = self._records.labels(sink), self._bytes.labels(sink), self._seconds.labels(sink)
        self._bound[sink] = bound
        return bound

    def forget(self, sinks: Iterable[str]) -> None:
        """Drops all series of sinks that left the configuration: alerts on them would fire for ever."""
        for sink in sinks:
            self._bound.pop(sink, None)
            for family in (*self._families, self._seconds):
                family.remove_by_labels({"sink": sink})
