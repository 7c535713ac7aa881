"""How far each sink has come: in memory at once, on disk a little later. One that was not saved costs duplicates."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import apsw

from bridge.model.policies import StartPolicy
from bridge.outbox import errands
from bridge.outbox.errands import Errand
from bridge.outbox.ledger_sql import PRESENT
from bridge.outbox.sql import one, row


@dataclass(slots=True)
class Cursor:
    sink: str
    settled: int
    """Everything up to here is settled."""
    absent_seconds: float
    errand: Errand | None
    configured: bool = True
    dirty: bool = False
    settled_place: int = 0
    """What is told out of turn is settled up to here."""
    paused: bool = False
    """An operator paused the sink. Durable: a crash resumes nothing."""
    memory: bytes = b""
    """What the sink asks to be reminded of after a restart."""
    oldest_at: float = 0.0
    """Since when something is not settled, on the event loop's clock: what is in flight may have left the log."""

    @property
    def holds(self) -> int:
        """Everything up to here may leave the log, as far as this sink goes; what is selected stays all the same."""
        if self.errand is not None and self.settled >= self.errand.log_from:
            return max(self.settled, self.errand.cut)
        return self.settled

    @property
    def has_in_flight(self) -> bool:
        """Something that was handed out before the errand was planned is not settled."""
        return self.errand is not None and bool(self.errand.in_flight) and self.settled < self.errand.after

    @property
    def place_to_save(self) -> int | None:
        """See Progress."""
        if self.errand is None or (self.settled_place == 0 and not self.errand.in_flight):
            return None
        return self.settled_place

    @property
    def errand_is_settled(self) -> bool:
        """And the log before it."""
        errand = self.errand
        return errand is not None and self.settled >= errand.after and self.settled_place >= errand.last

    def records_until(self, last: int) -> int:
        """Records that are still to be settled, others' included."""
        if self.errand is None:
            return max(0, last - self.settled)
        before = max(0, self.errand.log_from - self.settled)
        return before + self.errand.last - self.settled_place + max(0, last - self.errand.cut)


@dataclass(frozen=True, slots=True)
class Progress:
    """What is to be saved of one cursor."""

    sink: str
    settled: int
    place: int | None
    """None where nothing of what is told out of turn is settled."""
    memory: bytes


def load(database: apsw.Connection, configured: Iterable[str]) -> dict[str, Cursor]:
    """Every cursor there is."""
    there = set(configured)
    found = list(database.execute("SELECT sink, settled, absent_seconds, paused, memory FROM cursors"))
    cursors = {}
    for sink, settled, absent, paused, memory in found:
        errand = errands.load(database, sink)
        place = 0 if errand is None else errand.told
        cursors[sink] = Cursor(
            sink,
            settled,
            absent,
            errand,
            configured=sink in there,
            settled_place=place,
            paused=bool(paused),
            memory=memory,
        )
    return cursors


def register(database: apsw.Connection, sink: str, start: StartPolicy, time: str) -> None:
    """A cursor for a sink that has none. A snapshot of nothing is none."""
    last, trimmed = row(database, "SELECT last, trimmed FROM meta")
    settled = trimmed if start is StartPolicy.EARLIEST else last
    database.execute("INSERT INTO cursors (sink, settled) VALUES (?,?)", (sink, settled))
    if start is StartPolicy.SNAPSHOT and one(database, f"SELECT EXISTS (SELECT 1 FROM {PRESENT})"):
        errands.begin_snapshot(database, sink, time)


def save(database: apsw.Connection, progress: Iterable[Progress]) -> None:
    for each in progress:
        # Where there was no room, an older saving may come behind a newer one.
        database.execute(
            "UPDATE cursors SET settled = max(settled, ?), memory = ? WHERE sink = ?",
            (each.settled, each.memory, each.sink),
        )
        if each.place is not None:
            errands.settle(database, each.sink, each.place)


def miss(database: apsw.Connection, sinks: Iterable[str], seconds: float) -> None:
    """These were not configured for so much longer; the bridge's own running time counts, no clock."""
    database.executemany(
        "UPDATE cursors SET absent_seconds = absent_seconds + ? WHERE sink = ?", [(seconds, sink) for sink in sinks]
    )


def pause(database: apsw.Connection, sink: str, paused: bool) -> None:
    database.execute("UPDATE cursors SET paused = ? WHERE sink = ?", (paused, sink))


def forget(database: apsw.Connection, sink: str) -> None:
    database.execute("DELETE FROM cursors WHERE sink = ?", (sink,))
    database.execute("DELETE FROM selections WHERE sink = ?", (sink,))
