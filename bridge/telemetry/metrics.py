"""Keeps the metrics of a bridge: counts facts, makes gauges of a StatusSnapshot at each scrape, and renders both as
text.

Names follow client-go (reflector, informer) where client-go has the same thing. Labels are bounded by the configuration
and by closed sets: ``resource``, ``sink``, ``op``, ``verb``, ``status``, ``state``.
"""

from __future__ import annotations

import platform
from collections.abc import Iterator, Mapping

from prometheus_client import CollectorRegistry, Counter, ProcessCollector, disable_created_metrics
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from bridge.model.status import StatusSnapshot
from bridge.telemetry.counters import ElectionCounters, ResourceCounters, SinkCounters, StateCounters
from bridge.telemetry.facts import (
    SERVERS,
    BatchCommitted,
    BatchDelivered,
    ConfigurationReloaded,
    ConnectionCut,
    ConnectionInsecure,
    CredentialsRead,
    CutReason,
    DiscoveryFailed,
    DiscoveryRejected,
    Fact,
    GroupStale,
    PluginComplained,
    ResourceUnknown,
    ShardSelected,
    SinkCautioned,
    SinkInsecure,
)
from bridge.telemetry.gauges import gauges


class Metrics:
    """An observer of facts, with a registry of its own."""

    def __init__(self, *, version: str, failures: Mapping[str, int]) -> None:
        """``failures`` is Telemetry.failures, read at each scrape."""
        disable_created_metrics()  # type: ignore[no-untyped-call]  # ``_created`` doubles the series of every counter
        self._build = {"version": version, "python": platform.python_version()}
        self._failures = failures
        self._registry = registry = CollectorRegistry()
        ProcessCollector(registry=registry)
        self._resources = ResourceCounters(registry)
        self._sinks = SinkCounters(registry)
        self._state = StateCounters(registry)
        self._election = ElectionCounters(registry)
        self._discovery = Counter("kubedelta_discovery_failures_total", "Discoveries that failed.", registry=registry)
        self._stale = Counter(
            "kubedelta_discovery_stale_groups_total",
            "Times the API server could not discover an API group.",
            registry=registry,
        )
        self._cut = Counter(
            "kubedelta_http_cut_connections_total",
            "Client connections that were cut: too many, or too slow.",
            ("server", "reason"),
            registry=registry,
        )
        for server in SERVERS:
            for why in CutReason:
                self._cut.labels(server, why.value)

    def observe(self, fact: Fact) -> None:
        match fact:
            case BatchCommitted():
                self._resources.observe(fact)
            case BatchDelivered():
                self._sinks.observe(fact)
            case DiscoveryFailed():
                self._discovery.inc()
            case GroupStale():
                self._stale.inc()
            case ConfigurationReloaded(added=added, removed=removed):
                self.expect_sinks(*added)
                self._sinks.forget(removed)
            case ConnectionCut(server, why):
                self._cut.labels(server, why.value).inc()
            case ResourceUnknown() | ConnectionInsecure() | SinkInsecure() | SinkCautioned():
                pass  # These are states: the first has a gauge (kubedelta_resource_synced), the others have log lines.
            case DiscoveryRejected() | PluginComplained() | ShardSelected() | CredentialsRead():
                pass  # The same.
            case _:
                self._resources.observe(fact)
                self._sinks.observe(fact)
                self._state.observe(fact)
                self._election.observe(fact)

    def expect_sinks(self, *names: str) -> None:
        """Creates the series of these sinks at zero, before their first fact."""
        for name in names:
            self._sinks.bind(name)

    def render(self, snapshot: StatusSnapshot, accept: str) -> tuple[bytes, str]:
        """The exposition and its content type, in a format of the Accept header ``accept``. May run in a thread:
        counters have locks, and the snapshot is frozen."""
        try:
            encode, content_type = choose_encoder(accept)
        except (ValueError, TypeError):  # The header has a version that is not a number.
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
