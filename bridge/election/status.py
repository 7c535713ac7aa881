"""What follows from an election's state for readiness, status and gauges. Pure."""

from __future__ import annotations

from bridge.election.states import (
    Acquiring,
    Ended,
    Following,
    Leading,
    Releasing,
    Starting,
    State,
    SteppingDown,
    TakingOver,
)
from bridge.model.primitives.election import ElectionState, ElectionStatus

_STATES: dict[type[State], ElectionState] = {
    Starting: ElectionState.STARTING,
    Following: ElectionState.FOLLOWING,
    Acquiring: ElectionState.ACQUIRING,
    TakingOver: ElectionState.TAKING_OVER,
    Leading: ElectionState.LEADING,
    SteppingDown: ElectionState.STEPPING_DOWN,
    Releasing: ElectionState.RELEASING,
    Ended: ElectionState.ENDED,
}


def knows_progress(state: State) -> bool:
    """Whether it is known how far the holders before were. A Lease that somebody held and that has no frontier does not
    tell it: a standby that took itself for exact then was ready too early."""
    if isinstance(state, Starting):
        return False
    lease = None if isinstance(state, Ended) else state.known.lease
    return lease is None or not lease.term or bool(lease.frontier)


def status_of(state: State, identity: str, now: float, *, exact: bool) -> ElectionStatus:
    """``now`` is of the clock of the state's times."""
    named = _STATES[type(state)]
    if isinstance(state, Starting | Ended):
        term = state.highest_term if isinstance(state, Starting) else 0
        return ElectionStatus(state=named, identity=identity, term=term, exact=exact)
    known = state.known
    return ElectionStatus(
        state=named,
        identity=identity,
        holder="" if known.lease is None else known.lease.holder,
        term=known.highest_term,
        exact=exact,
        frontier_age=max(0.0, now - known.since),
    )
