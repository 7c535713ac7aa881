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
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.registry import Collector

from bridge.model.resource import Scope
from bridge.model.status import BridgeStatus
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
from bridge.telemetry.gauges import gauges

METRICS = {
    each: None
    for module in (informer, outbox, delivery, cluster, election, process)
    for each in vars(module).values()
    if isinstance(each, Metric)
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
