"""How a holder leaves the Lease: for the end of its process, for another replica, or for the shards of another
division. Pure."""

from __future__ import annotations

from math import inf

from msgspec.structs import replace

from bridge.election.states import (
    Acquiring,
    Ended,
    Following,
    Held,
    Leading,
    Releasing,
    Starting,
    State,
    SteppingDown,
    TakingOver,
)
from bridge.election.timing import LeaseTiming
from bridge.model.primitives.shard import Division


class Endings:
    """The part of ``Rules`` about the end of the holder's work."""

    def __init__(self, timing: LeaseTiming, division: Division) -> None:
        self.timing = timing
        self._division = division

    def stopped(self, state: State, *, working: bool) -> State:
        """The process is to end. ``working``: the holder's work goes on, and ends by itself."""
        match state:
            case TakingOver() | Leading() | Releasing():
                return Releasing(
                    known=state.known,
                    term=state.term,
                    deadline=state.deadline,
                    renew_at=state.renew_at if working else -inf,
                    finished=not working,
                )
            case SteppingDown():
                return state if working else Ended()
            case Starting() | Following() | Acquiring() | Ended():
                return Ended()

    def resigned(self, state: State) -> State:
        """The holder leaves the Lease to others, and follows them. ``work_ended`` comes later."""
        if not isinstance(state, TakingOver | Leading):
            return state
        return Releasing(
            known=state.known, term=state.term, deadline=state.deadline, renew_at=state.renew_at, goes_on=True
        )

    def hand_over(self, state: State) -> State:
        """Lets the work end for good, once the shards of another division can follow."""
        return self.resigned(state) if isinstance(state, Leading) and self.has_heirs(state) else state

    def has_heirs(self, state: Held) -> bool:
        """Whether the next release is for good."""
        lease = state.known.lease
        return lease is not None and lease.heirs is not None and lease.heirs.are_ready(self._division)

    def work_ended(self, state: State, now: float) -> State:
        """The holder's work has ended, however it ended."""
        match state:
            case Releasing():
                return replace(state, renew_at=-inf, finished=True)
            case SteppingDown(known=known):
                return Following(known=replace(known, unsure=True), retry_at=now)
            case TakingOver() | Leading():
                retry_at = now + self.timing.retry_period
                return Following(known=replace(state.known, unsure=True), retry_at=retry_at)
        return state

    def released(self, state: Releasing, now: float) -> State:
        """The Lease is left to others."""
        return Following(known=replace(state.known, unsure=True), retry_at=now) if state.goes_on else Ended()
