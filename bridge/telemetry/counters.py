"""Counts facts: between the API server and the outbox by resource, between the outbox and the destinations by sink, and
those of the database, of the state as a whole, of the election and of traces.

Counters of batches bind their children once, since a look-up by labels costs four times as much as the increment. Rarer
facts look their children up. All series of a resource or a sink begin at zero as soon as it is known, and are
dropped when it is gone.
"""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client import CollectorRegistry, Counter, Histogram, Summary

from bridge.model.change import Op
from bridge.model.resource import Resource, Scope
from bridge.telemetry.facts import (
    BacklogCompacted,
    BacklogDropped,
    BatchCommitted,
    BatchDelivered,
    ChangesIgnored,
    CircuitOpened,
    ClusterChanged,
    DeliveryDelayed,
    DestinationChanged,
    DestinationCreated,
    DestinationLost,
    EvaluationsFailed,
    Fact,
    HistoryChecked,
    InformerStarted,
    InformerStopped,
    InputUnreadable,
    IntakeBlocked,
    LeadershipBegan,
    LeadershipLost,
    LeadershipReleased,
    LeaseFailed,
    LeaseRenewed,
    ListCompleted,
    ListenerOverrun,
    ListWatchFailed,
    ObjectLeftBare,
    OutboxFull,
    OutboxRebuilt,
    RecordRejected,
    RecordsParked,
    RecoveryEnd,
    ResourceRefused,
    ScopeChanged,
    SinkForgotten,
    SinkOpened,
    SnapshotBegan,
    SpansExported,
    SpansLost,
    StepsRecovered,
    VersionsRanBackwards,
    WatchEnded,
    WatchOpened,
)

# ── By resource ──────────────────────────────────────────────────────────────

VERBS = ("list", "watch")
REFUSALS = ("401", "403", "404", "405")
"""Refusals by an API server that have a series from the start; others get a series when they occur."""
SHORT_WATCH = 1.0
"""Seconds. A watch that ends sooner, without an event, is client-go's short watch."""


