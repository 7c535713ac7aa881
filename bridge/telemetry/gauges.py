"""Makes Prometheus families of a BridgeStatus, at each scrape."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily, Metric

from bridge.model.primitives.shard import Shard
from bridge.model.status import (
    BridgeStatus,
    CircuitState,
    ConfigurationStatus,
    ElectionStatus,
    InformerStatus,
    SinkState,
    SinkStatus,
)


def gauges(status: BridgeStatus, *, build: Mapping[str, str], failures: Mapping[str, int]) -> Iterator[Metric]:
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


def _shard(shard: Shard) -> Metric:
    value = {"shard": shard.name, "of": str(shard.of), "index": str(shard.index), "by": shard.by.value}
    return InfoMetricFamily("kubedelta_shard", "The part of all objects that the bridge has.", value=value)


def _configuration(found: ConfigurationStatus) -> Iterator[Metric]:
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


def _election(found: ElectionStatus) -> Iterator[Metric]:
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


def _state(status: BridgeStatus) -> Iterator[Metric]:
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


def _informers(status: BridgeStatus) -> Iterator[Metric]:
    """Scopes of a resource are joined: a resource is as ready, and as fresh, as its worst scope."""
    by_resource: dict[str, list[InformerStatus]] = {}
    for informer in status.informers:
        by_resource.setdefault(informer.resource, []).append(informer)

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


def _sinks(sinks: tuple[SinkStatus, ...]) -> Iterator[Metric]:
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
