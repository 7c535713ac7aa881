"""What a sink is told beside its records: what it asked to be reminded of, and which resources are watched."""

from __future__ import annotations

from collections.abc import Callable

from bridge.outbox.consumers.cursors import SinkCursor
from bridge.resources.current_resources import CurrentResources
from sinks.base import Sink, StatefulSink


class AwareSinks:
    """Makes the sinks of one name, one for each attempt to open it, each with the memory of the one before."""

    def __init__(self, make: Callable[[], Sink], cursor: SinkCursor, watched: CurrentResources) -> None:
        self._make = make
        self._cursor = cursor
        self._watched = watched
        self._aware: StatefulSink | None = None

    def make(self) -> Sink:
        sink = self._make()
        if isinstance(sink, StatefulSink):
            sink.memory = self._cursor.memory
            sink.watched = self._watched
            self._aware = sink
        return sink

    def memory(self) -> bytes:
        """What the sink has to remember now."""
        return self._cursor.memory if self._aware is None else self._aware.memory
