"""Reports the changes of an election, and passes frontiers of other holders on."""

from __future__ import annotations

from collections.abc import Callable

from bridge.election.lease import Lease, is_handed_over
from bridge.election.ports import Duties
from bridge.election.states import (
    Acquiring,
    Ended,
    Following,
    Known,
    Leading,
    Releasing,
    Starting,
    State,
    SteppingDown,
    TakingOver,
)
from bridge.facts import (
    LeaderChanged,
    LeadershipBegan,
    LeadershipLost,
    LeaseTaken,
    LeaseTermDoubted,
    Report,
    ShardHandedOver,
)


class Announcer:
    """Called with every change of the state."""

    def __init__(self, identity: str, duties: Duties, report: Report, now: Callable[[], float]) -> None:
        self._identity = identity
        self._duties = duties
        self._report = report
        self._now = now
        self._holder: str | None = None
        self._frontier = "", 0
        self._doubted = 0
        self._is_handed_over = False
        self._taken_at = 0.0

    def entered(self, before: State, state: State) -> None:
        match before, state:
            case Acquiring(known=known), TakingOver(term=term):
                self._taken_at = self._now()
                self._report(LeaseTaken(term, "" if known.lease is None else known.lease.holder))
            case TakingOver(), Leading(term=term):
                self._report(LeadershipBegan(term, self._now() - self._taken_at))
            case TakingOver() | Leading() | Releasing(), SteppingDown(term=term, reason=reason):
                self._report(LeadershipLost(term, reason))
        if not isinstance(state, Starting | Ended):
            self._doubt(state.known)
        if isinstance(state, Following):
            self._follow(state.known.lease, state.known.highest_term)

    def _doubt(self, known: Known) -> None:
        if known.doubted_term not in (0, self._doubted):
            self._report(LeaseTermDoubted(known.doubted_term, known.highest_term))
        self._doubted = known.doubted_term

    def _follow(self, lease: Lease | None, newest: int) -> None:
        holder, term = ("", 0) if lease is None else (lease.holder, lease.term)
        if holder not in (self._holder, self._identity):
            self._report(LeaderChanged(holder, term))
        self._holder = holder
        if lease is not None and lease.heirs is not None and lease.heirs.done and not self._is_handed_over:
            self._report(ShardHandedOver(lease.heirs.of))
        self._is_handed_over = is_handed_over(lease)
        frontier = ("", 0) if lease is None or not lease.frontier else (lease.frontier, newest)
        if lease is not None and frontier != self._frontier:
            self._frontier = frontier
            self._duties.observed(lease.frontier, newest)
