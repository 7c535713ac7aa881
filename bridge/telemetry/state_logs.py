"""What becomes of the bridge's memory, as log lines."""

from __future__ import annotations

from bridge.facts import (
    ClusterChanged,
    ClusterUnidentified,
    Fact,
    OutboxFull,
    OutboxHasRoom,
    OutboxOpened,
    OutboxRebuilt,
    ScopeChanged,
    StateExposed,
)
from bridge.telemetry.throttled_log import ThrottledLog


class StateLogs:
    def __init__(self, telling: ThrottledLog) -> None:
        self._telling = telling
        self._log = telling.log

    def observe(self, fact: Fact) -> None:
        match fact:
            case OutboxOpened(path, sqlite, records, objects):
                self._log.info("state is open", path=path, sqlite=sqlite, records=records, objects=objects)
            case OutboxFull(reason, retry_after):
                text = "no room for the state: nothing is read from the API server until there is; sinks go on"
                self._telling.trouble("room", text, reason, level="error", retry_in=round(retry_after, 1))
            case OutboxHasRoom(seconds):
                if self._telling.over("room"):
                    self._log.info("there is room again; the API server is read again", seconds=round(seconds, 1))
            case OutboxRebuilt(aside, reason):
                text = (
                    "the state was damaged or gone, and begins anew: sinks get a Gap record, then every object as sync"
                )
                self._log.error(text, aside=aside or "nothing was left", reason=reason)
            case StateExposed(directory, reason):
                text = (
                    "others may reach the files of the state: give the directory to the bridge's user alone (chmod 700)"
                )
                self._log.warning(text, directory=directory, reason=reason)
            case _:
                self._remembered(fact)

    def _remembered(self, fact: Fact) -> None:
        match fact:
            case ClusterChanged(was, now):
                text = "the state belonged to another cluster; it is compared with this one, in a new epoch"
                self._log.warning(text, was=was, now=now)
            case ClusterUnidentified(reason):
                text = (
                    "cannot tell which cluster this is, so another one behind the same state would not be noticed: "
                    'grant the bridge\'s account the verb "get" on the namespace kube-system'
                )
                self._telling.trouble("cluster", text, reason)
            case ScopeChanged(resource, left):
                tell = self._log.warning if left else self._log.info
                tell("the configured scope changed; what it left out is told as deleted", resource=resource, left=left)
