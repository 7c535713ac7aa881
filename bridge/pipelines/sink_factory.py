"""Passes a sink its saved memory and the watched resources, if it asks for them (``sinks.base.StatefulSink``)."""

from __future__ import annotations

from collections.abc import Callable

from bridge.outbox import SinkCursor
from bridge.pipelines.sink_feed import SinkFeed
from bridge.resources.current_resources import CurrentResources
from sinks.base import Sink, StatefulSink


class SinkFactory:
    """Creates a sink for each attempt to open it. A new sink gets the memory of the sink before; its feed saves the
    memory with the cursor."""

    def __init__(self, make: Callable[[], Sink], feed: SinkFeed, cursor: SinkCursor, watched: CurrentResources) -> None:
        self._make = make
        self._feed = feed
        self._cursor = cursor
        self._watched = watched

    def make(self) -> Sink:
        sink = self._make()
        if isinstance(sink, StatefulSink):
            sink.memory = self._cursor.memory
            sink.watched = self._watched
            self._feed.stateful = sink
        return sink
