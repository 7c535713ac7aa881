"""Reports the changes of an election, and passes the Lease on to a follower."""

from __future__ import annotations

from collections.abc import Callable

from bridge.facts import (
    LeaderChanged,
    LeadershipBegan,
    LeadershipLost,
    LeaseTaken,
    LeaseTermDoubted,
    Report,
)
from bridge.replication.lease import Lease
from bridge.replication.ports import Duties
from bridge.replication.states import (
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


class Announcer:
    """Called with every change of the state."""

    def __init__(self, identity: str, duties: Duties, report: Report, now: Callable[[], float]) -> None:
        self._identity = identity
        self._duties = duties
        self._report = report
        self._now = now
        self._holder: str | None = None
        self._lease: Lease | None = None
        self._doubted = 0
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
            self._follow(state.known.lease)

    def _doubt(self, known: Known) -> None:
        if known.doubted_term not in (0, self._doubted):
            self._report(LeaseTermDoubted(known.doubted_term, known.highest_term))
        self._doubted = known.doubted_term

    def _follow(self, lease: Lease | None) -> None:
        holder, term = ("", 0) if lease is None else (lease.holder, lease.term)
        if holder not in (self._holder, self._identity):
            self._report(LeaderChanged(holder, term))
        self._holder = holder
        if lease is not self._lease:
            self._lease = lease
            self._duties.observed(lease)
