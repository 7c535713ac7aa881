"""What a sink is told beside its records: what it asked to be reminded of, and which resources are watched."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from bridge.model.resource import Resource
from bridge.outbox.consumers.cursors import Cursor
from sinks.base import Aware, Sink


class Watched:
    """Which resources are watched; None until discovery has answered once."""

    def __init__(self) -> None:
        self._resources: tuple[Resource, ...] | None = None

    def __call__(self) -> Sequence[Resource] | None:
        return self._resources

    def become(self, resources: Sequence[Resource]) -> None:
        self._resources = tuple(resources)


class AwareSinks:
    """Makes the sinks of one name, one for each attempt to open it, each with the memory of the one before."""

    def __init__(self, make: Callable[[], Sink], cursor: Cursor, watched: Watched) -> None:
        self._make = make
        self._cursor = cursor
        self._watched = watched
        self._aware: Aware | None = None

    def make(self) -> Sink:
        sink = self._make()
        if isinstance(sink, Aware):
            sink.memory = self._cursor.memory
            sink.watched = self._watched
            self._aware = sink
        return sink

    def memory(self) -> bytes:
        """What the sink has to remember now."""
        return self._cursor.memory if self._aware is None else self._aware.memory
