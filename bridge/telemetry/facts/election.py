"""Facts of bridge.replication: who holds the Lease, how its renewal goes, and who follows."""

from __future__ import annotations

from typing import TypeAlias

import msgspec


class LeaderChanged(msgspec.Struct, frozen=True):
    """Another replica holds the Lease, or none. Reported when a follower sees it."""

    holder: str
    """Empty: nobody holds the Lease."""
    term: int


class LeaseTaken(msgspec.Struct, frozen=True):
    """This replica holds the Lease, and takes over."""

    term: int
    before: str
    """The holder before; empty for none."""


class LeadershipBegan(msgspec.Struct, frozen=True):
    """This replica has taken over, and delivers."""

    term: int
    seconds: float
    """Since the Lease was taken."""


class LeadershipLost(msgspec.Struct, frozen=True):
    """This replica delivers no more, until it holds the Lease again."""

    term: int
    reason: str


class LeadershipReleased(msgspec.Struct, frozen=True):
    """This replica ends, and has left the Lease to others, after its last delivery."""

    term: int


class LeaseRenewed(msgspec.Struct, frozen=True):
    """The API server took a renewal."""

    seconds: float
    """From the request to the answer."""


class LeaseFailed(msgspec.Struct, frozen=True):
    """A request about the Lease failed, or its answer cannot be used. It is repeated."""

    verb: str
    """``get``, ``create``, ``update`` or ``watch``, as in RBAC."""
    lease: str
    """``namespace/name``."""
    reason: str
    refused: bool
    """The API server refuses the bridge: an operator must act."""


class LeaseTermDoubted(msgspec.Struct, frozen=True):
    """Somebody else than an elector has written the term of the Lease: it is passed over."""

    term: int
    newest: int
    """The newest that this replica knows."""


class TookOverLacking(msgspec.Struct, frozen=True):
    """This replica leads, and was not in sync with the leader before: each sink gets a Gap, and a snapshot."""

    term: int
    before: str
    """The replica that led before; empty if that is unknown."""


class FollowerInSync(msgspec.Struct, frozen=True):
    """A follower of this leader is in sync: deliveries wait for it from now on."""

    follower: str
    term: int


class FollowerLost(msgspec.Struct, frozen=True):
    """A follower of this leader is in sync no more: deliveries go on without it."""

    follower: str
    connected: bool
    """It is too slow. Otherwise its connection has ended."""


class FollowingFailed(msgspec.Struct, frozen=True):
    """This replica could not follow the leader, and tries again."""

    leader: str
    """Its address."""
    reason: str


class BaseCopySent(msgspec.Struct, frozen=True):
    """A follower of this leader has got a copy of the whole state."""

    follower: str
    bytes: int
    seconds: float


ElectionFact: TypeAlias = (
    LeaderChanged
    | LeaseTaken
    | LeadershipBegan
    | LeadershipLost
    | LeadershipReleased
    | LeaseRenewed
    | LeaseFailed
    | LeaseTermDoubted
    | TookOverLacking
    | FollowerInSync
    | FollowerLost
    | FollowingFailed
    | BaseCopySent
)
