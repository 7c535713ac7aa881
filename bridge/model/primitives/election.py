"""The election as a replica sees it, for status, gauges and commands."""

from __future__ import annotations

from enum import StrEnum

import msgspec


class ElectionState(StrEnum):
    """See bridge.election.states."""

    STARTING = "starting"
    FOLLOWING = "following"
    ACQUIRING = "acquiring"
    TAKING_OVER = "taking-over"
    LEADING = "leading"
    STEPPING_DOWN = "stepping-down"
    RELEASING = "releasing"
    ENDED = "ended"


def replica_of(identity: str) -> str:
    """The name of the replica: an identity is that of one process of it (``name_random``)."""
    return identity.rpartition("_")[0]


class ElectionStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The election, as this replica sees it."""

    state: ElectionState
    identity: str
    holder: str = ""
    term: int = 0
    """The newest known term."""
    exact: bool = True
    """Whether a takeover would lack no step."""
    frontier_age: float | None = None
    """Seconds since the Lease was renewed, as far as known; None before it was read."""
    differs: tuple[str, ...] = ()
    """Of a follower: the sections of its configuration that are not as the leader's, and must be."""

    @property
    def leads(self) -> bool:
        return self.state in (ElectionState.LEADING, ElectionState.RELEASING)
