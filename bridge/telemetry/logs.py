"""Writes facts as log lines, for the person on call: those of resources and the cluster here, all others in
``log_lines``.

info: changes of state (synced, recovered, stopped). warning: failures, with the next action. error: gaps, and a blocked
intake. A state is logged when it changes; a repeated failure is logged every half minute, with its count in between.
Batches and single requests are debug. No line has an object's body.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from bridge.model.resource import Resource, Scope
from bridge.telemetry.facts import (
    BatchCommitted,
    BatchDelivered,
    ChangesIgnored,
    ConnectionInsecure,
    CredentialsRead,
    DiscoveryFailed,
    DiscoveryRejected,
    Fact,
    GroupStale,
    HistoryChecked,
    InformerStarted,
    InformerStopped,
    InformerSynced,
    InputUnreadable,
    ListCompleted,
    ListWatchFailed,
    ObjectLeftBare,
    PluginComplained,
    ResourceRefused,
    ResourceUnknown,
    ShardSelected,
    StepsRecovered,
    VersionsRanBackwards,
    WatchEnded,
    WatchOpened,
)
from bridge.telemetry.log_lines import ElectionLogs, ProcessLogs, SinkLogs, StateLogs
from bridge.telemetry.throttled_log import ThrottledLog

_ADVICE = {
    401: "the API server does not accept the bridge's credentials: check cluster.token_file, or the kubeconfig",
    403: 'the bridge may not list and watch the resource: grant its account the verbs "list" and "watch" on it',
    404: "the API server does not serve the resource: check its name under resources, or install its CRD",
    405: "the resource cannot be listed and watched: remove it from resources",
}
"""Status of a refusal → its cause, and the next action."""
_RECOVERED = {
    401: "the API server accepts the bridge's credentials",
    403: "the bridge may list and watch the resource",
    404: "the API server serves the resource",
    405: "the resource can be listed and watched",
}


class Logs:
    """An observer of facts."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._throttled = ThrottledLog(clock)
        self._log = self._throttled.log
        self._sinks = SinkLogs(self._throttled)
        self._state = StateLogs(self._throttled)
        self._process = ProcessLogs(self._throttled)
        self._election = ElectionLogs(self._throttled)
        self._refused: dict[tuple[Resource, Scope], int] = {}
        self._unknown: dict[str, str] = {}

    def observe(self, fact: Fact) -> None:
        match fact:
            case BatchCommitted(resource, scope):
                if self._throttled.is_debug:
                    named = _named(resource, scope)
                    self._log.debug("batch committed", **named, records=fact.records, bytes=fact.bytes)
            case BatchDelivered():
                self._sinks.observe(fact)
            case ChangesIgnored(resource, scope, count):
                if self._throttled.is_debug:
                    self._log.debug("changes ignored", **_named(resource, scope), count=count)
            case InformerStarted(resource, scope):
                self._log.debug("informer started", **_named(resource, scope))
            case StepsRecovered():
                self._recovery(fact)
            case ListCompleted() | WatchOpened() | WatchEnded() | InformerSynced() | InformerStopped():
                self._informer(fact)
            case ListWatchFailed() | ResourceRefused() | InputUnreadable() | ObjectLeftBare() | VersionsRanBackwards():
                self._informer_failure(fact)
            case ResourceUnknown() | DiscoveryFailed() | DiscoveryRejected() | GroupStale() | ConnectionInsecure():
                self._cluster_failure(fact)
            case HistoryChecked():
                self._history(fact)
            case CredentialsRead(origin, problem) if problem:
                text = "the credentials for the API server have changed, and the former ones stay in use"
                self._log.warning(text, origin=origin, reason=problem)
            case CredentialsRead(origin):
                self._log.info("new credentials for the API server are in use", origin=origin)
            case ShardSelected(resource, scope, by_server):
                sent = "this shard alone" if by_server else "every shard; those of others are dropped"
                self._log.info(f"the API server sends the objects of {sent}", **_named(resource, scope))
            case PluginComplained(command, text):
                self._log.debug("credential plugin complained", command=command, text=text)
            case _:
                self._sinks.observe(fact)
                self._state.observe(fact)
                self._process.observe(fact)
                self._election.observe(fact)

    # ── Informers ────────────────────────────────────────────────────────────

    def _informer(self, fact: ListCompleted | WatchOpened | WatchEnded | InformerSynced | InformerStopped) -> None:
        resource, scope = key = fact.resource, fact.scope
        log = self._log.bind(**_named(resource, scope))
        match fact:
            case ListCompleted(objects=objects, seconds=seconds, relist=relist):
                self._served(key)
                level = log.info if relist else log.debug
                level("listed again" if relist else "listed", objects=objects, seconds=round(seconds, 3))
            case WatchOpened():
                self._served(key)
                if self._throttled.over(("failed", *key)):
                    log.info("watch is live")
                log.debug("watch opened")
            case WatchEnded():
                log.debug("watch ended", reason=fact.reason, events=fact.events, seconds=round(fact.seconds, 3))
            case InformerSynced(objects=objects):
                self._unknown.pop(resource.name, None)
                log.info("synced", objects=objects)
            case InformerStopped():
                self._refused.pop(key, None)
                self._throttled.forget(("failed", *key))
                self._throttled.forget(("unreadable", *key))
                self._throttled.forget(("bare", *key))
                log.info("informer stopped")

    def _recovery(self, fact: StepsRecovered) -> None:
        reason = {"reason": fact.reason} if fact.reason else {}
        log = self._log.info if fact.objects else self._log.debug
        log(
            "steps that no watch announced were looked for",
            **_named(fact.resource, fact.scope),
            objects=fact.objects,
            recovered=fact.steps,
            requests=fact.requests,
            seconds=round(fact.seconds, 3),
            outcome=fact.ended_by.value,
            **reason,
        )

    def _served(self, key: tuple[Resource, Scope]) -> None:
        if (status := self._refused.pop(key, None)) is not None:
            self._log.info(_RECOVERED.get(status, "the API server serves the resource"), **_named(*key))

    def _informer_failure(
        self, fact: ListWatchFailed | ResourceRefused | InputUnreadable | ObjectLeftBare | VersionsRanBackwards
    ) -> None:
        key = fact.resource, fact.scope
        named = _named(*key)
        match fact:
            case ListWatchFailed(verb=verb, reason=reason, retry_after=after):
                self._throttled.failure(("failed", *key), f"{verb} failed", reason, **named, retry_in=round(after, 1))
            case ResourceRefused(status=status, reason=reason, retry_after=after):
                log = self._log.debug if self._refused.get(key) == status else self._log.warning
                self._refused[key] = status
                advice = _ADVICE.get(status, "see status and reason")
                log(f"refused: {advice}", **named, status=status, reason=reason, retry_in=round(after, 1))
            case InputUnreadable(reason=reason):
                text = "an item or a line of the API server cannot be read, and was skipped"
                self._throttled.failure(("unreadable", *key), text, reason, **named)
            case ObjectLeftBare(reason=reason):
                text = (
                    "an object is too large, too deep, not to be redacted, or its name is too long: not exported whole"
                )
                self._throttled.failure(("bare", *key), text, reason, **named)
            case VersionsRanBackwards(was=was, now=now):
                text = "the API server's store was restored: comparing all objects with it, in a new epoch"
                self._log.warning(text, **named, was=was, now=now)

    def _history(self, fact: HistoryChecked) -> None:
        subject = ("history", fact.store)
        named = {"store": fact.store} if fact.store else {}
        match fact.outcome:
            case "same":
                self._throttled.over(subject)
                self._log.debug("the API server's history is the known history", **named)
            case "unknown":
                text = "the API server has forgotten the proof of its history: comparing all objects"
                self._log.info(text, **named, reason=fact.reason)
            case "other":
                text = "the API server has another history (a restored store): comparing all objects in a new epoch"
                self._log.warning(text, **named, reason=fact.reason)
            case _:
                text = "the API server's history cannot be proven yet: watches wait for the proof"
                self._throttled.failure(subject, text, fact.reason, **named)

    # ── The cluster ──────────────────────────────────────────────────────────

    def _cluster_failure(
        self, fact: ResourceUnknown | DiscoveryFailed | DiscoveryRejected | GroupStale | ConnectionInsecure
    ) -> None:
        match fact:
            case ResourceUnknown(name, reason):
                if self._unknown.get(name) != reason:
                    self._unknown[name] = reason
                    text = "no resource has this name; it is looked up again at every discovery"
                    self._log.warning(text, resource=name, reason=reason)
            case DiscoveryFailed(reason, retry_after):
                self._throttled.failure("discovery", "discovery failed", reason, retry_in=round(retry_after, 1))
            case GroupStale(group, reason):
                text = "the API server cannot discover this API group now; its known resources are kept"
                self._log.warning(text, group=group, reason=reason)
            case DiscoveryRejected(name):
                text = "discovery has an entry with an invalid name; it is ignored"
                self._log.warning(text, name=name)
            case ConnectionInsecure(server, reason):
                self._log.warning("connection to the API server is not secure", server=server, reason=reason)


def _named(resource: Resource, scope: Scope) -> dict[str, str]:
    return {"resource": resource.name} if scope == Scope() else {"resource": resource.name, "scope": str(scope)}
