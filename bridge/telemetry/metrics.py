"""Facts to Prometheus counters, a snapshot to gauges, both to text.

Names follow client-go (reflector, informer) where it has a word for the thing. Labels are bounded by the
configuration and by closed sets: ``resource``, ``sink``, ``op``, ``verb``, ``status``, ``state``.
"""

from __future__ import annotations

import platform
from collections.abc import Iterator, Mapping

from prometheus_client import CollectorRegistry, Counter, ProcessCollector, disable_created_metrics
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from bridge.facts import (
    SERVERS,
    ConnectionCut,
    ConnectionInsecure,
    Cut,
    DiscoveryFailed,
    DiscoveryRejected,
    Fact,
    GroupStale,
    PluginComplained,
    ResourceUnknown,
    SinkInsecure,
)
from bridge.model.status import StatusSnapshot
from bridge.telemetry.counters import ResourceCounters, SinkCounters, StateCounters
from bridge.telemetry.gauges import gauges


class Metrics:
    """An observer of facts, with a registry of its own."""

    def __init__(self, *, version: str, failures: Mapping[str, int]) -> None:
        """``failures`` is Telemetry's own count, read at each scrape."""
        disable_created_metrics()  # type: ignore[no-untyped-call]  # they double the series of every counter
        self._build = {"version": version, "python": platform.python_version()}
        self._failures = failures
        self._registry = registry = CollectorRegistry()
        ProcessCollector(registry=registry)
        self._resources = ResourceCounters(registry)
        self._sinks = SinkCounters(registry)
        self._state = StateCounters(registry)
        self._discovery = Counter("kubedelta_discovery_failures_total", "Discoveries that failed.", registry=registry)
        self._stale = Counter(
            "kubedelta_discovery_stale_groups_total",
            "Times the API server could not say what an API group serves.",
            registry=registry,
        )
        self._cut = Counter(
            "kubedelta_http_cut_connections_total",
            "Connections of clients that were cut: there were too many, or theirs took too long.",
            ("server", "reason"),
            registry=registry,
        )
        for server in SERVERS:
            for why in Cut:
                self._cut.labels(server, why.value)

    def observe(self, fact: Fact) -> None:
        match fact:
            case DiscoveryFailed():
                self._discovery.inc()
            case GroupStale():
                self._stale.inc()
            case ConnectionCut(server, why):
                self._cut.labels(server, why.value).inc()
            case ResourceUnknown() | ConnectionInsecure() | SinkInsecure() | DiscoveryRejected() | PluginComplained():
                pass  # states, not events: the first is a gauge (kubedelta_resource_synced), the others are log lines
            case _:
                self._resources.observe(fact)
                self._sinks.observe(fact)
                self._state.observe(fact)

    def expect_sinks(self, *names: str) -> None:
        """Show the series of these sinks from zero on, before anything has happened to them."""
        for name in names:
            self._sinks.bind(name)

    def render(self, snapshot: StatusSnapshot, accept: str) -> tuple[bytes, str]:
        """The exposition and its content type, in the format that the Accept header asks for. May run in a thread:
        counters have locks, and the snapshot is frozen."""
        try:
            encode, content_type = choose_encoder(accept)
        except (ValueError, TypeError):  # the header asks for a version that is no number
            encode, content_type = choose_encoder("")
        state = gauges(snapshot, build=self._build, failures=dict(self._failures))
        return encode(_Joined(self._registry, state)), content_type


class _Joined(Collector):
    def __init__(self, registry: CollectorRegistry, state: Iterator[Metric]) -> None:
        self._registry = registry
        self._state = state

    def collect(self) -> Iterator[Metric]:
        yield from self._registry.collect()
        yield from self._state
