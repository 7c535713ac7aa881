"""By which entries of ``select`` the sinks get their records, on the leader and here (pure).

A follower evaluates the entries by which the leader delivers. It takes others when the leader has them, and the sink
has settled their difference; or when it leads, and its log has all that earlier leaders can have delivered. The
difference is of the objects in the log, so that before, it could lack objects that the sink has.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from msgspec.structs import replace

from bridge.model.versions.frontier import Frontier
from bridge.model.versions.selection_frontier import ALL_ENTRIES, SelectionFrontier
from bridge.outbox.consumers.cursors import SinkCursor
from bridge.outbox.consumers.selections import EVERYTHING, Admitted, StoredSelection
from bridge.outbox.waypoints.index import Waypoints


class SelectedSinks:
    """The selections of a replica, beside those that a leader published."""

    def __init__(self, stored: Callable[[], Mapping[str, StoredSelection]]) -> None:
        """``stored``: see ``Selections.stored``."""
        self._stored = stored
        self.digests: Callable[[str], Sequence[str]] = lambda _entries: ("",)
        """Entries → their digests, under each of the keys of this replica; the first is the present key's."""
        self.intended: Mapping[str, str] = {}
        """Of a leader: sinks whose entries are about to change, with the new entries. Published before any record of
        the difference is delivered."""
        self.led_behind = 0
        """The newest record when this replica took over last."""
        self.caught_up = False
        """Of a leader: the log has all that earlier leaders can have delivered."""
        self.waypoints = Waypoints()
        """Of the log."""

    # ── The leader ───────────────────────────────────────────────────────────

    def begin_term(self, term: int, last: int, *, led_last: bool) -> None:
        """``last``: the newest record. ``led_last``: see ``plan_takeover``."""
        self.led_behind = last
        self.caught_up = term == 1 or (led_last and self.caught_up)

    def progress(self, cursor: SinkCursor, found: Frontier) -> SelectionFrontier:
        """To be published for the sink; ``found``: published before."""
        sink, before = cursor.sink, found.sinks.get(cursor.sink)
        known = SelectionFrontier() if before is None else before.selection
        stored, intended = self._stored().get(sink), self.intended.get(sink)
        number = known.number if stored is None else max(known.number, stored.number)
        if intended is not None:
            return replace(known, changing=self._digests(intended)[0] or ALL_ENTRIES, number=number)
        own = self._own(sink)
        if stored is None or _is_settled(stored, cursor.settled):
            return SelectionFrontier(own[0], "", number)
        return replace(known, changing=own[0] or ALL_ENTRIES, number=number)

    def changed_before(self, sink: str, sequence: int) -> bool:
        """Whether the record comes behind a difference that this leader has made. That, too, may set objects back to
        states of the own log, and the entries before left other records out."""
        stored = self._stored().get(sink)
        return stored is not None and self.led_behind < stored.effective < sequence

    # ── A replica that may lead ──────────────────────────────────────────────

    def holds(self, sink: str, found: Frontier) -> bool:
        """Whether the sink gets its records by the entries that hold here, and has settled their difference."""
        known = found.sinks.get(sink)
        return known is None or (not known.selection.changing and known.selection.entries in self._own(sink))

    def agrees(self, sink: str, settled: int, found: Frontier) -> bool:
        """The same, and no record behind ``settled`` was decided here by other entries."""
        if sink not in found.sinks:
            return True
        stored = self._stored().get(sink)
        return self.holds(sink, found) and (stored is None or _is_settled(stored, settled))

    def admitted(self, wanted: Mapping[str, str], found: Frontier | None, *, leads: bool) -> Mapping[str, Admitted]:
        """Sink → whether entries that differ from the stored ones may take effect now; absent, if not yet.
        ``wanted``: sink → entries."""
        known = {} if found is None else {sink: each.selection for sink, each in found.sinks.items()}
        if leads and self.caught_up:
            behind = max((each.number for each in known.values()), default=0)
            return dict.fromkeys(wanted, Admitted(behind, is_followed=False))
        admitted = {}
        for sink, entries in wanted.items():
            if (stored := self._stored().get(sink)) is not None and stored.start:
                admitted[sink] = Admitted(0, is_followed=False)  # The sink has no selection yet that could go on.
            elif (of := known.get(sink)) is not None and not of.changing and of.entries in self._digests(entries):
                admitted[sink] = Admitted(max(0, of.number - 1), is_followed=True)
        return admitted

    def _own(self, sink: str) -> Sequence[str]:
        stored = self._stored().get(sink)
        return ("",) if stored is None else self._digests(stored.entries)

    def _digests(self, entries: str) -> Sequence[str]:
        return ("",) if entries == EVERYTHING else self.digests(entries)


def _is_settled(stored: StoredSelection, settled: int) -> bool:
    return not stored.pending and settled >= stored.effective
