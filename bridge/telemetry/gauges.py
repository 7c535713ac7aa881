"""A snapshot as Prometheus families, made anew at each scrape."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily, Metric

from bridge.telemetry.status import InformerStatus, SinkState, SinkStatus, Snapshot


def gauges(snapshot: Snapshot, *, build: Mapping[str, str], failures: Mapping[str, int]) -> Iterator[Metric]:
    """``failures`` of telemetry itself, by observer, stand beside the state of things."""
    yield InfoMetricFamily("kubedelta_build", "What is running.", value=dict(build))
    broken = CounterMetricFamily(
        "kubedelta_telemetry_failures", "Facts that an observer could not take in: a bug.", labels=("observer",)
    )
    for observer, count in failures.items():
        broken.add_metric((observer,), count)
    yield broken
    yield GaugeMetricFamily("kubedelta_ready", "1 where /readyz answers 200.", value=float(snapshot.ready))
    yield GaugeMetricFamily("kubedelta_outbox_records", "Records in the outbox.", value=snapshot.outbox_records)
    yield GaugeMetricFamily("kubedelta_outbox_bytes", "Bytes of bodies in the outbox.", value=snapshot.outbox_bytes)
    yield from _informers(snapshot)
    yield from _sinks(snapshot.sinks)


def _informers(snapshot: Snapshot) -> Iterator[Metric]:
    """All scopes of a resource together: it is as ready, and as fresh, as the worst of them."""
    by_resource: dict[str, list[InformerStatus]] = {}
    for informer in snapshot.informers:
        by_resource.setdefault(informer.resource, []).append(informer)

    def gauge(name: str, text: str) -> GaugeMetricFamily:
        return GaugeMetricFamily(f"kubedelta_{name}", text, labels=("resource",))

    objects = gauge("informer_objects", "Objects in the informer's store.")
    queued = gauge("informer_queued_items", "Deltas that were heard and not processed yet.")
    synced = gauge("resource_synced", "1 once the first list was taken in and processed.")
    live = gauge("resource_live", "1 while a watch is open on top of a complete list.")
    contact = gauge("resource_last_contact_seconds", "Seconds since the API server last said anything of it.")
    for resource, scopes in by_resource.items():
        objects.add_metric((resource,), sum(scope.objects for scope in scopes))
        queued.add_metric((resource,), sum(scope.queued for scope in scopes))
        synced.add_metric((resource,), min(scope.synced for scope in scopes))
        live.add_metric((resource,), min(scope.live for scope in scopes))
        silences = [scope.last_contact for scope in scopes if scope.last_contact is not None]
        if silences:
            contact.add_metric((resource,), max(silences))
    yield from (objects, queued, synced, live, contact)


def _sinks(sinks: tuple[SinkStatus, ...]) -> Iterator[Metric]:
    def gauge(name: str, text: str, *labels: str) -> GaugeMetricFamily:
        return GaugeMetricFamily(f"kubedelta_sink_{name}", text, labels=("sink", *labels))

    lag = gauge("lag_records", "Records in the outbox that the sink has not settled.")
    window = gauge("window_records", "Of these, records held ready in memory.")
    state = gauge("state", "1 for the state the sink is in.", "state")
    retry = gauge("retry_seconds", "Seconds until a sink that is waiting tries again; 0 while it is not.")
    for sink in sinks:
        lag.add_metric((sink.name,), sink.lag)
        window.add_metric((sink.name,), sink.window)
        retry.add_metric((sink.name,), sink.retry_in or 0)
        for each in SinkState:
            state.add_metric((sink.name, each.value), float(sink.state is each))
    yield from (lag, window, state, retry)
