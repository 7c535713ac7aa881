"""What other leaders have delivered, as far as this replica knows; whether it has listed before it had all of that."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial

import apsw

from bridge.model.versions import frontier as frontiers
from bridge.model.versions.frontier import Frontier, Point
from bridge.outbox.standby import takeover
from bridge.outbox.standby.coverage.exactness import passes_over
from bridge.outbox.standby.progress import with_points
from bridge.outbox.standby.takeover import SavedTerms
from bridge.outbox.store import Store
from bridge.outbox.waypoints.index import Waypoints


class OtherLeaders:
    """Of a replica in an election."""

    def __init__(self, store: Store, waypoints: Waypoints, followed: SavedTerms) -> None:
        self._store = store
        self._waypoints = waypoints
        self.frontier = followed.frontier
        """The newest one without the progress of this replica: that behind which it leads, or follows."""
        self.overtaken = followed.overtaken
        """Since its last takeover, this replica has listed before it had what another one delivered."""
        self.taking_over = False
        """The transaction of a takeover runs."""
        self._next = followed.frontier

    def follow(self, found: Frontier) -> None:
        """Another leader has published it."""
        self.frontier = self._next = found

    @contextmanager
    def behind(self, known: Frontier, *, led_last: bool) -> Iterator[None]:
        """Surrounds the transaction with which this replica begins to lead behind ``known``. ``led_last``: ``known`` is
        its own progress."""
        self._next, self.taking_over = self._after(known, led_last=led_last), True
        try:
            yield
        finally:
            self._next, self.taking_over = self.frontier, False

    def took_over(self, known: Frontier, *, led_last: bool) -> None:
        """The transaction is durable."""
        self.follow(self._after(known, led_last=led_last))
        self.overtaken = False

    def _after(self, known: Frontier, *, led_last: bool) -> Frontier:
        return self.frontier if led_last and self.frontier is not None else known

    def learn(self, sink: str, points: Mapping[str, Point | None]) -> None:
        """The destination has this of other replicas, perhaps more than the Lease says. Durable with the next write."""
        if self.frontier is not None and (learned := with_points(self.frontier, sink, points)) != self.frontier:
            self.follow(learned)
            if text := frontiers.encode_found(learned):
                self._store.write(partial(takeover.save_frontier, frontier=text), shrinks=True)

    def hides(self, sink: str, informer: str, listed: Point | None) -> bool:
        """Whether a list of the informer may hide deletes from the sink: see ``exactness.passes_over``."""
        return self._next is not None and passes_over(self._waypoints, sink, informer, listed, self._next)

    def note(self) -> None:
        """An informer is about to list before it has everything. Durable with the next write."""
        if not self.overtaken:
            self._store.write(_note, committed=self._noted)

    def _noted(self, _done: None) -> None:
        self.overtaken = True


def _note(database: apsw.Connection) -> None:
    database.execute("UPDATE meta SET overtaken = 1")
