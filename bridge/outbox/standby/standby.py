"""A replica in an election. As a follower it lets go of the records that the leader has delivered; as the leader it
publishes its progress."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial

from msgspec.structs import replace

from bridge.facts import Report
from bridge.model.gaps import taken_over_gap
from bridge.model.primitives.election import replica_of
from bridge.model.record import Record
from bridge.model.versions import frontier as frontiers
from bridge.model.versions.frontier import Frontier, Point
from bridge.model.versions.leading import in_term
from bridge.outbox.appender import Appender
from bridge.outbox.sink_cursors import SinkCursors
from bridge.outbox.standby import takeover
from bridge.outbox.standby.coverage.bounds import as_left, final
from bridge.outbox.standby.coverage.confirmed import Confirmed
from bridge.outbox.standby.coverage.covered import reached, settled_elsewhere
from bridge.outbox.standby.coverage.exactness import is_exact, lags
from bridge.outbox.standby.coverage.settled import SettledElsewhere
from bridge.outbox.standby.epochs import begin_epoch, passed, present, take_epochs
from bridge.outbox.standby.kept import begun_by, take_kept
from bridge.outbox.standby.others import OtherLeaders
from bridge.outbox.standby.planning import TermsBefore, new_sinks, numbers_ahead, owed_behind, plan_takeover, require
from bridge.outbox.standby.progress import Configured, OwedSnapshot, Replica, advanced, blank, owing
from bridge.outbox.standby.selected import SelectedSinks
from bridge.outbox.standby.takeover import SavedTerms, TakenOver, Takeover
from bridge.outbox.store import Store
from bridge.outbox.waypoints.index import UNKNOWN, Waypoint, Waypoints


class Standby:
    """A replica. It begins as a follower, whatever it was before."""

    leading = False
    began: Callable[[Frontier], Awaitable[None]] | None = None
    """Awaited with the frontier behind which this replica begins to lead."""
    resign: Callable[[], Awaitable[None]] | None = None
    """Awaited by a leader that is to leave the Lease to another replica; on return this one follows. See ``lists``."""
    confirm: Callable[..., Awaitable[None]] | None = None
    """Awaited by a leader that is to be in the Lease as it is now: see SelectionChanges."""

    def __init__(
        self,
        store: Store,
        appender: Appender,
        sinks: SinkCursors,
        replica: Replica,
        followed: SavedTerms,
        selected: SelectedSinks,
        *,
        clock: Callable[[], str],
        number_now: Callable[[], int],
        lock: asyncio.Lock,
        report: Report,
    ) -> None:
        """``number_now``: returns a number behind all numbers of lost replicas. ``lock``: see SinkRegistration."""
        self._store, self._appender, self._sinks = store, appender, sinks
        self._replica = replica
        self.selected = selected
        self._clock, self._number_now = clock, number_now
        self._lock, self._report = lock, report
        self._waypoints = selected.waypoints = appender.waypoints = Waypoints(followed.batches)
        self.confirmed = Confirmed(followed.log_start, followed.batches)
        self.led, self.ahead = followed.led, followed.ahead
        """See SavedTerms."""
        self.found = followed.frontier
        """The newest frontier that another replica published, or that this replica published itself."""
        self.others = OtherLeaders(store, self._waypoints, followed)
        self.before = ""
        """The identity of the leader before; empty without any."""
        self.elsewhere = SettledElsewhere({})
        self.configured = Configured()
        self.owed: dict[str, OwedSnapshot] = {}
        """Of a leader: snapshots that it is still to begin."""
        self.delivered: dict[str, Frontier] = {}  # Of destinations that store it.
        self.moved: Callable[[str, int], None] = lambda _sink, _settled: None
        """Called with a sink and the end of the log that it need not take any more."""
        self.observed: Callable[[Frontier], None] = lambda _found: None
        """Called with each frontier of another leader."""

    @property
    def term(self) -> int:
        """The newest term known here. A new term is larger."""
        return max(self.led, 0 if self.found is None else self.found.term)

    # ── The leader ───────────────────────────────────────────────────────────

    def published(self, *, last: bool = False) -> Frontier:
        """The progress of all sinks, for a renewal of the Lease (``last``: the last one; no delivery is under way).
        Needs no disk. Whatever it covers is stored by its sink, or is a dead letter, or lies within a Gap."""
        if not self.leading or (found := self.found) is None:
            raise RuntimeError("a follower has no progress to publish")
        cursors, of, passing = self._sinks.all, self.selected.progress, self.configured.passing
        owed = {sink: each.text for sink, each in self.owed.items()}
        held = {
            name: owing(each.number, each.keys, owed.get(name), of(cursor, found), parks=name not in passing)
            for name, cursor, each in self._sinks.with_dead_letters
        }
        found = replace(found, bounds=self.others.bounds)
        found = replace(
            advanced(found, self._waypoints, cursors, held, present(self._appender)),
            sequence=self._sinks.last + self.ahead,
            settings=self.configured.settings,
            start=self._sinks.progress.starts.present,
            address=self.configured.address,
        )
        self.found = self.others.publish(final(found, self._waypoints) if last else found)
        self.confirmed.published(self._waypoints, cursors, self.found)
        return self.found

    def renewed(self) -> None:
        """The Lease has what was published last."""
        self.confirmed.renewed()
        self.others.renewed(self.found)
        self._forget_settled()

    async def take_over(self, term: int, found: Frontier | None, *, released: bool = False) -> None:
        """Begins to lead, behind the frontier in the Lease (None: none was there), which its holder ``released``, in
        a transaction, durable on return. If this replica is not ``exact`` for a sink, a Gap is the last record. No
        ``take`` of a feed runs; feeds made later begin where the cursors are. ValueError: an old term, or another
        cluster's frontier."""
        require(term, self.term, found, self._replica.cluster)
        async with self._lock:
            behind = self.others.succeed(found) or self.found
            led_last = behind is not None and behind.term == term - 1 and self._is_own(behind)
            known = behind or blank(self._replica, term)
            if not led_last:
                known = as_left(known, self._waypoints.reached if behind else (), released=released)
            text = frontiers.encode_found(known) if behind else ""
            begins = self._takeover(term, known, text, found, led_last=led_last)
            if self.others.restored:
                begin_epoch(self._appender, self._waypoints, self._store, self._sinks.all, self.others.newest_epoch)
            configured = [cursor.sink for cursor in self._sinks.all if cursor.configured]
            with self.others.behind(known, led_last=begins.led_last):
                await self._store.write(
                    partial(takeover.take_over, takeover=begins, configured=configured),
                    committed=partial(self._took_over, begins, known, self.elsewhere),
                    shrinks=begins.overtakes_nothing,
                )
            # Here, since the transaction of a cancelled takeover may yet be written: such a replica does not lead.
            self.leading = True
        if self.began is not None:
            await self.began(known)

    def _takeover(self, term: int, known: Frontier, text: str, found: Frontier | None, *, led_last: bool) -> Takeover:
        last, waypoints, cursors, now = self._sinks.last, self._waypoints, self._sinks.all, self._clock()
        self.elsewhere = settled_elsewhere(waypoints, known, last)
        waypoints.observe = self.elsewhere.note
        another_led = term > self.led + 1
        gone = self.confirmed.go_back(waypoints, self.selected, cursors, known, last) if another_led else ()
        new = new_sinks(self.configured.starts, known) if text else {}
        unknown = self.others.restored or (found is None and self.found is None and another_led)
        before = TermsBefore(led_last, self.others.overtaken, unknown, new, gone)
        begins, lowest = plan_takeover(term, waypoints, self.selected, cursors, known, last, now, before)
        ahead = self.ahead if led_last else numbers_ahead(self.ahead, term, found, lowest, self._number_now)
        gap = taken_over_gap(lowest + 1, self._appender.number_next(), now) if begins.lacking else None
        return replace(begins, ahead=ahead, frontier=text, gap=gap, led_last=led_last)

    def step_down(self) -> None:
        """Follows from now on. No worker delivers any more."""
        self.leading = False
        self.others.unbounded.clear()
        self._waypoints.observe = None

    def has(self, sink: str, record: Record) -> bool:
        """Whether another replica has delivered the record to the sink. See ``SettledElsewhere``."""
        if record.snapshot is not None:
            # A snapshot sets objects back to states of the own log: later records must bring them forward again.
            self.elsewhere.forget(sink)
        return self.elsewhere.has(sink, record) and not self.selected.changed_before(sink, record.sequence)

    def lags(self, sink: str, taken: int) -> bool:
        """Whether a snapshot behind ``taken`` would set objects back: see ``exactness.lags``."""
        return lags(self._waypoints, sink, [self.delivered.get(sink), self.found], taken)

    def in_term(self, record: Record) -> Record:
        """The record as it leaves: see ``leading.in_term``."""
        return in_term(record, self.led, self.ahead)

    def _took_over(self, begun: Takeover, known: Frontier, elsewhere: SettledElsewhere, done: TakenOver) -> None:
        # Runs once it is durable, even if the caller was cancelled: memory follows the database.
        for cursor in done.cursors.values():
            self._sinks.enter(cursor)
        own, letters = self._is_own(known), self._sinks.dead_letters
        for sink in done.cursors.keys() & letters.keys():
            take_kept(letters[sink], known, sink, own=own, is_unnamed=sink in begun.unnamed, report=self._report)
        if begun.gap is not None:
            self._appender.appended([begun.gap], Waypoint(UNKNOWN, None), 0)
        elsewhere.begin(done.batches)
        self._waypoints.recall(done.batches)  # A new sink may begin in front of what was trimmed.
        self.before, self.led, self.ahead = known.by if begun.frontier else "", begun.term, begun.ahead
        self.others.took_over(known, led_last=begun.led_last)
        self.selected.begin_term(begun.term, begun.last, led_last=begun.led_last)
        self.owed = owed_behind(begun)
        self.found = begun_by(known, begun, self._waypoints.running, self._replica, self._sinks.progress.starts.present)

    def _is_own(self, known: Frontier) -> bool:
        """Whether this replica has published it with this state directory: neither a copy nor a backup of one."""
        mine = known.term == self.led and replica_of(known.by) == replica_of(self._replica.identity)
        return mine and self._sinks.progress.starts.have(known.start, known.sequence - self.ahead)

    # ── A follower ───────────────────────────────────────────────────────────

    def observe(self, found: Frontier) -> None:
        """Lets go of the records that this frontier of the Lease covers. Another cluster's has no effect."""
        if self.leading or found.cluster != self._replica.cluster:
            return
        if found.term > self.term:
            self._store.write(partial(takeover.save_frontier, frontier=frontiers.encode_found(found)), shrinks=True)
        self.found = found
        self.others.see(found)
        if not self._is_own(found):
            self.others.follow(found)
        self.observed(found)
        take_epochs(self._appender, self._waypoints, self._store, found)
        last = self._sinks.last
        for cursor in self._sinks.all:
            holds = self.selected.holds(cursor.sink, found)
            self.confirmed.found(self._waypoints, cursor, found, last, holds=holds)
            through, ended = reached(self._waypoints, cursor, found, last, holds=holds)
            if ended:
                self._sinks.end_backfill(cursor.sink)
            if through > cursor.settled or ended:
                cursor.settle(through)
                self.moved(cursor.sink, cursor.settled)
        self._forget_settled()

    def exact(self, sink: str) -> bool:
        """Whether this replica would go on without losing a step of any object, and with the ids that the leader would
        use: the leader has passed the newest list of every informer here. Raises UnknownTarget."""
        cursor, found = self._sinks[sink], self.found
        if self.leading or found is None:
            return self.leading
        return is_exact(self._waypoints, cursor, found) and self.selected.agrees(sink, cursor.settled, found)

    def passed(self, apart: Mapping[str, Sequence[Point]]) -> bool:
        """The same for informers of ``Joined.apart``: all of their records are delivered."""
        return passed(self._appender, self._waypoints, self._store, apart)

    def _forget_settled(self) -> None:
        through = min((cursor.settled for cursor in self._sinks.all), default=0)
        self._waypoints.trim(min(through, self.confirmed.through(self._sinks.all)))
        self.elsewhere.trim(through)
