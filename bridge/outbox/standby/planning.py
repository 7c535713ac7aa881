"""What a replica is to write when it begins to lead (pure)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple

import msgspec

from bridge.model.policies import StartPolicy
from bridge.model.record import SnapshotScope
from bridge.model.status import PauseCause
from bridge.model.versions.frontier import Frontier
from bridge.outbox.consumers.backfill import BackfillKind
from bridge.outbox.consumers.cursors import CursorProgress, SinkCursor
from bridge.outbox.standby.coverage.covered import reached
from bridge.outbox.standby.coverage.exactness import may_lack
from bridge.outbox.standby.kept import unnamed
from bridge.outbox.standby.progress import OwedSnapshot, known_scope
from bridge.outbox.standby.selected import SelectedSinks
from bridge.outbox.standby.takeover import Takeover
from bridge.outbox.waypoints.index import Waypoints

_SKIPPED = 1_000_000
"""Numbers left out for each term: those that a leader may have used after its last publication."""
_MOST_TERMS = 1000
_CENTURY = 100 * 365 * 24 * 3600 * 1_000_000
"""Microseconds."""


def require(term: int, newest: int, found: Frontier | None, cluster: str) -> None:
    """Raises ValueError for a term that is not new, and for another cluster's frontier. ``newest``: the newest term
    known here."""
    newest = max(newest, 0 if found is None else found.term)
    if term <= newest:
        raise ValueError(f"term {term} does not come after term {newest}, which a frontier has: delete the Lease")
    if found is not None and found.cluster != cluster:
        raise ValueError(
            f"the Lease has the frontier of cluster {found.cluster}, and this bridge is for {cluster}:"
            " give each bridge a Lease of its own (election.lease)"
        )


def doubt(found: Frontier, term: int, number: int) -> str:
    """Why no leader can have published it; empty if one can. ``term``: the newest of its Lease. ``number``:
    microseconds since 1970. Behind numbers that nobody can continue, all later frontiers would be unreadable."""
    if found.term > term:
        return f"it has term {found.term}, and the holders of the Lease had terms up to {term}"
    if (most := max(found.sequence, found.replays, found.renewal)) > number + _CENTURY:
        return f"it has number {most}, to which no bridge comes within a hundred years"
    return ""


class TermsBefore(NamedTuple):
    """What this replica knows of the leaders before."""

    led_last: bool
    """It has led in the term before: it lacks nothing unless it is ``overtaken``, and knows the pauses."""
    overtaken: bool
    """See ``OtherLeaders``."""
    unknown: bool
    """Others have led, and nobody knows how far; or a restore undid what they delivered (``OtherLeaders.restored``)."""
    new: Mapping[str, StartPolicy]
    """Sinks that no leader knew."""
    gone: Collection[str]
    """Sinks of which records are gone that may have to be delivered once more."""


def new_sinks(starts: Mapping[str, StartPolicy], known: Frontier) -> Mapping[str, StartPolicy]:
    """The starts of those that no leader knew."""
    return {sink: each for sink, each in starts.items() if sink not in known.sinks}


def plan_takeover(
    term: int,
    waypoints: Waypoints,
    selected: SelectedSinks,
    cursors: Sequence[SinkCursor],
    known: Frontier,
    last: int,
    time: str,
    before: TermsBefore,
) -> tuple[Takeover, int]:
    """Behind the frontier ``known``; and the end of the log that no sink needs any more."""
    led_last, new = before.led_last, before.new
    now = {each.sink: reached(waypoints, each, known, last, holds=selected.holds(each.sink, known)) for each in cursors}
    ended = [sink for sink, (_, is_over) in now.items() if is_over]
    lacking = []
    for each in cursors if before.overtaken or not led_last else ():
        agrees = selected.agrees(each.sink, now[each.sink][0], known)
        is_gone = each.sink in before.gone and each.sink not in ended
        if before.unknown or is_gone or not agrees or may_lack(waypoints, each, known, ended):
            lacking.append(each.sink)
    owed = {sink: OwedSnapshot(None) for sink in lacking} | _owed(known)
    doubted = unnamed(known, led_last=led_last)
    begins = Takeover(
        term,
        known.replays,
        [_progress(cursor, now[cursor.sink][0]) for cursor in cursors],
        ended,
        [*_beginning(known), *(sink for sink, start in new.items() if start is StartPolicy.SNAPSHOT)],
        [sink for sink, start in new.items() if start is StartPolicy.EARLIEST],
        _pauses(cursors, known, doubted, led_last=led_last),
        owed,
        lacking,
        doubted,
        last,
        time,
    )
    there = msgspec.structs.replace(
        begins,
        snapshots=[sink for sink in begins.snapshots if sink in now and sink not in owed],
        owed={sink: each for sink, each in owed.items() if sink in now},
    )
    return there, min((through for through, _ in now.values()), default=last)


def _beginning(known: Frontier) -> list[str]:
    """Sinks that had not got the whole snapshot with which they begin."""
    snapshots = ((sink, each) for sink, each in known.sinks.items() if each.backfill == BackfillKind.SNAPSHOT)
    return [sink for sink, each in snapshots if not each.scope]


def _owed(known: Frontier) -> dict[str, OwedSnapshot]:
    """Snapshots on demand that another leader did not end."""
    found = {}
    for sink, each in known.sinks.items():
        if each.backfill == BackfillKind.SNAPSHOT and each.scope:
            scope = known_scope(each.scope)
            found[sink] = OwedSnapshot(None if scope == SnapshotScope() else scope)
    return found


def _pauses(
    cursors: Sequence[SinkCursor], known: Frontier, doubted: Collection[str], *, led_last: bool
) -> Mapping[str, PauseCause]:
    """As the leader before had them; and of sinks for which the order of objects with dead letters is not known."""
    found = {} if led_last else {each.sink: _pause(each, known) for each in cursors if each.sink in known.sinks}
    for cursor in cursors:
        if cursor.sink in doubted and found.get(cursor.sink, cursor.paused) is PauseCause.NONE:
            found[cursor.sink] = PauseCause.OPERATOR
    return found


def _pause(cursor: SinkCursor, known: Frontier) -> PauseCause:
    if cursor.paused is PauseCause.FENCED:
        return cursor.paused
    try:
        return PauseCause(known.sinks[cursor.sink].paused)
    except ValueError:  # Of a later version.
        return PauseCause.OPERATOR


def numbers_ahead(ahead: int, term: int, found: Frontier | None, lowest: int, number_now: Callable[[], int]) -> int:
    """The distance between the numbers in the own log, from ``lowest`` on, and those that leave in this term: larger
    than all that left before. ``ahead``: in the last term of this replica."""
    if term == 1:
        return ahead
    if found is None:
        return max(ahead, number_now() - lowest)
    # A leader of a term in between may have published nothing.
    terms = min(term - found.term, _MOST_TERMS)
    return max(ahead, found.sequence + _SKIPPED * terms - lowest)


def _progress(cursor: SinkCursor, through: int) -> CursorProgress:
    return CursorProgress(cursor.sink, through, cursor.item_to_save, cursor.memory)


def owed_behind(begun: Takeover) -> dict[str, OwedSnapshot]:
    """The snapshots that the leader owes, those of sinks that lack something behind the Gap."""
    after = 0 if begun.gap is None else begun.gap.sequence
    found = begun.owed.items()
    return {sink: msgspec.structs.replace(each, after=after) if sink in begun.lacking else each for sink, each in found}