class ResourceCounters:
    """Counters between the API server and the outbox. Scopes of a resource are counted together. When the informer of
    the last scope has stopped, the resource's series are dropped."""

    def __init__(self, registry: CollectorRegistry) -> None:
        def counter(name: str, text: str, *labels: str) -> Counter:
            return Counter(f"kubedelta_{name}_total", text, ("resource", *labels), registry=registry)

        def summary(name: str, text: str) -> Summary:
            return Summary(f"kubedelta_{name}", text, ("resource",), registry=registry)

        self._lists = counter("reflector_lists", "Complete lists.")
        self._relists = counter("reflector_relists", "Complete lists after the first list.")
        self._list_seconds = summary("reflector_list_duration_seconds", "Seconds that a list took.")
        self._recoveries = counter(
            "reflector_recoveries", "Lists whose steps were looked for in the API server's history.", "outcome"
        )
        self._recovered = counter("reflector_recovered_steps", "Steps found there, exported as recovered.")
        self._recovery_requests = counter("reflector_recovery_requests", "Lists of single objects for that.")
        self._watches = counter("reflector_watches", "Watches that the API server accepted.")
        self._short = counter("reflector_short_watches", "Watches that ended within a second, without an event.")
        self._watch_seconds = summary("reflector_watch_duration_seconds", "Seconds that ended watches were open.")
        self._failures = counter("reflector_failures", "Lists and watches that failed and are retried.", "verb")
        self._refusals = counter("reflector_refusals", "Lists and watches that the API server refused.", "status")
        self._unreadable = counter("reflector_unreadable", "Items and lines that could not be read, and were skipped.")
        self._bare = counter(
            "reflector_bare_objects",
            "Objects too large, too deep or not to be redacted (their identity was exported), or left out by name.",
        )
        self._restores = counter("reflector_version_resets", "Times the API server's versions ran backwards.")
        self._ignored = counter("changes_ignored", "Updates of ignored paths alone, which were not exported.")
        self._committed = counter("records_committed", "Records stored in the outbox.", "op")
        self._committed_bytes = counter("records_committed_bytes", "Bytes of object bodies stored in the outbox.")
        # By reflection, so that a new counter is also dropped with its resource.
        self._families = [each for each in vars(self).values() if isinstance(each, Counter | Summary)]
        self._bound: dict[str, _Committed] = {}
        self._scopes: dict[str, set[Scope]] = {}

    def observe(self, fact: Fact) -> None:
        match fact:
            case BatchCommitted(resource, scope):
                bound = self._bound.get(resource.name)
                if bound is None:
                    bound = self._bound[self._known(resource, scope)]
                bound.observe(fact)
            case ChangesIgnored(resource, scope, count):
                self._ignored.labels(self._known(resource, scope)).inc(count)
            case InformerStarted(resource, scope):
                self._known(resource, scope)
            case ListCompleted(resource, scope):
                name = self._known(resource, scope)
                self._lists.labels(name).inc()
                self._relists.labels(name).inc(int(fact.relist))
                self._list_seconds.labels(name).observe(fact.seconds)
            case StepsRecovered(resource, scope):
                name = self._known(resource, scope)
                self._recoveries.labels(name, fact.ended_by.value).inc()
                self._recovered.labels(name).inc(fact.steps)
                self._recovery_requests.labels(name).inc(fact.requests)
            case WatchOpened(resource, scope):
                self._watches.labels(self._known(resource, scope)).inc()
            case WatchEnded(resource, scope):
                name = self._known(resource, scope)
                self._watch_seconds.labels(name).observe(fact.seconds)
                self._short.labels(name).inc(int(fact.seconds < SHORT_WATCH and not fact.events))
            case InformerStopped(resource, scope):
                self._forget(resource.name, scope)
            case _:
                self._failure(fact)

    def _failure(self, fact: Fact) -> None:
        match fact:
            case ListWatchFailed(resource, scope, verb):
                self._failures.labels(self._known(resource, scope), verb).inc()
            case ResourceRefused(resource, scope, status):
                self._refusals.labels(self._known(resource, scope), str(status)).inc()
            case InputUnreadable(resource, scope):
                self._unreadable.labels(self._known(resource, scope)).inc()
            case ObjectLeftBare(resource, scope):
                self._bare.labels(self._known(resource, scope)).inc()
            case VersionsRanBackwards(resource, scope):
                self._restores.labels(self._known(resource, scope)).inc()

    def _known(self, resource: Resource, scope: Scope) -> str:
        name = resource.name
        self._scopes.setdefault(name, set()).add(scope)
        if name not in self._bound:
            self._bound[name] = self._bind(name)
        return name

    def _bind(self, name: str) -> _Committed:
        """Creates all series of the resource at zero: a rate needs the zero before the first failure."""
        for verb in VERBS:
            self._failures.labels(name, verb)
        for status in REFUSALS:
            self._refusals.labels(name, status)
        for why in RecoveryEnd:
            self._recoveries.labels(name, why.value)
        for family in self._families:
            if family not in (self._failures, self._refusals, self._recoveries, self._committed):
                family.labels(name)
        return _Committed(self._committed, self._committed_bytes, name)

    def _forget(self, resource: str, scope: Scope) -> None:
        scopes = self._scopes.get(resource, set())
        scopes.discard(scope)
        if scopes:
            return
        self._scopes.pop(resource, None)
        self._bound.pop(resource, None)
        # A series of a resource that is gone would keep its last value for ever, and alerts on it would fire for ever.
        for family in self._families:
            family.remove_by_labels({"resource": resource})


class _Committed:
    """The children of a resource's counters that every batch increments."""

    def __init__(self, records: Counter, size: Counter, resource: str) -> None:
        self._added, self._updated, self._deleted, self._sync = (
            records.labels(resource, op.value) for op in (Op.ADDED, Op.UPDATED, Op.DELETED, Op.SYNC)
        )
        self._bytes = size.labels(resource)

    def observe(self, fact: BatchCommitted) -> None:
        # Most batches have a single op, and an increment by zero takes the lock, too.
        if fact.updated:
            self._updated.inc(fact.updated)
        if fact.added:
            self._added.inc(fact.added)
        if fact.deleted:
            self._deleted.inc(fact.deleted)
        if syncs := fact.records - fact.added - fact.updated - fact.deleted:
            self._sync.inc(syncs)
        self._bytes.inc(fact.bytes)


