"""Facts of bridge.election: who holds the Lease, and how its renewal goes."""

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
    """This replica ends or has resigned, and has left the Lease to others, after its last delivery."""

    term: int


class LeadershipResigned(msgspec.Struct, frozen=True):
    """This leader has to list before its watch has seen all that a leader before it can have delivered: the list might
    pass over deletes. It leaves the Lease to another replica."""

    term: int
    resource: str


class LeaseRenewed(msgspec.Struct, frozen=True):
    """The API server took a renewal."""

    seconds: float
    """From the request to the answer."""
    bytes: int
    """Of the published frontier."""


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


class FrontierTooLarge(msgspec.Struct, frozen=True):
    """The whole frontier does not fit the Lease, which has one without the positions of sinks meanwhile: no standby is
    exact."""

    bytes: int
    most: int


class FrontierUnreadable(msgspec.Struct, frozen=True):
    """The Lease has a frontier that cannot be read: a takeover would deliver everything behind the last one again."""

    reason: str


class SettingsDiffer(msgspec.Struct, frozen=True):
    """This follower's configuration is not the leader's. Reported at each change."""

    sections: tuple[str, ...]
    """That must be equal and are not; empty: they are equal again."""
    leader: str


class ShardWaits(msgspec.Struct, frozen=True):
    """This shard cannot take its objects over yet."""

    reason: str


class ShardInherited(msgspec.Struct, frozen=True):
    """The former shards have ended, and their objects are those of this shard."""

    former: int
    """Number of former shards."""
    term: int


class ShardHandedOver(msgspec.Struct, frozen=True):
    """The objects of this shard are those of other shards now: this bridge can be removed."""

    of: int
    """Number of shards in the other division."""


class CopyFetched(msgspec.Struct, frozen=True):
    """The state directory was empty, and has the leader's state."""

    leader: str
    bytes: int
    seconds: float


class CopyFailed(msgspec.Struct, frozen=True):
    """The state directory was empty, and stays so: this replica begins with lists."""

    reason: str


class CopySent(msgspec.Struct, frozen=True):
    """Another replica has got a copy of the state of this leader."""

    client: str
    """Its address."""
    bytes: int
    seconds: float


class LettersFetched(msgspec.Struct, frozen=True):
    """This leader has stored all dead letters of a former leader."""

    replica: str
    number: int


class LettersMissing(msgspec.Struct, frozen=True):
    """A former leader has dead letters, and this leader does not get them. It tries again."""

    replica: str
    reason: str


class LettersOvertaken(msgspec.Struct, frozen=True):
    """This leader has left out dead letters of a former leader: the sinks have later records of their objects."""

    replica: str
    number: int


ElectionFact: TypeAlias = (
    LeaderChanged
    | LeaseTaken
    | LeadershipBegan
    | LeadershipLost
    | LeadershipReleased
    | LeadershipResigned
    | LeaseRenewed
    | LeaseFailed
    | LeaseTermDoubted
    | FrontierTooLarge
    | FrontierUnreadable
    | SettingsDiffer
    | ShardWaits
    | ShardInherited
    | ShardHandedOver
    | CopyFetched
    | CopyFailed
    | CopySent
    | LettersFetched
    | LettersMissing
    | LettersOvertaken
)
