"""What other leaders have delivered, as far as this replica knows; whether it has listed before it had all of that."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from functools import partial

import apsw

from bridge.model.versions import frontier as frontiers
from bridge.model.versions.frontier import Frontier, Point
from bridge.outbox.standby import takeover
from bridge.outbox.standby.coverage.bounds import bounded
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
        self.unbounded = asyncio.Event()
        """Set while this replica leads, and some bound is not known."""
        self.anew = asyncio.Event()
        """Set with each takeover. Whoever waits clears it."""
        self.takeovers = 0
        """Of this replica, in this run."""
        self._next = followed.frontier

    def follow(self, found: Frontier) -> None:
        """Another leader has published it."""
        self.frontier = self._next = found
        self.unbounded.clear()

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
        self.takeovers += 1
        self.anew.set()
        if self.without_bound:
            self.unbounded.set()

    def _after(self, known: Frontier, *, led_last: bool) -> Frontier:
        return self.frontier if led_last and self.frontier is not None else known

    def learn(self, sink: str, points: Mapping[str, Point | None]) -> None:
        """The destination has this of other replicas, perhaps more than the Lease says. Durable with the next write."""
        if self.frontier is not None:
            self._learned(with_points(self.frontier, sink, points))

    @property
    def bounds(self) -> Mapping[str, Point | None]:
        """See ``Frontier.bounds``."""
        return {} if self.frontier is None else self.frontier.bounds

    @property
    def without_bound(self) -> Collection[str]:
        """Informers whose bound is not known."""
        return {key for key, bound in self.bounds.items() if bound is None and key in self._waypoints.running}

    def bound(self, points: Mapping[str, Point], takeover: int) -> None:
        """No former leader can have come further: the API server had these points after the ``takeover`` (see
        ``takeovers``). Durable with the next write."""
        if self.frontier is None or takeover != self.takeovers or not self.unbounded.is_set():
            return
        self._learned(bounded(self.frontier, points))
        if not self.without_bound:
            self.unbounded.clear()

    def _learned(self, learned: Frontier) -> None:
        if learned == self.frontier:
            return
        self.frontier = self._next = learned
        if text := frontiers.encode_found(learned):
            self._store.write(partial(takeover.save_frontier, frontier=text), shrinks=True)

    def hides(self, sink: str, informer: str, epoch: int, listed: str | None) -> bool:
        """Whether a list of the informer may hide deletes from the sink: see ``exactness.passes_over``."""
        return self._next is not None and passes_over(self._waypoints, sink, informer, epoch, listed, self._next)

    def note(self) -> None:
        """An informer is about to list before it has everything. Durable with the next write."""
        if not self.overtaken or self.taking_over:
            self.overtaken = True
            self._store.write(_note, committed=self._noted)  # Again, behind a takeover whose transaction runs now.

    def _noted(self, _done: None) -> None:
        self.overtaken = True


def _note(database: apsw.Connection) -> None:
    database.execute("UPDATE meta SET overtaken = 1")
