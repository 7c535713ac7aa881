"""What other leaders have delivered, as far as this replica knows; whether it has listed before it had all of that."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from functools import partial

import apsw
from msgspec.structs import replace

from bridge.model.versions import frontier as frontiers
from bridge.model.versions.frontier import Frontier, Point, without_points
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
        self.restored = followed.restored
        """Since its last takeover, the Lease ``went_back``. Nobody can tell the sinks what the restore undid."""
        self.taking_over = False
        """The transaction of a takeover runs."""
        self.unbounded = asyncio.Event()
        """Set while this replica leads, and some bound is not known."""
        self.anew = asyncio.Event()
        """Set with each takeover. Whoever waits clears it."""
        self.takeovers = 0
        """Of this replica, in this run."""
        self._next = followed.frontier
        self._seen = _rank(followed.frontier)
        """Of the newest frontier that was in the Lease."""
        self.newest_epoch = _newest_epoch(followed.frontier)
        """Of any informer, in any frontier that was in the Lease."""
        self._had_all = self._has_all = False
        """Of a leader: whether it has all that former leaders can have delivered; and had it at its last renewal."""

    # ── The Lease ────────────────────────────────────────────────────────────

    def went_back(self, found: Frontier) -> bool:
        """Whether the Lease has an earlier frontier than it had before: the store behind the API server was restored
        from a backup, with the Lease."""
        return _rank(found) < self._seen

    @property
    def newest_term(self) -> int:
        """Of the newest frontier that was in the Lease."""
        return self._seen[0]

    def see(self, found: Frontier) -> None:
        """The Lease has this frontier, which may be of this replica. If it went back, that is durable with the next
        write."""
        if self.went_back(found):
            self.note(restored=True)
        self._seen, self.newest_epoch = _rank(found), max(self.newest_epoch, _newest_epoch(found))

    def succeed(self, found: Frontier | None) -> Frontier | None:
        """This replica is about to lead behind this frontier of the Lease, which it returns."""
        if found is not None:
            self.see(found)
            if found.restored:
                self.note(restored=True)
        return found

    def publish(self, found: Frontier) -> Frontier:
        """This leader is about to renew the Lease with its progress. Returns what the Lease is to say."""
        self._had_all = self._had_all or not self._may_lack(found.sinks)
        found = replace(found, renewal=found.renewal + 1, restored=self.restored)
        return without_points(found) if self.restored else found

    def renewed(self, found: Frontier | None) -> None:
        """The Lease has this frontier of this leader: until then the store was not restored."""
        self._has_all = self._had_all
        if found is not None:
            self.see(found)

    def lost(self, found: Frontier) -> bool:
        """This leader reads this frontier in its Lease. Whether the Lease went back before this replica had all that
        former leaders can have delivered. Then it says nothing of its progress any more (see ``restored``), and is to
        leave the Lease: whoever leads next sends a Gap and a snapshot."""
        if self._has_all or not self.went_back(found):
            return False
        self.see(found)
        return True

    def _may_lack(self, sinks: Collection[str]) -> bool:
        if self.frontier is None:
            return False
        reached = self._waypoints.reached
        if not self._waypoints.running & self.frontier.informers.keys() <= reached.keys():
            return True
        return any(self.hides(sink, key, point.epoch, None) for sink in sinks for key, point in reached.items())

    # ── Frontiers ────────────────────────────────────────────────────────────

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
        self.overtaken = self.restored = self._had_all = self._has_all = False
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

    def note(self, *, restored: bool = False) -> None:
        """An informer is about to list before it has everything; or see ``restored``. Durable with the next write."""
        if self.taking_over or not self.overtaken or restored > self.restored:
            restored = restored or self.restored
            self._noted(restored)  # Again, behind a takeover whose transaction runs now.
            self._store.write(partial(_note, restored=restored), committed=lambda _: self._noted(restored))

    def _noted(self, restored: bool) -> None:
        self.overtaken, self.restored = True, self.restored or restored


def _note(database: apsw.Connection, restored: bool) -> None:
    database.execute("UPDATE meta SET overtaken = max(overtaken, ?)", (2 if restored else 1,))


def _rank(found: Frontier | None) -> tuple[int, int]:
    """Larger for a later publication."""
    return (0, 0) if found is None else (found.term, found.renewal)


def _newest_epoch(found: Frontier | None) -> int:
    points = () if found is None else found.informers.values()
    return max((point.epoch for point in points if point is not None), default=0)