# ── By sink ──────────────────────────────────────────────────────────────────

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


# ── The state and the election ───────────────────────────────────────────────


class StateCounters:
    """Counters of the database and of the state as a whole."""

    def __init__(self, registry: CollectorRegistry) -> None:
        def counter(name: str, text: str) -> Counter:
            return Counter(f"kubedelta_{name}_total", text, registry=registry)

        self._full = counter("outbox_full", "Transactions that found no space on the disk and are retried.")
        self._rebuilt = counter("outbox_rebuilds", "Damaged databases that were moved aside and replaced.")
        self._clusters = counter("cluster_changes", "Times the state was found to belong to another cluster.")
        self._scope = counter(
            "scope_left_objects", "Objects exported as deleted because the configuration no longer covers them."
        )
        self._sinks = counter("forgotten_sinks", "Removed sinks whose backlog was dropped.")
        self._records = counter("forgotten_records", "Records in the backlogs of forgotten sinks.")
        self._evaluations = counter(
            "failed_evaluations", "Evaluations of expressions in select that failed; on_error decided instead."
        )
        self._proofs = Counter(
            "kubedelta_history_proofs_total",
            "Checks whether the API server's history is the known history.",
            ("outcome",),
            registry=registry,
        )
        self._spans = Counter(
            "kubedelta_trace_spans_total",
            "Spans of traced batches that the collector took, or that are lost.",
            ("outcome",),
            registry=registry,
        )
        for outcome in ("exported", "lost"):
            self._spans.labels(outcome)
        for outcome in ("same", "other", "unknown", "failed"):
            self._proofs.labels(outcome)

    def observe(self, fact: Fact) -> None:
        match fact:
            case HistoryChecked(_, outcome):
                self._proofs.labels(outcome).inc()
            case SpansExported(spans):
                self._spans.labels("exported").inc(spans)
            case SpansLost(spans):
                self._spans.labels("lost").inc(spans)
            case OutboxFull():
                self._full.inc()
            case OutboxRebuilt():
                self._rebuilt.inc()
            case ClusterChanged():
                self._clusters.inc()
            case ScopeChanged():
                self._scope.inc(fact.left)
            case EvaluationsFailed(count):
                self._evaluations.inc(count)
            case SinkForgotten():
                self._sinks.inc()
                self._records.inc(fact.records)


_RENEW_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2, 5)
"""Seconds: from an idle API server to the patience for a request at the default timing."""
_LEASE_VERBS = ("get", "create", "update", "watch")


class ElectionCounters:
    """Counters of the election; all stay at zero without one."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._transitions = Counter(
            "kubedelta_leader_transitions_total",
            "Times that this replica began to lead, or ceased to.",
            ("to",),
            registry=registry,
        )
        self._failures = Counter(
            "kubedelta_lease_failures_total",
            "Requests about the Lease that failed and are repeated.",
            ("verb",),
            registry=registry,
        )
        self._seconds = Histogram(
            "kubedelta_lease_renew_seconds",
            "Seconds from a renewal of the Lease to the API server's answer.",
            buckets=_RENEW_BUCKETS,
            registry=registry,
        )
        for to in ("leading", "following"):
            self._transitions.labels(to)
        for verb in _LEASE_VERBS:
            self._failures.labels(verb)

    def observe(self, fact: Fact) -> None:
        match fact:
            case LeadershipBegan():
                self._transitions.labels("leading").inc()
            case LeadershipLost() | LeadershipReleased():
                self._transitions.labels("following").inc()
            case LeaseRenewed(seconds):
                self._seconds.observe(seconds)
            case LeaseFailed(verb):
                self._failures.labels(verb).inc()
