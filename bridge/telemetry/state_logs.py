"""Log lines about the state directory."""

from __future__ import annotations

from bridge.facts import (
    ClusterChanged,
    ClusterUnidentified,
    EvaluationsFailed,
    ExpressionFailed,
    Fact,
    OutboxFull,
    OutboxHasRoom,
    OutboxOpened,
    OutboxRebuilt,
    ReplicasLeft,
    ScopeChanged,
    SelectionChanged,
    SelectionUnreadable,
    SelectorUnserved,
    StateExposed,
    StateMigrated,
)
from bridge.telemetry.throttled_log import ThrottledLog


class StateLogs:
    def __init__(self, throttled: ThrottledLog) -> None:
        self._throttled = throttled
        self._log = throttled.log

    def observe(self, fact: Fact) -> None:
        match fact:
            case OutboxOpened(path, sqlite, records, objects):
                self._log.info("state is open", path=path, sqlite=sqlite, records=records, objects=objects)
            case OutboxFull(reason, retry_after):
                text = "intake blocked: no disk space for the state; sinks go on"
                self._throttled.failure("room", text, reason, level="error", retry_in=round(retry_after, 1))
            case OutboxHasRoom(seconds):
                if self._throttled.over("room"):
                    self._log.info("intake resumed: the disk has space again", seconds=round(seconds, 1))
            case OutboxRebuilt(aside, reason):
                text = (
                    "the state was damaged or gone, and is rebuilt: sinks get a Gap record, then every object as sync"
                )
                self._log.error(text, aside=aside or "no file was left", reason=reason)
            case StateMigrated(file, was):
                self._log.info("the state is migrated to this version's format", file=file, was=was)
            case ReplicasLeft(file):
                text = (
                    "this is the state of one of several replicas, and another may have delivered what it lacks: each "
                    "sink gets a Gap, then a snapshot"
                )
                self._log.warning(text, file=file)
            case StateExposed(directory, reason):
                text = (
                    "other users may read the files of the state: restrict the directory to the bridge's user (chmod "
                    "700)"
                )
                self._log.warning(text, directory=directory, reason=reason)
            case _:
                self._remembered(fact)

    def _remembered(self, fact: Fact) -> None:
        match fact:
            case ClusterChanged(was, now):
                text = "the state belonged to another cluster; comparing it with this cluster, in a new epoch"
                self._log.warning(text, was=was, now=now)
            case ClusterUnidentified(reason):
                text = (
                    "the cluster cannot be identified, so another cluster behind the same state would go unnoticed: "
                    'grant the bridge\'s account the verb "get" on the namespace kube-system'
                )
                self._throttled.failure("cluster", text, reason)
            case SelectionChanged() | SelectorUnserved() | SelectionUnreadable() | ExpressionFailed():
                self._selection(fact)
            case EvaluationsFailed(count):
                self._log.debug("expressions of selections failed", count=count)
            case ScopeChanged(resource, left):
                log = self._log.warning if left else self._log.info
                log(
                    "the configured scope changed; objects outside of it are exported as deleted",
                    resource=resource,
                    left=left,
                )

    def _selection(self, fact: SelectionChanged | SelectorUnserved | SelectionUnreadable | ExpressionFailed) -> None:
        match fact:
            case SelectionChanged(sink, added, deleted, number):
                text = "the selection of a sink is another than before; the sink gets the difference"
                self._log.info(text, sink=sink, added=added, deleted=deleted, number=number)
            case SelectorUnserved(sink, option, resource):
                text = (
                    "an entry of a selection names a resource that is not served: until the next start or reload, it "
                    "means a resource of this full name only"
                )
                self._log.warning(text, sink=sink, option=option, resource=resource)
            case SelectionUnreadable(sink, reason):
                text = (
                    "the remembered selection of a sink that is not configured cannot be evaluated: its backlog grows "
                    "by all objects that the expressions might choose, until the sink returns or is forgotten"
                )
                self._log.warning(text, sink=sink, reason=reason)
            case ExpressionFailed(expression, resource, key, reason):
                text = (
                    "an expression of a selection fails on an object: on_error decides; later failures of the "
                    "expression are only counted"
                )
                self._log.warning(text, expression=expression, resource=resource, object=key, reason=reason)
