"""Counters of the database, of the state as a whole, and of traces."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter

from bridge.facts import (
    ClusterChanged,
    EvaluationsFailed,
    Fact,
    HistoryChecked,
    OutboxFull,
    OutboxRebuilt,
    ScopeChanged,
    SinkForgotten,
    SpansExported,
    SpansLost,
)


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
