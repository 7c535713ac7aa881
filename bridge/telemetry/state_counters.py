"""Counters of the database, of the state as a whole, of the election, and of traces."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Histogram

from bridge.facts import (
    ClusterChanged,
    EvaluationsFailed,
    Fact,
    HistoryChecked,
    LeadershipBegan,
    LeadershipLost,
    LeadershipReleased,
    LeaseFailed,
    LeaseRenewed,
    OutboxFull,
    OutboxRebuilt,
    ScopeChanged,
    SinkForgotten,
    SpansExported,
    SpansLost,
)

_RENEW_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2, 5)
"""Seconds: from an idle API server to the patience for a request at the default timing."""
_VERBS = ("get", "create", "update", "watch")


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
        for verb in _VERBS:
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
