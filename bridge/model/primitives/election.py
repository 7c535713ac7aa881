"""The election as a replica sees it, for status, gauges and commands."""

from __future__ import annotations

from enum import StrEnum
from typing import ClassVar

import msgspec

ANSWER_PART = 0.5
"""Of the renew deadline: a request about the Lease over a dead connection leaves time for another."""


class LeaseTiming(msgspec.Struct, frozen=True, kw_only=True):
    """The durations of an election, in seconds."""

    lease_duration: float = 15.0
    """Others take the Lease after so long without a change of it."""
    renew_deadline: float = 10.0
    """The holder stops its work so long after the start of its last successful renewal."""
    retry_period: float = 2.0
    """Between two renewals, and between two attempts."""

    @property
    def return_time(self) -> float:
        """In which a holder renews the Lease once the API server answers again: the end of a request that had no
        answer, and one more attempt."""
        return ANSWER_PART * self.renew_deadline + 1.5 * self.retry_period


class ElectionState(StrEnum):
    """See bridge.replication.deciding."""

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


class FollowerStatus(msgspec.Struct, frozen=True):
    """A follower, as its leader sees it."""

    name: str
    in_sync: bool
    """It would take over without a loss, and deliveries wait for it."""
    commits: int
    """Behind the leader."""
    seconds: float
    """Since the oldest of them."""


class ElectionStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The election, as this replica sees it."""

    state: ElectionState
    identity: str
    holder: str = ""
    term: int = 0
    """The newest known term."""
    in_sync: bool = False
    """Of a follower: it has everything that any destination can have. Of a leader: some follower has."""
    reason: str = ""
    """Why a follower is not in sync; empty if it is, and for a leader."""
    renewed_seconds: float | None = None
    """Since the Lease was seen to change; None before it was read."""
    followers: tuple[FollowerStatus, ...] = ()
    """Of a leader: those that are connected."""

    @property
    def leads(self) -> bool:
        return self.state in (ElectionState.LEADING, ElectionState.RELEASING)
