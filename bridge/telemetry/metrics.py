"""Keeps the metrics of a bridge: moves the series that facts name, makes gauges of a BridgeStatus at each scrape, and
renders both as text.

Names follow client-go (reflector, informer) where client-go has the same thing. Labels are bounded by the configuration
and by closed sets: ``resource``, ``sink``, ``op``, ``verb``, ``status``, ``state``. The first label of most metrics is
their owner, a resource or a sink: all series of an owner begin at zero as soon as it is known, and are dropped when it
is gone.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterator, Mapping

from prometheus_client import CollectorRegistry, Counter, Histogram, ProcessCollector, Summary, disable_created_metrics
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.registry import Collector

from bridge.model.primitives.shard import Shard
from bridge.model.resource import Scope
from bridge.model.status import (
    BridgeStatus,
    CircuitState,
    ConfigurationStatus,
    ElectionStatus,
    InformerStatus,
    SinkState,
    SinkStatus,
)
from bridge.telemetry.facts import (
    Fact,
    Metric,
    ResourceFact,
    Series,
    cluster,
    delivery,
    election,
    informer,
    outbox,
    process,
)
from bridge.telemetry.facts.informer import InformerStopped
from bridge.telemetry.facts.process import ConfigurationReloaded

METRICS = {
    metric: None
    for module in (informer, outbox, delivery, cluster, election, process)
    for each in vars(module).values()
    if isinstance(metric := getattr(each, "counter", each), Metric)
}
"""The metrics of all facts, in order. A module may import one of another."""


class Metrics:
    """An observer of facts, with a registry of its own."""

    def __init__(self, *, version: str, failures: Mapping[str, int]) -> None:
        """``failures`` is Telemetry.failures, read at each scrape."""
        disable_created_metrics()  # type: ignore[no-untyped-call]  # ``_created`` doubles the series of every counter
        self._build = {"version": version, "python": platform.python_version()}
        self._failures = failures
        self._registry = registry = CollectorRegistry()
        ProcessCollector(registry=registry)
        self._families = {metric: _family(metric, registry) for metric in METRICS}
        self._moves: dict[Series, Callable[[float], None]] = {}
        """Bound once, since a look-up by labels costs four times as much as the increment."""
        self._scopes: dict[str, set[Scope]] = {}
        """Resource → scopes that have informers. Scopes of a resource are counted together."""
        self._begin("")

    def observe(self, fact: Fact) -> None:
        for series, amount in fact.counts():
            move = self._moves.get(series)
            if move is None:
                self._begin(*_owner_of(series))
                move = self._bind(series)
            move(amount)
        if isinstance(fact, ResourceFact):
            if isinstance(fact, InformerStopped):
                self._forget_scope(fact.resource.name, fact.scope)
            elif fact.scope not in self._scopes.get(fact.resource.name, ()):
                self._expect_scope(fact.resource.name, fact.scope)
        elif isinstance(fact, ConfigurationReloaded):
            self.expect_sinks(*fact.added)
            for sink in fact.removed:
                self._forget("sink", sink)

    def expect_sinks(self, *names: str) -> None:
        """Creates the series of these sinks at zero, before their first fact."""
        for name in names:
            self._begin("sink", name)

    def render(self, status: BridgeStatus, accept: str) -> tuple[bytes, str]:
        """The exposition and its content type, in a format of the Accept header ``accept``. May run in a thread:
        counters have locks, and the status is frozen."""
        try:
            encode, content_type = choose_encoder(accept)
        except (ValueError, TypeError):  # The header has a version that is not a number.
            encode, content_type = choose_encoder("")
        state = gauges(status, build=self._build, failures=dict(self._failures))
        return encode(_Joined(self._registry, state)), content_type

    # ── Series ───────────────────────────────────────────────────────────────

    def _expect_scope(self, resource: str, scope: Scope) -> None:
        if resource not in self._scopes:
            self._begin("resource", resource)
        self._scopes.setdefault(resource, set()).add(scope)

    def _forget_scope(self, resource: str, scope: Scope) -> None:
        scopes = self._scopes.get(resource, set())
        scopes.discard(scope)
        if not scopes:
            self._scopes.pop(resource, None)
            self._forget("resource", resource)

    def _begin(self, per: str, *owner: str) -> None:
        """Creates all series of the owner at zero: a rate needs the zero before the first failure."""
        for metric in self._families:
            if metric.per == per:
                for labels in metric.expected:
                    self._bind((metric, *(*owner, *labels)))

    def _bind(self, series: Series) -> Callable[[float], None]:
        metric, *labels = series
        family = self._families[metric]
        one = family.labels(*labels) if labels else family
        self._moves[series] = move = one.inc if isinstance(one, Counter) else one.observe
        return move

    def _forget(self, per: str, owner: str) -> None:
        """Drops all series of the owner: a series of something that is gone would keep its last value, and alerts on it
        would fire for ever."""
        for metric, family in self._families.items():
            if metric.per == per:
                family.remove_by_labels({per: owner})
        self._moves = {series: move for series, move in self._moves.items() if _owner_of(series) != (per, owner)}


def _owner_of(series: Series) -> tuple[str, ...]:
    metric, *labels = series
    return (metric.per, labels[0]) if metric.per else ("",)


def _family(metric: Metric, registry: CollectorRegistry) -> Counter | Summary | Histogram:
    match metric.kind:
        case "counter":
            return Counter(f"{metric.name}_total", metric.text, metric.labels, registry=registry)
        case "summary":
            return Summary(metric.name, metric.text, metric.labels, registry=registry)
        case "histogram":
            return Histogram(metric.name, metric.text, metric.labels, registry=registry, buckets=metric.buckets)


class _Joined(Collector):
    def __init__(self, registry: CollectorRegistry, state: Iterator[Family]) -> None:
        self._registry = registry
        self._state = state

    def collect(self) -> Iterator[Family]:
        yield from self._registry.collect()
        yield from self._state


# ── Gauges of a status ───────────────────────────────────────────────────────


def gauges(status: BridgeStatus, *, build: Mapping[str, str], failures: Mapping[str, int]) -> Iterator[Family]:
    """``failures``: of telemetry itself, by observer."""
    yield InfoMetricFamily("kubedelta_build", "Version of the running bridge.", value=dict(build))
    # prometheus_client adds _total to the name.
    broken = CounterMetricFamily(
        "kubedelta_telemetry_failures", "Facts on which an observer failed: a bug.", labels=("observer",)
    )
    for observer, count in failures.items():
        broken.add_metric((observer,), count)
    yield broken
    yield GaugeMetricFamily("kubedelta_ready", "1 while /readyz answers 200.", value=float(status.ready))
    if status.configuration is not None:
        yield from _configuration(status.configuration)
    if status.shard is not None:
        yield _shard(status.shard)
    if status.election is not None:
        yield from _election(status.election)
    yield from _state(status)
    yield from _informers(status)
    yield from _sinks(status.sinks)


def _shard(shard: Shard) -> Family:
    value = {"shard": shard.name, "of": str(shard.of), "index": str(shard.index), "by": shard.by.value}
    return InfoMetricFamily("kubedelta_shard", "The part of all objects that the bridge has.", value=value)


def _configuration(found: ConfigurationStatus) -> Iterator[Family]:
    text = "The configuration in effect: the first digits of the file's SHA-256."
    yield InfoMetricFamily("kubedelta_config", text, value={"digest": found.digest})
    for name, text, value in (
        ("last_reload_successful", "1 unless the configuration file, as it is now, is refused.", not found.refused),
        (
            "reload_success_timestamp_seconds",
            "When the file was accepted last, at the start or later.",
            found.loaded_at,
        ),
        ("reload_failure_timestamp_seconds", "When the file was refused last; 0 for never.", found.refused_at),
    ):
        yield GaugeMetricFamily(f"kubedelta_config_{name}", text, value=float(value))
    reloads = CounterMetricFamily(
        "kubedelta_config_reloads", "Readings of the file after the start.", labels=("outcome",)
    )
    for outcome, count in (("changed", found.changed), ("unchanged", found.unchanged), ("refused", found.refusals)):
        reloads.add_metric((outcome,), count)
    yield reloads


def _election(found: ElectionStatus) -> Iterator[Family]:
    yield GaugeMetricFamily("kubedelta_leader", "1 while this replica leads.", value=float(found.leads))
    yield GaugeMetricFamily("kubedelta_leader_term", "The newest known term of a leader.", value=found.term)
    text = "1 while this follower, or some follower of this leader, would take over without a loss."
    yield GaugeMetricFamily("kubedelta_replica_in_sync", text, value=float(found.in_sync))
    if found.renewed_seconds is not None:
        text = "Seconds since the Lease was seen to change."
        yield GaugeMetricFamily("kubedelta_lease_age_seconds", text, value=found.renewed_seconds)
    commits = GaugeMetricFamily(
        "kubedelta_follower_lag_commits", "Commits that a follower of this leader lacks.", labels=("follower",)
    )
    seconds = GaugeMetricFamily(
        "kubedelta_follower_lag_seconds", "Seconds since the oldest of these commits.", labels=("follower",)
    )
    for each in found.followers:
        commits.add_metric((each.name,), each.commits)
        seconds.add_metric((each.name,), each.seconds)
    yield commits
    yield seconds


def _state(status: BridgeStatus) -> Iterator[Family]:
    def gauge(name: str, text: str, value: float) -> GaugeMetricFamily:
        return GaugeMetricFamily(f"kubedelta_{name}", text, value=value)

    yield gauge("outbox_records", "Records in the outbox.", status.outbox_records)
    yield gauge("outbox_bytes", "Bytes of the records in the outbox, compressed.", status.outbox_bytes)
    yield gauge("outbox_oldest_seconds", "Age of the oldest record in the outbox.", status.outbox_oldest_seconds)
    yield gauge("outbox_file_bytes", "Bytes of the database file.", status.outbox_file_bytes)
    yield gauge("outbox_wal_bytes", "Bytes of the database's write-ahead log.", status.outbox_wal_bytes)
    yield gauge("ledger_objects", "Exported objects that are not exported as deleted.", status.ledger_objects)
    yield gauge(
        "intake_blocked",
        "1 while the bridge does not read from the API server, because the disk or a backlog is full.",
        bool(status.intake_blocked),
    )
    if status.disk_free_bytes is not None:
        yield gauge("disk_free_bytes", "Bytes free on the disk of state.directory.", status.disk_free_bytes)


def _informers(status: BridgeStatus) -> Iterator[Family]:
    """Scopes of a resource are joined: a resource is as ready, and as fresh, as its worst scope."""
    by_resource: dict[str, list[InformerStatus]] = {}
    for each in status.informers:
        by_resource.setdefault(each.resource, []).append(each)

    def gauge(name: str, text: str) -> GaugeMetricFamily:
        return GaugeMetricFamily(f"kubedelta_{name}", text, labels=("resource",))

    objects = gauge("informer_objects", "Objects in the informer's store.")
    queued = gauge("informer_queued_items", "Deltas in the DeltaFIFO, not processed yet.")
    synced = gauge("resource_synced", "1 after the first list was processed.")
    live = gauge("resource_live", "1 while a watch is open on top of a complete list.")
    contact = gauge("resource_last_contact_seconds", "Seconds since the API server last sent a byte for it.")
    for resource, scopes in by_resource.items():
        objects.add_metric((resource,), sum(scope.objects for scope in scopes))
        queued.add_metric((resource,), sum(scope.queued for scope in scopes))
        synced.add_metric((resource,), min(scope.synced for scope in scopes))
        live.add_metric((resource,), min(scope.live for scope in scopes))
        ages = [scope.last_contact for scope in scopes if scope.last_contact is not None]
        if ages:
            contact.add_metric((resource,), max(ages))
    yield from (objects, queued, synced, live, contact)


def _sinks(sinks: tuple[SinkStatus, ...]) -> Iterator[Family]:
    def gauge(name: str, text: str, *labels: str) -> GaugeMetricFamily:
        return GaugeMetricFamily(f"kubedelta_sink_{name}", text, labels=("sink", *labels))

    def per_sink(name: str, text: str, value: Callable[[SinkStatus], float]) -> GaugeMetricFamily:
        family = gauge(name, text)
        for sink in sinks:
            family.add_metric((sink.name,), value(sink))
        return family

    yield per_sink("backlog_records", "Unsettled records of the sink in the outbox.", lambda sink: sink.backlog_records)
    yield per_sink("window_records", "Records of the backlog in memory.", lambda sink: sink.window)
    yield per_sink("backlog_bytes", "Bytes of the backlog in the outbox.", lambda sink: sink.backlog_bytes)
    yield per_sink("backlog_seconds", "Age of the oldest record in the backlog.", lambda sink: sink.backlog_seconds)
    yield per_sink("dead_letters", "Rejected records, and records parked behind them.", lambda sink: sink.dead_letters)
    yield per_sink("dead_letters_parked", "Of the dead letters, the parked records.", lambda sink: sink.parked)
    yield per_sink(
        "backfill_records",
        "Records that the backfill (snapshot, compacted backlog or replay) still has to deliver.",
        lambda sink: sink.backfill_left,
    )
    yield per_sink(
        "retry_seconds", "Seconds until the next attempt of a waiting sink, or 0.", lambda sink: sink.retry_in or 0
    )
    state = gauge("state", "1 for the state the sink is in.", "state")
    circuit = gauge("circuit", "1 for the state the sink's circuit is in.", "state")
    for sink in sinks:
        for each in SinkState:
            state.add_metric((sink.name, each.value), float(sink.state is each))
        for way in CircuitState:
            circuit.add_metric((sink.name, way.value), float(sink.circuit is way))
    yield from (state, circuit)
