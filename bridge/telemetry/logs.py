"""Facts to log lines, for the person who is on call.

info tells states (synced, well again, stopped), warning tells troubles and what to do about them, error tells gaps and
that nothing is read any more. A state is told when it changes; a trouble that repeats is told again every half minute,
with how often it came in between. Batches and single requests are debug. No line holds an object's body.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from bridge.facts import (
    BatchCommitted,
    ConnectionInsecure,
    DiscoveryFailed,
    DiscoveryRejected,
    Fact,
    GroupStale,
    HistoryLookedAt,
    InformerStarted,
    InformerStopped,
    InformerSynced,
    InputUnreadable,
    ListEnded,
    ObjectLeftBare,
    PluginComplained,
    RequestFailed,
    ResourceRefused,
    ResourceUnknown,
    VersionsRanBackwards,
    WatchEnded,
    WatchOpened,
)
from bridge.model.resource import Resource, Scope
from bridge.telemetry.process_logs import ProcessLogs
from bridge.telemetry.sink_logs import SinkLogs
from bridge.telemetry.state_logs import StateLogs
from bridge.telemetry.throttled_log import ThrottledLog

_WHAT_TO_DO = {
    401: "the API server does not accept the bridge's credentials: check cluster.token_file, or the kubeconfig",
    403: 'the bridge may not list and watch it: grant its account the verbs "list" and "watch" on it',
    404: "the API server does not serve it: check its name under resources, or install its CRD",
    405: "it cannot be listed and watched: take it out of resources",
}


_WELL = {
    401: "the API server accepts the bridge's credentials",
    403: "the bridge may list and watch it",
    404: "the API server serves it",
    405: "it can be listed and watched",
}


class Logs:
    """An observer of facts."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._telling = ThrottledLog(clock)
        self._log = self._telling.log
        self._sinks = SinkLogs(self._telling)
        self._state = StateLogs(self._telling)
        self._process = ProcessLogs(self._telling)
        self._refused: dict[tuple[Resource, Scope], int] = {}
        self._unknown: dict[str, str] = {}

    def observe(self, fact: Fact) -> None:
        match fact:
            case BatchCommitted(resource, scope):
                self._log.debug("batch committed", **_named(resource, scope), records=fact.records, bytes=fact.bytes)
            case InformerStarted(resource, scope):
                self._log.debug("informer started", **_named(resource, scope))
            case ListEnded() | WatchOpened() | WatchEnded() | InformerSynced() | InformerStopped():
                self._informer(fact)
            case RequestFailed() | ResourceRefused() | InputUnreadable() | ObjectLeftBare() | VersionsRanBackwards():
                self._informer_trouble(fact)
            case ResourceUnknown() | DiscoveryFailed() | DiscoveryRejected() | GroupStale() | ConnectionInsecure():
                self._cluster_trouble(fact)
            case HistoryLookedAt():
                self._history(fact)
            case PluginComplained(command, text):
                self._log.debug("credential plugin complained", command=command, text=text)
            case _:
                self._sinks.observe(fact)
                self._state.observe(fact)
                self._process.observe(fact)

    # ── Informers ────────────────────────────────────────────────────────────

    def _informer(self, fact: ListEnded | WatchOpened | WatchEnded | InformerSynced | InformerStopped) -> None:
        resource, scope = key = fact.resource, fact.scope
        log = self._log.bind(**_named(resource, scope))
        match fact:
            case ListEnded(objects=objects, seconds=seconds, relist=relist):
                self._served(key)
                tell = log.info if relist else log.debug
                tell("listed again" if relist else "listed", objects=objects, seconds=round(seconds, 3))
            case WatchOpened():
                self._served(key)
                if self._telling.over(("failed", *key)):
                    log.info("watch is live")
                log.debug("watch opened")
            case WatchEnded():
                log.debug("watch ended", reason=fact.reason, events=fact.events, seconds=round(fact.seconds, 3))
            case InformerSynced(objects=objects):
                self._unknown.pop(resource.name, None)
                log.info("synced", objects=objects)
            case InformerStopped():
                self._refused.pop(key, None)
                self._telling.forget(("failed", *key))
                self._telling.forget(("unreadable", *key))
                self._telling.forget(("bare", *key))
                log.info("informer stopped")

    def _served(self, key: tuple[Resource, Scope]) -> None:
        if (status := self._refused.pop(key, None)) is not None:
            self._log.info(_WELL.get(status, "the API server answers for it"), **_named(*key))

    def _informer_trouble(
        self, fact: RequestFailed | ResourceRefused | InputUnreadable | ObjectLeftBare | VersionsRanBackwards
    ) -> None:
        key = fact.resource, fact.scope
        named = _named(*key)
        match fact:
            case RequestFailed(verb=verb, reason=reason, retry_after=after):
                self._telling.trouble(("failed", *key), f"{verb} failed", reason, **named, retry_in=round(after, 1))
            case ResourceRefused(status=status, reason=reason, retry_after=after):
                tell = self._log.debug if self._refused.get(key) == status else self._log.warning
                self._refused[key] = status
                advice = _WHAT_TO_DO.get(status, "somebody must change something on the API server")
                tell(f"refused: {advice}", **named, status=status, reason=reason, retry_in=round(after, 1))
            case InputUnreadable(reason=reason):
                text = "the API server sent something that cannot be read; it was left out"
                self._telling.trouble(("unreadable", *key), text, reason, **named)
            case ObjectLeftBare(reason=reason):
                text = "an object is too large or too deep; nothing leaves of it but which one it is"
                self._telling.trouble(("bare", *key), text, reason, **named)
            case VersionsRanBackwards(was=was, now=now):
                text = "the API server's store was restored: comparing everything with it, in a new epoch"
                self._log.warning(text, **named, was=was, now=now)

    def _history(self, fact: HistoryLookedAt) -> None:
        subject, named = ("history", fact.store), {"store": fact.store} if fact.store else {}
        match fact.outcome:
            case "same":
                self._telling.over(subject)
                self._log.debug("the API server's history is the known one", **named)
            case "unknown":
                text = "whether the API server's history is the known one cannot be told any more: comparing everything"
                self._log.info(text, **named, reason=fact.reason)
            case "other":
                text = "the API server has another history: its store was restored; comparing everything in a new epoch"
                self._log.warning(text, **named, reason=fact.reason)
            case _:
                text = "the API server's history cannot be proven now: nothing is watched before"
                self._telling.trouble(subject, text, fact.reason, **named)

    # ── The cluster ──────────────────────────────────────────────────────────

    def _cluster_trouble(
        self, fact: ResourceUnknown | DiscoveryFailed | DiscoveryRejected | GroupStale | ConnectionInsecure
    ) -> None:
        match fact:
            case ResourceUnknown(name, reason):
                if self._unknown.get(name) != reason:
                    self._unknown[name] = reason
                    text = "nothing is watched under this name; it is looked up again with every discovery"
                    self._log.warning(text, resource=name, reason=reason)
            case DiscoveryFailed(reason, retry_after):
                self._telling.trouble("discovery", "discovery failed", reason, retry_in=round(retry_after, 1))
            case GroupStale(group, reason):
                text = "the API server cannot describe this API group now; what it served before is kept"
                self._log.warning(text, group=group, reason=reason)
            case DiscoveryRejected(name):
                text = "the API server describes something under a name that is not accepted; it is left out"
                self._log.warning(text, name=name)
            case ConnectionInsecure(server, reason):
                self._log.warning("connection to the API server is not secure", server=server, reason=reason)


def _named(resource: Resource, scope: Scope) -> dict[str, str]:
    return {"resource": resource.name} if scope == Scope() else {"resource": resource.name, "scope": str(scope)}
