"""The names of an election's states, for people. Pure."""

from __future__ import annotations

from bridge.model.primitives.election import ElectionState
from bridge.replication.states import (
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


def state_of(state: State) -> ElectionState:
    return _STATES[type(state)]
