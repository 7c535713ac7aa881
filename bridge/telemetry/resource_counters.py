"""Counters between the API server and the outbox, by resource.

Counters of batches bind their children once, since a look-up by labels costs four times as much as the increment. Rarer
facts look their children up.
"""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Summary

from bridge.facts import (
    BatchCommitted,
    ChangesIgnored,
    Fact,
    InformerStarted,
    InformerStopped,
    InputUnreadable,
    ListCompleted,
    ListWatchFailed,
    ObjectLeftBare,
    RecoveryEnd,
    ResourceRefused,
    StepsRecovered,
    VersionsRanBackwards,
    WatchEnded,
    WatchOpened,
)
from bridge.model.change import Op
from bridge.model.resource import Resource, Scope

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
