"""The transaction with which a replica begins to lead."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import apsw
import msgspec

from bridge.model.record import Gap
from bridge.model.status import PauseCause
from bridge.model.versions.frontier import Frontier
from bridge.outbox.consumers import beginnings, cursors
from bridge.outbox.consumers.cursors import CursorProgress, SinkCursor
from bridge.outbox.log import ledger_sql, record_codec
from bridge.outbox.standby.progress import OwedSnapshot
from bridge.outbox.waypoints import sql
from bridge.outbox.waypoints.index import UNKNOWN, Batch, Waypoint


@dataclass(frozen=True, slots=True)
class SavedTerms:
    """What the database of a replica knows when it joins an election."""

    led: int
    """The newest term in which this replica has led; 0 if there was none."""
    ahead: int
    """In that term, the numbers of records that leave are larger by this than those in the log."""
    frontier: Frontier | None
    """The newest frontier that is saved."""
    overtaken: bool
    restored: bool
    """Both: see OtherLeaders."""
    log_start: int
    batches: Sequence[Batch]


class Takeover(msgspec.Struct, frozen=True):
    """What a replica writes when it begins to lead."""

    term: int
    replays: int
    """Later replays and snapshots have larger numbers."""
    progress: Sequence[CursorProgress]
    ended: Collection[str]
    """Sinks whose backfill has no record left."""
    snapshots: Collection[str]
    """Sinks that begin with a snapshot: they are new, or another replica did not end it."""
    earliest: Collection[str]
    """New sinks that begin with the earliest record."""
    paused: Mapping[str, PauseCause]
    """The pauses of sinks as the leader before had them."""
    owed: Mapping[str, OwedSnapshot]
    lacking: Collection[str]
    """Sinks for which this replica is not exact."""
    unnamed: Collection[str]
    """See ``kept.unnamed``: they are paused."""
    last: int
    """The newest record that the decision knew."""
    time: str
    ahead: int = 0
    """See SavedTerms."""
    frontier: str = ""
    """The frontier found, encoded."""
    gap: Gap | None = None
    """The last record of the log, if this replica lacks something."""
    led_last: bool = False
    """This replica has led in the term before, with this state directory."""

    @property
    def overtakes_nothing(self) -> bool:
        """It may be written before jobs that wait for room on a full disk. Behind a Gap, records with smaller numbers
        would come to the log too late."""
        return self.gap is None or self.gap.sequence == self.last + 1


@dataclass(frozen=True, slots=True)
class TakenOver:
    """What memory follows."""

    cursors: Mapping[str, SinkCursor]
    batches: Sequence[Batch]
    """Batches that some sink has not settled."""


def take_over(database: apsw.Connection, takeover: Takeover, configured: Collection[str]) -> TakenOver:
    """After a crash the replica has all of it, or nothing."""
    database.execute(
        "UPDATE meta SET term = ?, ahead = ?, frontier = ?, overtaken = 0, replays = max(replays, ?)",
        (takeover.term, takeover.ahead, takeover.frontier, takeover.replays),
    )
    cursors.save(database, takeover.progress, {})
    cursors.go_back(database, takeover.progress)
    for each in takeover.progress:
        if each.sink in takeover.ended:
            cursors.end_backfill(database, each.sink, each.settled, each.memory, takeover.time)
    for sink, cause in takeover.paused.items():
        cursors.take_pause(database, sink, cause)
    for sink in takeover.earliest:
        beginnings.begin_at_log_start(database, sink)
    found = cursors.load(database, configured)
    for sink in takeover.snapshots:
        if found[sink].backfill is None:
            beginnings.begin_snapshot(database, sink, takeover.time)
    if takeover.gap is not None:
        _append(database, takeover.gap)
    found = cursors.load(database, configured)
    after = min((cursor.settled for cursor in found.values()), default=takeover.last)
    return TakenOver(found, sql.between(database, after, takeover.last))


def _append(database: apsw.Connection, gap: Gap) -> None:
    database.execute(record_codec.INSERT, record_codec.gap_row(gap))
    database.execute(ledger_sql.ENTER, (0, gap.sequence, "", None, "", "", None, 0, None))
    database.execute("UPDATE meta SET last = ?", (gap.sequence,))
    sql.enter(database, gap.sequence, gap.sequence, Waypoint(UNKNOWN, None))


def save_frontier(database: apsw.Connection, frontier: str) -> None:
    """Keeps a frontier that another replica has published."""
    database.execute("UPDATE meta SET frontier = ?", (frontier,))
