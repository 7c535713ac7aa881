"""How far the frontiers in the Lease cover the log of this replica (pure)."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import partial

from bridge.model.versions.frontier import Frontier
from bridge.outbox.consumers.backfill import BackfillKind
from bridge.outbox.consumers.cursors import SinkCursor
from bridge.outbox.standby.coverage.covered import covered_through
from bridge.outbox.standby.selected import SelectedSinks
from bridge.outbox.waypoints.index import Batch, Waypoints

_MOST = 500_000
"""Settled records that are kept until the Lease has a frontier behind them: of half a minute at the highest rates."""
_INSTEAD_OF_THE_LOG = (BackfillKind.COMPACTED, BackfillKind.DROPPED, BackfillKind.SELECTED, BackfillKind.EARLIEST)
"""Backfills that make the log trimmable which they stand for, and whose settled items are gone."""


class Confirmed:
    """How far frontiers in the Lease cover the own log. A leader has settled more. If another one leads behind such a
    frontier, it delivers that once more, perhaps in part; this replica then goes back to where the frontiers end."""

    def __init__(self, log_start: int, batches: Sequence[Batch]) -> None:
        """``batches``: those that are saved, which leave the database once frontiers cover them."""
        self._trimmed = log_start - 1
        """The log may be gone up to here."""
        self._before = min(self._trimmed, batches[0].first - 1) if batches else self._trimmed
        self._through: dict[str, int] = {}
        self._published: dict[str, int] = {}

    def __getitem__(self, sink: str) -> int:
        """Frontiers cover the log up to here."""
        return self._through.get(sink, self._before)

    def through(self, cursors: Sequence[SinkCursor]) -> int:
        """The frontiers of all sinks cover the log up to here."""
        return min((self[each.sink] for each in cursors), default=self._before)

    def published(self, waypoints: Waypoints, cursors: Sequence[SinkCursor], frontier: Frontier) -> None:
        """This leader is about to renew the Lease with its ``frontier``."""
        self._published = {
            each.sink: waypoints.published_through(self[each.sink], each.settled, partial(frontier.of, each.sink))
            for each in cursors
        }

    def renewed(self) -> None:
        """The Lease has the frontier that was published last."""
        for sink, through in self._published.items():
            self._through[sink] = max(self[sink], through)

    def found(self, waypoints: Waypoints, cursor: SinkCursor, frontier: Frontier, last: int, *, holds: bool) -> None:
        """The Lease has this frontier. ``holds``: see ``covered.reached``."""
        sink = cursor.sink
        self._through[sink] = covered_through(waypoints, sink, self[sink], frontier, last, holds=holds)

    def holds(self, cursors: Sequence[SinkCursor]) -> list[int]:
        """The log can be trimmed up to these sequence numbers."""
        held = [self._holds(each) for each in cursors]
        self._trimmed = max(self._trimmed, min(held, default=0))
        return held

    def _holds(self, cursor: SinkCursor) -> int:
        if cursor.backfill is not None and cursor.backfill.kind in _INSTEAD_OF_THE_LOG:
            return cursor.holds
        return max(min(self[cursor.sink], cursor.holds), cursor.settled - _MOST)

    def go_back(
        self, waypoints: Waypoints, selected: SelectedSinks, cursors: Sequence[SinkCursor], known: Frontier, last: int
    ) -> Collection[str]:
        """Another replica may have led since this one did, and ``known`` is the newest frontier. Returns the sinks of
        which records are gone that may have to be delivered once more."""
        gone = []
        for cursor in cursors:
            if cursor.sink not in known.sinks:
                continue
            self.found(waypoints, cursor, known, last, holds=selected.holds(cursor.sink, known))
            through = self[cursor.sink]
            if cursor.backfill is not None and cursor.backfill.kind in _INSTEAD_OF_THE_LOG:
                if cursor.settled_item > 0:
                    gone.append(cursor.sink)
            elif through < cursor.settled:
                if through < self._trimmed:
                    gone.append(cursor.sink)
                cursor.settled = min(cursor.settled, max(through, self._trimmed))
        return gone
