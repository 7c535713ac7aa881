"""The election as a replica sees it, for status, gauges and commands."""

from __future__ import annotations

from enum import StrEnum
from typing import ClassVar

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


class TermBegan(msgspec.Struct, frozen=True, gc=False):
    """A notice that a leader writes into a stream before its first record there: a destination that stores a message
    only behind the expected one stores nothing more of the leader before."""

    term: int
    sequence: int
    """The sequence number of the last record that the sink had settled."""
    time: str
    """RFC 3339, UTC."""
    behind: int = 0
    """The number of the last message of the stream before this one."""
    snapshot: ClassVar[None] = None

    @property
    def id(self) -> str:
        return f"term/{self.term}/{self.behind}"


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
    letters_at: tuple[str, ...] = ()
    """Of the leader: replicas with dead letters that are not here."""

    @property
    def leads(self) -> bool:
        return self.state in (ElectionState.LEADING, ElectionState.RELEASING)
