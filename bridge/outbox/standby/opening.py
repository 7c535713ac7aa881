"""A replica joins an election, or goes on without one: what its database knows of the terms before."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial

import apsw

from bridge.facts import Report
from bridge.model.primitives.election import TermBegan
from bridge.model.record import Record
from bridge.model.versions import frontier
from bridge.model.versions.frontier import Frontier
from bridge.model.versions.leading import in_term
from bridge.outbox.appender import Appender
from bridge.outbox.errors import StateUnusable
from bridge.outbox.recovery.rebuild import number_of_now
from bridge.outbox.selections import Selections
from bridge.outbox.sink_cursors import SinkCursors
from bridge.outbox.standby.destinations import Destinations
from bridge.outbox.standby.letters import SharedLetters
from bridge.outbox.standby.lists import Lists
from bridge.outbox.standby.progress import Replica
from bridge.outbox.standby.selected import SelectedSinks
from bridge.outbox.standby.standby import Standby
from bridge.outbox.standby.takeover import SavedTerms
from bridge.outbox.storage.database import row
from bridge.outbox.store import Store
from bridge.outbox.waypoints import sql


class Participation:
    """The outbox's part in an election; without ``join`` there is none, and none of its costs."""

    def __init__(
        self,
        store: Store,
        appender: Appender,
        sinks: SinkCursors,
        selections: Selections,
        clock: Callable[[], str],
        lock: asyncio.Lock,
        report: Report,
    ) -> None:
        """``lock``: see SinkRegistration."""
        self._store = store
        self._appender = appender
        self._sinks = sinks
        self._selections = selections
        self._clock = clock
        self._lock = lock
        self._report = report
        self.standby: Standby | None = None
        """None without an election."""
        self.letters: SharedLetters | None = None
        """None without an election."""
        self.in_term: Callable[[Record], Record] | None = None
        """Makes records as they leave: see ``leading.in_term``. None for a state that never led."""

    def follows(self) -> bool:
        """Whether another replica delivers, or none."""
        return self.standby is not None and not self.standby.leading

    def holds(self) -> tuple[Sequence[int], int | None]:
        """The log can be trimmed up to these sequence numbers; waypoints stay behind the last number."""
        cursors = self._sinks.all
        if self.standby is None:
            return [cursor.holds for cursor in cursors], None
        return self.standby.confirmed.holds(cursors), self.standby.confirmed.through(cursors)

    def term_begun(self, settled: int) -> TermBegan | None:
        """``settled``: the last record that a sink has settled. None on a replica that does not lead."""
        standby = self.standby
        if standby is None or not standby.leading:
            return None
        return TermBegan(standby.term, settled + standby.ahead, self._clock())

    async def join(self, replica: Replica, number_now: Callable[[], int] = number_of_now) -> Standby:
        """Takes part, as a follower. Call before the first informer and the first feed. ``number_now``: returns a
        number behind all numbers of replicas that are lost."""
        await self._sinks.progress.begin()
        followed = await self._store.write(_follow)
        self.standby = standby = Standby(
            self._store,
            self._appender,
            self._sinks,
            replica,
            followed,
            SelectedSinks(lambda: self._selections.stored),
            clock=self._clock,
            number_now=number_now,
            lock=self._lock,
            report=self._report,
        )
        self._selections.admitted = lambda wanted: standby.selected.admitted(
            wanted, standby.found, leads=standby.leading
        )
        self._sinks.progress.sharing = Destinations(self._store, self._appender, self._sinks, self.standby)
        self._appender.lists = Lists(self._appender, self._sinks, standby, self._report)
        self.letters = SharedLetters(self._store, self._appender, self._sinks, standby, replica.identity, self._report)
        self.standby.observed, self.standby.began = self.letters.observe, self.letters.begin
        self.in_term = self.standby.in_term
        return self.standby

    async def leave(self) -> None:
        """Goes on without an election. What leaves keeps the last term, and numbers that ascend. Raises StateUnusable
        if this state is not that of the last leader, as far as it knows."""
        led, ahead, known = await self._store.ask(_terms)
        if known is not None and known.term > led:
            raise StateUnusable(
                f"state.directory: {known.by} delivered in term {known.term}, and this state knows only a part of that:"
                " start it with election.enabled, end the other replicas, and leave the election when this one leads"
            )
        if led:
            self.in_term = partial(in_term, term=led, ahead=ahead)


def _follow(database: apsw.Connection) -> SavedTerms:
    """Completes and reads the waypoints: a second for a million batches."""
    sql.complete(database)
    overtaken, log_start = row(database, "SELECT overtaken, log_start FROM meta")
    return SavedTerms(*_terms(database), overtaken > 0, overtaken > 1, log_start, sql.load(database))


def _terms(database: apsw.Connection) -> tuple[int, int, Frontier | None]:
    led, ahead, text = row(database, "SELECT term, ahead, frontier FROM meta")
    known = None
    with suppress(ValueError):  # Without the frontier, records are delivered again.
        known = frontier.decode(text) if text else None
    return led, ahead, known
