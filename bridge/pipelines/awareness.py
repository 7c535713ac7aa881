"""Passes a sink its saved memory and the watched resources, if it asks for them (``sinks.base.StatefulSink``)."""

from __future__ import annotations

from collections.abc import Callable

from bridge.outbox import SinkCursor
from bridge.resources.current_resources import CurrentResources
from sinks.base import Sink, StatefulSink


class AwareSinks:
    """Creates a sink for each attempt to open it. A new sink gets the memory of the sink before."""

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
        """The sink's present memory."""
        return self._cursor.memory if self._aware is None else self._aware.memory
